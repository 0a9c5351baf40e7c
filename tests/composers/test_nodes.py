"""An environment and its nodes through the whole function: what is new counts on usable nodes, what serves stays."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from crossplane.function.resource import struct_to_dict, update
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from function.remote.composed_kinds import COLLECTION_KIND
from function.remote.node_collection import DEFINITION, MEMBERSHIP, name_collection
from tests.support.nodes import POOL, member, node
from tests.support.plane import call, change, manifests, only, request_of, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.remote_stages import uid
from tools.world import World

EAST = "h200-east"
NAME = name_collection(EAST)
COLLECTION = Ref(COLLECTION_KIND, "modelplane-system", NAME)
SERVED: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": DEFINITION},
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}
H200 = {POOL: "h200"}
QUICK = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(World):
    """Clusters whose nodes are listed as soon as they are required."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation."""
        observed = World.advance(self, resource, step)
        if text(resource, "kind") == COLLECTION_KIND:
            observed["status"] = {"membershipLabel": {MEMBERSHIP: NAME}}
        return observed


def four(**changed: Manifest) -> list[Manifest]:
    """Return the four nodes of the pool, some of which are others."""
    return [changed.get(f"gpu{number}") or node(f"gpu{number}", H200) for number in range(1, 5)]


def show(control: ControlPlane, nodes: Sequence[Manifest]) -> None:
    """Let these be the nodes of the cluster, and bring everything to rest."""
    for ref in control.store.refs("Object"):
        if MEMBERSHIP in mapping(control.store[ref], "metadata.labels"):
            control.store.drop(ref)
    for each in nodes:
        found = member(each, owner=uid(str(COLLECTION)))
        found["metadata"] = {**mapping(found, "metadata"), "labels": {MEMBERSHIP: NAME}}
        control.store.put(found)
    control.settle()


def at_rest(*more: Manifest, definition: Manifest | None = SERVED) -> ControlPlane:
    """Return Kimi K2 at rest on two of four nodes without an autoscaler."""
    control = ControlPlane(Engine(call), Lists())
    if definition:
        control.store.put(definition)
    found = manifests("kimi-k2-two-nodes")
    (environment,) = [m for m in found if m["kind"] == "InferenceEnvironment"]
    for pool in listing(environment, "spec.nodePools"):
        pool["nodeCount"] = 4
    control.apply([*found, *more])
    control.settle()
    return control


def another(name: str) -> Manifest:
    """Return one more deployment of Kimi K2."""
    (found,) = [m for m in manifests("kimi-k2-two-nodes") if m["kind"] == "ModelDeployment"]
    return {**found, "metadata": {**mapping(found, "metadata"), "name": name}}


def pools(control: ControlPlane) -> list[Manifest]:
    return listing(control.store[only(control, "InferenceEnvironment")], "status.pools")


def kept(control: ControlPlane) -> dict[Ref, Manifest]:
    """Return the specs of the placements, and of all that they composed."""
    refs = control.all("ModelPlacement")
    return {
        Ref.of(m): mapping(m, "spec") for ref in refs for m in (control.store[ref], *control.store.owned(ref).values())
    }


def test_publishes_node_facts() -> None:
    control = at_rest()
    environment = only(control, "InferenceEnvironment")
    assert said(control, environment, "HardwareAsDeclared") == ("False", "NoNodes")
    show(control, four())
    assert said(control, environment, "HardwareAsDeclared") == ("True", "AsDeclared")
    assert [pool["observed"] for pool in pools(control)] == [{"nodes": 4, "usable": 4, "gpusPerNode": 8}]


NOT_YET: Manifest = {"conditions": [{"type": "Established", "status": "False"}]}


@pytest.mark.parametrize("definition", [None, {**SERVED, "status": {}}, {**SERVED, "status": NOT_YET}])
def test_composes_no_collection_before_its_crd_is_established(definition: Manifest | None) -> None:
    control = at_rest(definition=definition)
    environment = only(control, "InferenceEnvironment")
    assert COLLECTION not in control.store
    assert said(control, environment, "HardwareAsDeclared") == ("Unknown", "NotObserved")
    assert said(control, environment, "Ready")[0] == "True"
    assert "observed" not in pools(control)[0]


def test_cordoned_node_blocks_only_new_placements() -> None:
    control = at_rest()
    cordoned = four(gpu3=node("gpu3", H200, cordoned=True))
    show(control, cordoned)
    before = kept(control)
    control.apply([another("late")])
    control.settle()
    late = Ref("ModelDeployment", "assistants", "late")
    assert said(control, late, "Scheduled") == ("False", "InsufficientCapacity")
    message = text(condition(control.store[late], "Scheduled"), "message")
    assert "0 fit: 4 nodes declared, 3 usable (gpu3 is cordoned), 2 in use by 1 other placement" in message
    assert message.endswith("InferenceEnvironment h200-east are usable (see its condition HardwareAsDeclared)")
    assert kept(control) == before
    show(control, four())
    assert said(control, late, "Scheduled") == ("True", "Placed")
    assert before.items() <= kept(control).items()


def test_reports_more_allocated_than_usable() -> None:
    """What runs on a cordoned node is in use: two of four nodes, of which one is left for what is new."""
    control = at_rest()
    show(control, four())
    show(control, four(**{f"gpu{n}": node(f"gpu{n}", H200, cordoned=True) for n in (1, 2, 3)}))
    control.apply([another("late")])
    control.settle()
    message = text(condition(control.store[Ref("ModelDeployment", "assistants", "late")], "Scheduled"), "message")
    assert "4 nodes declared, 1 usable (gpu1, gpu2, gpu3 are cordoned), 2 in use by 1 other placement" in message


