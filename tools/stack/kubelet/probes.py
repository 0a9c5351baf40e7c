"""The probes of one container, as the kubelet runs them."""

import http.client
import time
from dataclasses import dataclass, field
from enum import StrEnum

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from function.kube.manifests import Manifest, integer, mapping, text


class Kind(StrEnum):
    """Which probe."""

    STARTUP = "startupProbe"
    READINESS = "readinessProbe"
    LIVENESS = "livenessProbe"


@dataclass(slots=True)
class Probe:
    """One probe, and what it has said so far."""

    spec: Manifest
    address: str
    began: float
    failures: int = 0
    successes: int = 0
    last: str = ""
    _next: float = field(default=0.0)

    def run(self) -> None:
        """Asks once, if it is time."""
        now = time.time()
        if now < max(self._next, self.began + integer(self.spec, "initialDelaySeconds")):
            return
        self._next = now + integer(self.spec, "periodSeconds", 10)
        self.last = ask(self.spec, self.address)
        self.failures, self.successes = (self.failures + 1, 0) if self.last else (0, self.successes + 1)

    @property
    def passed(self) -> bool:
        """Whether it succeeded often enough in a row."""
        return self.successes >= integer(self.spec, "successThreshold", 1)

    @property
    def failed(self) -> bool:
        """Whether it failed too often in a row."""
        return self.failures >= integer(self.spec, "failureThreshold", 3)


def ask(probe: Manifest, address: str) -> str:
    """Asks over HTTP or gRPC; returns why the probe failed, or nothing if it succeeded."""
    if mapping(probe, "grpc"):
        return _ask_health(probe, address)
    check = mapping(probe, "httpGet")
    if not check or text(check, "scheme") == "HTTPS":
        # The services of the tests serve plain HTTP; another probe must not count as answered.
        raise NotImplementedError(f"the kubelet's stand-in cannot probe {probe}")
    connection = http.client.HTTPConnection(
        text(check, "host") or address, integer(check, "port"), timeout=integer(probe, "timeoutSeconds", 1)
    )
    try:
        connection.request("GET", text(check, "path") or "/")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


def _ask_health(probe: Manifest, address: str) -> str:
    target = f"{address}:{integer(probe, 'grpc.port')}"
    with grpc.insecure_channel(target) as channel:
        request = health_pb2.HealthCheckRequest(service=text(probe, "grpc.service"))
        try:
            status = (
                health_pb2_grpc.HealthStub(channel).Check(request, timeout=integer(probe, "timeoutSeconds", 1)).status
            )
        except grpc.RpcError as error:
            return f"gRPC probe failed: {error.code().name}"
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(status)
    return "" if name == "SERVING" else f"gRPC probe failed with status {name}"


@dataclass(slots=True)
class Health:
    """What the probes of one start of a container say: whether it has started, is ready, and must be restarted."""

    container: Manifest
    address: str
    began: float
    started: bool = False
    ready: bool = False
    must_restart: str = ""
    _probes: dict[Kind, Probe] = field(init=False)

    def __post_init__(self) -> None:
        """Without a probe nothing is asked."""
        self._probes = {
            kind: Probe(mapping(self.container, kind), self.address, self.began)
            for kind in Kind
            if mapping(self.container, kind)
        }
        self.started = Kind.STARTUP not in self._probes
        self.ready = self.started and Kind.READINESS not in self._probes

    def run(self, *, is_ending: bool) -> None:
        """Runs what is due: the startup probe alone until it succeeds; of a container that ends only readiness."""
        if not self.started:
            probe = self._probes[Kind.STARTUP]
            probe.run()
            self.started = probe.passed
            self._note_failure(Kind.STARTUP)
            self.ready = self.started and Kind.READINESS not in self._probes
        elif readiness := self._probes.get(Kind.READINESS):
            readiness.run()
            self.ready = readiness.passed or (self.ready and not readiness.failed)
        if self.started and not is_ending and (liveness := self._probes.get(Kind.LIVENESS)):
            liveness.run()
            self._note_failure(Kind.LIVENESS)

    def _note_failure(self, kind: Kind) -> None:
        if self._probes[kind].failed:
            self.must_restart = f"{kind}: {self._probes[kind].last}"
