"""Programs started, recorded and ended by process id, and by nothing else.

A record holds the id together with the start time from /proc, so that an id which the kernel gave to
another process is never signalled. Records outlive this process: `make e2e-down` ends what an earlier run
left behind.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.stack.layout import Home

# Most are written in Go, and all of them share two processors: less collecting for some memory more.
_THRIFT = {"GOGC": "400"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run; `env` is added to our own environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A program that was started."""

    program: Program
    pid: int
    started: str

    def runs(self) -> bool:
        """Return whether the very process that was started still runs."""
        return start_time(self.pid) == self.started


def start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks, or nothing where it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


class Processes:
    """The programs of one stack."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def start(self, program: Program) -> None:
        """Start a program in a session of its own; what it prints is appended to its log."""
        # Not subprocess: its handles warn of children that outlive them, as all of these do.
        pid = os.posix_spawnp(
            program.argv[0],
            program.argv,
            {**os.environ, **_THRIFT, **program.env},
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, self.log(program.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ),
            setsid=True,
        )
        record = Record(program=program, pid=pid, started=start_time(pid))
        self._path(program.name).write_text(json.dumps(asdict(record)))

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM, patience: float = 20) -> Program:
        """End a program, by force when it does not go, and return what it was."""
        record = self._read(self._path(name))
        for sign in (how, signal.SIGKILL):
            if record.runs():
                os.kill(record.pid, sign)
            if _gone(record, patience):
                break
        self._path(name).unlink()
        return record.program

    def kill(self, name: str) -> Program:
        """End a program without a chance to clean up."""
        return self.stop(name, signal.SIGKILL)

    def stop_all(self) -> None:
        """End everything recorded, latest first."""
        for path in sorted(self._home.records.glob("*.json"), key=lambda p: p.stat().st_mtime_ns, reverse=True):
            self.stop(path.stem, patience=5)

    def dead(self) -> list[str]:
        """Return the programs that ended by themselves."""
        return sorted(r.program.name for r in self.records() if not r.runs())

    def records(self) -> list[Record]:
        """Return the record of each program."""
        return [self._read(path) for path in sorted(self._home.records.glob("*.json"))]

    def memory(self) -> dict[str, int]:
        """Return the proportional share of memory of each program, in MiB."""
        return {r.program.name: _proportional(r.pid) for r in self.records() if r.runs()}

    def log(self, name: str) -> Path:
        """Return the log of a program."""
        return self._home.logs / f"{name}.log"

    def tail(self, name: str, lines: int = 12, width: int = 400) -> str:
        """Return the end of a program's log."""
        path = self.log(name)
        if not path.exists():
            return ""
        return "\n".join(line[:width] for line in path.read_text(errors="replace").splitlines()[-lines:])

    def _path(self, name: str) -> Path:
        return self._home.records / f"{name}.json"

    def _read(self, path: Path) -> Record:
        raw = json.loads(path.read_text())
        program = Program(name=raw["program"]["name"], argv=tuple(raw["program"]["argv"]), env=raw["program"]["env"])
        return Record(program=program, pid=raw["pid"], started=raw["started"])


def _gone(record: Record, patience: float) -> bool:
    end = time.monotonic() + patience
    while record.runs():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _proportional(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) // 1024 for x in rollup.splitlines() if x.startswith("Pss:")), 0)
