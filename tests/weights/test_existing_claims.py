"""An existing claim is judged by what it is, and a new one by what is requested: the first cannot be changed.

What an environment says of claims to come takes nothing from what lies on one; nor does it make more of a claim than it
is.
"""

import pytest

from function.contract import Call
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from function.weights.faults import FaultKind, StorageFault, find_faults_for_existing_claim
from tests.e2e import objects
from tests.support.plane import call, change, only, reconciled, remote, said
from tests.support.remote_scene import SEVERAL_NODES, Scene, edit_environment, edit_observed, load_scene, set_field
from tests.weights.test_node_local import Local
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

ONCE: Manifest = {"storageClassName": "disk", "accessMode": "ReadWriteOnce"}
MANY: Manifest = {"storageClassName": "nfs"}
PVC: Manifest = {"type": "PVC"}
STORAGE, SCHEDULED = "StorageReady", "Scheduled"
OTHER_IMAGE = "vllm/vllm-openai:v0.16.0"


def up(storage: Manifest, nodes: int = 1, *more: Manifest, cache: JSON = None, gpus: int = 8) -> ControlPlane:
    """Return a control plane on which a model of some nodes serves from a claim."""
    control = ControlPlane(renderer=Engine(call, None), world=World())
    made = objects.deployment("team", "llm", "llm", modelCache=cache or PVC)
    place = objects.environment("a", objects.pool("pool", maxNodeCount=8, acceleratorCount=gpus), storage=storage)
    control.apply([objects.model("llm", profile=_profile(nodes), **DISK), place, *more, made])
    control.settle()
    return control


DISK: dict[str, JSON] = {"resources": {"disk": "100Gi"}}


def _profile(nodes: int) -> Manifest:
    return objects.spanning(nodes, 8)


def edit(control: ControlPlane, kind: str, path: str, value: JSON) -> None:
    change(control, only(control, kind), path, value)
    control.settle()


def replicas(control: ControlPlane, number: int) -> None:
    edit(control, "ModelDeployment", "spec.scaling.fixed.replicas", number)


def reshape(control: ControlPlane, nodes: int) -> None:
    edit(control, "ClusterModel", "spec.serving", [{**_serving(control), **_profile(nodes)}])


def another_image(control: ControlPlane) -> None:
    serving = _serving(control)
    edit(
        control,
        "ClusterModel",
        "spec.serving",
        [{**serving, "engine": {**mapping(serving, "engine"), "image": OTHER_IMAGE}}],
    )


def _serving(control: ControlPlane) -> Manifest:
    (profile,) = listing(control.composites[only(control, "ClusterModel")], "spec.serving")
    return profile


def services(control: ControlPlane) -> dict[str, tuple[int, str]]:
    """Return the services with their replicas and image."""
    found = remote(control, only(control, "ModelPlacement"), "service-")
    return {
        key: (integer(s, "spec.replicas"), text(listing(s, "spec.template.containers")[0], "image"))
        for key, s in found.items()
    }


def modes(control: ControlPlane) -> list[JSON]:
    return [get(c, "spec.accessModes") for c in remote(control, only(control, "ModelPlacement"), "claim-").values()]


def test_refuses_second_replica_on_existing_read_write_once_claim() -> None:
    control = up(ONCE)
    before = services(control)
    edit(control, "InferenceEnvironment", "spec.storage", MANY)
    replicas(control, 2)
    assert modes(control) == [["ReadWriteOnce"]]
    assert services(control) == before
    deployment = only(control, "ModelDeployment")
    assert said(control, deployment, SCHEDULED) == ("False", "SharedStorageMissing")
    message = text(condition(control.composites[deployment], SCHEDULED), "message")
    assert "has 1 replica" in message
    assert "claim" in message
    assert "ReadWriteOnce" in message


def test_refuses_two_nodes_on_existing_read_write_once_claim() -> None:
    control = up(ONCE)
    before = services(control)
    edit(control, "InferenceEnvironment", "spec.storage", MANY)
    reshape(control, 2)
    assert services(control) == before, "a serving group is not replaced by a group that cannot start"
    assert said(control, only(control, "ModelPlacement"), STORAGE) == ("False", "ClaimNotShared")


