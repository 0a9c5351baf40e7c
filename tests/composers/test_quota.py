"""A namespace that requests more than its quota: no other namespace loses GPUs, and running services are kept."""

import copy
from dataclasses import replace

import pytest

from function.api.model_deployment import parse_deployment
from function.capacity.ledger import CapacityView
from function.cli.store import Ref
from function.composers import compose
from function.composers.model_deployment import Scheduling, decide
from function.contract import Call, Outcome
from function.domain.allocation import Limits
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from function.scheduling.filters import Candidate, check_capacity
from function.scheduling.refusals import Refusal
from tests.e2e import objects
from tests.support.plane import call, change, composed_placements, fetched, manifests, only, plane, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

STORY = "gemma-one-gpu"
ADMITTED, SCHEDULED = "Admitted", "Scheduled"
OURS = "status.admitted"
UNPLACED = "status.unplaced"


def limited(story: str = STORY, **limits: JSON) -> ControlPlane:
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


def test_placements_beyond_the_quota_compose_nothing_and_hold_no_gpus() -> None:
    control = limited(placementsPerNamespace=2)
    mine = [by_hand(control, number) for number in (1, 2, 3, 4)]
    control.settle()
    assert [said(control, ref, ADMITTED) for ref in mine] == [("True", "Admitted"), *[("False", "QuotaExceeded")] * 3]
    assert composed(control, mine[0])
    for ref in mine[1:]:
        assert not composed(control, ref)
        assert "2 of 2 placements that the platform allows" in message(control, ref, ADMITTED)
        assert "by-hand-01 (" in message(control, ref, ADMITTED)
    assert granted(control).isdisjoint(ref.name for ref in mine[1:]), "placements that exceed the quota get no grant"


def test_each_namespace_has_its_own_quota() -> None:
    control = limited(placementsPerNamespace=1)
    mine, other = by_hand(control, 1), by_hand(control, 2, "other")
    control.settle()
    assert said(control, mine, ADMITTED)[1] == "QuotaExceeded"
    assert said(control, other, ADMITTED)[1] == "Admitted"


def test_starts_once_the_quota_has_room() -> None:
    control = limited(placementsPerNamespace=2)
    first, second = by_hand(control, 1), by_hand(control, 2)
    control.settle()
    assert said(control, second, ADMITTED)[1] == "QuotaExceeded"
    control.delete(first)
    control.settle()
    assert said(control, second, ADMITTED) == ("True", "Admitted")
    assert second.name in granted(control)
    assert composed(control, second)


def test_keeps_admitted_placements_when_the_limit_is_lowered() -> None:
    control = plane(STORY)
    ref = only(control, "ModelPlacement")
    before = composed(control, ref)
    lowered: Manifest = {"limits": {"placementsPerNamespace": 1, "gpusPerNamespace": 1}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=lowered)
    outcome = compose(fetched(first, control.composites.values()))
    assert set(outcome.composed) == before
    assert _reason(outcome, ADMITTED) == "Admitted"


def test_service_beyond_the_quota_keeps_its_replicas() -> None:
    control = plane(STORY)
    ref = only(control, "ModelPlacement")
    change(control, ref, "spec.replicas", 5)
    limits: Manifest = {"limits": {"gpusPerNamespace": 4}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=limits)
    outcome = compose(fetched(first, control.composites.values()))
    assert _reason(outcome, ADMITTED) == "QuotaExceeded"
    (service,) = (c.manifest for key, c in outcome.composed.items() if key.startswith("service-"))
    assert integer(service, "spec.forProvider.manifest.spec.replicas") == 3, "the service has three replicas of one GPU"


def test_creates_no_placement_beyond_the_quota() -> None:
    control = limited(placementsPerNamespace=1)
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    mapping(given, "metadata")["name"] = "another"
    control.apply([given])
    control.settle()
    another = Ref.of(given)
    assert said(control, another, SCHEDULED) == ("False", "QuotaExceeded")
    assert "1 of 1 placements that the platform allows" in message(control, another, SCHEDULED)
    assert not composed(control, another)


