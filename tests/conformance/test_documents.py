"""Every command for kubectl and crossplane that a document shows is read by the real program: its verbs and options."""

import subprocess
from pathlib import Path

import pytest

from tests.support.blocks import Command, commands
from tools import programs

pytestmark = pytest.mark.conformance


def _help(command: Command) -> subprocess.CompletedProcess[str]:
    program = str(programs.path(command.words[0]))
    return subprocess.run((program, *command.words[1:], "--help"), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [c for c in commands("kubectl") if c.words[1] != "modelplane"], ids=str)
def test_kubectl_reads_it(command: Command) -> None:
    done = _help(command)
    assert done.returncode == 0, done.stderr
    # Help on kubectl itself is what it says to a verb that it does not know.
    assert "kubectl controls the Kubernetes cluster manager" not in done.stdout


@pytest.mark.parametrize("command", commands("crossplane"), ids=str)
def test_crossplane_reads_it(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {file for word in command.words for file in word.split(",") if file.endswith("xpkg") or file == "FILE"} - {
        "xpkg"
    }
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)  # it looks for the files before it says anything
    done = _help(command)
    verbs = [word for word in command.words[1:3] if word.isalpha()]
    assert done.returncode == 0, done.stderr
    assert f"Usage: crossplane {' '.join(verbs)} " in done.stdout
