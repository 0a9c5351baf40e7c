"""The auditor finds what must never happen: histories written by hand."""

from bench.simulator import fleet
from bench.simulator.invariants import Auditor
from bench.simulator.objects import Version, with_metadata
from bench.simulator.plane import Plane
from bench.simulator.races import by_hand
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, mapping, text


def _one_slot() -> tuple[Plane, Auditor]:
    """Return a control plane with two nodes of which one deployment holds both."""
    plane = Plane(Settings())
    auditor = Auditor(plane)
    plane.create(fleet.model())
    plane.create(fleet.environment(0, fleet.NODES))
    plane.rest()
    plane.create(fleet.deployment(0))
    plane.rest()
    auditor.at_rest()
    assert auditor.violations == []
    return plane, auditor


def _service(plane: Plane) -> Version:
    path = "spec.forProvider.manifest.kind"
    (found,) = [v for v in plane.all("Object") if text(v.manifest, path) == "LLMInferenceService"]
    return found


def _copied(plane: Plane, name: str) -> Manifest:
    """Return the service once more, composed by another placement."""
    placement = plane.server.create(
        with_metadata(by_hand(name, "two-nodes", "environment-0000"), {"finalizers": ["x"]})
    )
    owner: Manifest = {"kind": "ModelPlacement", "name": name, "uid": placement.uid, "controller": True}
    copied = with_metadata(_service(plane).manifest, {"name": name, "namespace": "by-hand", "ownerReferences": [owner]})
    return {key: value for key, value in copied.items() if key != "status"}


def test_two_services_on_the_same_nodes() -> None:
    plane, auditor = _one_slot()
    plane.server.create(_copied(plane, "second"))
    (found,) = auditor.violations
    assert "2 nodes of 8 GPUs of environment-0000" in found
    assert "second 1 x 2 x 8" in found


def test_a_service_whose_placement_is_gone_holds_nothing() -> None:
    plane, auditor = _one_slot()
    made = _copied(plane, "second")
    gone = Ref("ModelPlacement", "by-hand", "second")
    plane.server.delete(gone)
    plane.server.release(gone, "x")
    plane.server.create(made)
    assert auditor.violations == []


def test_a_serving_placement_that_goes() -> None:
    plane, auditor = _one_slot()
    (placement,) = plane.all("ModelPlacement")
    plane.delete(placement.ref)
    (found,) = auditor.violations
    assert found.endswith(f"{placement.ref} served, and goes")


def test_who_answers_serves_whatever_else_core_waits_for() -> None:
    plane, auditor = _one_slot()
    said: list[JSON] = [{"type": "ServiceReady", "status": "True"}, {"type": "Ready", "status": "False"}]
    made = by_hand("answers", "two-nodes", "environment-0000")
    placement = plane.server.create({**made, "status": {"conditions": said}})
    plane.server.delete(placement.ref)
    (found,) = auditor.violations
    assert found.endswith(f"{placement.ref} served, and goes")


def test_a_serving_placement_that_its_user_takes_away() -> None:
    plane, auditor = _one_slot()
    (deployment,) = plane.all("ModelDeployment")
    plane.delete(deployment.ref)
    plane.rest()
    assert (auditor.violations, plane.all("ModelPlacement")) == ([], [])


def test_who_waits_beside_room() -> None:
    plane, auditor = _one_slot()
    plane.create(fleet.deployment(1))
    plane.rest()
    auditor.at_rest()
    assert auditor.violations == [], "there is no room"
    environment = Ref("InferenceEnvironment", "", "environment-0000")
    larger = fleet.environment(0, 2 * fleet.NODES)
    now = plane.server.latest[environment].manifest
    spec = {**mapping(larger, "spec"), "crossplane": mapping(now, "spec.crossplane")}
    plane.server.put(environment, {**now, "spec": spec})
    auditor.at_rest()  # before any cache has it
    (found,) = auditor.violations
    assert "kimi-0001 waits, and environment-0000 has room" in found
