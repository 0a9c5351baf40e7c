"""Nothing that a service reads is deleted: readers are known by name and by the URI that they serve from."""

import copy
from dataclasses import dataclass, replace

import pytest
from crossplane.function import resource

from function.cli.store import Ref
from function.domain.cache import Consumer, ModelCache, ModelCacheChoice
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.remote.object_writer import deletes
from function.remote.observed_object import ObservedObject, State
from function.weights.consumers import (
    find_applied_uri,
    find_consumers,
    find_serving_uri,
    list_claims,
    may_delete_weights,
    parse_claim,
)
from function.weights.planner import WeightsPlan
from function.weights.reconcile import ReconciledWeights
from function.weights.request import StorageType
from function.weights.state import WeightsFinding, WeightsState
from tests.support import builders
from tests.support.builders import with_service
from tests.support.plane import call, change, only, plane, remote, request_of
from tools.control_plane import ControlPlane
from tools.world import World

STORY = "model-cache"
PLACEMENTS = "placements"


def _cache(control: ControlPlane) -> Ref:
    return only(control, "ModelCache")


def _reader(control: ControlPlane) -> Ref:
    return only(control, "ModelPlacement")


def _environment(control: ControlPlane) -> str:
    return text(control.composites[_reader(control)], "spec.inferenceEnvironmentRef.name")


def _select_claims_and_jobs(names: set[str]) -> set[str]:
    return {name for name in names if "/claim-" in name or "/job-" in name}


def _deselect(control: ControlPlane) -> None:
    change(control, _cache(control), "spec.environmentSelector", {"matchLabels": {"no-such": "label"}})


def _composed(control: ControlPlane, reader: list[Manifest] | None) -> set[str]:
    """Return what is composed while no placement is listed; `reader` is the answer to the requirement by name."""
    request = request_of(control, _cache(control))
    del request.required_resources["placements"].items[:]
    if reader is not None:
        answer = request.required_resources[f"placement-{_reader(control).name}"]
        answer.SetInParent()
        for manifest in reader:
            resource.update(answer.items.add(), manifest)
    return _select_claims_and_jobs(set(call(request).desired.resources))


def test_deletes_nothing_when_list_is_empty() -> None:
    control = plane(STORY)
    read = {key for key in control.store.owned(_cache(control)) if key.startswith(_environment(control))}
    _deselect(control)
    kept = _composed(control, [control.composites[_reader(control)]])
    assert kept == _select_claims_and_jobs(read), (
        "the weights stay, because the function requires the consumer by name and receives it"
    )


def test_deletes_nothing_before_consumer_is_answered() -> None:
    control = plane(STORY)
    before = _select_claims_and_jobs(set(control.store.owned(_cache(control))))
    _deselect(control)
    assert _composed(control, None) == before


def test_deletes_weights_without_consumer() -> None:
    control = plane(STORY)
    _deselect(control)
    assert _composed(control, []) == set()


def test_counts_unparsable_placement_as_consumer() -> None:
    control = plane(STORY)
    broken = copy.deepcopy(control.composites[_reader(control)])
    mapping(broken, "spec").pop("inferenceEnvironmentRef")
    _deselect(control)
    environment = _environment(control)
    assert {key.partition("/")[0] for key in _composed(control, [broken])} == {environment}


