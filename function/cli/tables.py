"""How results are written: plain tables as kubectl's, JSON and YAML."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from textwrap import TextWrapper

import click
import yaml

from function.cli.options import Form, is_quiet
from function.domain.allocation import Cost
from function.kube.manifests import JSON, Manifest
from function.reasons import Status

GOOD = "green"
BAD = "red"
WAIT = "yellow"
DIM = "bright_black"
STATUS_COLOURS: Mapping[str, str] = {Status.TRUE: GOOD, Status.FALSE: BAD, Status.UNKNOWN: WAIT}
_WATCH_SECONDS = 2
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def format_table(headers: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Returns a table with columns three blanks apart; empty cells show as `-`.

    The last columns stand below their row, each after its header, where the terminal is too narrow.
    """
    cells = [[str(cell) if cell not in ("", None) else "-" for cell in row] for row in rows]
    widths = [max(map(_measure, column)) for column in zip(headers, *cells, strict=True)]
    ends = accumulate(widths, lambda end, width: end + 3 + width)
    columns = shutil.get_terminal_size((0, 0)).columns or sys.maxsize
    shown = max(1, sum(end <= columns for end in ends))
    lines = []
    for row in (headers, *cells):
        padded = (cell + " " * (width - _measure(cell)) for cell, width in zip(row[:shown], widths, strict=False))
        lines.append("   ".join(padded).rstrip())
        others = zip(headers[shown:], row[shown:], strict=True)
        below = "; ".join(f"{header.lower()} {cell}" for header, cell in others if cell not in ("-", header))
        lines += [wrap_lines(f"    {below}", 4)] if below else []
    return "\n".join(lines)


def _measure(text: str) -> int:
    """Returns the width of a text on a terminal: colours have none."""
    return len(click.unstyle(text))


def format_columns(columns: Mapping[str, str], rows: Iterable[Mapping[str, object]]) -> str:
    """Returns an aligned table of some values of each row; `columns` has their keys by header."""
    return format_table([*columns], ([row[key] for key in columns.values()] for row in rows))


def format_data(form: Form, value: object) -> str:
    """Returns a value as JSON or YAML; of values that are no JSON it may have costs."""
    # YAML is written through JSON, which turns our enumerations into text.
    content = json.dumps(value, indent=2, ensure_ascii=False, default=_build_cost)
    if form is Form.JSON:
        return content
    return yaml.dump(json.loads(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110).rstrip()


def _build_cost(cost: Cost) -> JSON:
    return {"amountPerHour": str(cost.amount), "currency": cost.currency}


def format_costs(costs: Iterable[Cost]) -> str:
    return f"cost: {' and '.join(map(str, costs))}"


def paint(text: str, colour: str) -> str:
    """Returns coloured text; click removes the colours where the output is no terminal."""
    return click.style(text, fg=colour) if text else text


def paint_status(status: str) -> str:
    return paint(status, STATUS_COLOURS.get(status, ""))


def format_condition(condition: Manifest, message: str) -> str:
    """Returns a condition of a composite with its message, or a part of that, below the line that names the object."""
    status = paint_status(str(condition["status"]))
    return wrap_lines(f"  {condition['type']} {status} {condition['reason']}: {message}", 4)


def wrap_lines(text: str, indent: int) -> str:
    """Wraps each line of a text at blanks to the width of the terminal; without a terminal it is left alone."""
    columns = shutil.get_terminal_size((0, 0)).columns
    if columns <= 2 * indent:
        return text
    # Colours count as characters: a line with one may be a little shorter.
    wrapper = TextWrapper(columns, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, text.split("\n")))


def warn(message: str) -> None:
    """Prints a warning on standard error, unless --quiet."""
    if not is_quiet():
        click.echo(f"{paint('warning', WAIT)}: {message}", err=True)


def format_age(timestamp: str) -> str:
    """Returns how long ago a time was, as kubectl writes it; empty where it is none."""
    try:
        since = datetime.fromisoformat(timestamp)
    except ValueError:
        return ""
    return format_seconds(max(0, int((datetime.now(UTC) - since).total_seconds())))


def format_seconds(seconds: int) -> str:
    """Formats a time span as kubectl does: in one unit, rounded down."""
    for size, unit, below in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172800)):
        if seconds < below:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def draw_line(text: str) -> None:
    """Replaces the last line on standard error by this text, on a terminal only; the empty text clears it."""
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        click.echo(f"\r\x1b[K{text[: columns - 1]}", err=True, nl=False)


def print_watched(render: Callable[[], str], *, watch: bool) -> None:
    """Prints a result; with `watch` every two seconds until interrupted.

    A terminal is redrawn, a pipe gets only results that have changed.
    """
    if not watch:
        click.echo(render())
        return
    before = None
    while True:
        rendered = render()
        if rendered != before:
            if sys.stdout.isatty():
                click.clear()
            click.echo(rendered)
            before = rendered
        time.sleep(_WATCH_SECONDS)
