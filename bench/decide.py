"""How long a decision over a large fleet takes, as a multiple of an echo of the same payload.

Both servers are processes on loopback and are called in turns, each time with maps in another order. Cold is
the first such call of a process. Warm are the later ones, of which some find a hundredth of the placements
changed, and some look through every environment in vain. The client sends bytes that it made before, so that
only servers are compared; `client too` is the same call as a client of the SDK makes it, whose own work is
in both figures. Processor time is the servers' alone, and the figure to read where others use the machine
too. Aim: warm at most twice the echo, at most 150 MB of memory.
"""

import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import click
import grpc
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse

from bench import wire
from bench.fleet import CACHE, DEPLOYMENT, FLEET, PLACEMENTS, TOO_LARGE, environment, placement
from function.kube.manifests import Manifest
from tests.server.processes import Running, started

ECHO = (sys.executable, "-m", "bench.echo")
ROUNDS = 15
ORDER = Random(7)  # noqa: S311  # the same orders in every run
Required = Mapping[str, Sequence[Manifest]]
Request = bytes | RunFunctionRequest


def call(server: Running, request: Request) -> tuple[RunFunctionResponse, float]:
    """Return the response and how many milliseconds it took."""
    with grpc.insecure_channel(server.address) as channel:
        grpc.channel_ready_future(channel).result(30)
        run = channel.unary_unary(
            "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction",
            request_serializer=None if isinstance(request, bytes) else RunFunctionRequest.SerializeToString,
            response_deserializer=RunFunctionResponse.FromString,
        )
        begun = time.perf_counter()
        response = run(request, timeout=120)
        return response, 1000 * (time.perf_counter() - begun)


def required(ours: Running, xr: Manifest) -> Required:
    """Return the fleet under the names that the function asks for it."""
    response, _ = call(ours, wire.request(xr, {}, ORDER))
    return {name: FLEET[selector.kind] for name, selector in response.requirements.resources.items()}


def changed(fleet: Required) -> Required:
    """Return the fleet with one placement in a hundred scaled to two replicas."""
    some = set(ORDER.sample(range(PLACEMENTS), PLACEMENTS // 100))
    placements = [placement(n) for n in range(PLACEMENTS)]
    for n in some:
        spec = placements[n]["spec"]
        assert isinstance(spec, dict)
        spec["replicas"] = 2
    return {name: placements if len(items) == PLACEMENTS else items for name, items in fleet.items()}


def peak_megabytes(server: Running) -> float:
    """Return the most memory that the process has held."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def processor_milliseconds(server: Running) -> float:
    """Return how long the process has been computing, all threads together."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return 1000 * (user + system) / os.sysconf("SC_CLK_TCK")


def measure(
    servers: Sequence[Running], xr: Manifest, fleets: Sequence[Required], request: type[Request]
) -> tuple[list[float], list[float]]:
    """Return each server's median milliseconds and mean processor milliseconds, called in turns."""
    times: list[list[float]] = [[] for _ in servers]
    before = [processor_milliseconds(server) for server in servers]
    for fleet in fleets:
        for server, taken in zip(servers, times, strict=True):
            made = wire.request(xr, fleet, ORDER)
            taken.append(call(server, made if request is bytes else RunFunctionRequest.FromString(made))[1])
    spent = [processor_milliseconds(s) - b for s, b in zip(servers, before, strict=True)]
    return [statistics.median(taken) for taken in times], [total / len(fleets) for total in spent]


def told(what: str, milliseconds: Sequence[float]) -> str:
    """Return ours, the echo's and their ratio."""
    ours, echo = milliseconds
    return f"{what} {ours:7.1f} / {echo:5.1f} ms = {ours / echo:5.2f}"


def main() -> None:
    """Measure and print."""
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        started(Path(one), "--insecure") as ours,
        started(Path(two), program=ECHO) as echo,
    ):
        fleet, cached, placed = (required(ours, xr) for xr in (DEPLOYMENT, CACHE, environment(1)))
        request = wire.request(DEPLOYMENT, fleet, ORDER)
        click.echo(f"request {len(request) / 1e6:.2f} MB, memory at rest {peak_megabytes(ours):.0f} MB")
        for name, xr, fleets, made in (
            ("cold", DEPLOYMENT, [fleet], bytes),
            ("warm", DEPLOYMENT, [fleet] * ROUNDS, bytes),
            ("warm, 1% changed", DEPLOYMENT, [changed(fleet) for _ in range(ROUNDS)], bytes),
            ("warm, nothing fits", TOO_LARGE, [fleet] * ROUNDS, bytes),
            ("cold, ModelCache", CACHE, [cached], bytes),
            ("warm, ModelCache", CACHE, [cached] * ROUNDS, bytes),
            ("cold, environment", environment(1), [placed], bytes),
            ("warm, environment", environment(1), [placed] * ROUNDS, bytes),
            ("warm, client too", DEPLOYMENT, [fleet] * ROUNDS, RunFunctionRequest),
            ("nothing, client too", TOO_LARGE, [fleet] * ROUNDS, RunFunctionRequest),
        ):
            taken, computed = measure((ours, echo), xr, fleets, made)
            click.echo(f"{name:<20}{told('time', taken)}   {told('processor', computed)}")
        response, _ = call(ours, request)
        click.echo(f"peak memory {peak_megabytes(ours):.0f} MB")
        click.echo(", ".join(f"{c.type} {c.reason}" for c in response.conditions))


if __name__ == "__main__":
    main()
