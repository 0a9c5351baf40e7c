"""`schema`: writes the JSON schema of all manifests, by which editors check and complete them."""

import json

import click

from function.cli import options
from function.cli.options import Form
from function.cli.tables import format_data


@click.command(epilog=options.examples("schema"))
@options.form(Form.JSON, Form.YAML)
def schema(*, form: Form) -> None:
    """Write the JSON schema of all manifests, by which editors check and complete them (docs/cli.md).

    Rules across fields and references are checked by 'validate' alone.
    """
    content = options.read_manifest_schema()
    if form is Form.JSON:
        click.echo(content, nl=False)
    else:
        click.echo(format_data(form, json.loads(content)))
