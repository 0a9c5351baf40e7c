"""What a stack needs is said before anything is built, all of it at once."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.programs import ROOT
from tools.stack.needs import PROGRAMS

REFUSING = "#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A machine, and what is said of it."""

    id: str
    reason: str
    without: tuple[str, ...] = ()
    unshare: str = "#!/bin/sh\n"
    arguments: tuple[str, ...] = ("free",)
    kept: bool = False
    says: str = ""


CASES = (
    Case(id="all-there", reason="nothing is missing"),
    Case(
        id="bare",
        reason="installing what is named is enough",
        without=("curl", "ip", "openssl"),
        says="the stack needs what is missing here: curl (package curl), ip (package iproute2), openssl"
        " (package openssl)\n",
    ),
    Case(
        id="no-user-namespaces",
        reason="the system's own words tell why",
        without=("ip",),
        unshare=REFUSING,
        says="the stack needs what is missing here: ip (package iproute2), a network namespace, which takes root or"
        " user namespaces (unshare failed: Operation not permitted)\n",
    ),
    Case(
        id="kept",
        reason="its folder is another stack's until that is ended",
        kept=True,
        says="a stack already runs in {folder}/function-modelplane-stack: make e2e-shell uses it,"
        " make e2e-down ends it\n",
    ),
    Case(
        id="kept-beside",
        reason="make e2e brings up stacks of its own beside the one that is kept",
        kept=True,
        arguments=(),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_missing_is_said_in_one_sentence(case: Case, tmp_path: Path) -> None:
    for name in sorted({*PROGRAMS} - {*case.without}):
        program = tmp_path / name
        program.write_text(case.unshare if name == "unshare" else "")
        program.chmod(0o755)
    if case.kept:
        record = tmp_path / "function-modelplane-stack" / "run" / "etcd.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"program": {"name": "etcd", "argv": [], "env": {}}, "pid": 1, "started": "0"}))
    done = subprocess.run(
        # As make runs it: without the library of a virtual environment.
        (sys.executable, "-S", "-m", "tools.stack.needs", *case.arguments),
        cwd=ROOT,
        env={"PATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == case.says.format(folder=tmp_path), case.reason
    assert done.returncode == bool(case.says), case.reason
