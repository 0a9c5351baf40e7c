"""How results are written: plain tables as kubectl's, JSON, YAML, names, and the line that says what comes next."""

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import click
import yaml

from function.cli.options import CliError, Code, Form
from function.kube.manifests import JSON

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SECONDS = 2
GOOD, BAD, WAIT, DIM = "green", "red", "yellow", "bright_black"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an aligned table; empty cells show as kubectl's."""
    try:
        from tabulate import tabulate  # noqa: PLC0415  # of the extra `cli`
    except ImportError as error:
        message = (
            "tables need a library: pip install 'function-modelplane[cli]' ('.[cli]' in a clone), or write -o json"
        )
        raise CliError(message, Code.UNREACHABLE) from error
    cells = [[str(cell) if cell not in ("", None) else "-" for cell in row] for row in rows]
    return tabulate(cells, headers, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)


def structured(form: Form, value: JSON) -> str:
    """Return a value as JSON or YAML."""
    # Through JSON, which knows our enumerations as the text that they are.
    said = json.dumps(value, indent=2, ensure_ascii=False)
    if form is Form.JSON:
        return said
    return yaml.dump(json.loads(said), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110).rstrip()


def paint(text: str, colour: str) -> str:
    """Return coloured text; colours are left out where no terminal reads it."""
    return click.style(text, fg=colour) if text else text


def wrapped(text: str, indent: int) -> str:
    """Return a text in lines that fit the terminal; where none reads it, it stays as it is. Line breaks stay."""
    columns = shutil.get_terminal_size((0, 0)).columns
    if columns <= 2 * indent:
        return text
    lines = (textwrap.wrap(line, columns, subsequent_indent=" " * indent) or [""] for line in text.split("\n"))
    return "\n".join("\n".join(line) for line in lines)


def hint(text: str) -> None:
    """Say what comes next, beside the answer."""
    context = click.get_current_context()
    program = context.find_root().info_name
    click.echo(f"\nNext: {program} {text}", err=True)


def age(timestamp: str, now: datetime | None = None) -> str:
    """Return how long ago a time was, as kubectl writes it."""
    try:
        since = datetime.fromisoformat(timestamp)
    except ValueError:
        return ""
    seconds = int(((now or datetime.now(UTC)) - since).total_seconds())
    for size, unit, below in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172800)):
        if seconds < below:
            return f"{max(0, seconds) // size}{unit}"
    return f"{seconds // 86400}d"


def show(look: Callable[[], str], *, watch: bool) -> None:
    """Show what is seen; `watch`: every two seconds until interrupted.

    A terminal is redrawn, a pipe gets what has changed.
    """
    if not watch:
        click.echo(look())
        return
    shown = None
    while True:
        seen = look()
        if seen != shown:
            if sys.stdout.isatty():
                click.clear()
            click.echo(seen)
            sys.stdout.flush()
            shown = seen
        time.sleep(_SECONDS)
