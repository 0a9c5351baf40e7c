"""`diff`: what two states of the world decide differently: files or folders, or the control plane."""

import click

from function.cli.asked import Form, Sources, Target
from function.cli.compared import as_data, compare, told
from function.cli.errors import Code
from function.cli.gathered import gather
from function.cli.options import examples, form, target
from function.cli.planning import make
from function.cli.tables import structured


@click.command(
    epilog=examples(
        "modelplane diff before/ after/", "modelplane diff fleet/ --live", "modelplane diff a.yaml b.yaml -o json"
    )
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path(), required=False)
@click.option("--live", is_flag=True, help="Compare the control plane as it is with the files laid over it.")
@target
@form(Form.TABLE, Form.JSON, Form.YAML)
@click.pass_context
def diff(  # click's options
    context: click.Context, before: str, after: str | None, *, live: bool, target: Target, form: Form
) -> None:
    """Show what AFTER decides otherwise than BEFORE: every deployment that changes. Exits 1 where one does.

    With --live, the files are laid over the control plane and compared with it as it is.
    """
    if live == bool(after):
        raise click.UsageError("give two files or folders, or one and --live.")
    first, second = (
        (Sources(live=True, target=target), Sources(files=(before,), live=True, target=target))
        if live
        else (Sources(files=(before,), target=target), Sources(files=(str(after),), target=target))
    )
    plans = []
    for sources in (first, second):
        world = gather(sources)
        plans.append(make(world, [ref for ref in world.store.refs("ModelDeployment") if world.in_scope(ref)]))
    changed = compare(*plans)
    click.echo(told(changed) if form is Form.TABLE else structured(form, as_data(changed)))
    if changed:
        context.exit(Code.REFUSED)
