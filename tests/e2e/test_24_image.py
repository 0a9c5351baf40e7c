"""Scenario 24: the function that all other scenarios talk to is its image: its own root, read-only, as its own user."""

import os
from pathlib import Path

import pytest

from tests.e2e.world import World
from tools.stack.release import IMAGE_VARIABLE
from tools.stack.runtime import NAME

pytestmark = pytest.mark.e2e


@pytest.fixture
def process(world: World) -> Path:
    """Return what the kernel says of the function, whose stack was given an image."""
    assert IMAGE_VARIABLE in os.environ, "make e2e"
    (pid,) = (record.pid for record in world.stack.processes.records() if record.program.name == NAME)
    return Path("/proc") / str(pid)


def test_the_function_runs_from_its_image(process: Path) -> None:
    root = process / "root"
    assert (process / "cmdline").read_text().split("\0")[:2] == ["/usr/bin/python3.11", f"/usr/local/bin/{NAME}"]
    # package.yaml is of the package around the image; dev, proc and tls are given to every container.
    there = {path.name for path in root.iterdir()} - {"package.yaml"}
    assert there == {"dev", "lib", "lib64", "proc", "tls", "tmp", "usr"}
    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == ["python3.11"]


def test_nothing_can_be_written_there(process: Path) -> None:
    mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    (options,) = (fields[5].split(",") for fields in mounts if fields[4] == "/")
    assert options[0] == "ro"


def test_it_is_its_own_user_and_may_do_nothing_more(process: Path) -> None:
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert int(status["CapEff"], 16) == 0
    # A stack of an ordinary user has no second one: inside, he is called so.
    called = (process / "uid_map").read_text().split()
    assert status["Uid"].split() == ["2000"] * 4 or called[0] == "2000"


def test_its_bytecode_is_never_compared_with_its_source(process: Path) -> None:
    compiled = list((process / "root/usr").rglob("*.pyc"))
    assert len(compiled) > 500
    # PEP 552: bit 0 of the flags, the source is known by its hash; bit 1, which is looked at again.
    assert {path.read_bytes()[4] for path in compiled} == {1}
