"""What the script finds in files and output, with a program of two lines in the initializer's place."""

import errno
import fcntl
import json
import logging
import os
import runpy
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from function.weights.scripts.download_script import MARKER, Exit
from tests.hub import weights
from tests.weights.directories import Program, fill, without

URI = "hf://owner/model:main"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    code: int | None
    log: str
    want: Exit | None
    offline: str = ""
    uri: str = URI


CDN = "403 Client Error: Forbidden for url: https://cdn.example.org/bytes?signature=x"
HTTPX = "HfHubHTTPError: 403 Forbidden: None.\nCannot access content at: https://cdn.example.org/bytes"
PRETENDED = "Returning existing local_dir `/x` as remote repo cannot be accessed in `snapshot_download` "
XET = "(403 Forbidden), domain: https://transfer.xethub.hf.co/xorbs/default/d2ae?Expires=1"
XET_DEBUG = 'ReqwestError(reqwest::Error { kind: Status(403), url: \\"https://transfer.xethub.hf.co/xorbs/d2ae\\" })'
XET_HUB = "HTTP status client error (403 Forbidden) for url (https://huggingface.co/api/models/o/m/xet-read-token/1)"
KEPT = "Couldn't access the Hub to check for update. Defaulting to existing file. (error: 429 Client Error.)"
UNTOLD = "HuggingFace authentication failed. Set HF_TOKEN"