def test_keeps_old_revision_until_service_has_moved() -> None:
    control = plane(STORY)
    cache, reader, environment = _cache(control), _reader(control), _environment(control)
    old = {key for key in remote(control, cache, f"{environment}/") if "/claim-" in key}
    change(control, only(control, "ClusterModel"), "spec.huggingFace.revision", "v2")
    still = False
    for _ in range(20):
        control.advance()
        served = text(control.composites[reader], "status.service.uri")
        planned = text(control.composites[reader], "status.storage.uri")
        there = old <= set(remote(control, cache, f"{environment}/"))
        assert there or served == planned, "the old claim stays until the service reads the planned weights"
        still |= there and served != planned
        # An empty list changes nothing, at any time on the way.
        if served != planned:
            assert old <= _composed(control, [control.composites[reader]])
    assert still
    assert not old & set(remote(control, cache, f"{environment}/")), (
        "the old claims are deleted after the service has moved"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unlooked(World):
    """Clusters whose provider has not looked at services yet."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation; a service as it was made."""
        service = text(resource, "spec.forProvider.manifest.kind") == "LLMInferenceService"
        return World.advance(self, resource, 0 if service else step)


def test_keeps_old_revision_of_unobserved_service() -> None:
    """Histories, seed 7159: the provider created a service with weights that were no longer planned."""
    control = plane(STORY, _Unlooked())
    cache, reader, environment = _cache(control), _reader(control), _environment(control)
    ((key, service),) = remote(control, reader, "service-").items()
    (old,) = (key for key in remote(control, cache, f"{environment}/") if "/claim-" in key)
    change(control, only(control, "ClusterModel"), "spec.huggingFace.revision", "v2")
    written = [service]
    for _ in range(20):
        control.advance()
        written.append(remote(control, reader, "service-")[key])
        assert old in remote(control, cache, f"{environment}/"), (
            "a service may exist although the provider has not observed it"
        )
    assert text(written[-1], "spec.model.uri") != text(service, "spec.model.uri"), (
        "a service is composed with the planned weights"
    )


def test_counts_placement_that_left_the_cache_until_it_has_moved() -> None:
    control = plane(STORY)
    deployment, cache, environment = only(control, "ModelDeployment"), _cache(control), _environment(control)
    old = {key for key in remote(control, cache, f"{environment}/") if "/claim-" in key}
    change(control, deployment, "spec.modelCache", {"type": "PVC", "size": "600Gi"})
    _deselect(control)
    seen = False
    for _ in range(12):
        before = text(control.composites[_reader(control)], "status.service.uri")
        control.advance()
        reads = any(f"pvc://{key.partition('/claim-')[2]}/" in before for key in old)
        seen |= reads
        assert not reads or old <= set(remote(control, cache, f"{environment}/"))
    assert seen
    assert not old & set(remote(control, cache, f"{environment}/"))


def test_keeps_weights_that_a_placement_turns_to() -> None:
    control = plane(STORY)
    deployment, cache, environment = only(control, "ModelDeployment"), _cache(control), _environment(control)
    named = mapping(control.composites[deployment], "spec.modelCache")
    change(control, deployment, "spec.modelCache", {"type": "PVC", "size": "600Gi"})
    control.settle()
    claims = {key for key in remote(control, cache, f"{environment}/") if "/claim-" in key}
    change(control, deployment, "spec.modelCache", dict(named))
    control.advance()
    assert text(control.composites[_reader(control)], "spec.modelCache.name")
    reads = parse_claim(text(control.composites[_reader(control)], "status.service.uri"))
    assert f"{environment}/claim-{reads}" not in claims
    _deselect(control)
    for _ in range(6):
        control.advance()
        assert claims <= set(remote(control, cache, f"{environment}/")), (
            "the claims stay, because pods of the unobserved service may read them"
        )


def test_protects_cache_until_former_consumer_has_moved() -> None:
    control = plane(STORY)
    cache, reader = _cache(control), _reader(control)
    read = text(control.composites[reader], "status.service.uri")
    change(control, only(control, "ModelDeployment"), "spec.modelCache", {"type": "PVC", "size": "600Gi"})
    named, reads = True, []
    for _ in range(14):
        control.advance()
        usage = control.rounds[-1].rendered[reader].composed.get("cache-usage", {})
        reads.append(text(control.composites[reader], "status.service.uri") == read)
        named = text(control.rounds[-1].rendered[reader].composite, "spec.modelCache.name") == cache.name
        assert (text(usage, "spec.of.resourceRef.name") == cache.name) is (named or reads[-1])
    assert not named
    assert (reads[3], reads[-1]) == (True, False)


def test_records_consumers_by_name() -> None:
    control = plane(STORY)
    status = mapping(control.composites[_cache(control)], "status")
    placement = control.composites[_reader(control)]
    assert listing(status, "readers") == [
        {
            "name": text(placement, "metadata.name"),
            "environment": _environment(control),
            "uri": text(placement, "status.service.uri"),
        }
    ]
    assert text(placement, "status.service.uri") == text(placement, "status.storage.uri")
    assert status["usedBy"] == ["qwen"]


CACHE = ModelCache(namespace=builders.NAMESPACE, name="weights", model=builders.MODEL)
OURS = ModelCacheChoice(name="weights")
ON_IT = builders.placement(cache=OURS)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    placement: Placement
    want: list[str]


CASES = (
    Case(
        "serves",
        "a service that is ready reads its serving URI, not the planned one",
        replace(
            with_service(ON_IT, serving_uri="pvc://c/old"), weights=replace(ON_IT.weights, planned_uri="pvc://c/new")
        ),
        ["pvc://c/old"],
    ),
    Case(
        "plans",
        "a placement without a service reads the planned URI",
        replace(ON_IT, weights=replace(ON_IT.weights, planned_uri="pvc://c/new")),
        ["pvc://c/new"],
    ),
    Case(
        "silent",
        "an earlier release did not record the serving URI, so that the consumer may read any weights",
        replace(ON_IT, has_served=True, weights=replace(ON_IT.weights, planned_uri="pvc://c/n")),
        [""],
    ),
    Case(
        "left",
        "a placement that neither names the cache nor reads its claims is no consumer",
        builders.placement(name="p"),
        [],
    ),
    Case(
        "left-and-still-there",
        "a placement is a consumer as long as its service reads a claim of the cache",
        with_service(builders.placement(), serving_uri="pvc://mine/models/0"),
        ["pvc://mine/models/0"],
    ),
    Case(
        "moves",
        "a service that moves to another URI may read any weights",
        replace(
            with_service(ON_IT, serving_uri="pvc://c/a", applied_uri="pvc://c/b"),
            weights=replace(ON_IT.weights, planned_uri="pvc://c/c"),
        ),
        [""],
    ),
    Case(
        "left-for-it",
        "a placement is a consumer if the applied spec of its service names a claim of the cache",
        with_service(builders.placement(), applied_uri="pvc://mine/models/0"),
        [""],
    ),
    Case(
        "another-namespace",
        "a placement in another namespace names another cache of the same name",
        replace(ON_IT, namespace="others"),
        [],
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_finds_consumers(case: Case) -> None:
    found = find_consumers(CACHE, [case.placement], {"env": {"mine"}})
    assert [reader.uri for reader in found] == case.want, case.reason


def test_sorts_consumers_by_name() -> None:
    """Other placements are skipped, also one that reads an equally named claim on another environment."""
    of_others, elsewhere = replace(ON_IT, namespace="others"), builders.placement(name="c", environment="another")
    late, early = (replace(with_service(ON_IT, serving_uri=f"pvc://c/{name}"), name=name) for name in "ba")
    found = find_consumers(
        CACHE, [of_others, late, with_service(elsewhere, serving_uri="pvc://mine/0"), early], {"env": {"mine"}}
    )
    assert found == [Consumer(name=name, environment="env", uri=f"pvc://c/{name}") for name in "ab"]


def _object(kind: str, name: str, *policies: JSON) -> Manifest:
    described: Manifest = {"kind": kind, "metadata": {"name": name}}
    return {"spec": {"managementPolicies": [*policies] or None, "forProvider": {"manifest": described}}}


def test_lists_owned_claims() -> None:
    observed = [
        _object("PersistentVolumeClaim", "ours"),
        _object("PersistentVolumeClaim", "all", "*"),
        _object("PersistentVolumeClaim", "kept", "Observe", "Create", "Update"),
        _object("Job", "download", "*"),
    ]
    assert list_claims(observed) == {"ours", "all", "kept"}
    assert list_claims(filter(deletes, observed)) == {"ours", "all"}


@pytest.mark.parametrize(
    ("uri", "claim"), [("pvc://c/models/0", "c"), ("pvc://c", "c"), ("hf://org/model", ""), ("", "")]
)
def test_parses_claim_of_uri(uri: str, claim: str) -> None:
    assert parse_claim(uri) == claim


def _weights(uri: str, *, service_may_read: bool = True) -> ReconciledWeights:
    return ReconciledWeights(
        state=WeightsState(finding=WeightsFinding.HYDRATED),
        plan=WeightsPlan(storage_type=StorageType.MANAGED, uri=uri) if uri else None,
        service_may_read=service_may_read,
    )


NEW = _weights("pvc://c/new")


@pytest.mark.parametrize(
    ("uri", "current", "want", "reason"),
    [
        ("", NEW, False, "the weights stay while the URI of the consumer is unknown"),
        ("pvc://c/old", NEW, False, "the weights stay while the consumer reads them"),
        ("pvc://c/new", NEW, True, "the old weights may be deleted once the consumer reads the new ones"),
        ("pvc://elsewhere/old", NEW, True, "the old weights may be deleted if the consumer reads from another claim"),
        (
            "pvc://c/new",
            _weights("pvc://c/new", service_may_read=False),
            False,
            "the old weights stay until the new weights are complete",
        ),
        ("pvc://elsewhere/old", _weights(""), False, "the old weights stay while no new weights are planned"),
        ("hf://org/model:main", None, True, "the weights may be deleted if the consumer downloads its own copy"),
        ("pvc://c/new", None, False, "the weights stay while the consumer reads them and nothing replaces them"),
    ],
)
def test_may_delete_weights(uri: str, current: ReconciledWeights | None, *, want: bool, reason: str) -> None:
    consumer = Consumer(name="p", environment="e", uri=uri)
    assert may_delete_weights({"c"}, [consumer], [], current) is want, reason


@pytest.mark.parametrize(("current", "want"), [(None, False), (NEW, True)])
def test_keeps_weights_of_deselected_environment_for_users(current: ReconciledWeights | None, *, want: bool) -> None:
    consumer = Consumer(name="p", environment="e", uri="pvc://elsewhere/old")
    assert may_delete_weights({"c"}, [consumer], [ON_IT], current) is want


def _service(uri: str, ready: str) -> Manifest:
    conditions: list[JSON] = [{"type": kind, "status": ready} for kind in ("Ready", "PresetsCombined")]
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "spec": {"model": {"uri": uri}},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("wanted", "other", "earlier", "want"),
    [
        (("new", "True"), None, "old", "new"),
        (("new", "False"), None, "old", "old"),
        (("new", "False"), None, "", "new"),
        (None, "old", "", "old"),
        (None, None, "old", "old"),
        (None, None, "", ""),
    ],
)
def test_finds_serving_uri(wanted: tuple[str, str] | None, other: str | None, earlier: str, want: str) -> None:
    unseen = ObservedObject(State.UNSEEN, {})
    own = ObservedObject(State.PRESENT, _service(*wanted)) if wanted else unseen
    others: list[Manifest] = [{"status": {"atProvider": {"manifest": _service(other, "False")}}}] if other else []
    assert find_serving_uri(own, others, earlier) == want


@pytest.mark.parametrize(
    ("applied", "served", "want"),
    [((), "", ""), (("a",), "", "a"), (("a",), "a", ""), (("a", "b"), "a", "b"), (("", "a"), "b", "a")],
)
def test_finds_applied_uri(applied: tuple[str, ...], served: str, want: str) -> None:
    services: list[Manifest] = [
        {"spec": {"forProvider": {"manifest": {"spec": {"model": {"uri": uri}}}}}} for uri in applied
    ]
    assert find_applied_uri(services, served) == want
