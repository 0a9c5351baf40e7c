"""`version`: of the command line, which is that of the function that it plans with, and of the API that both speak."""

from importlib.metadata import version as installed

import click

from function.cli.asked import Form
from function.cli.options import examples, form
from function.cli.tables import structured
from function.kube.names import VERSION


@click.command(epilog=examples("modelplane version", "modelplane version -o json"))
@form(Form.TABLE, Form.JSON, Form.YAML)
def version(*, form: Form) -> None:
    """Show the version of this program, which decides as a function of the same version does."""
    found = installed("function-modelplane")
    if form is Form.TABLE:
        click.echo(f"modelplane v{found} ({VERSION})")
    else:
        click.echo(structured(form, {"version": f"v{found}", "apiVersion": VERSION}))
