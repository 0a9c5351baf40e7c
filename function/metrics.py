"""What Prometheus is told: calls, seconds, bytes, what was answered, and what memories were good for.

Counted at the edge, of each call and its outcome; the rooms below know nothing of it, but for memories that count for
themselves how often they knew. Every label is a word of ours (a kind, a condition's type, status and reason); any other
text, whoever wrote it, is `other`, so that no request can make a series and none shows a name.

A thread of its own answers scrapes, one after the other: who reads slowly must hold up no call. What it reads are
numbers, each of which is whole.
"""

import re
import socket
import threading
from collections.abc import Iterable
from enum import Enum, StrEnum
from socketserver import TCPServer
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    MetricsHandler,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from function import reasons
from function.composers import COMPOSERS, MEMORIES
from function.contract import Call, Outcome

# A call over a few objects takes 3 ms, over a thousand environments 20 to 40 and, when nothing is remembered yet, 400
# (docs/performance.md).
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_OTHER = "other"
_REASONS = frozenset(
    str(reason)
    for words in vars(reasons).values()
    if isinstance(words, type) and issubclass(words, StrEnum)
    for reason in words
)
# Who stops in the middle of a request keeps others from theirs no longer than this.
_PATIENCE_SECONDS = 5
_PORTS = 65535


class Answered(Enum):
    """What became of a call."""

    COMPOSED = "composed"
    KEPT = "kept"  # composing failed, and everything stays as observed
    FATAL = "fatal"  # that failed too, and Crossplane keeps all as it is
    MALFORMED = "malformed"  # the bytes were no request


class Metrics:
    """Counts of one process."""

    def __init__(self) -> None:
        # Else each series has another, with a time that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client's only function without types
        self.registry = registry = CollectorRegistry()
        self._seconds = Histogram(
            "modelplane_call_seconds",
            "Time from the bytes of a request to a response, without waiting for other calls.",
            ("kind", "answered"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._reconciles = Counter(
            "modelplane_reconciles",
            "Calls that came with answers to all that they ask for: the last round of a reconcile.",
            ("kind",),
            registry=registry,
        )
        self._received = Counter("modelplane_received_bytes", "Size of requests.", ("kind",), registry=registry)
        self._sent = Counter("modelplane_sent_bytes", "Size of responses.", ("kind",), registry=registry)
        self._conditions = Counter(
            "modelplane_conditions_not_true",
            "Conditions that the last round of a reconcile answered with False or Unknown.",
            ("kind", "type", "status", "reason"),
            registry=registry,
        )
        registry.register(_Memories())
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def count(self, kind: str, answered: Answered, seconds: float, received: int, sent: int) -> None:
        """Count a call: its kind, how it ended, how long it took, and the bytes of request and response."""
        kind = kind if kind in COMPOSERS else _OTHER
        self._seconds.labels(kind, answered.value).observe(seconds)
        self._received.labels(kind).inc(received)
        self._sent.labels(kind).inc(sent)

    def judge(self, kind: str, call: Call, outcome: Outcome) -> None:
        """Count what an outcome says, unless Crossplane will call again with what it asks for."""
        if not outcome.requirements.keys() <= call.answers.keys():
            return
        kind = kind if kind in COMPOSERS else _OTHER
        self._reconciles.labels(kind).inc()
        for said in outcome.conditions:
            if said.status is not reasons.Status.TRUE:
                reason = said.reason if said.reason in _REASONS else _OTHER
                self._conditions.labels(kind, said.type.value, said.status.value, reason).inc()

    def listen(self, address: str) -> int:
        """Answer scrapes at `host:port` until the process ends; return the port, which the system chooses for 0.

        Raises:
            OSError: The address is taken or not one of this machine.
            ValueError: It is no `host:port`.
        """
        parts = re.fullmatch(r"\[?([^\[\]]+)\]?:(\d{1,5})", address, re.ASCII)
        if parts is None or int(parts[2]) > _PORTS:
            raise ValueError(f"want host:port with a port up to {_PORTS}")
        found = socket.getaddrinfo(parts[1], parts[2], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        server = _Server(found[0], _Scrape.factory(self.registry))
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        return int(server.server_address[1])


class _Scrape(MetricsHandler):
    timeout = _PATIENCE_SECONDS


class _Server(TCPServer):
    # Not http.server's: that asks DNS for the name of the address, and waits for it.
    allow_reuse_address = True

    def __init__(self, found: tuple[Any, ...], handler: type) -> None:
        self.address_family, _, _, _, where = found
        super().__init__(where[:2], handler)

    def handle_error(self, *_: object) -> None:
        """Say nothing: who asked has gone."""


class _Memories(Collector):
    """Reads the counts of memories when asked."""

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(
            "modelplane_memory_lookups",
            "Items and verdicts looked up among what earlier calls left, and whether they were known.",
            labels=("memory", "result"),
        )
        for name, stats in MEMORIES.items():
            family.add_metric((name, "hit"), stats.hits)
            family.add_metric((name, "miss"), stats.misses)
        yield family