def test_keeps_admission_when_node_disappears() -> None:
    """Both placements hold two nodes each; then none can be used, and both stay, served or not."""
    control = at_rest(another("second"))
    show(control, four())
    before = kept(control)
    show(control, [node(f"gpu{number}", H200, ready="False") for number in range(1, 5)])
    assert [pool["free"] for pool in pools(control)] == [[]]
    assert kept(control) == before


def test_drops_facts_when_observation_is_turned_off() -> None:
    control = at_rest()
    environment = only(control, "InferenceEnvironment")
    show(control, four(gpu3=node("gpu3", H200, cordoned=True)))
    change(control, environment, "spec.hardware", {"observe": "Never"})
    control.settle()
    off = request_of(control, environment)
    assert COLLECTION not in control.store
    plain = at_rest(definition=None)
    change(plain, environment, "spec.hardware", {"observe": "Never"})
    plain.settle()
    assert call(off) == call(request_of(plain, environment))


def test_keeps_facts_while_cluster_is_unreachable() -> None:
    control = at_rest()
    show(control, four(gpu3=node("gpu3", H200, cordoned=True)))
    request = request_of(control, only(control, "InferenceEnvironment"))
    before = struct_to_dict(call(request).desired.composite.resource)["status"]
    failed: Manifest = {"type": "Synced", "status": "False", "message": "dial tcp 10.0.0.1:6443: i/o timeout"}
    update(request.observed.resources["nodes"], {"status": {"conditions": [failed]}})
    response = call(request)
    assert [c.reason for c in response.conditions if c.type == "HardwareAsDeclared"] == ["Unreachable"]
    assert struct_to_dict(response.desired.composite.resource)["status"] == before


def test_heartbeat_changes_nothing() -> None:
    control = at_rest()
    environment = only(control, "InferenceEnvironment")
    show(control, four())
    first = call(request_of(control, environment))
    for beat in ("2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"):
        show(control, [node(f"gpu{number}", H200, beat=beat) for number in range(1, 5)])
        assert call(request_of(control, environment)) == first


def test_waiting_placement_names_unusable_node() -> None:
    control = at_rest()
    show(control, four(gpu2=node("gpu2", H200, ready="Unknown")))
    request = request_of(control, only(control, "ModelPlacement"))
    (service,) = [key for key in request.observed.resources if key.startswith("service-")]
    manifest = request.observed.resources[service].resource["status"]["atProvider"]["manifest"]
    for said_of in manifest["status"]["conditions"]:
        said_of["status"] = "False" if said_of["type"] == "Ready" else said_of["status"]
    (ready,) = [c for c in call(request).conditions if c.type == "ServiceReady"]
    assert ready.reason == "Degraded"
    assert ready.message.endswith(
        "Note on InferenceEnvironment h200-east: pool h200 cannot use 1 of 4 nodes (gpu2 is NotReady)"
    )


EVENTS = st.lists(
    st.lists(st.sampled_from(["usable", "cordoned", "away", "fewer", "gone", "relabelled", "tainted"]), min_size=4,
             max_size=4),
    max_size=3,
)  # fmt: skip


def _after(number: int, event: str) -> list[Manifest]:
    name = f"gpu{number}"
    match event:
        case "cordoned":
            return [node(name, H200, cordoned=True)]
        case "away":
            return [node(name, H200, ready="Unknown")]
        case "fewer":
            return [node(name, H200, gpus="7")]
        case "gone":
            return []
        case "relabelled":
            return [node(name, {POOL: "h100"})]
        case "tainted":
            return [node(name, H200, taints=({"key": "x", "effect": "NoSchedule"},))]
        case _:
            return [node(name, H200)]


@pytest.fixture(scope="module")
def two() -> ControlPlane:
    """Return two deployments that serve from all four nodes."""
    control = at_rest(another("second"))
    show(control, four())
    return control


@QUICK
@given(history=EVENTS)
def test_node_changes_never_move_serving_placements(two: ControlPlane, history: list[list[str]]) -> None:
    control = copy.deepcopy(two)
    before = kept(control)
    assert len(control.all("ModelPlacement")) == 2
    for events in history:
        show(control, [m for number, event in enumerate(events, 1) for m in _after(number, event)])
        assert kept(control) == before


def test_reports_invalid_hardware_settings() -> None:
    control = at_rest()
    change(control, only(control, "InferenceEnvironment"), "spec.hardware", {"observe": "Sometimes"})
    control.settle()
    found = condition(control.composites[only(control, "InferenceEnvironment")], "HardwareAsDeclared")
    assert text(found, "message").startswith('spec.hardware.observe: "Sometimes" is not ')


def test_pools_with_equal_labels_and_other_taints_overlap() -> None:
    """Every node has the labels of both pools and counts for the first, so that none is left for the second."""
    control = at_rest()
    ref = only(control, "InferenceEnvironment")
    (h200,) = listing(control.composites[ref], "spec.nodePools")
    team: JSON = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    change(control, ref, "spec.nodePools", [h200, {**h200, "name": "again", "taints": team}])
    control.settle()
    show(control, four())
    assert said(control, ref, "HardwareAsDeclared") == ("False", "NodesOverlap")
    assert text(condition(control.composites[ref], "HardwareAsDeclared"), "message") == (
        "pool again: nodes also belong to pool h200, and count there (gpu1, gpu2, gpu3); "
        "pool again: 4 nodes declared, 0 exist"
    )
    assert [get(pool, "observed.usable") for pool in pools(control)] == [4, 0]
