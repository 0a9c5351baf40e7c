"""Measures one server process: calls per second, the longest latency, and memory.

Clients have a connection each and call as fast as they are answered, over TLS as Crossplane does; the server answers
one call after the other, so that the longest wait is about the number of clients times what a call takes. Large is the
call of a ModelDeployment that fits nowhere, over all environments; small is a ModelPlacement's. Memory is then watched
over ten thousand calls of a thousand composites: bounded means that the second half adds nothing.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from bench.decide import Scene, at_rest
from bench.fleet import CACHE, DEPLOYMENT, TOO_LARGE, environment, served
from bench.servers import Server, connected, serving
from function.kube.manifests import mapping
from tests.server import certificates

CLIENTS = (1, 8, 32, 100)
# Of each, in seconds on an idle machine: five.
CALLS = {"large": 200, "small": 2000}
REFUSED, PLACEMENT = "ModelDeployment, refused", "ModelPlacement"
ASKING = {
    REFUSED: TOO_LARGE,
    "ModelDeployment, placed": DEPLOYMENT,
    "ModelCache": CACHE,
    "InferenceEnvironment": environment(1),
    PLACEMENT: served(),
}
# Of ten composites, and as many calls.
MIX = (REFUSED, *("ModelDeployment, placed",) * 2, "ModelCache", "InferenceEnvironment", *(PLACEMENT,) * 5)
COMPOSITES, LAPS = 1_000, 10


def load(server: Server, folder: Path, clients: int, request: bytes, calls: int) -> str:
    """Return throughput, what a call takes and costs, and the most memory, with so many clients at once."""
    server.forget_peak()
    with ExitStack() as stack, ThreadPoolExecutor(clients) as threads:
        connections = [stack.enter_context(connected(server.running, folder)) for _ in range(clients)]
        for each in connections:
            each.call(request)

        def work(connection: Server) -> list[float]:
            return [connection.call(request)[1] for _ in range(calls // clients)]

        begun, before = time.perf_counter(), server.processor_milliseconds()
        taken = list(itertools.chain.from_iterable(threads.map(work, connections)))
        seconds, spent = time.perf_counter() - begun, server.processor_milliseconds() - before
    return (
        f"{len(taken) / seconds:7.1f} calls/s   median {statistics.median(taken):7.0f} ms   "
        f"longest {max(taken):7.0f} ms   cpu {spent / len(taken):5.1f} ms   peak {server.peak_megabytes():4.0f} MB"
    )


def composites(scenes: Mapping[str, Scene]) -> Iterator[bytes]:
    """Yield a call of each of a thousand composites, mixed."""
    # What is required is the same for all of a kind, and made once; messages one after the other are one message.
    required = {name: replace(scene, xr={}, observed={}).request() for name, scene in scenes.items()}
    for number in range(COMPOSITES):
        name = MIX[number % len(MIX)]
        scene = scenes[name]
        metadata = {**mapping(scene.xr, "metadata"), "name": f"composite-{number}", "uid": f"uid-{number}"}
        yield replace(scene, xr={**scene.xr, "metadata": metadata}, required={}).request() + required[name]


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates.write(folder)
        server = stack.enter_context(serving(folder / "server", folder))
        rest = server.megabytes()
        scenes = {name: at_rest(server, xr) for name, xr in ASKING.items()}
        for name, scene in scenes.items():
            request = scene.request()
            response, _ = server.call(request)
            click.echo(
                f"{name:<26}request {len(request) / 1000:8.1f} kB   response {response.ByteSize() / 1000:5.1f} kB"
            )
        for name, scene in (("large", scenes[REFUSED]), ("small", scenes[PLACEMENT])):
            for clients in CLIENTS:
                click.echo(f"{name} {clients:4} clients  {load(server, folder, clients, scene.request(), CALLS[name])}")
        with serving(folder / "watched", folder) as watched:
            readings = [f"at rest {rest:.0f}"]
            for lap in range(1, LAPS + 1):
                for request in composites(scenes):
                    watched.call(request)
                readings.append(f"{lap * COMPOSITES} calls {watched.megabytes():.0f}")
            click.echo(f"memory in MB: {', '.join(readings)}; peak {watched.peak_megabytes():.0f}")


if __name__ == "__main__":
    main()
