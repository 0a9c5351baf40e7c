"""Scenario 16: an environment's ledger is wiped, the environment is made again, labels go, and users write placements
by hand. What runs keeps its GPUs, and no other placement gets them.
"""

from collections.abc import Iterator

import pytest

from function.kube.manifests import JSON, Manifest, condition, listing, mapping, text
from tests.e2e.objects import GROUP, deployment, environment, model, pool
from tests.e2e.world import World
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, PLACE = "ledger", "ledger"
# Nodes are not looked at: what is asserted of the status does not wait for them.
ONE_SLOT = environment(PLACE, pool("one", acceleratorCount=1, maxNodeCount=1), hardware={"observe": "Never"})
POLICY = SOURCE / "install" / "admission-policy.yaml"


@pytest.fixture(scope="module", autouse=True)
def before(world: World) -> Iterator[dict[str, str]]:
    """Let one deployment hold the only slot, and return what it has on the cluster."""
    world.team(TEAM)
    world.apply(model("ledger"), ONE_SLOT, deployment(TEAM, "runs", "ledger", on=PLACE))
    world.ready(TEAM, "runs")
    yield world.remote_uids(TEAM)
    world.remove(TEAM, "runs")


@pytest.fixture(autouse=True)
def untouched(world: World, before: dict[str, str]) -> Iterator[None]:
    """Nothing on the cluster may be gone, made again or added, whatever a test does."""
    yield
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=6)
    world.ready(TEAM, "runs")


def by_hand(name: str, **labels: JSON) -> Manifest:
    """Return a placement that asks for the slot."""
    return {
        "apiVersion": GROUP,
        "kind": "ModelPlacement",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {
            "modelRef": {"name": "ledger"},
            "inferenceEnvironmentRef": {"name": PLACE},
            "profile": "vllm",
            "pool": "one",
            "topology": {"nodes": 1, "gpusPerNode": 1},
        },
    }


def admitted(world: World) -> list[str]:
    return [text(row, "name") for row in listing(world.stack.hub.get("InferenceEnvironment", PLACE), "status.admitted")]


def mine(world: World) -> str:
    return text(world.placement(TEAM, "runs"), "metadata.name")


def test_who_writes_by_hand_waits_for_room(world: World) -> None:
    world.apply(by_hand("waits", **{"modelplane.ai/environment": PLACE}))
    found = world.wait("ModelPlacement", "waits", "Admitted", "False/Waiting", TEAM)
    until("the environment to have judged it", lambda: "no GPU is free" in _said(world, "waits"))
    assert not listing(found, "spec.crossplane.resourceRefs")
    world.stack.hub.delete("ModelPlacement", "waits", TEAM)


def _said(world: World, name: str) -> str:
    return text(condition(world.stack.hub.get("ModelPlacement", name, TEAM) or {}, "Admitted"), "message")


def test_without_its_label_nobody_finds_it(world: World) -> None:
    world.apply(by_hand("unfound"))
    found = world.wait("ModelPlacement", "unfound", "Admitted", "False/LabelMissing", TEAM)
    assert f"modelplane.ai/environment: {PLACE}" in text(condition(found, "Admitted"), "message")
    world.stack.hub.delete("ModelPlacement", "unfound", TEAM)


def test_a_policy_refuses_it_at_once(world: World) -> None:
    world.stack.kubectl("apply", "-f", str(POLICY))

    def refused() -> bool:
        try:
            world.stack.kubectl.apply([by_hand("refused")])
        except ChildProcessError as error:
            return f"modelplane.ai/environment must be {PLACE}" in str(error)
        world.stack.hub.delete("ModelPlacement", "refused", TEAM)
        return False

    until("the policy to be enforced", refused)
    world.stack.kubectl("delete", "-f", str(POLICY))


def test_what_is_repeated_is_written_over_what_was_seen_or_not(world: World) -> None:
    """Crossplane looks again after a conflict, and reports any other error."""
    stale = by_hand(mine(world), **{"modelplane.ai/environment": PLACE})
    mapping(stale, "metadata")["resourceVersion"] = "1"
    before = world.stack.hub.get("ModelPlacement", mine(world), TEAM)
    with pytest.raises(ChildProcessError, match=r"[Cc]onflict"):
        world.stack.kubectl.apply([stale], server_side=True)
    assert world.stack.hub.get("ModelPlacement", mine(world), TEAM) == before


def test_a_label_that_goes_frees_nothing(world: World) -> None:
    world.stack.hub.patch(
        "ModelPlacement", mine(world), {"metadata": {"labels": {"modelplane.ai/environment": None}}}, TEAM
    )
    steady("the admission", lambda: admitted(world) == [mine(world)], seconds=5)


def test_a_wiped_status_is_written_again(world: World) -> None:
    wiped: Manifest = {"status": {"admitted": None, "rejected": None, "pools": None, "gpus": None}}
    world.stack.hub.patch("InferenceEnvironment", PLACE, wiped, part="status")
    until("the ledger", lambda: admitted(world) == [mine(world)])


def test_an_environment_that_is_made_again_holds_what_runs(world: World) -> None:
    uid = text(world.stack.hub.get("InferenceEnvironment", PLACE), "metadata.uid")
    world.stack.hub.delete("InferenceEnvironment", PLACE)
    until("the environment to go", lambda: world.stack.hub.get("InferenceEnvironment", PLACE) is None)
    world.apply(ONE_SLOT, deployment(TEAM, "late", "ledger", on=PLACE))
    world.wait("InferenceEnvironment", PLACE, "Ready", "True")
    until("the ledger", lambda: admitted(world) == [mine(world)])
    world.wait("ModelDeployment", "late", "Scheduled", "False/InsufficientCapacity", TEAM)
    again = world.stack.hub.get("InferenceEnvironment", PLACE)
    assert text(again, "metadata.uid") != uid
    assert mapping(again, "status")["gpus"] == {"total": 1, "inUse": 1}
    world.remove(TEAM, "late")