CASES = (
    Case("success", "exit code 0 without an error message is a success", 0, "Successfully copied", None),
    Case(
        "pretended",
        "exit code 0 is no success if the client has used an existing directory",
        0,
        PRETENDED + "(503 Server Error: x)",
        Exit.UNREACHABLE,
    ),
    Case(
        "pretended-without-status",
        "the client has used an existing directory, because it had no connection",
        0,
        PRETENDED + "(Connection refused)",
        Exit.UNREACHABLE,
    ),
    Case(
        "pretended-for-one-file",
        "the client has used an existing file, which may differ from the requested one",
        0,
        KEPT,
        Exit.RATE_LIMITED,
    ),
    Case("offline-on-purpose", "an offline client uses existing files", 0, PRETENDED, None, offline="1"),
    Case("offline-on", "HF_HUB_OFFLINE may be on", 0, PRETENDED, None, offline="on"),
    Case("offline-yes", "HF_HUB_OFFLINE may be yes, in any case", 0, PRETENDED, None, offline="Yes"),
    Case("offline-true", "HF_HUB_OFFLINE may be true, in any case", 0, PRETENDED, None, offline="TRUE"),
    Case("offline-off", "HF_HUB_OFFLINE=0 means that the client is online", 0, PRETENDED, Exit.UNKNOWN, offline="0"),
    Case("killed", "a killed program has most often exceeded its memory limit", -9, "", Exit.KILLED),
    Case(
        "disk-full",
        "a full disk takes precedence over other errors",
        1,
        "404 Client Error\n[Errno 28] No space left",
        Exit.DISK_FULL,
    ),
    Case("quota", "an exceeded quota is a full disk", 1, "OSError: [Errno 122] Disk quota exceeded", Exit.DISK_FULL),
    Case(
        "gated",
        "status 403 of a gated repository means that the token is refused",
        1,
        "403 Client Error.\n\nCannot access gated repo",
        Exit.UNAUTHORISED,
    ),
    Case(
        "hub-forbids",
        "status 403 of the hub is permanent",
        1,
        CDN.replace("cdn.example.org", "huggingface.co"),
        Exit.UNAUTHORISED,
    ),
    Case("cdn-forbids", "status 403 of a CDN means an expired link, which a retry replaces", 1, CDN, Exit.UNREACHABLE),
    Case("cdn-forbids-httpx", "status 403 of a CDN is recognised in the words of httpx", 1, HTTPX, Exit.UNREACHABLE),
    Case(
        "web-server-forbids",
        "status 403 of another web server is permanent, because only the hub redirects to a CDN",
        1,
        CDN,
        Exit.UNAUTHORISED,
        uri="https://x/y",
    ),
    Case(
        "words-after-status",
        "the status takes precedence over the hint about a token",
        1,
        f"404 Client Error\n{UNTOLD}",
        Exit.NOT_FOUND,
    ),
    Case(
        "last-status",
        "the last status counts, because earlier requests were retried",
        1,
        "429 Client Error\n401 Client Error",
        Exit.UNAUTHORISED,
    ),
    Case("httpx", "a status in the words of httpx", 1, "Client error '404 Not Found' for url", Exit.NOT_FOUND),
    Case("hub", "a status in the words of the hub's client", 1, "HfHubHTTPError: 429 Too Many", Exit.RATE_LIMITED),
    Case("server-error", "status 500 is an error of the server", 1, "500 Server Error", Exit.UNREACHABLE),
    Case("timeout", "status 408 is an error of the network", 1, "408 Client Error", Exit.UNREACHABLE),
    Case("teapot", "status 418 has no known cause", 1, "418 Client Error", Exit.UNKNOWN),
    Case(
        "bucket-status",
        "a status in boto's words",
        1,
        "An error occurred (403) when calling HeadBucket",
        Exit.UNAUTHORISED,
    ),
    Case("google-status", "a status in Google's words", 1, "404 GET https://storage: no bucket", Exit.NOT_FOUND),
    Case("plain-status", "a status in the words of requests", 1, "failed with status code 503.", Exit.UNREACHABLE),
    Case(
        "bucket-words",
        "missing credentials in the words of boto",
        1,
        "NoCredentialsError: Unable to locate credentials",
        Exit.UNAUTHORISED,
    ),
    Case(
        "bucket-empty",
        "a bucket without the model means a wrong path",
        1,
        "Failed to fetch model. No model found in x.",
        Exit.NOT_FOUND,
    ),
    Case("slow-down", "a rate limit in the words of boto", 1, "(SlowDown) when calling GetObject", Exit.RATE_LIMITED),
    Case(
        "broken-off",
        "a file of unexpected size means that the connection has failed",
        1,
        "Consistency check failed: file should be of size 1",
        Exit.UNREACHABLE,
    ),
    Case(
        "broken-in-a-file",
        "a broken connection in the words of urllib3",
        1,
        "Connection broken: IncompleteRead(6 bytes read)",
        Exit.UNREACHABLE,
    ),
    Case(
        "bucket-unreachable",
        "a failed connection is recognised in the words of boto",
        1,
        "Could not connect to the endpoint URL",
        Exit.UNREACHABLE,
    ),
    Case(
        "not-writable",
        "a permission error means that the claim belongs to another user",
        1,
        "[Errno 13] Permission denied",
        Exit.NOT_WRITABLE,
    ),
    # hf-xet's words, and the numbers that Python and Rust write (xet-core#238, #322, #394, #444).
    Case(
        "xet-link-expired",
        "an expired link of hf-xet is replaced on a retry",
        1,
        f"Reqwest Error: HTTP status client error {XET}",
        Exit.UNREACHABLE,
    ),
    Case("xet-link-expired-debug", "an expired link in Rust's debug format", 1, XET_DEBUG, Exit.UNREACHABLE),
    Case("xet-hub-forbids", "status 403 of the hub to hf-xet is permanent", 1, XET_HUB, Exit.UNAUTHORISED),
    Case(
        "xet-server",
        "status 503 to hf-xet is an error of the server",
        1,
        "HTTP status server error (503 Service Unavailable)",
        Exit.UNREACHABLE,
    ),
    Case(
        "xet-too-many", "429 to hf-xet is a rate limit", 1, "HTTP status client error (429 Too Many)", Exit.RATE_LIMITED
    ),
    Case(
        "xet-send",
        "a request that hf-xet cannot send means that there is no connection",
        1,
        "error sending request for url (https://cas-server.xethub.hf.co/)",
        Exit.UNREACHABLE,
    ),
    Case(
        "xet-body",
        "an incomplete body means that the connection of hf-xet has failed",
        1,
        "hyper::Error(Body, Custom { error: IncompleteBody })",
        Exit.UNREACHABLE,
    ),
    Case(
        "proxy-wants-a-password",
        "status 407 comes from a proxy, so that the token is not at fault",
        1,
        "407 Client Error: Proxy",
        Exit.UNREACHABLE,
    ),
    Case(
        "proxy-tunnel",
        "status 403 of a proxy is not the answer of the hub",
        1,
        "OSError('Tunnel connection failed: 403 Forbidden')",
        Exit.UNREACHABLE,
    ),
    Case(
        "proxy-words",
        "an error of a proxy is recognised in the words of httpx",
        1,
        "ProxyError: Proxy Authentication Required",
        Exit.UNREACHABLE,
    ),
    Case(
        "certificate",
        "an unknown certificate is recognised in the words of Python",
        1,
        "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed",
        Exit.UNREACHABLE,
    ),
    Case(
        "certificate-rust",
        "an unknown certificate is recognised in the words of Rust",
        1,
        "invalid peer certificate: UnknownIssuer",
        Exit.UNREACHABLE,
    ),
    Case(
        "last-error",
        "the last error counts, because earlier requests were retried",
        1,
        "429 Client Error\n[Errno 13] Permission denied",
        Exit.NOT_WRITABLE,
    ),
    Case(
        "unknown-number",
        "an error number without a known cause is ignored",
        1,
        "[Errno 2] No such file\n404 Client Error",
        Exit.NOT_FOUND,
    ),
    Case(
        "full-anywhere", "a full disk precedes later errors", 1, "write (os error 28)\n404 Client Error", Exit.DISK_FULL
    ),
    Case("stalled", "a program without progress has stalled", None, "404 Client Error", Exit.STALLED),
    Case("no-idea", "an unknown error has an unknown cause", 1, "Segmentation fault", Exit.UNKNOWN),
)


