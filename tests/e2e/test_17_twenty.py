"""Scenario 17: twenty deployments at once on one environment: all become Ready, and how much work that was.

`make e2e-long` applies the same twenty services once more without us: what KServe takes by itself.
"""

import os
import time
from collections.abc import Callable

import pytest

from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, condition, mapping, text
from tests.e2e.calls import calls, conflicts, core_seconds, reconciles
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import wait_for_rest
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "twenty"
NAMES = [f"one-of-twenty-{number:02}" for number in range(20)]
# Before environments kept a ledger it was 2,000 (docs/performance.md). Conflicts are not counted, and neither are the
# calls that each composite gets after `ttl.pending`: the slower a machine is, the more of them there are.
MOST_CALLS = 900
COMPOSITES = 2 * len(NAMES) + 1


def test_twenty_at_once(world: World, record_property: Callable[[str, object], None]) -> None:
    world.team(TEAM)
    world.apply(model("twenty"), environment("twenty", pool("gpus", maxNodeCount=3)))
    world.wait("InferenceEnvironment", "twenty", "Ready", "True")
    wait_for_rest(world)
    before, started = _counted(), time.monotonic()
    world.apply(*(deployment(TEAM, name, "twenty", on="twenty") for name in NAMES))
    for name in NAMES:
        world.ready(TEAM, name)
    seconds = time.monotonic() - started
    number, ended, vain, busy = (now - then for now, then in zip(_counted(), before, strict=True))
    polls = COMPOSITES * int(seconds / BUILT_IN.ttl_pending)
    said = (
        f"{number} calls in {ended} reconciles, {vain} in vain, {polls} polls, {busy:.1f} s of core in {seconds:.0f} s"
    )
    record_property("until all are Ready", said)
    assert number - vain - polls <= MOST_CALLS
    services = world.stack.remote.find("LLMInferenceService", TEAM)
    world.remove(TEAM, *NAMES)
    if "E2E_LONG" in os.environ:
        record_property("the same services alone", f"{_alone(world, services):.0f} s")


def _counted() -> tuple[int, int, int, float]:
    return calls(), reconciles(), conflicts(), core_seconds()


def _alone(world: World, services: list[Manifest]) -> float:
    """Return the seconds until these services are ready, applied by us under other names once they are gone."""
    until("the services to go", lambda: not world.stack.remote.find("LLMInferenceService", TEAM))
    started = time.monotonic()
    for service in services:
        metadata: Manifest = {"name": f"{text(service, 'metadata.name')}-alone", "namespace": TEAM}
        bare = {key: service[key] for key in ("apiVersion", "kind")}
        world.stack.remote.apply({**bare, "metadata": metadata, "spec": mapping(service, "spec")})

    def ready() -> bool:
        found = world.stack.remote.find("LLMInferenceService", TEAM)
        return all(condition(each, "Ready").get("status") == "True" for each in found)

    until("all to be ready", ready)
    seconds = time.monotonic() - started
    for service in services:
        world.stack.remote.delete("LLMInferenceService", f"{text(service, 'metadata.name')}-alone", TEAM)
    return seconds
