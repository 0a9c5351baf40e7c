"""Objects of a placement that Crossplane composed and does not observe are adopted without changes."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from function.cli.store import Ref
from function.composers import compose, recover
from function.contract import Call, Composed, Outcome, Requirement
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tests.support.orphans import AtRest
from tests.support.plane import change, only

SEVERAL_NODES, ONE_NODE, ON_A_CACHE = "kimi-k2-two-nodes", "gemma-one-gpu", "model-cache"


class Scene(AtRest):
    """A placement at rest."""

    def __init__(self, story: str) -> None:
        super().__init__(story, "ModelPlacement")

    def recovered(self, *, observed: Mapping[str, Manifest] | None = None) -> Outcome:
        """Returns the outcome of a failed call when Crossplane observes these resources and finds what is required."""
        call = Call(xr=self.xr, observed={**(observed or {})})
        asked = recover(call).requirements
        assert asked == compose(call).requirements
        return recover(replace(call, answers={name: self.find(wanted) for name, wanted in asked.items()}))

    def only(self, item: Composed) -> Composed:
        """Return an item as it is composed over the Object that was found; a Usage is not looked for."""
        if text(item.manifest, "kind") == "Usage":
            return item
        metadata = {**mapping(item.manifest, "metadata"), "resourceVersion": "7"}
        return replace(item, manifest={**item.manifest, "metadata": metadata})

    def environment(self) -> Ref:
        return Ref("InferenceEnvironment", "", text(self.xr, "spec.inferenceEnvironmentRef.name"))

    def service(self) -> str:
        (key,) = (key for key in self.objects if key.startswith("service-"))
        return key


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE, ON_A_CACHE])
def test_adopts_orphan_objects_of_placement(story: str) -> None:
    scene = Scene(story)
    rest, lost = scene.at_rest(), scene.outcome()
    assert lost.composed.keys() == rest.composed.keys()
    for key, item in rest.composed.items():
        assert lost.composed[key] == scene.only(item), key
    assert (lost.status, lost.conditions, lost.ready) == (rest.status, rest.conditions, rest.ready)


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE, ON_A_CACHE])
def test_requires_only_its_own_objects(story: str) -> None:
    scene = Scene(story)
    (asked,) = [wanted for wanted in scene.at_rest().requirements.values() if wanted.kind in {"Object", "Usage"}]
    owner = {"modelplane.ai/owner": text(scene.xr, "metadata.name")}
    assert asked == Requirement(
        api_version="kubernetes.m.crossplane.io/v1alpha1",
        kind="Object",
        namespace=text(scene.xr, "metadata.namespace"),
        labels=owner,
    )


def _edited_model(scene: Scene) -> None:
    change(scene.control, only(scene.control, "ClusterModel"), "spec.source", "Torrent")


def _lost_model(scene: Scene) -> None:
    del scene.control.composites[only(scene.control, "ClusterModel")]


def _lost_environment(scene: Scene) -> None:
    del scene.control.composites[scene.environment()]


def _other_revision(scene: Scene) -> None:
    change(scene.control, only(scene.control, "ClusterModel"), "spec.huggingFace.revision", "other")


def _no_class(scene: Scene) -> None:
    environment = scene.environment()
    change(scene.control, environment, "spec.storage", None)


def test_finds_orphans_by_label() -> None:
    """With lists one second late, a placement without environment lost its claim in every second call."""
    scene = Scene(SEVERAL_NODES)
    _lost_environment(scene)
    kept = scene.at_rest()
    scene.xr["status"] = {}
    namespace = {"namespace": scene.objects["namespace"]}
    assert scene.outcome(namespace).composed.keys() == kept.composed.keys()


@pytest.mark.parametrize("story", [SEVERAL_NODES, ON_A_CACHE])
@pytest.mark.parametrize("harm", [_edited_model, _lost_model, _lost_environment, _other_revision, _no_class])
def test_keeps_orphans_while_service_may_not_be_composed(harm: Callable[[Scene], None], story: str) -> None:
    scene = Scene(story)
    harm(scene)
    kept, lost = scene.at_rest(), scene.outcome()
    for key in kept.composed.keys() & scene.objects.keys() - {"cache-usage"}:
        assert lost.composed[key] == scene.only(kept.composed[key]), key
    assert scene.service() in lost.composed


@pytest.mark.parametrize("harm", [_edited_model, _lost_model, _lost_environment])
def test_composes_usage_while_references_do_not_resolve(harm: Callable[[Scene], None]) -> None:
    """A Usage missing from the list of resources would protect its ModelCache until the environment exists again."""
    scene = Scene(ON_A_CACHE)
    rest = scene.at_rest().composed["cache-usage"].manifest
    harm(scene)
    found = scene.outcome({key: m for key, m in scene.objects.items() if key != "cache-usage"})
    assert found.composed["cache-usage"].manifest == rest


def _lost_service(scene: Scene) -> None:
    del scene.objects[scene.service()]


def _lost_cache(scene: Scene) -> None:
    del scene.control.composites[only(scene.control, "ModelCache")]


@pytest.mark.parametrize("harm", [_lost_service, _lost_cache])
def test_composes_no_usage_without_service_or_cache(harm: Callable[[Scene], None]) -> None:
    scene = Scene(ON_A_CACHE)
    _lost_environment(scene)
    harm(scene)
    found = scene.outcome({key: m for key, m in scene.objects.items() if key != "cache-usage"})
    assert "cache-usage" not in found.composed


def _unreadable(scene: Scene) -> None:
    mapping(scene.xr, "spec")["inferenceEnvironmentRef"] = "dallas"


def _of_nothing(scene: Scene) -> None:
    scene.xr["spec"] = {}


@pytest.mark.parametrize("harm", [_unreadable, _of_nothing])
def test_keeps_orphans_of_invalid_placement(harm: Callable[[Scene], None]) -> None:
    scene = Scene(SEVERAL_NODES)
    harm(scene)
    kept, lost = scene.at_rest(), scene.outcome()
    assert kept.composed.keys() == scene.objects.keys()
    assert lost.composed == {key: scene.only(item) for key, item in kept.composed.items()}


@pytest.mark.parametrize(
    ("harm", "story"), [(lambda _: None, SEVERAL_NODES), (lambda _: None, ON_A_CACHE), (_unreadable, SEVERAL_NODES)]
)
def test_keeps_orphans_after_internal_error(harm: Callable[[Scene], None], story: str) -> None:
    scene = Scene(story)
    harm(scene)
    kept, lost = scene.recovered(observed=scene.objects), scene.recovered()
    assert kept.composed.keys() == scene.objects.keys()
    assert lost.composed == {k: scene.only(item) for k, item in kept.composed.items() if k != "cache-usage"}


def test_deletes_orphan_service_of_other_shape_when_observed() -> None:
    scene = Scene(SEVERAL_NODES)
    earlier = scene.service()
    mapping(mapping(scene.xr, "spec"), "topology")["nodes"] = 4
    mapping(scene.xr, "spec.topology.parallelism")["pipeline"] = 4
    change(scene.control, scene.environment(), "metadata.uid", None)
    gone = scene.at_rest()
    assert earlier not in gone.composed
    assert [key for key in gone.composed if key.startswith("service-")], "the new service replaces the orphan"
    lost = scene.outcome()
    assert [key for key in lost.composed if key.startswith("service-")] == [earlier], (
        "the new service waits until the earlier one is deleted"
    )


def test_orphan_service_of_other_shape_starts_no_pods() -> None:
    """Histories, seed 1279: with a list 7 s late, a call lost the service, and its pods ran forever."""
    scene = Scene(SEVERAL_NODES)
    change(scene.control, scene.environment(), "metadata.uid", None)
    rest, other = scene.at_rest(), copy.deepcopy(scene.objects[scene.service()])
    key = "service-of-another-shape"
    mapping(other, "metadata").update(name=key, annotations={"crossplane.io/composition-resource-name": key})
    observed, scene.objects[key] = dict(scene.objects), other
    lost = scene.outcome(observed)
    assert lost.composed.keys() == {*observed, key}, "no resource is dropped while an orphan is not observed"
    assert get(lost.composed[key].manifest, "spec.managementPolicies") == ["Observe", "Delete"], (
        "the Object may have been deleted since it was listed"
    )
    assert get(lost.composed[key].manifest, "metadata.resourceVersion") == "7"
    assert scene.outcome(scene.objects).composed == rest.composed, "the Object is dropped once Crossplane observes it"


def _list_resources(scene: Scene) -> None:
    refs: list[JSON] = [
        {"apiVersion": m["apiVersion"], "kind": m["kind"], "name": text(m, "metadata.name")}
        for m in scene.objects.values()
    ]
    mapping(scene.xr, "spec")["crossplane"] = {"resourceRefs": refs}


def test_adopts_orphan_that_composite_lists() -> None:
    scene = Scene(SEVERAL_NODES)
    _list_resources(scene)
    (job,) = (text(m, "metadata.name") for key, m in scene.objects.items() if key.startswith("job-"))
    seen = {key: m for key, m in scene.objects.items() if not key.startswith("job-")}
    rest = scene.at_rest().composed
    outcome = scene.outcome(seen)
    assert outcome.composed == {key: item if key in seen else scene.only(item) for key, item in rest.items()}
    assert [r.name for name, r in outcome.requirements.items() if name.startswith("resource-")] == [job]


@pytest.mark.parametrize("harm", [lambda _: None, _lost_environment], ids=["resolved", "no-environment"])
def test_adopts_usage_that_composite_lists(harm: Callable[[Scene], None]) -> None:
    """A Usage missing from the list would protect its ModelCache as long as the placement exists."""
    scene = Scene(ON_A_CACHE)
    _list_resources(scene)
    harm(scene)
    seen = {key: m for key, m in scene.objects.items() if key != "cache-usage"}
    rest, outcome = scene.at_rest().composed, scene.outcome(seen)
    assert outcome.composed.keys() == rest.keys()
    kept = outcome.composed["cache-usage"].manifest
    assert kept["spec"] == rest["cache-usage"].manifest["spec"]
    assert get(kept, "metadata.resourceVersion") == "7", "it may have been deleted meanwhile"


def _of_somebody_else(manifest: Manifest) -> None:
    listing(manifest, "metadata.ownerReferences")[0]["uid"] = "uid-of-another-owner"


def _not_controlled(manifest: Manifest) -> None:
    listing(manifest, "metadata.ownerReferences")[0]["controller"] = False


def _deleting(manifest: Manifest) -> None:
    mapping(manifest, "metadata")["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _nameless(manifest: Manifest) -> None:
    del mapping(manifest, "metadata")["annotations"]


def _of_another_manager(manifest: Manifest) -> None:
    mapping(manifest, "metadata").update(name="theirs", labels={"app.kubernetes.io/managed-by": "another"})


@pytest.mark.parametrize("harm", [_of_somebody_else, _not_controlled, _deleting, _nameless, _of_another_manager])
def test_ignores_foreign_and_deleting_objects(harm: Callable[[Manifest], None]) -> None:
    scene = Scene(SEVERAL_NODES)
    _lost_model(scene)
    for manifest in scene.objects.values():
        harm(manifest)
    assert not scene.outcome().composed


def test_drops_nothing_while_objects_are_pending() -> None:
    scene = Scene(SEVERAL_NODES)
    _other_revision(scene)
    observed = {key: m for key, m in scene.objects.items() if not key.startswith("service-")}
    assert observed.keys() <= scene.outcome(observed, pending="objects").composed.keys()
