"""Scenario 20: every process of the stack is killed and started again, one at a time, while ten models serve.

One deployment for each way weights reach pods, and six of one node. What ends because another went away is started
again, as a kubelet would.
"""

import time
from collections.abc import Callable
from functools import partial

import pytest

from function.kube.manifests import Manifest, condition
from tests.e2e.objects import cache, deployment, environment, model, pool, spanning
from tests.e2e.test_05_own_claim import CLAIM
from tests.e2e.world import World
from tools.stack import inventory, release
from tools.stack.namespace import HOLDER
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "restarts"
SMALL = [f"small-{number}" for number in range(5)]
NAMES = [*SMALL, "own", "shared", "cached", "mine", "kept"]


@pytest.fixture(scope="module")
def running(world: World) -> dict[str, str]:
    """Let ten models serve, and return what there is of them on the cluster."""
    world.team(TEAM)
    claim: Manifest = {**CLAIM, "metadata": {"name": "mine", "namespace": TEAM}}
    for manifest in (*inventory.namespaces(TEAM), claim):
        world.stack.remote.apply(manifest)
    wide = pool("gpus", maxNodeCount=4)
    world.apply(
        environment("claims", wide),
        environment("shared", wide, storage={"storageClassName": "shared-vast", "mode": "Shared"}),
        environment("spare", pool("gpus", labels={"modelplane.ai/pool": "h100"})),
        model("small"),
        model("large", profile=spanning(2, 2), resources={"disk": "20Gi"}),
        cache(TEAM, "bytes", "large", ["claims"]),
        *(deployment(TEAM, name, "small", on="claims") for name in SMALL),
        deployment(TEAM, "own", "large", on="claims"),
        deployment(TEAM, "shared", "large", on="shared"),
        deployment(TEAM, "cached", "large", on="claims", modelCache={"name": "bytes"}),
        deployment(TEAM, "mine", "large", on="claims", modelCache={"claimName": "mine"}),
        deployment(TEAM, "kept", "large", on="claims", modelCache={"type": "PVC", "retain": True}),
    )
    for name in NAMES:
        world.ready(TEAM, name)
    return world.remote_uids(TEAM)


def test_each_process_is_killed_in_turn(
    world: World, running: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    programs = [r.program.name for r in world.stack.processes.records() if r.program.name != HOLDER]
    took: list[str] = []
    for name in programs:
        started = time.monotonic()
        world.stack.processes.start(world.stack.processes.kill(name))
        until(f"a model to be served after {name} was killed", partial(_serves, world, f"after-{name}"))
        took.append(f"{name} {time.monotonic() - started:.0f}")
        for each in NAMES:
            world.ready(TEAM, each)
        assert running.items() <= world.remote_uids(TEAM).items(), name
    release.publish(world.stack.home)  # the registry's list of what it has was in its memory
    record_property("seconds until a new model is served", ", ".join(took))
    world.remove(TEAM, *NAMES, *(f"after-{name}" for name in programs))


def _serves(world: World, name: str) -> bool:
    """Start again what ended, and tell whether a deployment made now is Ready."""
    for ended in world.stack.processes.dead():
        world.stack.processes.start(world.stack.processes.stop(ended))
    if world.stack.hub.get("ModelDeployment", name, TEAM) is None:
        world.stack.hub.apply(deployment(TEAM, name, "small", on="spare"))
    return condition(world.deployment(TEAM, name), "Ready").get("status") == "True"
