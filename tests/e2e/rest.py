"""Waits until nothing is written on either cluster."""

import time
from collections.abc import Callable, Iterator

from function.kube.manifests import Manifest, get, mapping, text
from function.remote.node_collection import MEMBERSHIP
from tests.e2e.world import World
from tools.stack.waiting import until

QUIET_SECONDS = 8
_HUB = ("ModelDeployment", "ModelPlacement", "ModelService", "InferenceEnvironment", "ClusterModel", "Object", "Event")
_REMOTE = ("LLMInferenceService", "Deployment", "LeaderWorkerSet", "PersistentVolumeClaim", "Job")


def wait_for_rest(world: World) -> None:
    """Wait until nothing is being deleted, also of earlier scenarios, and nothing is written any more."""
    until("everything to come to rest", lambda: _stays(world) and not _written(world, QUIET_SECONDS))


def require_rest(world: World, seconds: float, counter: Callable[[], int]) -> int:
    """Wait until everything has come to rest, require that it stays so, and return what was counted meanwhile."""
    wait_for_rest(world)
    before = counter()
    if written := _written(world, seconds):
        raise AssertionError(f"written in {seconds:g} seconds of rest: {', '.join(written)}")
    return counter() - before


def _stays(world: World) -> bool:
    """Return whether nothing is on its way out: provider-kubernetes looks at that only after 1, 2, 4, ... seconds."""
    if leaving := [key for key, each in _found(world) if get(each, "metadata.deletionTimestamp")]:
        raise LookupError(", ".join(leaving))
    return True


def _written(world: World, seconds: float) -> list[str]:
    """Return what is written, comes or goes in the seconds from now."""
    before = _versions(world)
    time.sleep(seconds)
    after = _versions(world)
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _versions(world: World) -> dict[str, str]:
    return {key: text(each, "metadata.resourceVersion") for key, each in _found(world)}


def _found(world: World) -> Iterator[tuple[str, Manifest]]:
    for cluster, kinds in ((world.stack.hub, _HUB), (world.stack.remote, _REMOTE)):
        for kind in kinds:
            for each in cluster.find(kind):
                # A node's Object is written with every heartbeat, and nothing may follow from it.
                if MEMBERSHIP not in mapping(each, "metadata.labels"):
                    yield f"{kind} {text(each, 'metadata.namespace')}/{text(each, 'metadata.name')}", each