def test_namespace_with_limits_of_its_own_has_no_others() -> None:
    """The general limit is one placement. The entry of `chat` allows two."""
    control = limited(placementsPerNamespace=1, namespaces={"chat": {"placements": 2}, "other": {"gpus": 1}})
    by_hand(control, 1)
    refused = by_hand(control, 2)
    control.settle()
    assert said(control, refused, ADMITTED)[1] == "QuotaExceeded"
    assert len(granted(control)) == 2, "the story's own placement and the first by hand"


@pytest.mark.parametrize("limits", [{"gpusPerNamespace": "9"}, {"namespaces": {"chat": {"gpus": "9"}}}], ids=str)
def test_invalid_limit_admits_nothing_more_and_keeps_what_runs(limits: Manifest) -> None:
    control = plane(STORY, World())
    deployment, placement = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    before = {key: mapping(manifest, "spec") for key, manifest in control.store.owned(placement).items()}
    control.renderer = Engine(call, {"limits": limits})
    mine = by_hand(control, 1)
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    another: Manifest = {**given, "metadata": {**mapping(given, "metadata"), "name": "another"}}
    control.apply([another])
    change(control, deployment, "spec.scaling.fixed.replicas", 5)
    control.settle()
    assert {key: mapping(manifest, "spec") for key, manifest in control.store.owned(placement).items()} == before
    assert said(control, placement, ADMITTED) == ("True", "Admitted")
    assert said(control, mine, ADMITTED) == ("False", "QuotaExceeded")
    assert not composed(control, mine)
    why = "the platform settings have an invalid limit for namespace chat, so it gets nothing more"
    assert why in message(control, mine, ADMITTED)
    for ref in (deployment, Ref.of(another)):
        assert said(control, ref, SCHEDULED) == ("False", "QuotaExceeded")
        assert why in message(control, ref, SCHEDULED)
    assert "Ask the platform team to correct the limits" in message(control, Ref.of(another), SCHEDULED)
    change(control, deployment, "spec.scaling.fixed.replicas", 1)
    control.settle()
    assert integer(control.composites[placement], "spec.replicas") == 1, "fewer replicas are always possible"


def test_mistyped_limit_of_a_namespace_is_reported() -> None:
    control = limited(namespaces={"chat": {"gpu": 2}})
    control.settle()
    assert "input.limits.namespaces.chat.gpu: is not a field; did you mean gpus?" in message(
        control, only(control, "ModelDeployment"), "ModelResolved"
    )


def test_scales_up_once_the_quota_has_room() -> None:
    control = limited(gpusPerNamespace=4)
    deployment, placement = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    change(control, deployment, "spec.scaling.fixed.replicas", 5)
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("False", "QuotaExceeded")
    scheduled = message(control, deployment, SCHEDULED)
    assert "1 cannot be scaled up to 5 replicas" in scheduled
    assert "has 4 replicas; profile one-gpu: 1 GPU required; namespace chat has 4 of 4 GPUs" in scheduled
    assert get(control.composites[deployment], "status.gpus") == 4, "the status counts the GPUs of the granted replicas"
    assert said(control, placement, ADMITTED) == ("True", "Admitted")
    change(control, deployment, "spec.scaling.fixed.replicas", 4)
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("True", "Placed")
    assert integer(control.composites[placement], "spec.replicas") == 4


def test_keeps_running_placement_when_a_larger_shape_exceeds_the_quota() -> None:
    control = limited(gpusPerNamespace=4)
    deployment, model = only(control, "ModelDeployment"), only(control, "ClusterModel")
    ref = only(control, "ModelPlacement")
    before = mapping(control.composites[ref], "spec")
    (profile,) = listing(control.composites[model], "spec.serving")
    topology = mapping(profile, "replicaTopology") | {"gpusPerNode": 2}
    change(control, model, "spec.serving", [profile | {"replicaTopology": topology}])
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("False", "QuotaExceeded")
    assert "Kept on h100-west" in message(control, deployment, SCHEDULED)
    assert mapping(control.composites[ref], "spec") == before
    assert said(control, ref, "ServiceReady") == ("True", "Serving")


