"""`schema`: writes the JSON schema of all manifests, by which editors check and complete them."""

import click

from function.cli import options


@click.command(epilog=options.examples("schema"))
@options.add_output_options
def schema() -> None:
    """Write the JSON schema of all manifests, by which editors check and complete them (docs/cli.md).

    Rules across fields and references are checked by 'validate' alone.
    """
    click.echo(options.read_manifest_schema(), nl=False)
