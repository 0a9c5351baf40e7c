"""Sends requests to the function and judges its answers.

In process, where processor time is seen, and every so many over gRPC to a server: what is no request gets
INVALID_ARGUMENT and a message there, and every other an answer. One request in a hundred is certainly none.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random

import grpc
from crossplane.function.proto.v1.run_function_pb2 import SEVERITY_FATAL, RunFunctionResponse

from bench.fuzz.encoding import damaged, encoded, malformed
from bench.fuzz.mutation import cases, mutated
from bench.servers import Server
from function.kube.manifests import mapping, text
from function.kube.messages import LIMIT
from function.reasons import OPTIONAL, OWNED
from function.runner import Runner
from function.wire import MalformedError

SLOW_SECONDS, SMALL = 1.0, 1_000_000
OVER_GRPC, NO_REQUEST = 20, 100


@dataclass(slots=True)
class Counts:
    """What was seen, and the first number of each kind of failure."""

    requests: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0

    def fail(self, what: str, number: int) -> None:
        """Take note of a failure."""
        self.wrong[what] += 1
        self.first.setdefault(what, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of the fuzz. `hopeless`: it is certainly none. `asked`: only a spec has changed."""

    case: str
    kind: str
    data: bytes
    asked: bool
    hopeless: bool = False


def request(number: int) -> Request:
    """Return the request of a number."""
    return chosen(Random(number), hopeless=number % NO_REQUEST == 0)  # noqa: S311  # the same for the same number


def chosen(random: Random, *, hopeless: bool = False) -> Request:
    """Return the request of so many choices, or what is certainly none."""
    case, parts, asked = mutated(random)
    kind = text(mapping(parts, "xr"), "kind")
    if hopeless:
        return Request(case=case, kind=kind, data=malformed(parts, random), asked=False, hopeless=True)
    data = encoded(parts, random)
    if random.random() < 0.02:
        return Request(case=case, kind=kind, data=damaged(data, random), asked=False)
    return Request(case=case, kind=kind, data=data, asked=asked)


def ask(counts: Counts, runner: Runner, server: Server | None, number: int, sent: Request) -> None:
    """Send a request in process and, at times, over gRPC."""
    counts.requests += 1
    counts.kinds[sent.case.partition("/")[0]] += 1
    begun = time.process_time()
    try:
        response = runner._answer(sent.data)  # noqa: SLF001  # what the server does with the bytes
    except MalformedError:
        counts.kinds["malformed"] += 1
        response = None
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        counts.fail(f"crash: {type(error).__name__}", number)
        return
    spent = time.process_time() - begun
    if len(sent.data) < SMALL:
        counts.slowest = max(counts.slowest, spent)
        if spent > SLOW_SECONDS:
            counts.fail("slow", number)
    if response is not None:
        _judge(counts, number, sent, response)
    if server and number % OVER_GRPC == 0:
        _over(counts, server, number, sent.data, no_request=response is None)


def _judge(counts: Counts, number: int, sent: Request, response: RunFunctionResponse) -> None:
    """Take note of what no answer may be."""
    if sent.hopeless:
        counts.fail("answered what is no request", number)
    if any(result.severity == SEVERITY_FATAL for result in response.results):
        counts.fail("fatal", number)
    if any(condition.reason == "InternalError" for condition in response.conditions):
        counts.fail("internal error", number)
    types = {c.type for c in response.conditions} - OPTIONAL
    if sent.kind in OWNED and types not in ({*OWNED[sent.kind]} - OPTIONAL, set()):
        counts.fail("conditions", number)
    said = [*(c.message for c in response.conditions), *(r.message for r in response.results)]
    if any(len(message.encode()) > LIMIT for message in said):
        counts.fail("a message without bound", number)
    if len(response.SerializeToString()) > 2 * len(sent.data) + SMALL:
        counts.fail("a response without bound", number)
    if sent.asked and _unchanged(sent.case) - _services(response):
        counts.fail("a service dropped", number)


@cache
def _unchanged(case: str) -> frozenset[str]:
    """Return the services that are there in a case and that it keeps as it is."""
    parts = next(found.read() for found in cases() if found.name == case)
    response = Runner()._answer(encoded(parts))  # noqa: SLF001  # the bytes, as a server has them
    return _services(response) & mapping(parts, "observed").keys()


def _services(response: RunFunctionResponse) -> frozenset[str]:
    return frozenset(name for name in response.desired.resources if name.startswith("service-"))


def _over(counts: Counts, server: Server, number: int, data: bytes, *, no_request: bool) -> None:
    """Send a request over gRPC: what is no request gets INVALID_ARGUMENT with a sentence."""
    counts.kinds["over gRPC"] += 1
    try:
        server.call(data)
    except grpc.RpcError as error:
        refused = error.code() is grpc.StatusCode.INVALID_ARGUMENT and " " in (error.details() or "")
        if not (no_request and refused):
            counts.fail(f"gRPC {error.code()}", number)
        counts.kinds["INVALID_ARGUMENT"] += refused
    else:
        if no_request:
            counts.fail("gRPC answered what is no request", number)


def tell(counts: Mapping[str, int]) -> str:
    """Return counts in one line."""
    return ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