def test_lowers_replicas_beyond_the_quota_to_those_that_it_allows() -> None:
    """Earlier releases wrote more replicas than the quota allows, and two deployments that grow at once still do."""
    control = plane(STORY)
    deployment, ref = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    for composite, path in ((deployment, "spec.scaling.fixed.replicas"), (ref, "spec.replicas")):
        change(control, composite, path, 5)
    (row,) = (c for c in listing(control.composites[ref], "status.conditions") if c["type"] == ADMITTED)
    row |= {"status": "False", "reason": "QuotaExceeded"}
    limits: Manifest = {"limits": {"gpusPerNamespace": 4}}
    first = Call(xr=control.composites[deployment], observed=control.store.owned(deployment), input=limits)
    outcome = compose(fetched(first, control.composites.values()))
    (written,) = composed_placements(outcome).values()
    assert integer(written, "spec.replicas") == 4
    assert _reason(outcome, SCHEDULED) == "QuotaExceeded"


KINDS = pytest.mark.parametrize(
    ("kind", "path"), [("ModelDeployment", "spec.scaling.fixed.replicas"), ("ModelPlacement", "spec.replicas")]
)


@KINDS
def test_satisfied_placement_does_not_require_the_namespace(kind: str, path: str) -> None:
    """No quota can refuse such a placement, and each change in the namespace would cause a reconcile."""
    control = plane(STORY)
    ref = only(control, kind)
    assert not _lists(_outcome(control, ref, gpusPerNamespace=1, placementsPerNamespace=1))
    change(control, ref, path, 2)
    assert not _lists(_outcome(control, ref, gpusPerNamespace=1, placementsPerNamespace=1)), (
        "fewer replicas do not exceed a quota"
    )


@KINDS
def test_scaling_up_requires_the_namespace_and_waits_for_the_answer(kind: str, path: str) -> None:
    control = plane(STORY)
    ref = only(control, kind)
    change(control, ref, path, 5)
    assert not _lists(_outcome(control, ref))
    if kind == "ModelPlacement":
        assert not _lists(_outcome(control, ref, placementsPerNamespace=1)), "the placement counts already"
    first = Call(
        xr=control.composites[ref], observed=control.store.owned(ref), input={"limits": {"gpusPerNamespace": 9}}
    )
    answered = fetched(first, control.composites.values())
    assert _lists(compose(answered)) == [ref.namespace]
    others = {name: found for name, found in answered.answers.items() if not name.startswith("placements")}
    waiting = compose(replace(answered, answers=others))
    assert set(waiting.composed) == set(first.observed)
    assert {c.status for c in waiting.conditions if c.type in {ADMITTED, SCHEDULED}} == {"Unknown"}
    assert _lists(waiting) == [ref.namespace]


def test_placement_waiting_for_quota_requires_the_namespace() -> None:
    """The placement is then reconciled once there is room."""
    control = limited(placementsPerNamespace=1)
    waiting = by_hand(control, 1)
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    mapping(given, "metadata")["name"] = "another"
    control.apply([given])
    control.settle()
    assert said(control, waiting, ADMITTED)[1] == "QuotaExceeded"
    assert said(control, Ref.of(given), SCHEDULED)[1] == "QuotaExceeded"
    for ref in (waiting, Ref.of(given)):
        assert _lists(_outcome(control, ref, placementsPerNamespace=1)) == [ref.namespace]


def _outcome(control: ControlPlane, ref: Ref, **limits: int) -> Outcome:
    """Return the outcome of the last call of a reconcile."""
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input={"limits": dict(limits)})
    return compose(fetched(first, control.composites.values()))


def _lists(outcome: Outcome) -> list[str | None]:
    """Return the namespaces of which all placements are asked for."""
    asked = outcome.requirements.values()
    return [a.namespace for a in asked if a.kind == "ModelPlacement" and not a.labels and not a.name]


def _reason(outcome: Outcome, type_: str) -> str:
    (found,) = (c for c in outcome.conditions if c.type == type_)
    return found.reason


def _up(*pools: Manifest, model: Manifest, wanted: int = 1, **limits: int) -> ControlPlane:
    """Return a control plane with a deployment of a model on an environment for each pool, at rest."""
    control = ControlPlane(renderer=Engine(call, {"limits": dict(limits)}), world=World())
    places = [objects.environment(name, pool) for name, pool in zip("abc", pools, strict=False)]
    control.apply([model, *places, objects.deployment("team", "llm", "llm", environments=wanted)])
    control.settle()
    return control


