"""`init`, `--version` and shell completion, which need no control plane."""

from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.cli.process import run, said

KINDS = ("model", "environment", "deployment")


def test_what_init_writes_fits_together(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / f"{kind}.yaml").write_text(said("init", kind))
    assert said("validate", str(tmp_path), "--strict") == "3 objects valid\n"
    assert "Placed on us-east (profile one-gpu, pool h100, 1 replica" in said("plan", "-f", str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_init_takes_a_name_and_keeps_its_comments(kind: str) -> None:
    shown = said("init", kind, "mine")
    assert yaml.safe_load(shown)["metadata"]["name"] == "mine"
    assert shown.startswith("# ")
    assert run("init", kind, "Not_A_Name").returncode == 2


def test_version() -> None:
    assert said("--version").strip() == version("function-modelplane")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options_with_the_script_of_click(shell: str) -> None:
    assert "_MODELPLANE_COMPLETE" in said(_MODELPLANE_COMPLETE=f"{shell}_source")
