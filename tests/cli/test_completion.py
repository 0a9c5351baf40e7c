"""What a shell is told when its user asks for more: click's own protocol, a line of type and value for each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.api import ApiServer
from tests.cli.conftest import Live
from tests.cli.process import ENVIRONMENT, KIMI, ROOT, run, said


def completed(*words: str, stdin: str = "") -> list[str]:
    """Return the lines for the last word, which may be empty."""
    done = run(
        stdin=stdin,
        COMP_WORDS=" ".join(("modelplane", *words)),
        COMP_CWORD=str(len(words)),
        _MODELPLANE_COMPLETE="bash_complete",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(shell: str) -> None:
    assert "modelplane" in said(_MODELPLANE_COMPLETE=f"{shell}_source")


def test_commands_options_and_files() -> None:
    assert completed("pl") == ["plain,plan"]
    assert completed("plan", "--what") == ["plain,--what-if"]
    assert completed("plan", "-f", "exam") == ["file,exam"]


def test_objects_of_the_files_typed_so_far() -> None:
    assert completed("plan", "-f", KIMI, "") == ["plain,kimi-k2"]
    assert completed("why", "-f", "examples", "ge") == ["plain,gemma"]
    assert completed("plan", "-f", KIMI, "-n", "") == ["plain,assistants"]


def test_objects_of_the_control_plane(live: Live) -> None:
    options = live()
    assert completed("why", *options, "") == ["plain,kimi-k2"]
    assert completed("tree", *options, "-n", "elsewhere", "") == [], "of the namespace that was named"
    assert completed("why", *options, "-n", "") == ["plain,assistants"]
    assert completed("cache", "preload", *options, "") == ["plain,kimi-k2-instruct"]
    assert completed("cache", "preload", *options, "-e", "") == ["plain,h200-east"]
    assert completed("why", *options, "--context", "h") == ["plain,here"]


def test_what_cannot_be_read_is_passed_over_in_silence(server: ApiServer, tmp_path: Path) -> None:
    server.forbidden = frozenset({"modeldeployments"})
    assert completed("why", "--kubeconfig", server.kubeconfig(tmp_path), "") == []
    assert completed("why", "") == []
    assert completed("why", "--context", "") == []
    assert completed("plan", "-f", "none.yaml", "") == []
    assert completed("plan", "-f", "-", "", stdin="kind: ModelDeployment") == [], "nobody types there"


def test_kubectl_completes_the_plugin_as_documented(tmp_path: Path) -> None:
    documented = (ROOT / "docs" / "cli.md").read_text().rpartition("```sh\n")[2].partition("```")[0]
    script = tmp_path / "kubectl_complete-modelplane"
    script.write_text(documented)
    path = f"{Path(sys.executable).parent}{os.pathsep}{ENVIRONMENT['PATH']}"

    def told(*words: str) -> list[str]:
        done = subprocess.run(
            ("sh", str(script), *words), capture_output=True, check=True, env={"PATH": path}, text=True
        )
        return done.stdout.splitlines()

    assert told("ca") == ["capacity", "cache", ":4"], "and no files"
    assert told("plan", "-f", "exam") == [":0"], "files, which the shell knows"
