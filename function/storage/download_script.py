"""Download weights with the storage-initializer and prove that they are complete.

This file runs inside the initializer's image: the Job hands its text to that image's python with `-c`,
followed by the URI and the directory. Hence the standard library only. The rule: the marker is written last
and only over proven bytes; with the marker present nothing is done. The initializer reports success when
the hub refuses it over a directory that is not empty, so its exit code proves nothing: its output, the
shards that the indexes name and the lengths that the files' own headers claim do. Exit codes say why it
failed. A cause that a retry may cure gets another code on the last attempt that the Job allows, so that the
Job can fail with that code in its own condition.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from fnmatch import fnmatch
from pathlib import Path


class Exit(IntEnum):
    """Exit codes; `gave_up` of the second group stands for the same cause on the last attempt."""

    UNAUTHORISED = 41
    NOT_FOUND = 42
    DISK_FULL = 43
    NOT_WRITABLE = 44
    INCOMPLETE = 45
    RATE_LIMITED = 51
    UNREACHABLE = 52
    KILLED = 53
    UNKNOWN = 54

    @property
    def retryable(self) -> bool:
        """Whether another attempt may succeed without anybody changing anything."""
        return self > Exit.INCOMPLETE

    @property
    def gave_up(self) -> int:
        """The code after which the Job must not try again."""
        return self + 10 if self.retryable else int(self)


PROGRAM = "/storage-initializer/scripts/initializer-entrypoint"
STATE = ".modelplane"
MARKER = f"{STATE}/complete.json"
TAIL = 64 * 1024
STATUS = re.compile(
    r"\b([45]\d\d) (?:Client|Server) Error|(?:Client|Server) error '([45]\d\d)|status code ([45]\d\d)"
    r"|HTTPError: ([45]\d\d) |An error occurred \(([45]\d\d)\)|\b([45]\d\d) (?:GET|POST|HEAD) http"
)
FULL = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b")
# What the hub's client says before it exits 0 without having asked for everything.
PRETENDED = re.compile(r"remote repo cannot be accessed|Defaulting to existing file")
WORDS = {
    Exit.NOT_WRITABLE: r"\[Errno 13\]|\[Errno 30\]",
    Exit.UNAUTHORISED: r"[aA]uthentication failed|[aA]ccess ?[dD]enied|[cC]redentials|Forbidden",
    Exit.NOT_FOUND: r"not found|No model found|does not exist|Invalid .* URI|Cannot recognize storage",
    Exit.RATE_LIMITED: r"Too Many Requests|SlowDown|[rR]ate limit",
    Exit.UNREACHABLE: r"Connect(ion)?Error|Connection (refused|reset|aborted)|Failed to connect|timed out"
    r"|Timeout:|closed connection|disconnected|name resolution|Name or service|unreachable"
    r"|Consistency check failed",
}
BY_ERRNO = {
    errno.ENOSPC: Exit.DISK_FULL,
    errno.EDQUOT: Exit.DISK_FULL,
    errno.EACCES: Exit.NOT_WRITABLE,
    errno.EPERM: Exit.NOT_WRITABLE,
    errno.EROFS: Exit.NOT_WRITABLE,
}
TRUE = ("1", "ON", "YES", "TRUE")
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|KEY|-headers", re.IGNORECASE)
SERIES = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.[a-z]+)")
WEIGHTS = (
    ".safetensors",
    ".gguf",
    ".bin",
    ".pt",
    ".pth",
    ".onnx",
    ".h5",
    ".msgpack",
    ".npz",
    ".engine",
    ".tflite",
)
INDEXES = (".safetensors.index.json", ".bin.index.json")
DESCRIPTIONS = ("config.json", "params.json", "adapter_config.json", "model_index.json")
ALONE = (".safetensors", ".gguf", ".onnx", ".engine", ".tflite")


def say(text: str) -> None:
    """Write one line to the pod's log at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def masked(line: str) -> str:
    """Return the line without the values of the environment's secrets."""
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= 6:
            line = line.replace(value, "***")
    return line