def _profile(name: str, gpus: int) -> Manifest:
    (made,) = listing(objects.model("llm", profile=objects.spanning(1, gpus)), "spec.serving")
    return {**made, "name": name}


BIG, SMALL = _profile("big", 8), _profile("small", 2)
OF_TWO = objects.model("llm", serving=[BIG, SMALL])
BIG_TOPOLOGY = BIG["replicaTopology"]
HUGE, USUAL = objects.pool("huge"), objects.pool("usual", acceleratorCount=4)


def test_chooses_a_profile_within_the_quota() -> None:
    control = _up(HUGE, model=OF_TWO, gpusPerNamespace=4)
    ref = only(control, "ModelDeployment")
    assert said(control, ref, SCHEDULED) == ("True", "Placed")
    assert "profile small" in message(control, ref, SCHEDULED)


def test_chooses_an_environment_within_the_quota() -> None:
    """The computed shapes differ: 160Gi need two GPUs of 80Gi, or eight GPUs of 24Gi."""
    tiny = objects.pool("tiny", capabilities={"memoryPerGpu": "24Gi"})
    model = objects.model("llm", profile={"engine": BIG["engine"]}, resources={"vram": "160Gi"})
    control = _up(tiny, HUGE, model=model, gpusPerNamespace=4)
    assert "Placed on b (profile vllm" in message(control, only(control, "ModelDeployment"), SCHEDULED)


def test_reports_the_quota_for_every_environment() -> None:
    control = _up(HUGE, USUAL, HUGE, model=objects.model("llm", serving=[BIG]), gpusPerNamespace=4)
    ref = only(control, "ModelDeployment")
    assert said(control, ref, SCHEDULED) == ("False", "QuotaExceeded")
    rows = {text(row, "environment"): text(row, "reason") for row in listing(control.composites[ref], UNPLACED)}
    assert rows == {"a": "QuotaExceeded", "b": "NoPoolSatisfiesRequirements", "c": "QuotaExceeded"}
    scheduled = message(control, ref, SCHEDULED)
    assert "a: profile big: 8 GPUs required; namespace team has 0 of 4 GPUs that the platform allows it" in scheduled


def test_does_not_advise_waiting_for_a_request_beyond_the_limit() -> None:
    control = _up(HUGE, model=objects.model("llm", serving=[BIG]), gpusPerNamespace=4)
    scheduled = message(control, only(control, "ModelDeployment"), SCHEDULED)
    assert scheduled.endswith("Request less, or ask the platform team to raise the limits"), (
        "no placement uses the quota"
    )


def test_names_the_placements_that_hold_the_quota() -> None:
    """A placement created by hand uses four of ten GPUs, so eight GPUs are not available now."""
    control = _up(HUGE, model=OF_TWO, gpusPerNamespace=10)
    ref = only(control, "ModelDeployment")
    there = copy.deepcopy(next(iter(control.store.owned(ref).values())))
    control.delete(ref)
    control.settle()
    topology: Manifest = {"nodes": 1, "gpusPerNode": 2, "parallelism": {"tensor": 2}}
    spec = {**mapping(there, "spec"), "profile": "small", "topology": topology, "replicas": 2}
    metadata: Manifest = {"name": "by-hand", "namespace": "team", "labels": {"modelplane.ai/environment": "a"}}
    control.apply([{**there, "metadata": metadata, "spec": spec, "status": {}}])
    control.settle()
    change(control, only(control, "ClusterModel"), "spec.serving", [BIG, {**SMALL, "replicaTopology": BIG_TOPOLOGY}])
    control.apply([objects.deployment("team", "llm", "llm")])
    control.settle()
    scheduled = message(control, ref, SCHEDULED)
    assert (
        "8 GPUs required; namespace team has 4 of 10 GPUs that the platform allows it, held by by-hand (4 GPUs)"
        in scheduled
    )
    assert scheduled.endswith("Delete a placement of the namespace, or ask the platform team to raise the limits")


