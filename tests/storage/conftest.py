"""A directory on a claim, and a shell script in the initializer's place."""

import stat
from pathlib import Path

import pytest

from tests.storage.directories import Program


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
