"""Constant load on one URL: short requests at a fixed pace, and streams of some seconds, each counted with its fate."""

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.e2e.fleet import ask

_STREAM_SECONDS = 5
_WORKERS, _STREAMS = 6, 4
_END = b"data: [DONE]\n\n"


@dataclass
class Load:
    """What was sent so far; times are those of `time.monotonic`."""

    url: str
    pace: float  # requests in a second
    requests: int = 0
    streams: int = 0
    failed: list[tuple[float, str]] = field(default_factory=list)  # when, and how
    cut: list[tuple[float, str]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self) -> None:
        """Send requests at a part of the pace until it has ended."""
        every, due = _WORKERS / self.pace, time.monotonic()
        while not self._ended.is_set():
            fate = self._ask()
            with self._lock:
                self.requests += 1
                if fate:
                    self.failed.append((time.monotonic(), fate))
            due = max(due + every, time.monotonic() - every)
            self._ended.wait(max(0.0, due - time.monotonic()))

    def stream(self) -> None:
        """Read one stream after the other until it has ended."""
        while not self._ended.is_set():
            fate = self._read()
            with self._lock:
                self.streams += 1
                if fate:
                    self.cut.append((time.monotonic(), fate))
                    self._ended.wait(0.2)

    def end(self) -> None:
        """Send nothing more."""
        self._ended.set()

    def __str__(self) -> str:
        how = Counter(fate for _, fate in (*self.failed, *self.cut))
        fates = "".join(f"; {count} x {fate}" for fate, count in how.most_common(5))
        counts = (
            f"{len(self.failed)} of {self.requests} requests failed, {len(self.cut)} of {self.streams} streams were cut"
        )
        return f"{counts}{fates}"

    def _ask(self) -> str:
        try:
            status = ask(self.url).status
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        return "" if status == 200 else str(status)

    def _read(self) -> str:
        parts = urllib.parse.urlsplit(self.url)
        body = json.dumps({"model": "any", "stream": True, "seconds": _STREAM_SECONDS})
        try:
            with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=30)) as connection:
                connection.request(
                    "POST", f"{parts.path}/v1/chat/completions", body, {"Content-Type": "application/json"}
                )
                reply = connection.getresponse()
                said = reply.read()
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        if reply.status != 200:
            return str(reply.status)
        return "" if said.endswith(_END) else "ended early"


@contextlib.contextmanager
def constant_load(url: str, pace: float = 30) -> Iterator[Load]:
    """Send requests and streams while the block runs; afterwards all of them have ended."""
    load = Load(url, pace)
    threads = [threading.Thread(target=load.send) for _ in range(_WORKERS)]
    threads += [threading.Thread(target=load.stream) for _ in range(_STREAMS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.end()
        for thread in threads:
            thread.join(60)
