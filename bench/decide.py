"""Measures a call over a large fleet, as a multiple of an echo of the same payload.

Servers are processes on loopback that speak TLS, as with Crossplane, and are called in turns, each time with maps in
another order. Cold is the first such call of a process. Warm are later ones: of which some find a hundredth of the
placements changed, and some look through every environment in vain. At rest is what each kind is asked once all that it
composes is observed. The client sends bytes that it made before, so that only servers are compared; `client too` is the
same call as a client of the SDK makes it, whose own work is in both figures; `no certificate` is a server that knows
items by their content. Processor time is the servers' alone, and the figure to read where others use the machine too.
Aims: docs/performance.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import click
from crossplane.function.proto.v1.run_function_pb2 import ResourceSelector, RunFunctionRequest, RunFunctionResponse
from crossplane.function.resource import struct_to_dict

from bench import wire
from bench.fleet import CACHE, DEPLOYMENT, ENVIRONMENTS, FLEET, TOO_LARGE, environment, filled, served
from bench.servers import Server, serving
from function.kube.manifests import Manifest, mapping, text
from tests.server import certificates

ECHO = (sys.executable, "-m", "bench.echo")
ROUNDS = 15
COLD = 3
ORDER = Random(7)  # noqa: S311  # the same orders in every run
Required = Mapping[str, Sequence[Manifest]]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a call is about."""

    xr: Manifest
    required: Required
    observed: Mapping[str, Manifest]

    def request(self) -> bytes:
        """Return it on the wire, in another order every time."""
        return wire.request(self.xr, self.required, ORDER, self.observed)


def at_rest(server: Server, xr: Manifest, *, decided: bool = True) -> Scene:
    """Return the scene of a composite whose requirements are answered and, once it is decided, whose resources are
    observed.
    """
    scene = Scene(xr, {}, {})
    for _ in range(5):
        response, _ = server.call(scene.request())
        composite: Manifest = struct_to_dict(response.desired.composite.resource)
        scene = Scene(
            {**xr, "status": {**composite.get("status", {}), "conditions": _conditions(response)}},  # type: ignore[dict-item]  # a map
            {name: _matching(selector) for name, selector in response.requirements.resources.items()},
            {name: struct_to_dict(item.resource) for name, item in response.desired.resources.items() if decided},
        )
    return scene


def _conditions(response: RunFunctionResponse) -> list[Manifest]:
    words = {1: "Unknown", 2: "True", 3: "False"}
    return [{"type": c.type, "status": words[c.status], "reason": c.reason} for c in response.conditions]


def _matching(selector: ResourceSelector) -> list[Manifest]:
    name, labels = selector.match_name, dict(selector.match_labels.labels)
    return [
        item
        for item in FLEET.get(selector.kind, ())
        if name in {"", text(item, "metadata.name")} and labels.items() <= mapping(item, "metadata.labels").items()
    ]


def changing(scene: Scene) -> Iterator[bytes]:
    """Yield calls of which each finds the ledgers of a hundredth of the environments changed since the first."""
    for version in range(1_000_000, 1_000_000 + ROUNDS):
        some = set(ORDER.sample(range(ENVIRONMENTS), max(1, ENVIRONMENTS // 100)))
        found = [filled(n, version) if n in some else environment(n) for n in range(ENVIRONMENTS)]
        yield replace(scene, required={**scene.required, "selected-environments": found}).request()


def measure(
    servers: Sequence[Server], requests: Iterator[bytes], *, client: bool = False
) -> tuple[list[float], list[float]]:
    """Return each server's median milliseconds and mean processor milliseconds, called in turns."""
    times: list[list[float]] = [[] for _ in servers]
    before = [server.processor_milliseconds() for server in servers]
    calls = 0
    for request in requests:
        calls += 1
        for server, taken in zip(servers, times, strict=True):
            taken.append(server.call(RunFunctionRequest.FromString(request) if client else request)[1])
    spent = [s.processor_milliseconds() - b for s, b in zip(servers, before, strict=True)]
    return [statistics.median(taken) for taken in times], [total / calls for total in spent]


def tell(what: str, figures: tuple[Sequence[float], Sequence[float]]) -> None:
    """Print ours, the echo's and their ratio, of elapsed and of processor time."""
    cells = (f"{ours:7.1f} / {echo:5.1f} ms = {ours / echo:5.2f}" for ours, echo in figures)
    click.echo(f"{what:<30}{'   '.join(f'{name} {cell}' for name, cell in zip(('time', 'cpu'), cells, strict=True))}")


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates.write(folder)
        ours = stack.enter_context(serving(folder / "ours", folder))
        content = stack.enter_context(serving(folder / "content", None))
        echo = stack.enter_context(serving(folder / "echo", folder, ECHO))
        rest = ours.peak_megabytes()
        large, deployment = at_rest(content, TOO_LARGE), at_rest(content, DEPLOYMENT, decided=False)
        click.echo(f"request {len(deployment.request()) / 1e6:.2f} MB")
        tell("cold", _cold(folder, deployment))
        ours.call(deployment.request())
        steady = [deployment.request] * ROUNDS
        pair = (ours, echo)
        tell("warm", measure(pair, (make() for make in steady)))
        tell("warm, 1% changed", measure(pair, changing(deployment)))
        ours.call(large.request())
        tell("warm, nothing fits", measure(pair, (large.request() for _ in range(ROUNDS))))
        for kind, xr, rounds in (
            ("ModelDeployment", DEPLOYMENT, 10 * ROUNDS),
            ("ModelCache", CACHE, ROUNDS),
            ("InferenceEnvironment", environment(1), ROUNDS),
            ("ModelPlacement", served(), 10 * ROUNDS),
        ):
            scene = at_rest(ours, xr)
            tell(f"at rest, {kind}", measure(pair, (scene.request() for _ in range(rounds))))
        tell("warm, client too", measure(pair, (make() for make in steady), client=True))
        tell("warm, no certificate", measure((content, echo), (make() for make in steady)))
        click.echo(
            f"memory at rest {rest:.0f} MB, peak {ours.peak_megabytes():.0f} MB, without certificate "
            f"{content.peak_megabytes():.0f} MB, of the echo {echo.peak_megabytes():.0f} MB"
        )


def _cold(folder: Path, scene: Scene) -> tuple[list[float], list[float]]:
    """Return what the first calls of fresh processes take, ours and echoes."""
    found = []
    for n in range(COLD):
        with serving(folder / f"cold-{n}", folder) as fresh, serving(folder / f"echo-{n}", folder, ECHO) as echo:
            found.append(measure((fresh, echo), iter([scene.request()])))
    times, spent = (
        [statistics.median(column) for column in zip(*rows, strict=True)] for rows in zip(*found, strict=True)
    )
    return times, spent


if __name__ == "__main__":
    main()