@pytest.mark.parametrize("storage", [{}, ONCE, {**MANY, "storageClassName": "other"}], ids=str)
def test_keeps_existing_claim_when_settings_of_new_ones_change(storage: JSON) -> None:
    control = up(MANY, 2)
    claims = remote(control, only(control, "ModelPlacement"), "claim-")
    edit(control, "InferenceEnvironment", "spec.storage", storage)
    placement = only(control, "ModelPlacement")
    assert said(control, placement, STORAGE) == ("True", "Hydrated")
    assert remote(control, placement, "claim-") == claims
    another_image(control)
    assert [image for _, image in services(control).values()] == [OTHER_IMAGE], "an edit is applied at once"
    for number in (0, 2):
        replicas(control, number)
        assert [has for has, _ in services(control).values()] == [number]
        assert said(control, only(control, "ModelDeployment"), SCHEDULED) == ("True", "Placed")


def test_keeps_existing_claim_when_its_size_is_unset() -> None:
    control = up(MANY, 2)
    bare = objects.pool("pool", maxNodeCount=8, capabilities={"multiNodeCapable": True})
    edit(control, "InferenceEnvironment", "spec.nodePools", [bare])
    edit(control, "ClusterModel", "spec.resources", None)
    assert said(control, only(control, "ModelPlacement"), STORAGE) == ("True", "Hydrated")
    another_image(control)
    assert [image for _, image in services(control).values()] == [OTHER_IMAGE]


def test_cache_keeps_claim_and_serves_new_placements() -> None:
    cache = objects.cache("team", "weights", "llm", ["a"], storage={"size": "200Gi"})
    control = up(MANY, 2, cache, cache={"name": "weights"})
    control.delete(only(control, "ModelDeployment"))
    control.settle()
    edit(control, "InferenceEnvironment", "spec.storage", {})
    kept = only(control, "ModelCache")
    assert said(control, kept, "Hydrated") == ("True", "Hydrated")
    control.apply([objects.deployment("team", "later", "llm", modelCache={"name": "weights"})])
    control.settle()
    assert said(control, only(control, "ModelPlacement"), "ServiceReady") == ("True", "Serving")


def test_refuses_claim_that_does_not_exist() -> None:
    control = up({}, 2)
    deployment = only(control, "ModelDeployment")
    assert said(control, deployment, SCHEDULED) == ("False", "SharedStorageMissing")


def test_checks_another_claim_as_new() -> None:
    """The weights of another revision need a claim of their own, for which no class is set."""
    control = up(MANY, 2)
    before = services(control)
    edit(control, "InferenceEnvironment", "spec.storage", {})
    edit(control, "ClusterModel", "spec.huggingFace.revision", "v2")
    placement = only(control, "ModelPlacement")
    assert said(control, placement, STORAGE) == ("False", "ClaimPending")
    assert services(control) == before
    assert mapping(control.composites[placement], "status.storage")["completedAt"]


@pytest.mark.parametrize(
    ("storage", "gpus", "reported"),
    [(ONCE, 8, True), (ONCE, 15, True), (ONCE, 16, False), (MANY, 8, False)],
    ids=["tied", "no room for both", "room for both", "any node"],
)
def test_reports_rollout_that_needs_the_same_node(storage: Manifest, gpus: int, *, reported: bool) -> None:
    """Seven other nodes are free, but the claim is bound to this node."""
    control = up(storage, gpus=gpus)
    serving = _serving(control)
    engine = {**mapping(serving, "engine"), "image": OTHER_IMAGE}
    change(control, only(control, "ClusterModel"), "spec.serving", [{**serving, "engine": engine}])
    placement = only(control, "ModelPlacement")
    first = Call(xr=control.composites[placement], observed=control.store.owned(placement))
    _, outcome = reconciled(first, control.composites.values())
    said_of_it = [event.message for event in outcome.events if event.reason == "RolloutNeedsRoom"]
    assert bool(said_of_it) is reported
    cause = "its claim is ReadWriteOnce, so the new pod needs the node of the old one"
    assert all(cause in message for message in said_of_it)


NO_STORAGE = edit_environment("storage", None)
NO_NAMESPACE: JSON = [
    {"type": "Synced", "status": "False", "message": 'cannot apply: namespaces "assistants" not found'}
]


def _nothing_fetched(found: Scene) -> None:
    """Let the claim exist without any weights."""
    for key in [key for key in found.observed if key.startswith(("job-", "service-"))]:
        del found.observed[key]
    set_field(found.xr, "status", {})


