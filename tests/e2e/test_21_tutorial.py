"""Scenario 21: docs/tutorial.md, every command of it in order, and what it says that they show.

The commands of make are those with which this stack was brought up and is ended. The terminal has 80
columns. Blanks between words may differ from the text.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.world import World
from tools.stack.layout import SOURCE
from tools.stack.shell import environment

pytestmark = pytest.mark.e2e
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEAM = "team"
_MARK = "== end of block"


def blocks() -> list[tuple[str, list[str]]]:
    """Return every block of commands with the lines that must be in what it writes."""
    found: list[tuple[str, list[str]]] = []
    for language, said in _BLOCK.findall((SOURCE / "docs" / "tutorial.md").read_text()):
        if language == "sh":
            found.append((said, []))
        else:
            found[-1][1].extend(said.splitlines())
    return found


def plain(said: str) -> str:
    """Return words with one space between them."""
    return " ".join(said.split())


def test_every_command_of_the_tutorial_works_and_shows_what_it_says(world: World, tmp_path: Path) -> None:
    # A deployment that is not placed is explained with exit code 1.
    refused = re.compile(r"^(modelplane why .*)$", re.MULTILINE)
    steps = [(refused.sub(r"\1 || test $? = 1", commands), lines) for commands, lines in blocks()]
    script = "\n".join(("set -euo pipefail", *(f"{commands}\necho\necho '{_MARK}'" for commands, _ in steps)))
    done = subprocess.run(
        ("bash", "-c", script),
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | environment(world.stack.home) | {"COLUMNS": "80"},
        text=True,
        timeout=900,
    )
    shown = done.stdout.split(_MARK)
    assert done.returncode == 0, f"after {shown[-2:]}: {done.stderr[-2000:]}"
    for (commands, lines), part in zip(steps, shown, strict=False):
        missing = [line for line in lines if plain(line) not in plain(part)]
        assert not missing, f"{commands}\nshowed:\n{part}"
    assert world.stack.remote.find("LLMInferenceService", TEAM) == []
