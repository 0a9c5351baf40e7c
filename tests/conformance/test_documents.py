"""Every command for kubectl and crossplane that a document shows is read by the real program: its verbs and options."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.blocks import Command, commands
from tools import programs

pytestmark = pytest.mark.conformance
# A variable alone may be empty, such as $CORE of docs/render.md.
_VARIABLE = re.compile(r"\$[A-Z]+")


def _help(command: Command) -> subprocess.CompletedProcess[str]:
    program = str(programs.path(command.words[0]))
    words = [word for word in command.words[1:] if not _VARIABLE.fullmatch(word)]
    return subprocess.run((program, *words, "--help"), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [c for c in commands("kubectl") if c.words[1] != "modelplane"], ids=str)
def test_kubectl_reads_it(command: Command) -> None:
    done = _help(command)
    assert done.returncode == 0, done.stderr
    # Help on kubectl itself is what it says to a verb that it does not know.
    assert "kubectl controls the Kubernetes cluster manager" not in done.stdout


@pytest.mark.parametrize("command", commands("crossplane"), ids=str)
def test_crossplane_reads_it(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word.rpartition("=")[2] for word in command.words]
    files = {file for word in words for file in word.split(",") if file.endswith((".xpkg", ".yaml")) or file == "FILE"}
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)  # it looks for the files before it says anything
    done = _help(command)
    verbs = [word for word in command.words[1:3] if word.isalpha()]
    assert done.returncode == 0, done.stderr
    assert f"Usage: crossplane {' '.join(verbs)} " in done.stdout
