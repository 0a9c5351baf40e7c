"""Storage whose flock() fails, and lock files that a killed pod left: neither ends a download.

The kernel refuses flock() as Lustre without it, CIFS and some NFS do. The client is the hub's own, of this environment;
that of the image is tried in tests/hub.
"""

import errno
import fcntl
import logging
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from tests.hub import weights
from tests.hub.hub import Hub, serving
from tests.support.flock import fail_flock
from tests.weights.directories import Program, fill

CLIENT = 'from huggingface_hub import snapshot_download as f; f("owner/model", local_dir="{root}", token=False)'
LOCKS = f"{script.PARTIALS}/"
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(root: Path, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script as a pod does, with the hub's client in the initializer's place."""
    program(f"exec {sys.executable} -c '{CLIENT.format(root=root)}'")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MODELPLANE_STALL_SECONDS", "5")

    def start(number: int = 0) -> tuple[int, str]:
        with serving(Hub(files=dict(weights.SHARDED))) as hub:
            process = subprocess.run(
                (sys.executable, script.__file__, "hf://owner/model:main", str(root)),
                env=os.environ | {"HF_ENDPOINT": hub.endpoint},
                preexec_fn=partial(fail_flock, number) if number else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=30,
            )
        return process.returncode, process.stdout

    return start


@pytest.mark.parametrize("number", UNSUPPORTED)
def test_downloads_to_storage_without_flock(root: Path, run: Run, number: int) -> None:
    code, output = run(number)
    assert code == 0, output
    assert (root / weights.SECOND).read_bytes() == weights.SHARDED[weights.SECOND]
    line = f"the claim's storage has no flock() ({os.strerror(number)}): going on without locks"
    assert output.count(line) == 1, output


@pytest.mark.parametrize("number", [0, *UNSUPPORTED])
@pytest.mark.parametrize("content", [b"", b"12345\nsome-pod\n"], ids=["flock", "soft-lock"])
def test_lock_files_of_a_killed_pod_block_nothing(root: Path, run: Run, content: bytes, number: int) -> None:
    fill(root, {f"{LOCKS}{name}.lock": content for name in weights.SHARDED})
    code, output = run(number)
    assert code == 0, output


def test_only_what_says_that_there_are_no_locks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = iter([OSError(errno.EAGAIN, "held"), OSError(errno.ENOLCK, "none"), OSError(errno.ENOLCK, "none")])

    def refuse(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(fcntl, "flock", refuse)
    factory = logging.getLogRecordFactory()
    try:
        runpy.run_path(str(Path(script.__file__).with_name("sitecustomize.py")))
    finally:
        logging.setLogRecordFactory(factory)
    with pytest.raises(BlockingIOError):
        fcntl.flock(0, fcntl.LOCK_EX)
    for _ in range(2):
        fcntl.flock(0, fcntl.LOCK_EX)
    assert capsys.readouterr().err.count("without locks") == 1
