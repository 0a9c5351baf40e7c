"""An initializer that makes no progress is ended and tried again: with children that really hang."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from function.kube.manifests import Manifest
from function.remote.observed_object import ObservedObject, State
from function.status.weights import describe_storage
from function.weights.job import JobFailure, find_failure
from function.weights.scripts import download_script as script
from function.weights.scripts.download_script import Exit
from function.weights.state import describe_download
from tests.hub import weights
from tests.weights.directories import Program, fill

URI = "hf://owner/model:main"
HANGS = "printf abc > $2/model.safetensors.part; sleep 600 & echo $! > $2/../child; wait"


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPLANE_STALL_SECONDS", "1")
    monkeypatch.setenv("MODELPLANE_BACKOFF_LIMIT", "1")


def run_script(root: Path) -> tuple[int, str]:
    """Run the script as the Job's pod does."""
    command = (sys.executable, script.__file__, URI, str(root))
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20, check=False
    )
    return process.returncode, process.stdout


def test_ends_child_that_hangs_and_says_so(root: Path, program: Program) -> None:
    program(HANGS)
    code, output = run_script(root)
    assert code == Exit.STALLED
    assert output.splitlines() == [
        f"stalled: no output and no new bytes in {root} for 1 s; the initializer is ended",
        "download failed: stalled",
    ]
    assert is_dead(int((root.parent / "child").read_text())), "the child of the initializer is stopped as well"
    assert (root / "model.safetensors.part").read_bytes() == b"abc", "the downloaded bytes are kept"
    assert run_script(root)[0] == Exit.STALLED.gave_up, "the last attempt ends the Job"


def is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.parametrize(("setting", "second"), [(None, "1"), ("0", "0")], ids=["default", "platform"])
def test_second_attempt_does_without_xet(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, setting: str | None, second: str
) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)
    if setting is not None:
        monkeypatch.setenv("HF_HUB_DISABLE_XET", setting)
    program(f'echo "xet ${{HF_HUB_DISABLE_XET:-on}}" >> {root}/../xet; [ -e {root}/config.json ] || {{ {HANGS}; }}')
    assert script.main(URI, str(root)) == Exit.STALLED
    fill(root, weights.SINGLE)
    assert script.main(URI, str(root)) == 0
    assert (root.parent / "xet").read_text().splitlines() == [f"xet {setting or 'on'}", f"xet {second}"]


# Opens and closes files all the time, as a client with many connections does; what it keeps open comes last in /proc.
CHURNS = """exec {python} -c '
import os, sys
os.chdir(sys.argv[1])
os.makedirs(".cache/huggingface/download")
first = os.open(".cache/huggingface/download/weights.ab12.7.incomplete", os.O_CREAT | os.O_WRONLY)
os.dup2(first, 200)
os.close(first)
while True:
    for handle in [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]:
        os.close(handle)
' $2"""


def test_partial_file_goes_although_other_files_close_meanwhile(root: Path, program: Program) -> None:
    program(CHURNS.format(python=sys.executable))
    code, said = run_script(root)
    assert code == Exit.STALLED, said
    assert not [*root.rglob("*.incomplete")], "what the client had open was its own"


def test_other_failures_leave_xet_on(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)
    program(f'echo "${{HF_HUB_DISABLE_XET:-on}}" >> {root}/../xet; echo 503 Server Error; exit 1')
    assert [script.main(URI, str(root)) for _ in range(2)] == [Exit.UNREACHABLE, Exit.UNREACHABLE.gave_up]
    assert (root.parent / "xet").read_text() == "on\non\n"


PROGRESS = (
    ("bytes", "printf x >> $2/part"),
    ("output", "echo 45 %"),
    ("blocks of a file as long as it will be", "dd if=/dev/zero of=$2/part bs=4096 count=1 seek=$n conv=notrunc 2>&1"),
)


@pytest.mark.parametrize("step", [step for _, step in PROGRESS], ids=[id_ for id_, _ in PROGRESS])
def test_slow_download_goes_on(root: Path, program: Program, step: str) -> None:
    fill(root, weights.SINGLE)
    program(f"truncate -s 1M $2/part; for n in 1 2 3 4 5 6; do {step}; sleep 0.4; done; rm $2/part")
    begun = time.monotonic()
    assert script.main(URI, str(root)) == 0
    assert time.monotonic() - begun > 2, "the download takes longer than the limit"


def test_touching_a_lock_file_is_no_progress(root: Path, program: Program) -> None:
    program("for n in $(seq 100); do : > $2/x.lock; sleep 0.1; done")
    assert script.main(URI, str(root)) == Exit.STALLED


def test_file_that_goes_while_bytes_are_counted_counts_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "walk", lambda _: [(str(root), [], ["gone"])])
    assert script.measure(root) == (0, 0)


@pytest.mark.parametrize(("value", "want"), [("", 900), ("60", 60), ("0", 900), ("-1", 900), ("soon", 900)])
def test_reads_limit(monkeypatch: pytest.MonkeyPatch, value: str, want: int) -> None:
    monkeypatch.setenv("MODELPLANE_STALL_SECONDS", value)
    assert script.Watchdog(Path(), lambda: None).limit == want


def test_condition_names_the_stall() -> None:
    code = Exit.STALLED.gave_up
    text = f"Container download for pod team/x failed with exit code {code} matching FailJob rule at index 0"
    failed: Manifest = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": text}
    job: Manifest = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "status": {"conditions": [failed]}
    }  # fmt: skip
    assert find_failure(job) is JobFailure.STALLED
    assert describe_storage(
        describe_download(ObservedObject(State.PRESENT, job), ObservedObject(State.UNSEEN, {}))
    ) == (
        "Job x failed (Stalled): the download made no progress for 15 minutes, in several attempts, of which only the "
        "first may use hf-xet: check proxies, mirrors and the claim's storage. Then set modelCache.retry to another "
        "value; files that are complete are kept"
    )