def test_fills_existing_claim_whose_class_is_unset() -> None:
    found = load_scene(SEVERAL_NODES).edited(_nothing_fetched, NO_STORAGE)
    assert found.condition("StorageReady").reason == "Downloading"
    assert found.composed("job-")


def test_checks_claim_of_deleted_namespace_as_new() -> None:
    found = load_scene(SEVERAL_NODES).edited(NO_STORAGE, edit_observed("claim-", "status.conditions", NO_NAMESPACE))
    assert found.condition("StorageReady").reason == "ClaimPending"
    assert "requires shared storage" in found.condition("StorageReady").message


def test_a_cache_keeps_a_claim_of_one_pod_whatever_other_profiles_would_need() -> None:
    """A placement that reads from the cache knows the access mode of its claim, which refuses several pods."""
    cache = objects.cache("team", "weights", "llm", ["a"], storage={"size": "200Gi"})
    control = up(ONCE, 1, cache, cache={"name": "weights"})
    serving = _serving(control)
    edit(control, "ClusterModel", "spec.serving", [serving, {**serving, **_profile(2), "name": "wide"}])
    assert said(control, only(control, "ModelCache"), "Hydrated") == ("True", "Hydrated")
    assert said(control, only(control, "ModelPlacement"), "ServiceReady") == ("True", "Serving")


def test_a_cache_that_leaves_an_environment_takes_nothing_from_another_on_the_same_cluster() -> None:
    cache = objects.cache("team", "weights", "llm", ["a", "b"], storage={"size": "200Gi"})
    control = ControlPlane(renderer=Engine(call, None), world=World())
    places = [objects.environment(name, objects.pool("pool"), storage=MANY) for name in "ab"]
    control.apply([objects.model("llm", profile=_profile(1), **DISK), *places, cache])
    control.settle()
    there = remote(control, only(control, "ModelCache"), "")
    kinds = ("PersistentVolumeClaim", "Job")
    names = [(m["kind"], text(m, "metadata.name")) for m in there.values() if m["kind"] in kinds]
    assert len(names) == len(set(names)) == 4, "the cache has a claim and a Job on each environment"


def test_a_cache_on_a_claim_of_the_users_says_at_once_that_it_is_of_one_pod() -> None:
    cache = objects.cache("team", "weights", "llm", ["a"], storage={"claimName": "mine"})
    control = ControlPlane(renderer=Engine(call, None), world=Local())
    place = objects.environment("a", objects.pool("pool"), storage=MANY)
    control.apply([objects.model("llm", profile=_profile(2), **DISK), place, cache])
    control.settle()
    assert said(control, only(control, "ModelCache"), "Hydrated")[0] == "False"
    message = text(condition(control.composites[only(control, "ModelCache")], "Hydrated"), "message")
    assert "is ReadWriteOnce, and several nodes or replicas need ReadWriteMany" in message


@pytest.mark.parametrize(
    ("mode", "nodes", "replicas", "left"),
    [
        ("ReadWriteOnce", 1, 1, []),
        ("ReadWriteOnce", 2, 1, [FaultKind.CLAIM_NOT_SHARED]),
        ("ReadWriteOnce", 1, 2, [FaultKind.CLAIM_NOT_SHARED]),
        ("ReadWriteOnce", 2, 0, []),
        ("ReadWriteMany", 2, 2, []),
        ("", 2, 2, []),
    ],
)
def test_finds_faults_for_existing_claim(mode: str, nodes: int, replicas: int, left: list[FaultKind]) -> None:
    found = tuple(StorageFault(kind=kind, field="spec.x") for kind in FaultKind)
    of_a_new_one = {FaultKind.SIZE, FaultKind.STORAGE_CLASS, FaultKind.ACCESS_MODE, FaultKind.OWN_ACCESS_MODE}
    of_a_new_one.add(FaultKind.CLASS_NOT_FOUND)
    sizes = {FaultKind.OWN_SIZE, FaultKind.SHARED_SIZE, FaultKind.CLAIM_SIZE}
    stays = [kind for kind in FaultKind if kind not in of_a_new_one | sizes]
    assert [fault.kind for fault in find_faults_for_existing_claim(found, mode, nodes, replicas)] == [*stays, *left]
