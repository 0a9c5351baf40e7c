"""Runs what a page of the documents shows: every command in order, and what the page says that they show.

The commands of make are those with which a stack is brought up and ended. The terminal has 80 columns. Blanks between
words may differ from the text.
"""

import os
import re
import subprocess
from pathlib import Path

from tools.stack.layout import Home
from tools.stack.shell import environment

_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "== end of block"
# A deployment that is not placed is explained with exit code 1.
_REFUSED = re.compile(r"^(modelplane why .*)$", re.MULTILINE)


def blocks(page: str) -> list[tuple[str, list[str]]]:
    """Return every block of commands with the lines that must be in what it writes."""
    found: list[tuple[str, list[str]]] = []
    for language, said in _BLOCK.findall(page):
        if language == "sh":
            found.append((said, []))
        else:
            found[-1][1].extend(said.splitlines())
    return found


def run_page(page: str, home: Home, folder: Path) -> list[str]:
    """Run all commands in one shell, require what the page shows, and return what each block wrote."""
    steps = [(_REFUSED.sub(r"\1 || test $? = 1", commands), lines) for commands, lines in blocks(page)]
    script = "\n".join(("set -euo pipefail", *(f"{commands}\necho\necho '{_MARK}'" for commands, _ in steps)))
    done = subprocess.run(
        ("bash", "-c", script),
        capture_output=True,
        check=False,
        cwd=folder,
        env=os.environ | environment(home) | {"COLUMNS": "80"},
        text=True,
        timeout=900,
    )
    shown = done.stdout.split(_MARK)
    assert done.returncode == 0, f"after {shown[-2:]}: {done.stderr[-2000:]}"
    for (commands, lines), part in zip(steps, shown, strict=False):
        missing = [line for line in lines if _plain(line) not in _plain(part)]
        assert not missing, f"{commands}\nshowed:\n{part}"
    return shown


def _plain(said: str) -> str:
    """Return words with one space between them."""
    return " ".join(said.split())
