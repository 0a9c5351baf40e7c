"""What users see of a download and what the control plane does meanwhile, for scenario 43."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from tests.e2e.calls import calls_by_name
from tests.e2e.world import World
from tools.stack import audit

KINDS = ("ModelCache", "ModelPlacement", "ModelDeployment", "InferenceEnvironment")
_WATCH_SECONDS = 15
_REDRAWN = re.compile(r"\r\x1b\[K")
_PERCENT = re.compile(r"\] ([0-9]+)%")
_PARTS = re.compile(r"([0-9]+) of ([0-9]+) parts are complete")


def run_plugin(world: World, *arguments: str) -> str:
    """Runs a command as an administrator, and returns what it wrote."""
    done = subprocess.run(_command(world, *arguments), capture_output=True, check=True, text=True, timeout=60)
    return done.stdout


def _command(world: World, *arguments: str) -> tuple[str, ...]:
    program = Path(sys.executable).with_name("modelplane")
    return (str(program), *arguments, "--kubeconfig", str(world.stack.home.kubeconfig("hub")))


class Terminal:
    """A command that redraws its last line on a terminal."""

    def __init__(self, world: World, *arguments: str) -> None:
        own, its = pty.openpty()
        self.process = subprocess.Popen(
            _command(world, *arguments),
            env=os.environ | {"COLUMNS": "250"},
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        self._output, self._own = "", own
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._own, 4096):
                self._output += part.decode(errors="replace")
        except OSError:  # the other end is closed
            os.close(self._own)

    @property
    def bar(self) -> str:
        """The last line, which is drawn again and again."""
        return _REDRAWN.split(self._output)[-1].strip()

    @property
    def lines(self) -> list[str]:
        """The other lines, which stay."""
        return [line.strip() for part in _REDRAWN.split(self._output) for line in part.split("\n")[:-1] if line.strip()]

    def wait(self, seconds: float) -> int:
        """Waits until the command ends, and returns its exit code."""
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code


@dataclass(frozen=True, kw_only=True)
class Look:
    """What users see at one moment."""

    seconds: float  # since the download was asked for
    get: str  # kubectl get modelcache
    message: str  # of the ModelCache
    deployment: str  # why the deployment that waits for the weights is not Ready
    tree: str  # the placement that waits for the weights
    row: str  # of `modelplane cache list`
    bar: str  # of `modelplane cache preload --wait`

    @property
    def percents(self) -> tuple[int, ...]:
        """What the texts that have the progress say of it, in percent; -1 where one says nothing."""
        percents = (_PERCENT.search(said) for said in (self.row, self.bar))
        parts = (_PARTS.search(said) for said in (self.message, self.tree))
        return (
            *(int(percent[1]) if percent else -1 for percent in percents),
            *(int(part[1]) * 100 // int(part[2]) if part else -1 for part in parts),
        )

    def __str__(self) -> str:
        parts = vars(self)
        return "\n".join((f"{self.seconds:.0f} s", *(f"    {key}: {parts[key]}" for key in parts if key != "seconds")))


def look(world: World, namespace: str, name: str, terminal: Terminal, started: float) -> Look:
    """Reads all texts about a ModelCache and the deployment of the same name."""
    *_, seen = world.stack.kubectl("get", "modelcache", name, "-n", namespace).splitlines()
    cache = world.stack.hub.get("ModelCache", name, namespace) or {}
    waiting = world.stack.hub.get("ModelDeployment", name, namespace) or {}
    _, placement, rows = run_plugin(world, "tree", name, "-n", namespace).partition("ModelPlacement/")
    _, *listed = run_plugin(world, "cache", "list", "-n", namespace).splitlines()
    return Look(
        seconds=time.time() - started,
        get=" ".join(seen.split()),
        message=text(condition(cache, "Hydrated"), "message"),
        deployment=text(condition(waiting, "PlacementsReady"), "message"),
        tree=" ".join((placement + rows).split()),
        row=" ".join(" ".join(listed).split()),
        bar=terminal.bar,
    )


@dataclass(frozen=True, kw_only=True)
class Version:
    """An object as it was written."""

    time: float  # since 1970
    number: str
    status: Manifest


@dataclass
class Versions:
    """Every version of an object, as watches report it."""

    found: list[Version] = field(default_factory=list)

    def note(self, manifest: Manifest) -> None:
        number = text(manifest, "metadata.resourceVersion")
        if not self.found or self.found[-1].number != number:
            status = json.loads(json.dumps(mapping(manifest, "status")))
            self.found.append(Version(time=time.time(), number=number, status=status))

    def list_changes(self, begin: float, end: float) -> list[Version]:
        """Returns the versions of a time with another status than the version before."""
        pairs = zip(self.found, self.found[1:], strict=False)
        return [new for old, new in pairs if begin <= new.time <= end and new.status != old.status]

    def list_changed_fields(self, begin: float, end: float) -> list[str]:
        """Returns which fields and conditions each write of the status has changed."""
        pairs = zip(self.found, self.found[1:], strict=False)
        return [
            _compare(old.status, new.status)
            for old, new in pairs
            if begin <= new.time <= end and old.status != new.status
        ]


def _compare(old: Manifest, new: Manifest) -> str:
    fields = {key for key in old.keys() | new.keys() if key != "conditions" and old.get(key) != new.get(key)}
    before, after = ({text(c, "type"): c for c in listing(s, "conditions")} for s in (old, new))
    return ", ".join(sorted(fields | {key for key in before | after if before.get(key) != after.get(key)}))


@contextmanager
def record_versions(world: World, namespace: str, kinds: tuple[str, ...]) -> Iterator[Mapping[str, Versions]]:
    """Records the versions of the only object of each kind in a namespace while the block runs."""
    records = {kind: Versions() for kind in kinds}
    over = threading.Event()

    def follow(kind: str) -> None:
        while not over.is_set():
            with closing(world.stack.hub.watch(kind, namespace, _WATCH_SECONDS)) as events:
                for _, manifest in events:
                    records[kind].note(manifest)

    threads = [threading.Thread(target=follow, args=(kind,), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    try:
        yield records
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * _WATCH_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the control plane has done so far."""

    time: float  # since 1970
    calls: Mapping[str, Counter[str]]  # of the function, by kind and name
    requests: Counter[str]  # of core and the provider to the control plane, by who and the verb

    def since(self, earlier: "Work") -> "Work":
        """What was done since an earlier moment; the time is the seconds since then."""
        return Work(
            time=self.time - earlier.time,
            calls={kind: self.calls[kind] - earlier.calls[kind] for kind in KINDS},
            requests=self.requests - earlier.requests,
        )

    def select(self, chosen: Callable[[str, str], bool]) -> dict[str, Counter[str]]:
        """Returns the calls of the composites whose kind and name are chosen."""
        return {
            kind: Counter({name: number for name, number in names.items() if chosen(kind, name)})
            for kind, names in self.calls.items()
        }

    def __str__(self) -> str:
        calls = ", ".join(f"{kind} {sum(names.values())}" for kind, names in self.calls.items())
        requests = ", ".join(f"{key} {number}" for key, number in sorted(self.requests.items()))
        return f"in {self.time:.0f} s calls of the function: {calls}; requests: {requests}"


