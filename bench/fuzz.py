"""`python -m bench.fuzz`: requests with anything anywhere, and what the function makes of them.

Each begins as one of the cases of the tests (tests/cases), all kinds and states. Up to three places of it, anywhere,
become something else: another type, NaN, infinities, depth, length, ten thousand of something, an object of somebody
else's. A request follows from its number, so that a failing one is seen again by `--first N --requests 1`. In process,
where processor time and memory are seen, and every so many over gRPC to a server as it is installed.
"""

import copy
import gc
import math
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import click
import grpc
import yaml
from crossplane.function import logging
from crossplane.function.proto.v1.run_function_pb2 import SEVERITY_FATAL, RunFunctionResponse

from bench import wire
from bench.servers import Server, serving
from function.adapter.split import MalformedError
from function.fn import Runner
from function.kube.manifests import JSON, Manifest, mapping, text
from function.report.bounded import LIMIT
from function.report.conditions import OWNED

CASES = Path(__file__).parents[1] / "tests" / "cases"
SLOW_SECONDS, SMALL = 1.0, 1_000_000
OVER_GRPC = 20
CONTEXT, INPUT = 5, 4
_PARTS = ("xr", "observed", "required", "input", "context")
_REMOVED = object()


@dataclass(slots=True)
class Counts:
    """What was seen, and the first requests of each kind of failure."""

    requests: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0

    def fail(self, what: str, number: int) -> None:
        """Take note of a failure."""
        self.wrong[what] += 1
        self.first.setdefault(what, number)


@cache
def cases() -> tuple[tuple[str, Manifest], ...]:
    """Return all cases by name."""
    found = sorted(CASES.glob("*/*.yaml"))
    return tuple((path.relative_to(CASES).as_posix(), yaml.safe_load(path.read_text())) for path in found)


def values(random: Random) -> object:
    """Return anything."""
    deep: JSON = "deep"
    for _ in range(random.choice((5, 30, 40, 48))):
        deep = {"a": deep} if random.random() < 0.5 else [deep]  # either is as good
    made: Callable[[], object] = random.choice(
        (
            lambda: _REMOVED,
            lambda: None,
            lambda: random.choice((True, False, 0, -1, 1, 2**53, 2**63, 1e308, -1e308, 0.5)),
            lambda: random.choice((math.nan, math.inf, -math.inf)),
            lambda: random.choice(
                ("", " ", "a" * 64, "a" * 254, "ü" * 5_000, "x" * 300_000, "\0", "../..", "{{.}}", "$(A)")
            ),
            lambda: random.choice(("1e999", "-1", "1Ei", "NaN", "1e-999", "80Gi", "0", "9" * 400, "1.5.5")),
            lambda: random.choice(([], {}, [[]], [{}], [None], [""], {"": ""}, {"name": None})),
            lambda: deep,
            lambda: [{"type": f"T{n % 50}", "status": "True", "reason": "R", "message": "m"} for n in range(10_000)],
            lambda: [{"name": "same"}] * random.choice((2, 300)),
            lambda: {f"key-{n}": "value" for n in range(random.choice((20, 2_000)))},
        )
    )
    return made()