@pytest.mark.parametrize("limits", [{"gpusPerNamespace": 5}, {"placementsPerNamespace": 2}], ids=str)
def test_places_on_as_many_environments_as_the_quota_allows(limits: dict[str, int]) -> None:
    """Two environments get two GPUs each. The third would exceed five GPUs, or the number of placements."""
    only_small = objects.model("llm", serving=[SMALL])
    control = _up(HUGE, HUGE, HUGE, model=only_small, wanted=3, **limits)
    ref = only(control, "ModelDeployment")
    assert said(control, ref, SCHEDULED) == ("False", "PartiallyPlaced")
    assert [text(found, "spec.profile") for found in _owned(control, ref)] == ["small", "small"]
    (row,) = listing(control.composites[ref], UNPLACED)
    assert (row["environment"], row["reason"]) == ("c", "QuotaExceeded")
    assert "its own on" not in text(row, "message"), "existing placements are listed by their names"


def test_uses_the_remaining_quota_for_a_smaller_shape() -> None:
    """Eight of ten GPUs on the first environment leave two for the second."""
    control = _up(HUGE, HUGE, model=OF_TWO, wanted=2, gpusPerNamespace=10)
    ref = only(control, "ModelDeployment")
    assert said(control, ref, SCHEDULED) == ("True", "Placed")
    placed = {text(p, "spec.inferenceEnvironmentRef.name"): text(p, "spec.profile") for p in _owned(control, ref)}
    assert placed == {"a": "big", "b": "small"}


def test_charges_an_evicted_placement_once() -> None:
    """Of two that took one room at once, the second goes on in the quota that it has: one placement."""
    given = [objects.deployment(team, "llm", "llm") for team in ("one", "two")]
    narrow = objects.pool("narrow", maxNodeCount=1)
    control = ControlPlane(renderer=Engine(call, {"limits": {"placementsPerNamespace": 1}}), world=World())
    places = [objects.environment(name, narrow) for name in "ab"]
    control.apply([objects.model("llm", serving=[BIG]), *places, *given])
    control.settle()
    for found in given:
        assert said(control, Ref.of(found), SCHEDULED) == ("True", "Placed")


def _owned(control: ControlPlane, ref: Ref) -> list[Manifest]:
    """Returns the placements that a deployment has composed."""
    return [manifest for manifest in control.store.owned(ref).values() if manifest["kind"] == "ModelPlacement"]


def test_considered_decision_records_what_the_quota_refused() -> None:
    """`plan` and `why` filter every pool again with the request of the decision."""
    for limit, refused in ((4, True), (8, False)):
        control = _up(HUGE, model=objects.model("llm", serving=[BIG]), gpusPerNamespace=limit)
        ref = only(control, "ModelDeployment")
        first = Call(xr=control.composites[ref], input={"limits": {"gpusPerNamespace": limit}})
        call = fetched(first, control.composites.values())
        found = decide(call, parse_deployment(call.xr), Settings(limits=Limits(gpus=limit)))
        assert isinstance(found, Scheduling)
        assert (found.request.quota_usage is not None) is refused


def test_caches_verdicts_of_a_request_beyond_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that fits nowhere is repeated over the fleet, so equal requests use cached verdicts."""
    control = _up(HUGE, HUGE, HUGE, model=OF_TWO, gpusPerNamespace=1)
    ref = only(control, "ModelDeployment")
    first = Call(xr=control.composites[ref], input={"limits": {"gpusPerNamespace": 1}})
    found = fetched(first, control.composites.values())
    looked: list[str] = []

    def counted(candidate: Candidate, ledger: CapacityView) -> Refusal | None:
        looked.append(candidate.environment.name)
        return check_capacity(candidate, ledger)

    monkeypatch.setattr("function.scheduling.filters.check_capacity", counted)
    once = compose(found)
    again = len(looked)
    assert compose(found) == once
    assert len(looked) == again, "nothing has changed, so the cached verdicts are used"
    answers = {name: items[::-1] for name, items in found.answers.items()}
    assert compose(replace(found, answers=answers)) == once
    assert len(looked) == again, "the order of the resources in the request does not matter"
    assert _reason(once, SCHEDULED) == "QuotaExceeded"
