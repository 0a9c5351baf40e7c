"""Terminals of 80 columns: the verdict comes first, and nothing breaks inside a word."""

import re

import click
import pytest

from function.cli.tables import GOOD, format_table, paint, wrap_lines
from tests.cli.process import ELSEWHERE, KIMI, on_a_terminal, run

COMMANDS = {
    "plan": ("plan", "-f", KIMI, *ELSEWHERE, "-o", "wide"),
    "why": ("why", "-f", KIMI, *ELSEWHERE, "--strict"),
    "capacity": ("capacity", "-f", KIMI, *ELSEWHERE, "-o", "wide"),
    "size": ("size", "-f", KIMI, *ELSEWHERE),
    "tree": ("tree", "-f", KIMI),
}
FIRST = {
    "plan": r"VERDICT .*\nplaced +h200-east +h200",
    "why": r"ModelDeployment assistants/kimi-k2: not placed\n",
    "capacity": r"ENVIRONMENT +POOL +READY +FREE +LARGEST",
    "size": r"(.+\n)+\nFITS .*\n(yes|no) ",
    "tree": r"NAME +READY",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_breaks_at_blanks_only(name: str) -> None:
    wide, narrow = run(*COMMANDS[name]).stdout, run(*COMMANDS[name], COLUMNS="80").stdout
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))
    assert re.match(FIRST[name], narrow)
    words, headers = (
        set(shown.replace(";", "").split()) for shown in (wide, "\n".join(re.findall("^[A-Z ]+$", wide, re.MULTILINE)))
    )
    assert words - headers - {"-"} <= set(narrow.replace(";", "").split())


def test_colours_have_no_width() -> None:
    painted = on_a_terminal(*COMMANDS["plan"], COLUMNS="80")
    assert "\x1b[" in painted
    assert click.unstyle(painted) == run(*COMMANDS["plan"], COLUMNS="80").stdout


def test_columns_that_do_not_fit_follow_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", paint("yes", GOOD), "long words here", ""), ("bc", "no", "", "x")]
    assert click.unstyle(format_table(("ONE", "TWO", "THREE", "FOUR"), rows)) == (
        "ONE   TWO   THREE             FOUR\na     yes   long words here   -\nbc    no    -                 x"
    )
    monkeypatch.setenv("COLUMNS", "12")
    assert click.unstyle(format_table(("ONE", "TWO", "THREE", "FOUR"), rows)) == (
        "ONE   TWO\na     yes\n    three\n    long\n    words\n    here\nbc    no\n    four x"
    )


def test_lines_wrap_to_their_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert wrap_lines("  two-five of\n\nit", 3) == "  two-five\n   of\n\nit"
    assert wrap_lines("longer than ten", 5) == "longer than ten", "no room for an indent"
