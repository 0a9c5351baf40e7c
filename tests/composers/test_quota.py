"""A namespace that wants more than the platform allows it: nobody else loses a GPU to it, and what runs stays."""

import copy

import pytest

from function.cli.control_plane import ControlPlane
from function.cli.store import Ref
from function.composers import compose
from function.exchange import Call, Outcome
from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, text
from tests.composers.plane import change, fetched, manifests, only, plane, said
from tools.world import World

STORY = "gemma-one-gpu"
ADMITTED, SCHEDULED = "Admitted", "Scheduled"
OURS = "status.admitted"


def limited(story: str = STORY, **limits: int) -> ControlPlane:
    return plane(story, World(), {"limits": dict(limits)})


def by_hand(control: ControlPlane, number: int, namespace: str = "") -> Ref:
    """Write a placement by hand, like the one that a deployment composed."""
    control.settle()
    found = copy.deepcopy(control.composites[only(control, "ModelDeployment")])
    there = copy.deepcopy(next(m for m in control.composites.values() if get(m, "spec.deploymentRef")))
    spec = mapping(there, "spec") | {"replicas": 1}
    spec.pop("deploymentRef")
    made: Manifest = {
        "apiVersion": there["apiVersion"],
        "kind": "ModelPlacement",
        "metadata": {
            "namespace": namespace or text(found, "metadata.namespace"),
            "name": f"by-hand-{number:02}",
            "creationTimestamp": f"2026-11-0{number}T00:00:00Z",
            "labels": {"modelplane.ai/environment": text(spec, "inferenceEnvironmentRef.name")},
        },
        "spec": spec,
    }
    control.apply([made])
    return Ref.of(made)


def message(control: ControlPlane, ref: Ref, type_: str) -> str:
    return text(condition(control.composites[ref], type_), "message")


def granted(control: ControlPlane) -> set[str]:
    environment = control.composites[only(control, "InferenceEnvironment")]
    return {text(row, "name") for row in listing(environment, OURS)}


def composed(control: ControlPlane, ref: Ref) -> set[str]:
    return set(control.store.owned(ref))


def test_placements_written_by_hand_beyond_the_quota_compose_nothing_and_take_no_gpus() -> None:
    control = limited(placementsPerNamespace=2)
    mine = [by_hand(control, number) for number in (1, 2, 3, 4)]
    control.settle()
    assert [said(control, ref, ADMITTED) for ref in mine] == [("True", "Admitted"), *[("False", "QuotaExceeded")] * 3]
    assert composed(control, mine[0])
    for ref in mine[1:]:
        assert not composed(control, ref)
        assert "2 of 2 placements that the platform allows" in message(control, ref, ADMITTED)
        assert "by-hand-01 (" in message(control, ref, ADMITTED)
    assert granted(control).isdisjoint(ref.name for ref in mine[1:]), "what starts nothing is granted nothing"


def test_another_namespace_has_a_quota_of_its_own() -> None:
    control = limited(placementsPerNamespace=1)
    mine, other = by_hand(control, 1), by_hand(control, 2, "other")
    control.settle()
    assert said(control, mine, ADMITTED)[1] == "QuotaExceeded"
    assert said(control, other, ADMITTED)[1] == "Admitted"


def test_it_starts_once_there_is_room() -> None:
    control = limited(placementsPerNamespace=2)
    first, second = by_hand(control, 1), by_hand(control, 2)
    control.settle()
    assert said(control, second, ADMITTED)[1] == "QuotaExceeded"
    control.delete(first)
    control.settle()
    assert said(control, second, ADMITTED) == ("True", "Admitted")
    assert second.name in granted(control)
    assert composed(control, second)


def test_what_was_admitted_stays_when_the_limit_is_lowered() -> None:
    control = plane(STORY)
    ref = only(control, "ModelPlacement")
    before = composed(control, ref)
    lowered: Manifest = {"limits": {"placementsPerNamespace": 1, "gpusPerNamespace": 1}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=lowered)
    outcome = compose(fetched(first, control.composites.values()))
    assert set(outcome.composed) == before
    assert _reason(outcome, ADMITTED) == "Admitted"


