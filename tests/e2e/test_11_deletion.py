"""Scenario 11: what goes with a deployment and what stays."""

import pytest

from function.kube.manifests import Manifest, condition, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack.layout import SOURCE
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, DOOMED = "leaving", "doomed"
_ENDING = "because it is being terminated"


def test_service_job_and_managed_claim_go_and_the_rest_stays(world: World) -> None:
    world.team(TEAM)
    shared: Manifest = {"storageClassName": "shared-vast", "mode": "Shared"}
    world.apply(
        environment("own", pool("gpus", maxNodeCount=4)),
        environment("shared", pool("gpus", maxNodeCount=4), storage=shared),
        model("leaving", profile=spanning(2, 8)),
        deployment(TEAM, "managed", "leaving", on="own"),
        deployment(TEAM, "common", "leaving", on="shared"),
    )
    for name in ("managed", "common"):
        world.ready(TEAM, name)
    namespace = text(world.stack.remote.get("Namespace", TEAM), "metadata.uid")

    world.remove(TEAM, "managed", "common")
    until("services and groups to go", lambda: not _kinds(world, "LLMInferenceService", "LeaderWorkerSet"))
    until("the managed claim to go", lambda: _names(world, "PersistentVolumeClaim") == ["model-cache"])
    assert text(world.stack.remote.get("Namespace", TEAM), "metadata.uid") == namespace
    until("the hub to be clean", lambda: not world.stack.hub.find("Object", TEAM))
    assert not world.stack.hub.find("ModelPlacement", TEAM)


def test_a_namespace_that_goes_first_is_freed_by_the_documented_patch(world: World) -> None:
    """No ProviderConfigUsage can be made in it, so the provider cannot connect to finish what it deletes."""
    world.team(DOOMED)
    world.apply(
        environment("doomed", pool("gpus", maxNodeCount=4)),
        model("doomed", profile=spanning(1, 2)),
        deployment(DOOMED, "runs", "doomed", on="doomed"),
    )
    world.ready(DOOMED, "runs")
    world.stack.hub.delete("Namespace", DOOMED)
    stuck = until("the provider to say that it cannot", lambda: _stuck(world))
    world.stack.remote.delete("Namespace", DOOMED)
    until("what runs there to go, by hand", lambda: world.stack.remote.get("Namespace", DOOMED) is None)
    for name in stuck:
        world.stack.kubectl(
            "-n", DOOMED, "patch", "objects.kubernetes.m.crossplane.io", name, "--type", "merge", "-p", _documented()
        )
    until("the namespace to go", lambda: world.stack.hub.get("Namespace", DOOMED) is None)


def _stuck(world: World) -> list[str]:
    """Return the Objects that are left, once one of them says what the page quotes."""
    left = world.stack.hub.find("Object", DOOMED)
    said = [text(condition(each, "Synced"), "message") for each in left]
    quoted = any(
        m.startswith("connect failed: cannot track ProviderConfig usage") and m.endswith(_ENDING) for m in said
    )
    return [text(each, "metadata.name") for each in left] if quoted else []


def _documented() -> str:
    page = (SOURCE / "docs" / "troubleshooting.md").read_text()
    return page.partition("objects.kubernetes.m.crossplane.io NAME --type merge -p '")[2].partition("'")[0]


def _names(world: World, kind: str) -> list[str]:
    return [text(found, "metadata.name") for found in world.stack.remote.find(kind, TEAM)]


def _kinds(world: World, *kinds: str) -> list[str]:
    return [name for kind in kinds for name in _names(world, kind)]