def fetch(uri: str, directory: Path) -> tuple[int, str]:
    """Run the initializer, stream what it says, and return its exit code and the end of its output."""
    running: list[int] = []

    def forward(number: int, _: object) -> None:
        for group in running:
            with suppress(ProcessLookupError):
                os.killpg(group, number)

    before = signal.signal(signal.SIGTERM, forward)
    tail = ""
    with subprocess.Popen(  # noqa: S603  # arguments, never a shell
        [os.environ.get("MODELPLANE_INITIALIZER", PROGRAM), uri, str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        running.append(child.pid)
        for line in child.stdout or ():
            say(masked(line.rstrip("\n")))
            tail = (tail + line)[-TAIL:]
    signal.signal(signal.SIGTERM, before)
    return child.returncode, tail


def diagnose(code: int, log: str) -> Exit | None:
    """Return why the initializer failed, also where it claims to have succeeded; None = it did succeed."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in TRUE
    if code == 0 and (offline or not PRETENDED.search(log)):
        return None
    if code == -signal.SIGKILL:
        return Exit.KILLED
    if FULL.search(log):
        return Exit.DISK_FULL
    statuses = [int(next(filter(None, found.groups()))) for found in STATUS.finditer(log)]
    if statuses:
        return by_status(statuses[-1])
    return next((cause for cause, words in WORDS.items() if re.search(words, log)), Exit.UNKNOWN)


def by_status(status: int) -> Exit:
    """Return the cause that an HTTP status stands for."""
    known = {401: Exit.UNAUTHORISED, 403: Exit.UNAUTHORISED, 404: Exit.NOT_FOUND, 429: Exit.RATE_LIMITED}
    return known.get(status, Exit.UNREACHABLE if status == 408 or status >= 500 else Exit.UNKNOWN)


def patterns(name: str) -> list[str]:
    """Return the file patterns of this variable."""
    found = json.loads(os.environ.get(name) or "[]")
    return [str(pattern) for pattern in found]


def wanted(path: str) -> bool:
    """Tell whether the patterns let this file through, as the initializer reads them."""
    allow, ignore = patterns("STORAGE_ALLOW_PATTERNS"), patterns("STORAGE_IGNORE_PATTERNS")
    allowed = not allow or any(fnmatch(path, pattern) for pattern in allow)
    return allowed and not any(fnmatch(path, pattern) for pattern in ignore)


def leftovers(root: Path) -> set[Path]:
    """Return the partial files that killed attempts left behind."""
    return set(root.rglob("*.incomplete"))


def files(root: Path) -> list[Path]:
    """Return the model's own files."""
    own = [path for path in root.rglob("*") if path.is_file()]
    return sorted(path for path in own if path.relative_to(root).parts[0] not in (".cache", STATE))


def faults(root: Path) -> dict[Path, str]:
    """Return what is missing or damaged, by file."""
    own = files(root)
    weights = [path for path in own if path.suffix in WEIGHTS]
    found = dict.fromkeys(leftovers(root), "is partial")
    found |= {path: "is no index" for path in own if path.name.endswith(INDEXES) and not shards(path)}
    found |= {path: fault for path in weights if (fault := DAMAGED.get(path.suffix, emptied)(path))}
    for path in own:
        missing = [sibling for sibling in announced(path) if not sibling.is_file()]
        found |= {
            sibling: f"is missing, {path.name} promises it"
            for sibling in missing
            if wanted(sibling.relative_to(root).as_posix())
        }
    described = any((root / name).is_file() for name in DESCRIPTIONS)
    if not weights or not (described or any(path.suffix in ALONE for path in weights)):
        found[root] = "holds no model: neither weights with a config.json nor a known single-file format"
    return found


def announced(path: Path) -> Iterator[Path]:
    """Yield the files whose presence this one promises: an index its shards, a shard its series."""
    if path.name.endswith(INDEXES):
        yield from (path.parent / name for name in shards(path))
    series = SERIES.fullmatch(path.name)
    if series:
        stem, _, last, suffix = series.groups()
        yield from (path.parent / f"{stem}-{number:05}-of-{last}{suffix}" for number in range(1, int(last) + 1))


def shards(index: Path) -> list[str]:
    """Return the files that an index names, none where it cannot be read."""
    try:
        return sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def emptied(path: Path) -> str:
    """Return the fault of a file that holds nothing."""
    return "" if path.stat().st_size else "is empty"


def cut_safetensors(path: Path) -> str:
    """Return the fault of a file shorter than its own header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            return "is truncated"
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "has no readable header"
    return "is truncated" if size < 8 + length + max(ends, default=0) else ""


def cut_gguf(path: Path) -> str:
    """Return the fault of a file that does not begin as GGUF does."""
    with path.open("rb") as file:
        return "" if file.read(4) == b"GGUF" else "is no GGUF file"


def cut_archive(path: Path) -> str:
    """Return the fault of a torch archive without its directory, which stands at its end."""
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\3\4"
    return "is truncated" if zipped and not zipfile.is_zipfile(path) else emptied(path)


DAMAGED: dict[str, Callable[[Path], str]] = {
    ".safetensors": cut_safetensors,
    ".gguf": cut_gguf,
    ".bin": cut_archive,
    ".pt": cut_archive,
    ".pth": cut_archive,
}


def clear(paths: Iterable[Path]) -> bool:
    """Remove files of this directory that are of no use; tell whether there were any."""
    removable = [path for path in paths if path.is_file()]
    for path in removable:
        path.unlink()
    return bool(removable)


def attempt(uri: str, root: Path) -> Exit | int:
    """Return the outcome; tried once more where clearing useless files gives a second run a chance."""
    outcome, useless = once(uri, root)
    if clear(useless):
        outcome, useless = once(uri, root)
        clear(useless)
    return outcome


def once(uri: str, root: Path) -> tuple[Exit | int, Iterable[Path]]:
    """Download and verify; return the outcome and which of our own files stand in the way."""
    stale = leftovers(root)
    code, log = fetch(uri, root)
    if code == -signal.SIGTERM:
        return 128 + signal.SIGTERM, ()
    cause = diagnose(code, log)
    if cause is not None:
        return cause, stale if cause is Exit.DISK_FULL else ()
    # The client resumes a partial file under its old name only; what it did not pick up is of no use.
    clear(stale)
    found = faults(root)
    for path, fault in sorted(found.items()):
        say(f"{path}: {fault}")
    return (Exit.INCOMPLETE, found) if found else (0, ())


def complete(uri: str, root: Path) -> None:
    """Write the marker so that it is there whole or not at all."""
    (root / STATE).mkdir(exist_ok=True)
    draft = root / STATE / "complete.draft"
    with draft.open("w") as file:
        json.dump({"uri": uri, "key": root.name}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(root / MARKER)


def final(cause: Exit, state: Path) -> int:
    """Return the exit code: the last attempt of this Job says that it gave up."""
    limit = int(os.environ.get("MODELPLANE_BACKOFF_LIMIT", "0"))
    failures = state / f"failures-{os.environ.get('MODELPLANE_JOB', 'job')}"
    with suppress(OSError):
        state.mkdir(exist_ok=True)
        with failures.open("a") as file:
            file.write(".")
    failed = failures.stat().st_size if failures.is_file() else 0
    return cause.gave_up if failed > limit else int(cause)


def main(uri: str, directory: str) -> int:
    """Return the exit code of one attempt."""
    root = Path(directory)
    outcome: Exit | int
    try:
        if (root / MARKER).is_file():
            say(f"{root} is complete")
            return 0
        # Nothing of ours goes in before the first download: over an empty directory the client tells the truth.
        root.mkdir(parents=True, exist_ok=True)
        outcome = attempt(uri, root)
        if outcome == 0:
            complete(uri, root)
            say(f"{root} is complete and verified")
    except OSError as error:
        say(f"{root}: {error.strerror}")
        outcome = BY_ERRNO.get(error.errno or 0, Exit.UNKNOWN)
    if isinstance(outcome, Exit):
        say(f"download failed: {outcome.name.lower()}")
        return final(outcome, root / STATE)
    return outcome


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
