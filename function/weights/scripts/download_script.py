"""Download weights with the storage-initializer and prove that they are complete.

The image's own python runs this file, hence the standard library only. The rule: the marker is written last and only
over proven bytes; where it stands they are proven again, and nothing else is done. The initializer reports success when
the hub refuses it over a directory that is not empty, so its exit code proves nothing: its output, the shards that the
indexes name and the lengths that the files' own headers claim do. Exit codes say why it failed. A cause that a retry
may cure gets another code on the last attempt that the Job allows, so that the Job can fail with that code in its own
condition. An initializer that neither says anything nor writes a byte for a quarter of an hour is ended. Other Jobs may
write to the same directory: no partial file is removed but what our own initializer had open. The completions of an
Indexed Job are parts, which its status counts: all but the last fetch a share of the files, and prove only lengths.
"""

import base64
import errno
import hashlib
import json
import os
import re
import signal
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from fnmatch import fnmatch
from glob import escape, glob
from http.client import HTTPException
from math import prod
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from threading import Event, Thread
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen


class Exit(IntEnum):
    """Exit codes. A retry may cure the causes from 51 on; for these, `gave_up` is the code of the last attempt."""

    UNAUTHORISED = 41
    NOT_FOUND = 42
    DISK_FULL = 43
    NOT_WRITABLE = 44
    INCOMPLETE = 45
    RATE_LIMITED = 51
    UNREACHABLE = 52
    KILLED = 53
    UNKNOWN = 54
    STALLED = 55
    STORAGE_FAILED = 56

    @property
    def gave_up(self) -> int:
        """The code after which the Job must not try again."""
        return self + 10 if self > Exit.INCOMPLETE else int(self)