def places(value: JSON, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def put(value: JSON, path: tuple[str | int, ...], new: object) -> None:
    """Replace what stands at a path, or remove it."""
    *way, last = path
    for key in way:
        value = value[key]  # type: ignore[index]  # a path of this value
    if new is _REMOVED:
        del value[last]  # type: ignore[union-attr,arg-type]  # likewise
    else:
        value[last] = copy.deepcopy(new)  # type: ignore[index,call-overload,assignment]  # likewise


def mutated(number: int) -> tuple[str, Manifest, bool]:
    """Return the case that a request of this number was, its parts, and whether only what is asked for has changed, and
    not what is there.
    """
    random = Random(number)  # noqa: S311  # the same request for the same number
    name, case = random.choice(cases())
    found = {part: copy.deepcopy(case[part]) for part in _PARTS if part in case}
    asked = True
    for _ in range(random.choice((1, 1, 2, 3))):
        paths = [path for path in places(found) if len(path) > 1]
        path = random.choice(paths)
        asked = asked and path[:2] == ("xr", "spec")
        try:
            put(found, path, values(random))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed it
    if "observed" in found and random.random() < 0.05:  # a foreign object under one of our keys, or two of one name
        mapping(found, "observed")["service-x"] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    return name, found, asked


def encoded(parts: Manifest, random: Random) -> bytes:
    """Return a request on the wire; what is no map where a map must be is left out, as protobuf could not say it."""
    manifests = {key: value for key, value in mapping(parts, "observed").items() if isinstance(value, dict)}
    required = {
        name: [item for item in items if isinstance(item, dict)]
        for name, items in mapping(parts, "required").items()
        if isinstance(items, list)
    }
    data = wire.request(mapping(parts, "xr"), required, random, manifests)
    for number, part in ((INPUT, "input"), (CONTEXT, "context")):
        data += wire.field(number, _payload(mapping(parts, part)))
    if random.random() < 0.02:  # bytes that are no request, or a text that is no text
        cut = random.randrange(len(data))
        data = data[:cut] + random.choice((b"", b"\xff", b"\xc3\x28")) + data[cut + 1 :]
    return data


def _payload(manifest: Manifest) -> bytes:
    """Return a Struct: a Resource without its first field's number and length."""
    whole = wire.resource(manifest)
    length = 1
    while whole[length] & 0x80:
        length += 1
    return whole[length + 1 :]


def judge(counts: Counts, number: int, kind: str, request: bytes, response: RunFunctionResponse) -> None:
    """Take note of what no answer may be."""
    if any(result.severity == SEVERITY_FATAL for result in response.results):
        counts.fail("fatal", number)
    if any(condition.reason == "InternalError" for condition in response.conditions):
        counts.fail("internal error", number)
    if kind in OWNED and {c.type for c in response.conditions} not in (set(OWNED[kind]), set()):
        counts.fail("conditions", number)
    said = [*(c.message for c in response.conditions), *(r.message for r in response.results)]
    if any(len(message.encode()) > LIMIT for message in said):
        counts.fail("a message without bound", number)
    if len(response.SerializeToString()) > 2 * len(request) + SMALL:
        counts.fail("a response without bound", number)


def keeps(counts: Counts, number: int, name: str, response: RunFunctionResponse) -> None:
    """Take note of services that go although the case as it is keeps them."""
    random = Random(number)  # noqa: S311  # any order
    case = dict(cases())[name]
    before = _services(Runner()._answer(encoded({p: case[p] for p in _PARTS if p in case}, _Still(random))))  # noqa: SLF001  # the bytes, as a server has them
    if before - _services(response):
        counts.fail("a service dropped", number)


class _Still(Random):
    """A source that breaks nothing."""

    def __init__(self, random: Random) -> None:
        super().__init__(random.random())

    def random(self) -> float:
        """Return what is never small."""
        return 0.5


def _services(response: RunFunctionResponse) -> set[str]:
    return {name for name in response.desired.resources if name.startswith("service-")}


def ask(counts: Counts, runner: Runner, server: Server | None, number: int) -> None:
    """Send one request, in process and, at times, over gRPC."""
    name, parts, asked = mutated(number)
    request = encoded(parts, Random(number))  # noqa: S311  # the same request for the same number
    kind = text(mapping(parts, "xr"), "kind")
    counts.requests += 1
    counts.kinds[name.partition("/")[0]] += 1
    begun = time.process_time()
    try:
        response = runner._answer(request)  # noqa: SLF001  # what the server does with the bytes
    except MalformedError:
        counts.kinds["malformed"] += 1
        response = None
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        counts.fail(f"crash: {type(error).__name__}", number)
        return
    spent = time.process_time() - begun
    if len(request) < SMALL:
        counts.slowest = max(counts.slowest, spent)
        if spent > SLOW_SECONDS:
            counts.fail("slow", number)
    if response is not None:
        judge(counts, number, kind, request, response)
        if asked:
            keeps(counts, number, name, response)
    if server and number % OVER_GRPC == 0:
        over(counts, server, number, request, malformed=response is None)


def over(counts: Counts, server: Server, number: int, request: bytes, *, malformed: bool) -> None:
    """Send a request over gRPC: what is no request gets INVALID_ARGUMENT with a sentence."""
    counts.kinds["over gRPC"] += 1
    try:
        server.call(request)
    except grpc.RpcError as error:
        said = error.code() is grpc.StatusCode.INVALID_ARGUMENT and " " in (error.details() or "")
        if not malformed or not said:
            counts.fail(f"gRPC {error.code()}", number)
    else:
        if malformed:
            counts.fail("gRPC answered what is no request", number)


def megabytes() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command(help=__doc__)
@click.option("--first", default=0, show_default=True, help="The first number.")
@click.option("--requests", default=100_000, show_default=True, help="So many.")
@click.option("--seconds", default=600.0, show_default=True, help="No longer than this.")
def main(first: int, requests: int, seconds: float) -> None:
    """Ask, and print what was seen; fails where anything was wrong."""
    logging.configure(logging.Level.DISABLED)
    counts, runner, memory = Counts(), Runner(), list[float]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving(folder / "server", None))
        until = time.monotonic() + seconds
        for number in range(first, first + requests):
            ask(counts, runner, server, number)
            if number % 1000 == 0:
                gc.collect()
                memory.append(megabytes())
            if time.monotonic() > until:
                break
        tell(counts, memory, server.peak_megabytes())
    sys.exit(bool(counts.wrong))


def tell(counts: Counts, memory: list[float], server: float) -> None:
    """Print what was seen."""
    click.echo(f"{counts.requests} requests: {_listed(counts.kinds)}")
    click.echo(f"slowest under 1 MB: {counts.slowest:.2f} s of processor")
    click.echo(
        f"peak memory after the first thousand {memory[min(1, len(memory) - 1)]:.0f} MB, at the end {memory[-1]:.0f} MB"
    )
    click.echo(f"peak memory of the server {server:.0f} MB")
    click.echo(f"wrong: {_listed(counts.wrong) or 'nothing'}")
    for what, number in counts.first.items():
        click.echo(f"python -m bench.fuzz --first {number} --requests 1   # {what}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