def count_calls(world: World, begin: float, end: float) -> Counter[str]:
    """Returns how many calls the function answered between two times, by the kind and name of the composite."""
    lines = (world.stack.home.logs / "function-modelplane.log").read_text().splitlines()
    calls = (json.loads(line) for line in lines if line.startswith("{"))
    return Counter(f"{call['kind']} {call['name']}" for call in calls if "kind" in call and begin <= call["ts"] <= end)


def count_work(world: World) -> Work:
    requests = Counter(
        f"{who} {text(event, 'verb')}"
        for who in ("core", "provider")
        for event in audit.events(world.stack.home, "hub", who)
    )
    calls = {kind: calls_by_name(world.stack.home.logs, kind) for kind in KINDS}
    return Work(time=time.time(), calls=calls, requests=requests)


@contextmanager
def keep_sparse(folder: Path, smallest: int) -> Iterator[None]:
    """Frees the space of zeros in large files below a folder while the block runs, as thin storage does.

    Downloads write zeros after the first block, so that their bytes stay what they are.
    """
    over = threading.Event()

    def punch() -> None:
        while not over.wait(1):
            for path in folder.rglob("*"):
                _punch(path, smallest)

    thread = threading.Thread(target=punch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


_BLOCK = 4096


def _punch(path: Path, smallest: int) -> None:
    try:
        found = path.lstat()
    except OSError:  # the client renames its files
        return
    if path.is_symlink() or not path.is_file() or found.st_size < smallest or found.st_blocks * 512 < smallest:
        return
    length = found.st_size // _BLOCK * _BLOCK - _BLOCK
    command = ("fallocate", "--punch-hole", "--keep-size", "--offset", str(_BLOCK), "--length", str(length), str(path))
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def read_progress(version: Version) -> Manifest:
    """Returns the progress in a version of a ModelCache with one environment."""
    rows = get(version.status, "environments")
    row = rows[0] if isinstance(rows, list) and rows else {}
    return mapping(row, "progress") if isinstance(row, dict) else {}
