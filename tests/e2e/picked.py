"""Requests with common beginnings through a gateway that asks endpoint pickers, and what becomes of them over time."""

import contextlib
import http.client
import json
import random
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from function.kube.manifests import Manifest, integer, text
from tools.stack.engines import BLOCK_TOKENS, TOKEN_BYTES

PREFIX_BLOCKS = 64
_SUFFIX_BYTES = 40  # less than a block, so that only the beginning of a prompt is kept
_WORKERS, _STREAMS = 8, 4
_STREAM_TOKENS = 1500  # three seconds
_PACE = 40  # requests in a second
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one request."""

    began: float
    ended: float
    status: int  # 0: the connection broke, or the stream ended early
    engine: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Prompts:
    """Prompts at random of some beginnings, each with an end of its own; no two objects have a beginning in common."""

    def __init__(self, count: int, seed: int) -> None:
        self._random = random.Random(seed)
        size = PREFIX_BLOCKS * BLOCK_TOKENS * TOKEN_BYTES
        self._prefixes = [self._random.randbytes(size // 2).hex() for _ in range(count)]

    def draw(self) -> str:
        """Returns one."""
        return self._random.choice(self._prefixes) + self._random.randbytes(_SUFFIX_BYTES // 2).hex()


def ask(url: str, prompt: str, *, stream: bool = False) -> Answer:
    """Sends one request with a connection of its own."""
    parts, began = urllib.parse.urlsplit(url), time.monotonic()
    asked: Manifest = {"model": "any", "messages": [{"role": "user", "content": prompt}]}
    if stream:
        asked |= {"stream": True, "max_tokens": _STREAM_TOKENS}
    said, status = b"", 0
    try:
        with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=40)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"{parts.path}/v1/chat/completions", json.dumps(asked), headers)
            reply = connection.getresponse()
            said, status = reply.read(), reply.status
    except (OSError, http.client.HTTPException):
        status = 0
    if stream and status == 200 and not said.endswith(b"data: [DONE]\n\n"):
        status = 0
    found: Manifest = json.loads(said) if status == 200 and not stream else {}
    return Answer(
        began=began,
        ended=time.monotonic(),
        status=status,
        engine=text(found, "engine"),
        prompt_tokens=integer(found, "usage.prompt_tokens"),
        cached_tokens=integer(found, "usage.prompt_tokens_details.cached_tokens"),
    )


@dataclass(frozen=True, slots=True)
class Hits:
    """How many tokens of prompts were cached, and how many requests each engine got."""

    share: float
    seconds: float  # of the median request
    by_engine: tuple[int, ...]

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "Hits":
        """Counts; every request must have been answered."""
        found = list(answers)
        assert {each.status for each in found} == {200}, Counter(each.status for each in found)
        times = sorted(each.ended - each.began for each in found)
        return cls(
            share=sum(each.cached_tokens for each in found) / sum(each.prompt_tokens for each in found),
            seconds=times[len(times) // 2],
            by_engine=tuple(sorted(Counter(each.engine for each in found).values())),
        )

    def __str__(self) -> str:
        """The numbers for people."""
        engines = "/".join(map(str, self.by_engine))
        return f"{self.share:.1%} of tokens cached, median {1000 * self.seconds:.0f} ms, requests {engines}"


@dataclass
class Load:
    """What was sent so far."""

    url: str
    prompts: Prompts
    answers: list[Answer] = field(default_factory=list)
    streams: list[Answer] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_failed(self, since: float, until: float) -> tuple[int, int]:
        """Returns how many of the requests that began in a time failed, and how many there were."""
        found = [each for each in self.answers if since <= each.began < until]
        return sum(each.status != 200 for each in found), len(found)

    def send(self) -> None:
        """Sends requests at a part of the pace until it has ended."""
        while not self._ended.is_set():
            began = time.monotonic()
            with self._lock:
                prompt = self.prompts.draw()
            self.answers.append(ask(self.url, prompt))
            self._ended.wait(max(0.0, began + _WORKERS / _PACE - time.monotonic()))

    def stream(self) -> None:
        """Reads one stream after the other until it has ended."""
        while not self._ended.is_set():
            with self._lock:
                prompt = self.prompts.draw()
            self.streams.append(ask(self.url, prompt, stream=True))
            self._ended.wait(0.2)

    def end(self) -> None:
        """Sends nothing more."""
        self._ended.set()


@contextlib.contextmanager
def send_load(url: str, prompts: Prompts) -> Iterator[Load]:
    """Sends requests and streams while the block runs; afterwards all of them have ended."""
    load = Load(url, prompts)
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


@dataclass
class Timeline:
    """When a reading changed, and to what."""

    read: Callable[[], str]
    changes: list[tuple[float, str]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Reads until it has ended; what cannot be read is left out."""
        while not self._ended.wait(_POLL_SECONDS):
            with contextlib.suppress(OSError, LookupError):
                found = self.read()
                if not self.changes or self.changes[-1][1] != found:
                    self.changes.append((time.monotonic(), found))

    def find(self, value: str, since: float) -> float:
        """Returns when the reading first had a value since then.

        Raises:
            LookupError: It has not.
        """
        for when, found in self.changes:
            if when >= since and found == value:
                return when
        raise LookupError(f"not {value!r} since then: {self.changes}")

    def end(self) -> None:
        """Reads nothing more."""
        self._ended.set()


@contextlib.contextmanager
def watch(*readers: Callable[[], str]) -> Iterator[tuple[Timeline, ...]]:
    """Follows readings while the block runs."""
    timelines = tuple(Timeline(read) for read in readers)
    threads = [threading.Thread(target=each.watch) for each in timelines]
    for thread in threads:
        thread.start()
    try:
        yield timelines
    finally:
        for each in timelines:
            each.end()
        for thread in threads:
            thread.join(60)
