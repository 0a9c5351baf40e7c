"""Metrics for Prometheus: calls, seconds, bytes, conditions, and hits of the caches between calls.

Calls and outcomes are counted at the edge; only the caches count their own hits. Every label value is a word of this
function (a kind, a condition's type, status and reason); any other text is `other`, so that no request can create
series and no label shows a name. A thread of its own answers scrapes one after the other, so that a slow scraper holds
up no call.
"""

import re
import socket
import threading
from collections.abc import Iterable
from enum import Enum, StrEnum
from socketserver import TCPServer
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from function import reasons
from function.composers import CACHE_STATS, COMPOSERS
from function.contract import Call, Outcome

# A call over a few objects takes 3 ms, over a thousand environments 20 to 40 and, when nothing is remembered yet, 400
# (docs/performance.md).
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_OTHER = "other"
_REASONS = frozenset(
    str(reason)
    for words in vars(reasons).values()
    if isinstance(words, type) and issubclass(words, StrEnum)
    for reason in words
)
_MAX_PORT = 65535


class CallResult(Enum):
    COMPOSED = "composed"
    KEPT = "kept"  # composing failed, and everything stays as observed
    FATAL = "fatal"  # recovering failed too, and Crossplane keeps everything as it is
    MALFORMED = "malformed"  # the bytes are not a request


class Metrics:
    def __init__(self) -> None:
        # Otherwise each series has a second one with the time of its creation.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # the client's only function without types
        self.registry = registry = prometheus.CollectorRegistry()
        self._seconds = prometheus.Histogram(
            "modelplane_call_seconds",
            "Time to answer a request, in seconds of wall time, once its turn has come.",
            ("kind", "answered"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._reconciles = prometheus.Counter(
            "modelplane_reconciles",
            "Calls with answers to all of their requirements: the last round of a reconcile.",
            ("kind",),
            registry=registry,
        )
        self._received = prometheus.Counter(
            "modelplane_received_bytes", "Size of requests.", ("kind",), registry=registry
        )
        self._sent = prometheus.Counter("modelplane_sent_bytes", "Size of responses.", ("kind",), registry=registry)
        self._conditions = prometheus.Counter(
            "modelplane_conditions_not_true",
            "Conditions that the last round of a reconcile answered with False or Unknown.",
            ("kind", "type", "status", "reason"),
            registry=registry,
        )
        registry.register(_Caches())
        prometheus.ProcessCollector(registry=registry)
        prometheus.PlatformCollector(registry=registry)
        prometheus.GCCollector(registry=registry)

    def count_call(self, kind: str, result: CallResult, seconds: float, received: int, sent: int) -> None:
        kind = kind if kind in COMPOSERS else _OTHER
        self._seconds.labels(kind, result.value).observe(seconds)
        self._received.labels(kind).inc(received)
        self._sent.labels(kind).inc(sent)

    def count_conditions(self, kind: str, call: Call, outcome: Outcome) -> None:
        """Counts the conditions that are not True, unless Crossplane will call again with further resources."""
        if not outcome.requirements.keys() <= call.answers.keys():
            return
        kind = kind if kind in COMPOSERS else _OTHER
        self._reconciles.labels(kind).inc()
        for condition in outcome.conditions:
            if condition.status is not reasons.Status.TRUE:
                reason = condition.reason if condition.reason in _REASONS else _OTHER
                self._conditions.labels(kind, condition.type.value, condition.status.value, reason).inc()

    def listen(self, address: str) -> int:
        """Answers scrapes at `host:port` until the process ends; returns the port, which the system chooses for 0.

        Raises:
            OSError: The address is taken or not one of this machine.
            ValueError: It is not `host:port`.
        """
        parts = re.fullmatch(r"\[?([^\[\]]+)\]?:(\d{1,5})", address, re.ASCII)
        if parts is None or int(parts[2]) > _MAX_PORT:
            raise ValueError(f"want host:port with a port up to {_MAX_PORT}")
        addresses = socket.getaddrinfo(parts[1], parts[2], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        server = _Server(addresses[0], _Scrape.factory(self.registry))
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        return int(server.server_address[1])


class _Scrape(prometheus.MetricsHandler):
    timeout = 5  # seconds for slow scrapers, which others wait for


class _Server(TCPServer):
    # http.server's own server asks DNS for the name of the address, and waits for it.
    allow_reuse_address = True

    def __init__(self, address: tuple[Any, ...], handler: type) -> None:
        self.address_family, _, _, _, host_and_port = address
        super().__init__(host_and_port[:2], handler)

    def handle_error(self, *_: object) -> None:
        """Logs nothing: the scraper has disconnected."""


class _Caches(Collector):
    """Reads the counts of the caches at each scrape."""

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(
            "modelplane_memory_lookups",
            "Lookups in the caches that earlier calls filled, by result.",
            labels=("memory", "result"),
        )
        for name, stats in CACHE_STATS.items():
            family.add_metric((name, "hit"), stats.hits)
            family.add_metric((name, "miss"), stats.misses)
        yield family