PROGRAM = "/storage-initializer/scripts/initializer-entrypoint"
STATE, PARTIALS = ".modelplane", ".cache/huggingface/download"
MARKER, ALLOWED, IGNORED = f"{STATE}/complete.json", "STORAGE_ALLOW_PATTERNS", "STORAGE_IGNORE_PATTERNS"
RESERVED = (f"{STATE}/*", f"{PARTIALS}/*")  # no repository brings a marker of ours
TAIL, LINE, FAULTS, SHARDS, XET = 64 * 1024, 4096, 100, 10_000, "HF_HUB_DISABLE_XET"
STALL, STALL_SECONDS, LOOK_SECONDS = "MODELPLANE_STALL_SECONDS", 900, 15
PARTS, ADAPTER = "MODELPLANE_PARTS", "MODELPLANE_ADAPTER_BASE"  # completions of the Job; set if adapter.py runs this
LARGE, NAMES = 64 * 2**20, 100_000  # bytes: files below are the last part's; of names, because a variable has a limit
OPENED = "MODELPLANE_MODEL_PATH"  # the folder or GGUF file that the engine opens, below the model's directory
# The clients are written in Python and in Rust, each with its own words for a status, an address and an error number.
STATUS = re.compile(
    r"\b([45]\d\d) (?:Client|Server) Error|(?:Client|Server) error '([45]\d\d)|status code ([45]\d\d)"
    r"|HTTPError: ([45]\d\d) |An error occurred \(([45]\d\d)\)|\b([45]\d\d) (?:GET|POST|HEAD) http"
    r"|status (?:client|server) error \(([45]\d\d)|kind: Status\(([45]\d\d)|Tunnel connection failed: ([45]\d\d)"
)
URL = re.compile(r"""(?:for url:? |content at: |domain: |url: )\\*['"(]?(https?://[^\s'")\\]+)""")
STATUSES = {401: Exit.UNAUTHORISED, 403: Exit.UNAUTHORISED, 404: Exit.NOT_FOUND, 429: Exit.RATE_LIMITED}
PROXY = "Tunnel connection failed"  # the status that follows is a proxy's, and so is 407 anywhere
ERRNO = re.compile(r"\[Errno (\d{1,3})\]|\(os error (\d{1,3})\)")
BY_ERRNO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Exit.DISK_FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Exit.NOT_WRITABLE),
    # What file systems over a network say when they fail, or cannot do what is asked of them.
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ETIME), Exit.STORAGE_FAILED),
    **dict.fromkeys((errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK), Exit.STORAGE_FAILED),
    **dict.fromkeys((errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE), Exit.UNREACHABLE),
    **dict.fromkeys((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT), Exit.UNREACHABLE),
}
FULL = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b")
# What the hub's client says before it exits 0 without having asked for everything.
PRETENDED = re.compile(r"remote repo cannot be accessed|Defaulting to existing file")
NOT_TRUSTED = (
    r"ProxyError|[pP]roxy ?[aA]uthentication|CERTIFICATE_VERIFY_FAILED|[cC]ertificate ?[vV]erif|SSLError"
    r"|invalid peer certificate|InvalidCertificate"
)
NOT_REACHED = (
    r"Connect(ion)?Error|Connection (refused|reset|aborted|broken)|Failed to connect|timed out"
    r"|Could not connect to the endpoint|Timeout:|closed connection|disconnected|name resolution"
    r"|Name or service|unreachable|Consistency check failed|error sending request|IncompleteBody|dns error"
)
WORDS = (
    (Exit.UNREACHABLE, NOT_TRUSTED),
    (Exit.UNAUTHORISED, r"[aA]uthentication failed|[aA]ccess ?[dD]enied|[cC]redentials|Forbidden"),
    (Exit.NOT_FOUND, r"not found|No model found|does not exist|Invalid .{1,40}URI|Cannot recognize storage"),
    (Exit.RATE_LIMITED, r"Too Many Requests|SlowDown|[rR]ate limit"),
    (Exit.UNREACHABLE, NOT_REACHED),
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|KEY|-headers", re.IGNORECASE)
SERIES = re.compile(r"(.+[-_])([0-9]{1,6})-of-([0-9]{1,6})(\.[a-z]+)")
TORCH = (".bin", ".pt", ".pth", ".ckpt")
SECOND_CHOICE = (*TORCH, ".bin.index.json", ".h5", ".msgpack", ".onnx")  # not opened where safetensors lie beside them
WEIGHTS = {*SECOND_CHOICE, ".safetensors", ".gguf", ".engine", ".tflite", ".npz"}
LOADED = {".safetensors", *TORCH}  # vLLM and SGLang load these from a folder; a GGUF file only where it is named
INDEXES = (".safetensors.index.json", ".bin.index.json")
MAIN_INDEX = "model.safetensors.index.json"  # where it exists, engines go by no other unless a flag says so
PIPELINE = "model_index.json"  # of several models, each in a folder of its own
DESCRIPTIONS = ("config.json", "params.json", PIPELINE)
HEADER = 100_000_000  # the limit of safetensors' own library; other headers and indexes are far below it
UNREADABLE = (ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError)
# GGUF: bytes of a value by its type, and of 256 weights by theirs. Of a later type all that is known is one byte.
TEXT, ARRAY = 8, 9
VALUES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TENSORS = {0: 1024, 1: 512, 2: 144, 3: 160, 6: 176, 7: 192, 8: 272, 10: 84, 11: 110, 12: 144, 13: 176, 14: 210, 15: 292}
TENSORS |= {16: 66, 17: 74, 18: 98, 19: 50, 20: 144, 21: 110, 22: 82, 23: 136, 24: 256, 30: 512, 39: 136, 40: 144}


def say(text: str) -> None:
    """Write one line of bounded length to the pod's log at once, without the values of the environment's secrets."""
    secrets = {part.strip() for name, value in os.environ.items() if SECRET.search(name) for part in value.splitlines()}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if len(secret) >= 6 else text
    sys.stdout.write(f"{' '.join(text.splitlines())[:LINE]}\n")
    sys.stdout.flush()


class Watchdog(Thread):
    """Ends the initializer once it makes no progress: no line of output, and no byte in its directory."""

    def __init__(self, root: Path, end: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.root, self.end = root, end
        seconds = re.fullmatch("[1-9][0-9]{0,5}", os.environ.get(STALL, ""))
        self.limit = int(seconds[0]) if seconds else STALL_SECONDS
        self.lines, self.stalled = 0, False  # lines of output so far
        self.over = Event()

    def run(self) -> None:
        """Look now and then, until the initializer ends or stalls."""
        progress, since = (0, 0, 0), time.monotonic()
        while not self.stalled and not self.over.wait(min(LOOK_SECONDS, self.limit / 4)):
            now = (self.lines, *measure(self.root))
            if now != progress:
                progress, since = now, time.monotonic()
            self.stalled = time.monotonic() - since >= self.limit
        if self.stalled:
            say(f"stalled: no output and no new bytes in {self.root} for {self.limit} s; the initializer is ended")
            self.end()

    def stop(self) -> None:
        """Stop looking: the initializer has ended."""
        self.over.set()
        self.join()


def fetch(uri: str, root: Path, part: dict[str, int] | None) -> tuple[int | None, str]:
    """Run the initializer for these files, stream what it says, and return its exit code and the end of its output.

    No part: for all files. None in place of the code: it made no progress, and was ended.
    """
    running: list[int] = []
    handles: set[Path] = set()

    def forward(number: int, _: object = None) -> None:
        for group in running:
            for handle in glob(f"/proc/{group}/fd/*"):  # noqa: PTH207  # Path.glob may raise if the process is gone
                with suppress(OSError):  # it was closed meanwhile
                    handles.add(Path(handle).readlink())
            with suppress(ProcessLookupError):
                os.killpg(group, number)

    before = signal.signal(signal.SIGTERM, forward)
    command = [os.environ.get("MODELPLANE_INITIALIZER", PROGRAM), uri, str(root)]
    paths = os.pathsep.join(filter(None, (sys.path[0], os.environ.get("PYTHONPATH"))))  # for our sitecustomize.py
    env = os.environ | {IGNORED: json.dumps([*patterns(IGNORED), *RESERVED]), "PYTHONPATH": paths}
    if part:
        env[ALLOWED] = json.dumps([*map(escape, part)])
    if has_stalled(root / STATE) and XET not in env:
        say("an earlier attempt of this Job stalled; this one does without hf-xet")
        env[XET] = "1"
    watchdog = Watchdog(root, lambda: forward(signal.SIGKILL))
    tail, begins = "", True
    with Popen(  # noqa: S603  # arguments, never a shell
        command, env=env, stdout=PIPE, stderr=STDOUT, text=True, errors="replace", start_new_session=True
    ) as child:
        running.append(child.pid)
        watchdog.start()
        # What follows in an overlong line is not said: a secret that is cut in two could not be told.
        while child.stdout and (line := child.stdout.readline(TAIL)):
            watchdog.lines += 1
            if begins:
                say(line)
            begins, tail = line.endswith("\n"), (tail + line)[-TAIL:]
        code = child.wait()
        watchdog.stop()
    signal.signal(signal.SIGTERM, before)
    # Names that hold a part for the process as well: nobody else writes these files or picks them up.
    clear({path for path in handles & partials(root.resolve()) if path.name.count(".") == 3})
    return None if watchdog.stalled else code, tail


def measure(root: Path) -> tuple[int, int]:
    """Return the bytes of all files below a directory, and the blocks that are written: some are as long beforehand."""
    size = blocks = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):  # the client renames its files
                found = Path(folder, name).lstat()
                size, blocks = size + found.st_size, blocks + found.st_blocks
    return size, blocks


def diagnose(uri: str, code: int | None, log: str) -> Exit | None:
    """Return why the initializer failed, also where it claims to have succeeded; None = it did succeed."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    if code is None:
        return Exit.STALLED
    if code == 0 and (offline or not PRETENDED.search(log)):
        return None
    if code == -signal.SIGKILL:
        return Exit.KILLED
    causes = {answer.start(): judge_answer(uri, answer, log) for answer in STATUS.finditer(log)}
    for error in ERRNO.finditer(log):
        if cause := BY_ERRNO.get(int(error[1] or error[2])):
            causes[error.start()] = cause
    if FULL.search(log) or Exit.DISK_FULL in causes.values():
        return Exit.DISK_FULL
    # The last answer or error counts: what was retried is past.
    if causes:
        return causes[max(causes)]
    return next((cause for cause, words in WORDS if re.search(words, log)), Exit.UNKNOWN)


def judge_answer(uri: str, answer: re.Match[str], log: str) -> Exit:
    """Return what an answer of the source, or of a proxy before it, means."""
    status = int(next(filter(None, answer.groups())))
    is_broken = status in (407, 408) or status >= 500 or answer[0].startswith(PROXY)
    if is_broken or (status == 403 and is_elsewhere(uri, log[answer.start() :])):
        return Exit.UNREACHABLE
    return STATUSES.get(status, Exit.UNKNOWN)


def is_elsewhere(uri: str, answer: str) -> bool:
    """Tell whether a content delivery network answered for the hub: it refuses links that are too old."""
    url = URL.search(answer)
    hub = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").netloc
    return uri.startswith("hf://") and url is not None and urlsplit(url[1]).netloc != hub


def patterns(name: str) -> list[str]:
    """Return the file patterns of this variable as the initializer reads them: a JSON array, or else commas."""
    listed = os.environ.get(name, "")
    try:
        found = json.loads(listed)
    except ValueError:
        found = listed.split(",")
    stripped = [str(pattern).strip() for pattern in (found if isinstance(found, list) else [found])]
    # The hub's client takes a folder for all that is in it.
    return [f"{pattern}*" if pattern.endswith("/") else pattern for pattern in stripped if pattern]


def wanted(path: str) -> bool:
    """Tell whether the patterns let this file through."""
    allowed = any(fnmatch(path, pattern) for pattern in patterns(ALLOWED) or ["*"])
    return allowed and not any(fnmatch(path, pattern) for pattern in patterns(IGNORED))


def list_files(uri: str) -> dict[str, int]:
    """Return the files of a repository that the patterns let through, with the bytes of each."""
    repo, _, revision = uri.removeprefix("hf://").partition(":")
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url = f"{hub}/api/models/{quote(repo)}/revision/{quote(revision or 'main', safe='')}?blobs=true"
    request = Request(url)  # noqa: S310  # the platform's own endpoint
    if token := os.environ.get("HF_TOKEN", "").strip():
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # not where the hub redirects to
    with urlopen(request, timeout=60) as answer:  # noqa: S310  # the platform's own endpoint
        sizes = {file["rfilename"]: int(file["size"]) for file in json.loads(answer.read(HEADER))["siblings"]}
    is_safe = not any({"", ".", ".."} & {*path.split("/")} for path in sizes)  # no absolute names either
    return {p: size for p, size in sizes.items() if is_safe and wanted(p) and p.split("/")[0] not in (".cache", STATE)}


def divide(sizes: dict[str, int], count: int) -> list[dict[str, int]]:
    """Divide the large files, so that with each part at least its share of their bytes is there."""
    parts, start = [dict[str, int]() for _ in range(count)], 0
    large = [(path, size) for path, size in sorted(sizes.items()) if size >= LARGE]
    total = sum(size for _, size in large)
    for path, size in large:
        parts[start * count // total][path] = size
        start += size
    return parts


def choose_part(uri: str) -> dict[str, int] | None:
    """Return the files of this completion with their bytes; None: all files, for the last or without a listing."""
    count = int(os.environ.get(PARTS) or 1)
    if count == 1 or (index := int(os.environ["JOB_COMPLETION_INDEX"])) + 1 >= count:
        return None
    parts: list[dict[str, int]] = []
    with suppress(OSError, HTTPException, *UNREADABLE):
        parts = divide(list_files(uri), count)
    if not any(parts) or len(json.dumps([*map(escape, parts[index])])) > NAMES:
        say("the source lists no large files, or too many: this part downloads everything")
        return None
    say(f"part {index + 1} of {count} has {len(parts[index])} files of {sum(parts[index].values())} bytes")
    return parts[index]


def partials(root: Path) -> set[Path]:
    """Return the client's partial files, whoever writes them."""
    return {*(root / PARTIALS).rglob("*.incomplete")}


def files(root: Path) -> list[Path]:
    """Return the model's own files."""
    return sorted(p for p in root.rglob("*") if p.is_file() and p.relative_to(root).parts[0] not in (".cache", STATE))


def faults(root: Path) -> dict[Path, str]:
    """Return what is missing or damaged, by file, of what an engine would open."""
    if os.environ.get(ADAPTER):
        return {path: fault for path in files(root) if path.match("adapter_*") and (fault := damage(path))}
    opened = root / os.environ.get(OPENED, "")
    is_file = opened.name.lower().endswith(".gguf")
    return check_file(opened, {*files(root)}) if is_file else check_folder(opened, root)


def check_file(opened: Path, own: set[Path]) -> dict[Path, str]:
    """Return the faults of the one GGUF file that an engine opens, and of its parts."""
    parts = dict.fromkeys(announced(opened), f"is missing, {opened.name} promises it")
    parts[opened] = "is missing, and the engine opens it"
    found = {path: damage(path) if path in own else missing for path, missing in parts.items()}
    return {path: fault for path, fault in found.items() if fault}


def check_folder(base: Path, root: Path) -> dict[Path, str]:
    """Return the faults of a folder that an engine opens, and of what lies below the model's directory."""
    own = files(root)
    preferred = {path.parent for path in own if path.suffix == ".safetensors"}
    first = [p for p in own if not p.name.endswith(SECOND_CHOICE) or preferred.isdisjoint(p.parents)]
    indexes = [path for path in first if path.name.endswith(INDEXES)]
    # An index whose files are all there is what engines go by: it alone promises, and folders beside it do not matter.
    whole = {path: named_files(path) for path in indexes if path.parent == base}
    whole = {path: named for path, named in whole.items() if named and named <= {*own}}
    if base / MAIN_INDEX in indexes and base / MAIN_INDEX not in whole:
        whole = {}
    if whole:
        named = set[Path]().union(*whole.values())
        first = [path for path in first if path.parent == base or path in named]
        indexes = [*whole]
    weights = [path for path in first if path.suffix in WEIGHTS]
    described = {path.name: path for path in own if path.parent == base and path.name in DESCRIPTIONS}
    found = dict.fromkeys((path for path in described.values() if parsed(path) is None), "is no JSON object")
    found |= {path: "is no index of files in its directory" for path in indexes if not named_files(path)}
    found |= {path: fault for path in weights if (fault := damage(path))}
    promised = {sibling: path.name for path in (indexes if whole else first) for sibling in announced(path)}
    for path in promised.keys() - {*own}:
        if wanted(path.relative_to(root).as_posix()):
            found[path] = f"is missing, {promised[path]} promises it"
    loaded = [p for p in weights if p.suffix in LOADED and (whole or p.parent == base or PIPELINE in described)]
    if not (described and loaded):
        found[base] = "holds no model: no config.json or params.json with safetensors or torch weights beside it"
    return found


def announced(path: Path) -> Iterator[Path]:
    """Yield the files whose presence this one promises: an index its shards, a shard its series."""
    if path.name.endswith(INDEXES):
        yield from named_files(path)
    elif (series := SERIES.fullmatch(path.name)) and path.suffix in WEIGHTS:
        stem, digits, last, suffix = series.groups()
        width = 1 if (path.parent / f"{stem}1-of-{last}{suffix}").exists() else len(digits)
        first = int(not (path.parent / f"{stem}{0:0{width}}-of-{last}{suffix}").exists())  # some count from 0
        for part in range(first, min(int(last), SHARDS) + first):
            yield path.parent / f"{stem}{part:0{width}}-of-{last}{suffix}"


def named_files(index: Path) -> set[Path]:
    """Return the files that an index names, none where it cannot be read or points out of its directory."""
    weight_map = (parsed(index) or {}).get("weight_map")
    names = [*weight_map.values()] if isinstance(weight_map, dict) else []
    inside = all(isinstance(name, str) and name[:1] != "/" and ".." not in name.split("/") for name in names)
    return {index.parent / name for name in names} if inside else set()


def parsed(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in this file, None where it holds none."""
    with path.open("rb") as file, suppress(*UNREADABLE):
        found = json.loads(file.read(HEADER))
        return found if isinstance(found, dict) else None
    return None


def damage(path: Path) -> str:
    """Return the fault of a file, by its own header where its format has one."""
    if not path.stat().st_size:
        return "is empty"
    try:
        return CHECKS[path.suffix](path) if path.suffix in CHECKS else ""
    except UNREADABLE:
        return "has no readable header"


def check_safetensors(path: Path) -> str:
    """Return the fault of a file that is not as long as its own header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            return "is truncated"
        header = json.loads(take(file, length))
    pairs = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    ends = [end for begin, end in pairs if type(begin) is type(end) is int and 0 <= begin <= end]
    if len(ends) < len(pairs):
        raise ValueError("offsets")
    surplus = size - 8 - length - max(ends, default=0)
    return "is longer than its header says" if surplus > 0 else "is truncated" if surplus else ""


def check_gguf(path: Path) -> str:
    """Return the fault of a file that ends before its last tensor: the header counts its keys and tensors."""
    with path.open("rb") as file:
        if take(file, 4) != b"GGUF" or number(file, 4) not in (2, 3):
            raise ValueError("another format")
        tensors, keys, alignment, end = number(file, 8), number(file, 8), 32, 0
        for _ in range(keys):
            key, found = value(file, TEXT), value(file, number(file, 4))
            alignment = int.from_bytes(found, "little") if key == b"general.alignment" else alignment
        for _ in range(tensors):
            value(file, TEXT)
            rank = number(file, 4)
            if rank > 4:
                raise ValueError("dimensions")
            weights = prod(number(file, 8) for _ in range(rank))
            kind, offset = number(file, 4), number(file, 8)
            end = max(end, offset - (-weights * TENSORS.get(kind, 1) // 256))
        data = file.tell() + -file.tell() % alignment
    return "is truncated" if end and path.stat().st_size < data + end else ""


def value(file: BinaryIO, kind: int) -> bytes:
    """Return the next value of a GGUF header, those of an array in one."""
    if kind != ARRAY:
        return take(file, number(file, 8) if kind == TEXT else VALUES[kind])
    kind, count = number(file, 4), number(file, 8)
    return take(file, count * VALUES[kind]) if kind in VALUES else b"".join(value(file, kind) for _ in range(count))


def number(file: BinaryIO, width: int) -> int:
    """Return the next number of a GGUF header."""
    return int.from_bytes(take(file, width), "little")


def take(file: BinaryIO, count: int) -> bytes:
    """Return the next bytes of a header, which ends within its file and within the limit."""
    data = file.read(count) if max(count, file.tell()) <= HEADER else b""
    if len(data) < count:
        raise ValueError("too short")
    return data


def check_archive(path: Path) -> str:
    """Return the fault of a torch archive without its directory, which stands at its end."""
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\3\4"
    return "is truncated" if zipped and not zipfile.is_zipfile(path) else ""


CHECKS = {".safetensors": check_safetensors, ".gguf": check_gguf, **dict.fromkeys(TORCH, check_archive)}


def inspect(root: Path, before: set[Path]) -> dict[Path, str]:
    """Return the faults and say the first of them; a partial file is one if it is new and its own file is absent."""
    fresh = partials(root) - before
    for path in files(root) if fresh else ():
        record = root / PARTIALS / f"{path.relative_to(root)}.metadata"
        digest = hashlib.sha1(os.fsencode(record.name), usedforsecurity=False).digest()
        # The client's own rule: a partial file begins with this hash, then its version, then its process.
        fresh -= {*record.parent.glob(f"{base64.urlsafe_b64encode(digest).decode()}.*")}
    found = faults(root) | dict.fromkeys(fresh, "is partial")
    for path, fault in sorted(found.items())[:FAULTS]:
        say(f"{path}: {fault}")
    return found


def inspect_part(root: Path, part: dict[str, int]) -> dict[Path, str]:
    """Return the files of a part that are missing or have another length, and say how many there are."""
    found = {root / path: "is not as long as listed" for path in part}
    for path, size in part.items():
        with suppress(OSError):  # it is missing, or its name is too long for the file system
            if (root / path).stat().st_size == size:
                del found[root / path]
    say(f"{len(found)} of {len(part)} files are missing or not as long as listed")
    return found


def clear(paths: set[Path]) -> bool:
    """Remove these files; tell whether there were any."""
    for path in paths:
        path.unlink(missing_ok=True)
    return bool(paths)


def attempt(uri: str, root: Path, part: dict[str, int] | None = None) -> Exit | int:
    """Download all files or a part and verify; once more where removing damaged files gives a second run a chance."""
    for _ in range(2):
        before = partials(root)
        code, log = fetch(uri, root, part)
        if code == -signal.SIGTERM:
            return 128 + signal.SIGTERM
        cause = diagnose(uri, code, log)
        found = {} if cause else inspect_part(root, part) if part else inspect(root, before)
        if cause or not found:
            return cause or 0
        if not clear({path for path in found if path.is_file() and (not part or damage(path))} - partials(root)):
            break  # what is as long as its own header says stays: the listing may be wrong
    return Exit.INCOMPLETE


def complete(uri: str, root: Path) -> None:
    """Write the marker so that it is there whole or not at all."""
    (root / STATE).mkdir(exist_ok=True)
    draft = root / STATE / f"complete-{os.environ.get('MODELPLANE_JOB', 'job')}"
    with draft.open("w") as file:
        json.dump({"uri": uri, "key": root.name}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(root / MARKER)


def name_failures(state: Path) -> Path:
    """Return the file with one letter for each failed attempt of this Job."""
    return state / f"failures-{os.environ.get('MODELPLANE_JOB', 'job')}"


def has_stalled(state: Path) -> bool:
    """Tell whether an attempt of this Job stalled."""
    with suppress(OSError):
        return "s" in name_failures(state).read_text(errors="replace")
    return False


def final(cause: Exit, state: Path) -> int:
    """Return the exit code: the last attempt of this Job says that it gave up."""
    with suppress(OSError, ValueError):
        limit = int(os.environ.get("MODELPLANE_BACKOFF_LIMIT", "0"))
        state.mkdir(exist_ok=True)
        with name_failures(state).open("a") as file:
            file.write("s" if cause is Exit.STALLED else ".")
            return cause.gave_up if file.tell() > limit else int(cause)
    return int(cause)


def deliver(uri: str, root: Path) -> Exit | int:
    """Return the outcome of one attempt; where the marker stands over sound files there is nothing to do."""
    marker = root / MARKER
    if marker.is_file():
        if not inspect(root, partials(root)):
            say(f"{root} is complete")
            return 0
        marker.unlink()
    # Nothing of ours goes in before the first download: over an empty directory the client tells the truth.
    root.mkdir(parents=True, exist_ok=True)
    outcome = attempt(uri, root, part) if (part := choose_part(uri)) else 0
    if part is not None and outcome is not Exit.INCOMPLETE:
        return outcome
    outcome = attempt(uri, root)  # also where a part is not as the source lists it
    if outcome == 0:
        complete(uri, root)
        say(f"{root} is complete and verified")
    return outcome


def main(uri: str, directory: str) -> int:
    """Return the exit code of one attempt."""
    root = Path(directory)
    try:
        outcome = deliver(uri, root)
    except OSError as error:
        say(f"{root}: {error.strerror}")
        outcome = BY_ERRNO.get(error.errno or 0, Exit.UNKNOWN)
    except Exception as error:  # noqa: BLE001  # whatever it is, the Job's condition must name a cause
        where = traceback.extract_tb(error.__traceback__)[-1]
        say(f"unforeseen: {type(error).__name__} in {where.name}, {Path(where.filename).name}:{where.lineno}")
        outcome = Exit.UNKNOWN
    if isinstance(outcome, Exit):
        say(f"download failed: {outcome.name.lower()}")
        return final(outcome, root / STATE)
    return outcome


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