ERRNOS = (
    (Exit.DISK_FULL, (errno.ENOSPC, errno.EDQUOT)),
    (Exit.NOT_WRITABLE, (errno.EPERM, errno.EACCES, errno.EROFS)),
    (Exit.STORAGE_FAILED, (5, 37, 38, 62, 95, 116)),
    (Exit.UNREACHABLE, (101, 104, 110, 111, 113)),
)


@pytest.mark.parametrize(("cause", "number"), [(cause, number) for cause, numbers in ERRNOS for number in numbers])
@pytest.mark.parametrize("words", ["OSError: [Errno {}] {}", "IO Error: {1} (os error {0})"], ids=["python", "rust"])
def test_python_and_rust_numbers_have_the_same_cause(words: str, cause: Exit, number: int) -> None:
    log = words.format(number, os.strerror(number))
    assert script.diagnose(URI, 1, log) is cause


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_diagnoses_initializer_output(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", case.offline)
    assert script.diagnose(case.uri, case.code, case.log) == case.want, case.reason


SHARD = "pytorch_model-00001-of-00002.bin"
PATTERNS = (
    ("nothing", "", "", SHARD, True),
    ("allowed-others", '["*.json"]', "", SHARD, False),
    ("allowed", '["*.bin"]', "", SHARD, True),
    ("ignored", "", '["pytorch*"]', SHARD, False),
    ("commas", "*.safetensors,*.json", "", SHARD, False),
    ("commas-between-two", "*.json,*.bin", "", SHARD, True),
    ("commas-and-spaces", " *.safetensors , *.bin ,", "", SHARD, True),
    ("one-without-comma", "", "pytorch*", SHARD, False),
    ("json-text", '"*.json"', "", SHARD, False),
    ("empty-array", "[]", "", SHARD, True),
    ("empty-entries", '["", " "]', "", SHARD, True),
    ("broken-array-is-commas", '["*.bin"', "", SHARD, False),
    ("folder", "", "original/", f"original/{SHARD}", False),
    ("no-folder", "", "pytorch_model", SHARD, True),
)


@pytest.mark.parametrize(("allow", "ignore", "path", "want"), [p[1:] for p in PATTERNS], ids=[p[0] for p in PATTERNS])
def test_parses_patterns_as_the_initializer_does(
    allow: str, ignore: str, path: str, monkeypatch: pytest.MonkeyPatch, *, want: bool
) -> None:
    monkeypatch.setenv("STORAGE_ALLOW_PATTERNS", allow)
    monkeypatch.setenv("STORAGE_IGNORE_PATTERNS", ignore)
    assert script.wanted(path) is want


def test_success_writes_the_marker_last_and_then_does_nothing(root: Path, program: Program) -> None:
    fill(root, weights.SINGLE)
    program("exit 0")
    assert script.main(URI, str(root)) == 0
    assert json.loads((root / MARKER).read_text()) == {"uri": URI, "key": "0123456789abcdef"}
    program("exit 1")
    assert script.main(URI, str(root)) == 0, "the program does not run if the marker exists"


def test_passes_environment_to_program_and_ignores_reserved_files(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the claim the first download finds neither the directory nor the one above it."""
    fill(root, weights.SINGLE)
    monkeypatch.setattr(script, "PROGRAM", os.environ["MODELPLANE_INITIALIZER"])
    monkeypatch.delenv("MODELPLANE_INITIALIZER")
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value")
    monkeypatch.setenv("STORAGE_IGNORE_PATTERNS", "*.bin,x")
    program(f'printf "%s\n" "$1" "$HF_TOKEN" "$STORAGE_IGNORE_PATTERNS" > {root}/../got; cp {root}/* "$2"')
    new = root.parent / "claim" / "models" / "key"
    assert script.main(URI, str(new)) == 0
    uri, token, ignored = (root.parent / "got").read_text().splitlines()
    assert (uri, token) == (URI, "hf_secret_value")
    assert json.loads(ignored) == ["*.bin", "x", ".modelplane/*", ".cache/huggingface/download/*"]


@pytest.mark.parametrize(
    ("words", "want"),
    [("printf '\\377 404 Client Error' >&2", Exit.NOT_FOUND), ("echo 401 Client Error", Exit.UNAUTHORISED)],
)
def test_diagnoses_failure_by_its_output_alone(
    root: Path, program: Program, capsys: pytest.CaptureFixture[str], words: str, want: Exit
) -> None:
    """On either stream, be they text or not; what an unfinished download left is not looked at."""
    program(f"{words}; exit 1")
    assert script.main(URI, str(root)) == want
    assert capsys.readouterr().out.splitlines()[1:] == [f"download failed: {want.name.lower()}"]


def test_verifies_complete_directory_again(root: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    fill(root, {**weights.SHARDED, MARKER: b"{}", weights.SECOND: weights.SHARDED[weights.SECOND][:-1]})
    (root.parent / "whole").write_bytes(weights.SHARDED[weights.SECOND])
    program(f"[ -e {root}/{MARKER} ] && exit 1; cp {root}/../whole {root}/{weights.SECOND}")
    assert script.main(URI, str(root)) == 0, "the marker is not visible to the program"
    assert f"{root / weights.SECOND}: is truncated" in capsys.readouterr().out
    assert json.loads((root / MARKER).read_text())["uri"] == URI


def test_removes_marker_of_damaged_files(root: Path, program: Program) -> None:
    fill(root, {**without(weights.SHARDED, weights.SECOND), MARKER: b"{}"})
    program("echo 503 Server Error; exit 1")
    assert script.main(URI, str(root)) == Exit.UNREACHABLE.gave_up
    assert not (root / MARKER).exists()


def test_two_jobs_may_write_the_marker_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = os.fsync

    def meanwhile(file: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setenv("MODELPLANE_JOB", "second")
        script.complete(URI, root)
        flush(file)

    monkeypatch.setattr(os, "fsync", meanwhile)
    script.complete(URI, root)
    assert json.loads((root / MARKER).read_text())["uri"] == URI
    assert [path.name for path in (root / MARKER).parent.iterdir()] == ["complete.json"]


def test_damaged_file_is_removed_and_fetched_again(root: Path, program: Program) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors": b"cut"})
    (root.parent / "whole").write_bytes(weights.safetensors())
    program(f"[ -e {root}/model.safetensors ] || cp {root}/../whole {root}/model.safetensors")
    assert script.main(URI, str(root)) == 0


def test_damage_in_the_repository_itself_is_fetched_twice_at_most(root: Path, program: Program) -> None:
    fill(root, {"config.json": b"{}"})
    program(f"echo . >> {root}/../runs; echo cut > {root}/model.safetensors")
    assert script.main(URI, str(root)) == Exit.INCOMPLETE
    assert (root.parent / "runs").read_text() == ".\n.\n"
    assert not (root / "model.safetensors").exists(), "an incomplete file must not be taken for a model"


def test_gives_up_on_missing_shard(root: Path, program: Program) -> None:
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


def test_reports_cause_when_attempts_cannot_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script.final(Exit.UNREACHABLE, tmp_path / "absent" / ".modelplane") == 52
    monkeypatch.setenv("MODELPLANE_BACKOFF_LIMIT", "many")
    assert script.final(Exit.UNREACHABLE, tmp_path) == 52


@pytest.mark.parametrize(
    ("number", "want"),
    [(errno.ENOSPC, 43), (errno.EDQUOT, 43), (errno.EACCES, 44), (errno.EROFS, 44), (errno.EIO, 56), (None, 54)],
)
def test_maps_own_write_errors_to_causes(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, number: int | None, want: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number or 0))

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
    assert capsys.readouterr().out.splitlines()[:2] == ["token ***", "***"]


SECRETS = (
    ("twice", "hf_secret_value hf_secret_value", "*** ***"),
    ("line-break-in-the-secret", "hf_secret_value", "***"),
    ("other-begins-with-it", "hf_secret_value_2", "***"),
    ("other-ends-with-it", "a_hf_secret_value", "***"),
    ("too-short-to-be-one", "user1 user12", "user1 ***"),
    ("lines", "a\nb", "a b"),
)


@pytest.mark.parametrize(("line", "want"), [row[1:] for row in SECRETS], ids=[row[0] for row in SECRETS])
def test_secrets(line: str, want: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value\n")
    monkeypatch.setenv("OTHER_TOKEN", "hf_secret_value_2")
    monkeypatch.setenv("THIRD_TOKEN", "a_hf_secret_value")
    monkeypatch.setenv("SHORT_KEY", "user1\nuser12")
    script.say(line)
    assert capsys.readouterr().out == f"{want}\n"


def test_lines_are_bounded_and_no_secret_is_cut_in_two(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(root, weights.SINGLE)
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value")
    for before in (4090, script.TAIL - 8):
        program(f"head -c {before} /dev/zero | tr '\\0' x; echo hf_secret_value; echo next")
        assert script.main(URI, str(root)) == 0
        (root / MARKER).unlink()
        lines = capsys.readouterr().out.splitlines()
        assert max(len(line) for line in lines) == min(before + 3, 4096)
        assert lines[1] == "next"
        assert "hf_s" not in lines[0]
        assert "value" not in lines[0]


def test_prints_bounded_number_of_faults(root: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    fill(root, {"m-000001-of-999999.gguf": weights.gguf()})
    program("exit 0")
    assert script.main(URI, str(root)) == Exit.INCOMPLETE
    assert len(capsys.readouterr().out.splitlines()) == 100 + len(["download failed: incomplete"])


HOSTILE = ("Invalid ", "4", "401 Client Error", "HTTPError: 4", "status code ", "Connection ", "Errno ", "a-00001-of-")


@pytest.mark.parametrize("text", HOSTILE)
def test_reads_unknown_input_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not linear would take hours here."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    flood = text * (2**20 // len(text))
    assert script.diagnose(URI, 1, flood) in {Exit.UNKNOWN, Exit.UNAUTHORISED}
    assert script.diagnose(URI, 0, flood) is None
    assert not script.SERIES.fullmatch(flood)


@pytest.mark.parametrize("error", [ValueError("hf_secret_value"), RecursionError(), KeyError("x"), MemoryError()])
def test_reports_unexpected_error_in_one_line(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def broken(*_: object) -> None:
        raise error

    program("exit 0")
    monkeypatch.setenv("MODELPLANE_BACKOFF_LIMIT", "1")
    monkeypatch.setattr(script, "faults", broken)
    assert [script.main(URI, str(root)) for _ in range(2)] == [Exit.UNKNOWN, Exit.UNKNOWN.gave_up]
    line, ending = capsys.readouterr().out.splitlines()[:2]
    assert line == (
        f"unforeseen: {type(error).__name__} in broken, {Path(__file__).name}:{broken.__code__.co_firstlineno + 1}"
    )
    assert ending == "download failed: unknown"


def test_image_without_the_program_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPLANE_INITIALIZER", str(root / "absent"))
    assert script.main(URI, str(root)) == Exit.UNKNOWN.gave_up, "without a backoff the first attempt is the last"


def test_termination_is_passed_on(root: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program("sleep 0.3; kill -TERM $PPID; sleep 10 & wait")
    assert script.main(URI, str(root)) == 128 + signal.SIGTERM
    assert "download failed" not in capsys.readouterr().out, "a stopped download is no failure"


def test_ignores_termination_after_the_end(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: int) -> None:
        raise ProcessLookupError

    fill(root, weights.SINGLE)
    monkeypatch.setattr(os, "killpg", gone)
    monkeypatch.setattr(Path, "iterdir", gone)
    program("sleep 0.3; kill -TERM $PPID")
    assert script.main(URI, str(root)) == 0


def test_runs_as_a_script(root: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, weights.SINGLE)
    program("exit 0")
    monkeypatch.setattr(sys, "argv", ["-c", URI, str(root)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script.__file__, run_name="__main__")
    assert ended.value.code == 0


def test_initializer_logs_the_causes_of_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The initializer logs `str(error)`: what the source answered is in the error's cause."""
    monkeypatch.setattr(fcntl, "flock", fcntl.flock)  # the file replaces it
    factory = logging.getLogRecordFactory()
    error = RuntimeError("cannot locate the file")
    error.__cause__ = OSError("403 Client Error")
    try:
        runpy.run_module("function.weights.scripts.sitecustomize")
        logging.getLogger("storage").error("failed: %s", error)
        logging.getLogger("storage").error("nothing %s", "else")
    finally:
        logging.setLogRecordFactory(factory)
    assert "failed: cannot locate the file" in caplog.text
    assert "OSError: 403 Client Error" in caplog.text
    assert caplog.text.count("Error:") == 2, "the output has the error and its cause once each"
