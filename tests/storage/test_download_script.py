"""What the script finds in files and output, with a program of two lines in the initializer's place."""

import errno
import json
import os
import runpy
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.storage import download_script as script
from function.storage.download_script import MARKER, Exit
from tests.hub import weights

URI = "hf://owner/model:main"
Program = Callable[[str], None]


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


def fill(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    code: int
    log: str
    want: Exit | None
    offline: str = ""


PRETENDED = "Returning existing local_dir `/x` as remote repo cannot be accessed in `snapshot_download` "
KEPT = "Couldn't access the Hub to check for update. Defaulting to existing file. (error: 429 Client Error.)"
UNTOLD = "HuggingFace authentication failed. Set HF_TOKEN"

CASES = (
    Case("success", "nothing was said", 0, "Successfully copied", None),
    Case("pretended", "exit 0 proves nothing", 0, PRETENDED + "(503 Server Error: x)", Exit.UNREACHABLE),
    Case("pretended-without-status", "no connection", 0, PRETENDED + "(Connection refused)", Exit.UNREACHABLE),
    Case("pretended-for-one-file", "an old file may be another", 0, KEPT, Exit.RATE_LIMITED),
    Case("offline-on-purpose", "the files' own headers decide", 0, PRETENDED, None, offline="1"),
    Case("offline-off", "0 means that it is not", 0, PRETENDED, Exit.UNKNOWN, offline="0"),
    Case("killed", "most often memory", -9, "", Exit.KILLED),
    Case("disk-full", "beats what else was said", 1, "404 Client Error\n[Errno 28] No space left", Exit.DISK_FULL),
    Case("quota", "the same for its user", 1, "OSError: [Errno 122] Disk quota exceeded", Exit.DISK_FULL),
    Case("gated", "403", 1, "403 Client Error.\n\nCannot access gated repo", Exit.UNAUTHORISED),
    Case("words-after-status", "the hint misleads", 1, f"404 Client Error\n{UNTOLD}", Exit.NOT_FOUND),
    Case("last-status", "what was retried is past", 1, "429 Client Error\n401 Client Error", Exit.UNAUTHORISED),
    Case("httpx", "the client's own words", 1, "Client error '404 Not Found' for url", Exit.NOT_FOUND),
    Case("hub", "the hub client's own words", 1, "HfHubHTTPError: 429 Too Many", Exit.RATE_LIMITED),
    Case("timeout", "408 is the network", 1, "408 Client Error", Exit.UNREACHABLE),
    Case("teapot", "a status of no meaning here", 1, "418 Client Error", Exit.UNKNOWN),
    Case("bucket-status", "boto's words", 1, "An error occurred (403) when calling HeadBucket", Exit.UNAUTHORISED),
    Case("google-status", "its client's words", 1, "404 GET https://storage: no bucket", Exit.NOT_FOUND),
    Case("plain-status", "requests' words", 1, "failed with status code 503.", Exit.UNREACHABLE),
    Case("bucket-words", "boto's words", 1, "NoCredentialsError: Unable to locate credentials", Exit.UNAUTHORISED),
    Case("bucket-empty", "a wrong path", 1, "Failed to fetch model. No model found in x.", Exit.NOT_FOUND),
    Case("slow-down", "boto's words", 1, "(SlowDown) when calling GetObject", Exit.RATE_LIMITED),
    Case("broken-off", "the network", 1, "Consistency check failed: file should be of size 1", Exit.UNREACHABLE),
    Case("not-writable", "the claim belongs to somebody else", 1, "[Errno 13] Permission denied", Exit.NOT_WRITABLE),
    Case("no-idea", "the log says more", 1, "Segmentation fault", Exit.UNKNOWN),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_diagnose(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", case.offline)
    assert script.diagnose(case.code, case.log) == case.want, case.reason


@dataclass(frozen=True)
class Files:
    id: str
    reason: str
    files: dict[str, bytes]
    want: dict[str, str]


def without(files: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in names}


NO_MODEL = "holds no model: neither weights with a config.json nor a known single-file format"
NOT_OFFSETS = b'{"w": []}'
SERIES = {"m-00001-of-00002.gguf": weights.gguf(), "m-00002-of-00002.gguf": weights.gguf()}

FILES = (
    Files("sharded", "all there", weights.SHARDED, {}),
    Files("one-file", "all there", weights.SINGLE, {}),
    Files("torch", "all there", weights.TORCH, {}),
    Files("gguf", "needs no description", weights.QUANTISED, {}),
    Files("gguf-series", "all parts", SERIES, {}),
    Files("adapter", "all there", weights.ADAPTER, {}),
    Files("mistral", "params.json describes it", {"params.json": b"{}", "consolidated.00.pth": weights.torch()}, {}),
    Files("old-torch", "a pickle is no archive", {"config.json": b"{}", "pytorch_model.bin": b"\x80\x02}q\x00."}, {}),
    Files(
        "foreign-records",
        "the client's own files are not the model's",
        {**weights.SINGLE, ".cache/huggingface/x.safetensors": b"", ".modelplane/failures-x": b"."},
        {},
    ),
    Files("empty", "nothing is no model", {}, {"": NO_MODEL}),
    Files("description-only", "no weights", {"config.json": b"{}"}, {"": NO_MODEL}),
    Files("torch-alone", "nobody can tell what it is", {"pytorch_model.bin": weights.torch()}, {"": NO_MODEL}),
    Files(
        "partial",
        "a killed attempt's file",
        {**weights.SINGLE, ".cache/huggingface/download/x.1.incomplete": b"x"},
        {".cache/huggingface/download/x.1.incomplete": "is partial"},
    ),
    Files(
        "shard-missing",
        "the index names it, and so does its series",
        without(weights.SHARDED, weights.SECOND),
        {weights.SECOND: "is missing, model.safetensors.index.json promises it"},
    ),
    Files(
        "torch-shard-missing",
        "the other kind of index counts as well",
        without({**weights.TORCH, **weights.SINGLE}, weights.TORCH_SHARDS[0]),
        {weights.TORCH_SHARDS[0]: f"is missing, {weights.TORCH_INDEX} promises it"},
    ),
    Files(
        "series-member-missing",
        "without an index the names say how many there are",
        without(SERIES, "m-00002-of-00002.gguf"),
        {"m-00002-of-00002.gguf": "is missing, m-00001-of-00002.gguf promises it"},
    ),
    Files(
        "index-unreadable",
        "an index must name shards",
        {**weights.SINGLE, "model.safetensors.index.json": b"{"},
        {"model.safetensors.index.json": "is no index"},
    ),
    Files(
        "shard-empty",
        "a header is 8 bytes at least",
        {**weights.SHARDED, weights.SECOND: b""},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-cut-in-its-data",
        "the header says how long it is",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:-1]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-cut-in-its-header",
        "the first 8 bytes say how long the header is",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:20]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-of-zeros",
        "a node that was lost before it flushed",
        {**weights.SINGLE, "model.safetensors": bytes(100)},
        {"model.safetensors": "has no readable header"},
    ),
    Files(
        "header-without-offsets",
        "some other JSON",
        {**weights.SINGLE, "model.safetensors": len(NOT_OFFSETS).to_bytes(8, "little") + NOT_OFFSETS},
        {"model.safetensors": "has no readable header"},
    ),
    Files("gguf-cut", "no magic", {"m.gguf": b"GG"}, {"m.gguf": "is no GGUF file"}),
    Files(
        "torch-cut",
        "an archive's directory stands at its end",
        {"config.json": b"{}", "pytorch_model.bin": weights.torch(5000)[:-30]},
        {"pytorch_model.bin": "is truncated"},
    ),
    Files(
        "other-weights-empty",
        "nothing is known but that they must not be empty",
        {**weights.SINGLE, "model.onnx": b""},
        {"model.onnx": "is empty"},
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", FILES, ids=lambda c: c.id)
def test_faults(root: Path, case: Files) -> None:
    fill(root, case.files)
    assert script.faults(root) == {root / name: fault for name, fault in case.want.items()}, case.reason


@pytest.mark.parametrize(
    ("allow", "ignore", "want"),
    [("", "", True), ('["*.json"]', "", False), ('["*.bin"]', "", True), ("", '["pytorch*"]', False)],
)
def test_patterns_decide_which_shards_are_missed(
    allow: str, ignore: str, monkeypatch: pytest.MonkeyPatch, *, want: bool
) -> None:
    monkeypatch.setenv("STORAGE_ALLOW_PATTERNS", allow)
    monkeypatch.setenv("STORAGE_IGNORE_PATTERNS", ignore)
    assert script.wanted("pytorch_model-00001-of-00002.bin") is want


def test_success_writes_the_marker_last_and_then_does_nothing(root: Path, program: Program) -> None:
    fill(root, weights.SINGLE)
    program("exit 0")
    assert script.main(URI, str(root)) == 0
    assert json.loads((root / MARKER).read_text()) == {"uri": URI, "key": "0123456789abcdef"}
    program("exit 1")
    assert script.main(URI, str(root)) == 0, "with the marker present the program is not run"


def test_what_a_killed_attempt_left_is_cleared(root: Path, program: Program) -> None:
    fill(root, {**weights.SINGLE, ".cache/huggingface/download/x.1.incomplete": b"x"})
    program("exit 0")
    assert script.main(URI, str(root)) == 0
    assert not script.leftovers(root)


def test_full_disk_is_tried_again_once_without_leftovers(root: Path, program: Program) -> None:
    fill(root, {"x.1.incomplete": b"x"})
    program(f'echo . >> {root}/../runs; echo "[Errno 28] No space left on device"; exit 1')
    assert script.main(URI, str(root)) == Exit.DISK_FULL
    assert len((root.parent / "runs").read_text().split()) == 2
    assert not script.leftovers(root)


def test_damaged_file_is_removed_and_fetched_again(root: Path, program: Program) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors": b"cut"})
    (root.parent / "whole").write_bytes(weights.safetensors())
    program(f"[ -e {root}/model.safetensors ] || cp {root}/../whole {root}/model.safetensors")
    assert script.main(URI, str(root)) == 0


def test_missing_shard_is_not_waited_for(root: Path, program: Program) -> None:
    fill(root, without(weights.SHARDED, weights.SECOND))
    program(f"echo . >> {root}/../runs")
    assert script.main(URI, str(root)) == Exit.INCOMPLETE
    assert (root.parent / "runs").read_text() == ".\n"
    assert not (root / MARKER).exists()


def test_attempts_are_counted_for_each_job(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program("echo 429 Client Error; exit 1")
    monkeypatch.setenv("MODELPLANE_BACKOFF_LIMIT", "2")
    monkeypatch.setenv("MODELPLANE_JOB", "first")
    assert [script.main(URI, str(root)) for _ in range(3)] == [51, 51, 61]
    monkeypatch.setenv("MODELPLANE_JOB", "second")
    assert script.main(URI, str(root)) == 51


def test_where_nothing_can_be_counted_the_cause_is_told_all_the_same(tmp_path: Path) -> None:
    assert script.final(Exit.UNREACHABLE, tmp_path / "absent" / ".modelplane") == 52


@pytest.mark.parametrize(
    ("number", "want"),
    [(errno.ENOSPC, 43), (errno.EDQUOT, 43), (errno.EACCES, 44), (errno.EROFS, 44), (errno.EIO, 54)],
)
def test_own_writes_have_causes(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, number: int, want: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    fill(root, weights.SINGLE)
    program("exit 0")
    monkeypatch.setenv("MODELPLANE_BACKOFF_LIMIT", "6")
    monkeypatch.setattr(os, "fsync", refuse)
    assert script.main(URI, str(root)) == want


def test_output_is_streamed_without_secrets(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(root, weights.SINGLE)
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value")
    monkeypatch.setenv("models.example.com-headers", "Bearer abc")
    program('echo "token hf_secret_value"; echo "Bearer abc" >&2')
    assert script.main(URI, str(root)) == 0
    said = capsys.readouterr().out
    assert "token ***" in said
    assert "hf_secret_value" not in said
    assert "Bearer abc" not in said


def test_image_without_the_program_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPLANE_INITIALIZER", str(root / "absent"))
    assert script.main(URI, str(root)) == Exit.UNKNOWN.gave_up, "without a backoff the first attempt is the last"


def test_termination_is_passed_on(root: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program("sleep 0.3; kill -TERM $PPID; sleep 10 & wait")
    assert script.main(URI, str(root)) == 128 + signal.SIGTERM
    assert "download failed" not in capsys.readouterr().out, "being stopped is nobody's failure"


def test_termination_after_the_end_finds_nobody(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: int) -> None:
        raise ProcessLookupError

    fill(root, weights.SINGLE)
    monkeypatch.setattr(os, "killpg", gone)
    program("sleep 0.3; kill -TERM $PPID")
    assert script.main(URI, str(root)) == 0


def test_runs_as_a_script(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, weights.SINGLE)
    program("exit 0")
    monkeypatch.setattr(sys, "argv", ["-c", URI, str(root)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script.__file__, run_name="__main__")
    assert ended.value.code == 0
