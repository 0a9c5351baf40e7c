"""The download Job under hostile repositories, directories and hubs, killed at random times.

The Job that we compose runs as a process: our script around the real storage program, against a hub on loopback. After
every attempt: where the marker stands, each file is the repository's to the byte, and an engine could load it; nothing
outside of the directory was written. In the end the hub is sound and no download is killed: a repository that an
engine can load is complete after one attempt, and again without a request to the hub; any other fails with our code.
"""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.fuzz.repositories import FORGED, Repository, litter, own, repository
from function.weights.scripts.download_script import MARKER, Exit
from tests.hub.container import Container, Initializer, downloading
from tests.hub.hub import Hub, serving

SECONDS = 60
_CODES = {int(code) for code in Exit} | {code.gave_up for code in Exit}
_ENDED = {-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM}
_SENTINEL = b"not to be touched"


@dataclass(slots=True)
class Downloads:
    """What was done and seen, and what was wrong."""

    attempts: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Scene:
    """One repository, its hub, and the directory of its download."""

    offered: Repository
    hub: Hub
    container: Container
    outside: Path
    random: Random
    counts: Downloads

    def attempt(self, how: str) -> int:
        """Run the Job once, with a fault or a kill; return its exit code."""
        hub, files = self.hub, [*own(self.offered.files)]
        hub.statuses, hub.cut, hub.hold = {}, {}, None
        if how == "status":
            where = self.random.choice(("/api/", "/resolve/", self.random.choice(files)))
            hub.statuses = {where: self.random.choice((401, 403, 404, 429, 500, 503))}
        if how in ("broken off", "held and killed"):
            name = self.random.choice(files)
            hub.cut = {name: self.random.randrange(len(self.offered.files[name]) + 1)}
            hub.hold = threading.Event() if how == "held and killed" else None
        process = self.container.start()
        if "killed" in how:
            self._kill(process, self.random.uniform(0.0, 2.5))
        if hub.hold:
            hub.hold.set()
        said, _ = process.communicate(timeout=SECONDS)
        self.counts.attempts += 1
        self.counts.seen[how] += 1
        self._judge(process.returncode, said, how)
        return process.returncode

    def _kill(self, process: "subprocess.Popen[str]", after: float) -> None:
        end = time.monotonic() + after
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.02)
        child = _child(process.pid)
        who = self.random.choice(("pod", "initializer", "TERM"))
        if process.poll() is not None:
            return
        self.counts.seen["kills"] += 1
        if who != "initializer":
            os.kill(process.pid, signal.SIGTERM if who == "TERM" else signal.SIGKILL)
        if child and who != "TERM":
            os.killpg(child, signal.SIGKILL)

    def _judge(self, code: int, said: str, how: str) -> None:
        """Take note of what must never be, whatever was done."""
        root = self.container.directory
        marked = (root / MARKER).is_file() and (code == 0 or (root / MARKER).read_bytes() != FORGED)
        if code == 0 and not marked:
            self.fail(how, "success without a marker")
        if marked and code != 0 and "killed" not in how:
            self.fail(how, f"exit code {code} and yet a marker")
        if marked or code == 0:
            self._complete(how, root)
        if code not in (0, *_CODES, *_ENDED):
            self.fail(how, f"exit code {code} is none of ours: {said[-300:]}")
        if "unforeseen" in said or 'File "<string>"' in said:
            self.fail(how, f"unforeseen: {said[-300:]}")
        if self.outside.read_bytes() != _SENTINEL:
            self.fail(how, "wrote outside of its directory")
        self.counts.seen[f"exit code {code}"] += 1

    def _complete(self, how: str, root: Path) -> None:
        if not self.offered.sound:
            self.fail(how, "complete over what no engine can load")
        for name, data in own(self.offered.files).items():
            if not (root / name).is_file() or (root / name).read_bytes() != data:
                self.fail(how, f"complete without {name}")

    def fail(self, how: str, what: str) -> None:
        """Take note of a failure."""
        self.counts.wrong.append(f"{', '.join(self.offered.what)}; {how}: {what}")


_FAULTS = ("killed", "killed", "held and killed", "held and killed", "status", "broken off")


def play(counts: Downloads, number: int, folder: Path) -> None:
    """Play the history of a number in an empty folder."""
    random = Random(number)  # noqa: S311  # the same history for the same number
    offered, outside = repository(random), folder / "outside"
    outside.write_bytes(_SENTINEL)
    with serving(Hub(files=offered.files)) as hub:
        container = downloading(folder / "claim", Initializer(), env={"HF_ENDPOINT": hub.endpoint})
        container.claim.mkdir()
        left = litter(container.directory, offered, random, outside)
        counts.seen[f"directory with {left}"] += 1
        counts.seen["sound" if offered.sound else "broken"] += 1
        scene = _Scene(offered, hub, container, outside, random, counts)
        for _ in range(random.choice((0, 1, 2, 3))):
            scene.attempt(random.choice(_FAULTS))
        if (scene.attempt("as it should be") == 0) is not offered.sound:
            scene.fail("in the end", f"{'failed over' if offered.sound else 'took'} {left}")
        hub.requests.clear()
        if offered.sound and (scene.attempt("again") != 0 or hub.requests):
            scene.fail("again", f"asked the hub for {hub.requests}")


def _child(process: int) -> int:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0