def test_a_service_that_wants_more_replicas_than_the_quota_has_keeps_its_own() -> None:
    control = plane(STORY)
    ref = only(control, "ModelPlacement")
    change(control, ref, "spec.replicas", 5)
    limits: Manifest = {"limits": {"gpusPerNamespace": 4}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=limits)
    outcome = compose(fetched(first, control.composites.values()))
    assert _reason(outcome, ADMITTED) == "QuotaExceeded"
    (service,) = (c.manifest for key, c in outcome.composed.items() if key.startswith("service-"))
    assert integer(service, "spec.forProvider.manifest.spec.replicas") == 3, "of one GPU each"


def test_a_deployment_makes_no_placement_that_could_not_start() -> None:
    control = limited(placementsPerNamespace=1)
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    mapping(given, "metadata")["name"] = "another"
    control.apply([given])
    control.settle()
    another = Ref.of(given)
    assert said(control, another, SCHEDULED) == ("False", "QuotaExceeded")
    assert "1 of 1 placements that the platform allows" in message(control, another, SCHEDULED)
    assert not composed(control, another)


def test_a_deployment_that_cannot_grow_within_the_quota_says_so_and_grows_when_it_can() -> None:
    control = limited(gpusPerNamespace=4)
    deployment, placement = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    change(control, deployment, "spec.scaling.fixed.replicas", 5)
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("False", "QuotaExceeded")
    told = message(control, deployment, SCHEDULED)
    assert "1 cannot grow to 5 replicas" in told
    assert "keeps its replicas (3); profile one-gpu: 2 GPUs wanted; namespace chat has 3 of 4 GPUs" in told
    assert get(control.composites[deployment], "status.gpus") == 3, "what runs"
    assert said(control, placement, ADMITTED) == ("True", "Admitted")
    change(control, deployment, "spec.scaling.fixed.replicas", 4)
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("True", "Placed")
    assert integer(control.composites[placement], "spec.replicas") == 4


def test_a_larger_shape_beyond_the_quota_leaves_what_runs_and_says_so() -> None:
    control = limited(gpusPerNamespace=4)
    deployment, model = only(control, "ModelDeployment"), only(control, "ClusterModel")
    ref = only(control, "ModelPlacement")
    before = mapping(control.composites[ref], "spec")
    (profile,) = listing(control.composites[model], "spec.serving")
    topology = mapping(profile, "replicaTopology") | {"gpusPerNode": 2}
    change(control, model, "spec.serving", [profile | {"replicaTopology": topology}])
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("False", "QuotaExceeded")
    assert "stays on h100-west" in message(control, deployment, SCHEDULED)
    assert mapping(control.composites[ref], "spec") == before
    assert said(control, ref, "ServiceReady") == ("True", "Serving")


def test_what_was_written_beyond_the_quota_is_written_back_to_what_runs() -> None:
    """An earlier release wrote what it could not have; two that grow in one moment write it still."""
    control = plane(STORY)
    deployment, ref = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    for composite, path in ((deployment, "spec.scaling.fixed.replicas"), (ref, "spec.replicas")):
        change(control, composite, path, 5)
    (row,) = (c for c in listing(control.composites[ref], "status.conditions") if c["type"] == ADMITTED)
    row |= {"status": "False", "reason": "QuotaExceeded"}
    limits: Manifest = {"limits": {"gpusPerNamespace": 4}}
    first = Call(xr=control.composites[deployment], observed=control.store.owned(deployment), input=limits)
    outcome = compose(fetched(first, control.composites.values()))
    (written,) = (item.manifest for item in outcome.composed.values())
    assert integer(written, "spec.replicas") == 3
    assert _reason(outcome, SCHEDULED) == "QuotaExceeded"


@pytest.mark.parametrize("kind", ["ModelDeployment", "ModelPlacement"])
def test_only_where_a_limit_is_set_the_namespace_is_asked_for(kind: str) -> None:
    control = plane(STORY)
    ref = only(control, kind)
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref))
    assert not _lists(compose(fetched(first, control.composites.values())))
    limits: Manifest = {"limits": {"gpusPerNamespace": 1_000}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=limits)
    found = fetched(first, control.composites.values())
    assert _lists(compose(found)) == [ref.namespace]
    waiting = compose(first)
    assert set(waiting.composed) == set(control.store.owned(ref)), "while it is not answered everything stays"


def _lists(outcome: Outcome) -> list[str | None]:
    """Return the namespaces of which all placements are asked for."""
    asked = outcome.requirements.values()
    return [a.namespace for a in asked if a.kind == "ModelPlacement" and not a.labels and not a.name]


def _reason(outcome: Outcome, type_: str) -> str:
    (found,) = (c for c in outcome.conditions if c.type == type_)
    return found.reason
