"""Measures what ways out of a refusal cost, over a thousand environments that all refuse a deployment.

A call finds some of them, once until something changes. `plan --ways-out` also looks for placements of others that
could move: here each belongs to a deployment that is known, and fits on every other environment or on none.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import click

from bench.fleet import FLEET, MODEL, TOO_LARGE
from function.api.model_deployment import parse_deployment
from function.cli.composing import reconcile
from function.cli.store import Store, read_placements
from function.composers import compose
from function.composers.model_deployment import WAYS_OUT, Scheduling, decide
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, mapping
from function.scheduling.verdicts import SchedulingRequest
from function.scheduling.ways_out import FindRequest, find_ways_out

RUNS = 9
# Each environment has room for six replicas, and for seven if one of its placements moves.
SEVEN: Manifest = {"signal": "Fixed", "fixed": {"replicas": 7}}
CROWDED: Manifest = {**TOO_LARGE, "spec": {**mapping(TOO_LARGE, "spec"), "scaling": SEVEN}}


def fastest(run: Callable[[], object]) -> float:
    """Return the processor milliseconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        run()
        times.append(1000 * (time.process_time() - begun))
    return min(times)


def _know(request: SchedulingRequest) -> FindRequest:
    """Return what knows one request, for the deployments of all placements."""
    return lambda _: request


def main() -> None:
    """Measure and print."""
    store = Store([MODEL, *FLEET["InferenceEnvironment"], *FLEET["ModelPlacement"]])
    others = read_placements(store)
    for what, xr in (("too large for every pool", TOO_LARGE), ("fits if another moves", CROWDED)):
        call, _ = reconcile(store, xr)
        record = decide(call, parse_deployment(call.xr), BUILT_IN)
        assert isinstance(record, Scheduling)
        wanted = record.request.deployment

        def search() -> None:
            WAYS_OUT.__init__()  # type: ignore[misc]  # as it was made
            compose(call)  # noqa: B023  # called before the next round

        known, anew = fastest(lambda: compose(call)), fastest(search)  # noqa: B023  # likewise
        click.echo(f"{what:<26}a call {known:6.1f} ms   with a search {anew:6.1f} ms")
        for which, replicas in (("everywhere", 1), ("nowhere", 8)):
            theirs = replace(record.request, deployment=replace(wanted, name="other", replicas=replicas))
            world = record.take_snapshot(others, _know(theirs))
            took = fastest(lambda: find_ways_out(world, record.decision))  # noqa: B023  # likewise
            ways = find_ways_out(world, record.decision)
            click.echo(f"  others fit {which:<13}all ways out {took:6.1f} ms   {len(ways)} found")


if __name__ == "__main__":
    main()
