"""`ui`: shows the fleet, the deployments and the ModelServices on a page that keeps itself up to date."""

import contextlib
import io
import time
from pathlib import Path

import click

from function.cli.options import CliError, Form, InvalidInput, Sources, examples, form, sources
from function.cli.page_server import Page, read_page, serve
from function.cli.snapshot import build_snapshot
from function.cli.tables import format_data

_PORT = 8642
_PAUSE_SECONDS = 2  # between two looks at the control plane, as for --watch


@click.command(epilog=examples("ui"))
@sources
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 chooses a free one.",
)
@form(Form.PAGE, Form.JSON, Form.YAML)
def ui(*, sources: Sources, port: int, form: Form) -> None:
    """Show the fleet, the deployments and the ModelServices on a page at 127.0.0.1, which keeps itself up to date.

    Without files it reads the control plane, with your rights. The page changes nothing. With -o json or yaml, print
    the data of the page once. Every user of this machine can open the page while the command runs.
    """
    if form is Form.PAGE and "-" in sources.files:
        raise CliError("standard input cannot be read again for the page. Name a file, or give -o json")
    version = find_version(sources)
    snapshot = build_snapshot(sources)
    if form is not Form.PAGE:
        click.echo(format_data(form, snapshot))
        return
    page = Page(read_page())
    page.publish(snapshot)
    with serve(page, port) as url:
        click.echo(f"{url} shows {snapshot['source']}; Ctrl-C ends it")
        while True:
            page.requested.wait()
            page.requested.clear()
            version, before = find_version(sources), version
            if version is None or version != before:
                refresh(page, sources)
            else:
                page.confirm()
            time.sleep(_PAUSE_SECONDS)


def find_version(sources: Sources) -> list[tuple[str, int, int]] | None:
    """Returns what changes whenever the files do, for a plan of a large fleet takes seconds; None: a live source."""
    if sources.live or not sources.files:
        return None
    paths = [Path(file) for file in sources.files]
    found = [path for each in paths for path in (each.rglob("*") if each.is_dir() else [each])]
    versions = []
    for path in sorted(found):
        with contextlib.suppress(OSError):  # it has been deleted
            stat = path.stat()
            versions.append((str(path), stat.st_mtime_ns, stat.st_size))
    return versions


def refresh(page: Page, sources: Sources) -> None:
    """Reads everything again for the page. Warnings were printed when it was read first."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            snapshot = build_snapshot(sources)
    except CliError as error:
        page.publish_error(error.message)
    except InvalidInput as invalid:
        page.publish_error(click.unstyle("; ".join(invalid.faults)))
    else:
        page.publish(snapshot)
