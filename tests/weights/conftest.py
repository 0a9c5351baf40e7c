"""A directory on a claim, and a shell script in the initializer's place."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.weights.directories import Program

# As a container runtime needs it: root, and the programs that take rights and mounts away from it.
_ROOT = os.geteuid() == 0 and shutil.which("setpriv") and shutil.which("unshare")
collect_ignore = [] if _ROOT else ["test_prepare_script.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "models" / "0123456789abcdef"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Install a shell script as the initializer."""
    path = tmp_path / "initializer"
    monkeypatch.setenv("MODELPLANE_INITIALIZER", str(path))

    def install(script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return install
