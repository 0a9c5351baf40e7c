"""Rest: what nobody writes any more, on either cluster."""

import time
from collections.abc import Callable

from function.kube.manifests import mapping, text
from function.lifecycle.node_collection import MEMBERSHIP
from tests.e2e.world import World
from tools.stack.waiting import until

QUIET_SECONDS = 8
_HUB = ("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ClusterModel", "Object", "Event")
_REMOTE = ("LLMInferenceService", "Deployment", "LeaderWorkerSet", "PersistentVolumeClaim", "Job")


def require_rest(world: World, seconds: float, counter: Callable[[], int]) -> int:
    """Wait until everything has come to rest, require that it stays so, and return what was counted meanwhile."""
    until("everything to come to rest", lambda: not _written(world, QUIET_SECONDS))
    before = counter()
    assert not _written(world, seconds)
    return counter() - before


def _written(world: World, seconds: float) -> list[str]:
    """Return what is written, comes or goes in the seconds from now."""
    before = _versions(world)
    time.sleep(seconds)
    after = _versions(world)
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _versions(world: World) -> dict[str, str]:
    found = [(kind, world.stack.hub.find(kind)) for kind in _HUB]
    found += [(kind, world.stack.remote.find(kind)) for kind in _REMOTE]
    return {
        f"{kind} {text(each, 'metadata.namespace')}/{text(each, 'metadata.name')}": text(
            each, "metadata.resourceVersion"
        )
        for kind, items in found
        for each in items
        # A node's Object is written with every heartbeat, and nothing may follow from it.
        if MEMBERSHIP not in mapping(each, "metadata.labels")
    }
