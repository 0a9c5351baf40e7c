"""A ClusterProviderConfig stays until the last Object of its cluster is deleted, whatever deletes that and how slowly.

provider-kubernetes lets a ClusterProviderConfig go that no ProviderConfigUsage names (docs/facts.md).
"""

import copy
from datetime import UTC, datetime

import pytest

from function.composers import compose, recover
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, strings, text
from function.kube.names import COMPOSITION_KEY
from tests.composers.test_orphans import ME, at_rest, owned
from tests.support.orphans import UID, AtRest
from tests.support.plane import fetched

USAGE = "provider-usage"
DELETED = "2026-01-01T00:00:00Z"


def usages(outcome: Outcome) -> dict[str, str]:
    """Returns the ClusterProviderConfigs that are used, by composition-resource-name."""
    found = {key: item.manifest for key, item in outcome.composed.items() if USAGE in key}
    for manifest in found.values():
        config = text(manifest, "providerConfigRef.name")
        labels = mapping(manifest, "metadata.labels")
        assert labels["crossplane.io/provider-config"] == config, "the provider finds it by its labels"
        assert labels["crossplane.io/provider-config-kind"] == "ClusterProviderConfig"
    return {key: text(manifest, "providerConfigRef.name") for key, manifest in found.items()}


def compose_deployment(*placements: Manifest, environments: int = 1) -> Outcome:
    """Returns the outcome of a deployment that Crossplane observes nothing of."""
    deployment, _, rest = at_rest()
    mapping(deployment, "spec")["environments"] = environments
    if not environments:
        mapping(deployment, "spec")["environmentSelector"] = {"matchLabels": {"none": "such"}}
    return compose(fetched(Call(xr=deployment), [*rest, *placements]))


def test_deployment_uses_config_of_a_deleted_environment() -> None:
    """Its placement serves there until it has moved."""
    scene = AtRest("two-environments", "ModelDeployment")
    assert usages(scene.at_rest()) == {}, "the Objects of its placements have usages of their own"
    ref = next(ref for ref in scene.control.all("InferenceEnvironment") if ref.name == "a100-oslo")
    environment = copy.deepcopy(scene.control.store[ref])
    mapping(environment, "metadata")["deletionTimestamp"] = DELETED
    scene.control.store[ref] = environment
    assert list(usages(scene.at_rest())) == ["provider-usage-a100-oslo"]


@pytest.mark.parametrize(("by", "used"), [(ME, True), ("another", False)], ids=["own", "of-another"])
def test_deployment_uses_config_while_a_placement_is_being_deleted(by: str, used: bool) -> None:
    """Crossplane does not observe it any more, and it exists until its Objects are deleted."""
    _, placement, _ = at_rest()
    leaving = owned(placement, by=by, served=True, created=DELETED, uid="leaving", deletionTimestamp=DELETED)
    mapping(leaving, "spec")["inferenceEnvironmentRef"] = {"name": "deleted-environment"}
    outcome = compose_deployment(leaving)
    assert ("provider-usage-deleted-environment" in usages(outcome)) is used
    assert outcome.ttl_seconds is not None
    assert outcome.ttl_seconds < 600 or not used, "it looks again soon, to let the config go"


def taint_all(scene: AtRest, taints: JSON) -> None:
    """Sets the taints of every environment."""
    for ref in scene.control.all("InferenceEnvironment"):
        environment = copy.deepcopy(scene.control.store[ref])
        mapping(environment, "spec")["taints"] = taints
        scene.control.store[ref] = environment


@pytest.mark.parametrize("taints", [[], [{"key": "drain", "effect": "NoExecute"}]], ids=["stays", "moves"])
def test_placement_that_lost_its_labels_gets_them_back(taints: JSON) -> None:
    """Crossplane does not observe a placement that is deleted: then only its labels show that its Objects exist."""
    scene = AtRest("two-environments", "ModelDeployment")
    taint_all(scene, taints)
    labels = {}
    for key, manifest in scene.objects.items():
        labels[key] = mapping(manifest, "metadata")["labels"]
        mapping(manifest, "metadata")["labels"] = {"mine": "x"}
    composed = scene.at_rest().composed
    kept = {key: get(composed[key].manifest, "metadata.labels") for key in labels}
    assert {key: {**mapping({"labels": label}, "labels"), "mine": "x"} for key, label in labels.items()} == {
        key: {**mapping({"labels": label}, "labels"), "mine": "x"} for key, label in kept.items()
    }


def test_kept_placement_has_the_label_of_its_own_cache() -> None:
    """The ModelCache that it reads finds it by the label, whatever its deployment names by now."""
    scene = AtRest("model-cache", "ModelDeployment")
    mapping(scene.xr, "spec")["modelCache"] = {"name": "other-weights"}
    taint_all(scene, [{"key": "drain", "effect": "NoExecute"}])
    (key,) = (key for key, manifest in scene.objects.items() if text(manifest, "kind") == "ModelPlacement")
    manifest = scene.at_rest().composed[key].manifest
    assert get(manifest, "spec.modelCache.name") == "qwen-weights", "it is kept"
    assert strings(manifest, "metadata.labels")["modelplane.ai/cache"] == "qwen-weights"


def cache_that_left_one_environment() -> AtRest:
    scene = AtRest("model-cache", "ModelCache")
    mapping(scene.xr, "spec")["environments"] = ["h100-frankfurt"]
    mapping(scene.xr, "spec").pop("environmentSelector", None)
    mapping(scene.xr, "status")["readers"] = []
    for ref in scene.control.all("ModelPlacement"):
        scene.control.delete(ref)
    return scene


def test_cache_uses_config_until_its_objects_are_deleted() -> None:
    scene = cache_that_left_one_environment()
    paris = "h100-paris/provider-usage"
    leaving = scene.at_rest()
    assert not any(key.startswith("h100-paris/claim-") for key in leaving.composed), "nothing reads the weights"
    assert paris in usages(leaving)

    observed = {key: m for key, m in scene.objects.items() if not key.startswith("h100-paris/") or key == paris}
    for key, manifest in scene.objects.items():
        if key.startswith("h100-paris/") and key != paris:
            mapping(manifest, "metadata")["deletionTimestamp"] = DELETED
    assert paris in usages(scene.outcome(observed)), "Crossplane observes none of them, and they still exist"
    assert paris in usages(scene.outcome(observed, pending="objects")), "whether they exist is not answered"

    scene.objects = dict(observed)
    assert usages(scene.outcome(observed)) == {"h100-frankfurt/provider-usage": "h100-frankfurt-d76f111a"}


def test_usages_stay_after_an_error() -> None:
    scene = AtRest("model-cache", "ModelCache")
    expected = usages(scene.at_rest())
    assert len(expected) == 2
    assert usages(recover(Call(xr=scene.xr, observed=copy.deepcopy(scene.objects)))) == expected


def test_usage_that_crossplane_does_not_observe_is_adopted_and_then_deleted() -> None:
    """Histories, seed 55: one that Crossplane's list lost kept the ClusterProviderConfig as long as its deployment."""
    scene = AtRest("two-environments", "ModelDeployment")
    placement = scene.objects["placement-a100-oslo"]
    environment = next(ref for ref in scene.control.all("InferenceEnvironment") if ref.name == "a100-oslo")
    deleting = copy.deepcopy(scene.control.store[environment])
    mapping(deleting, "metadata")["deletionTimestamp"] = DELETED
    present, scene.control.store[environment] = scene.control.store[environment], deleting
    usage = as_applied(scene.at_rest(), "provider-usage-a100-oslo")
    scene.control.store[environment] = present
    assert text(placement, "spec.inferenceEnvironmentRef.name") == "a100-oslo"

    observed, scene.objects = scene.objects, {**scene.objects, "provider-usage-a100-oslo": usage}
    adopted = scene.outcome(observed).composed["provider-usage-a100-oslo"].manifest
    assert text(adopted, "metadata.resourceVersion") == "7", "as it was seen, so that it is not created again"
    assert usages(scene.at_rest()) == {}, "it is observed, and nothing needs it"
    scene.objects = observed
    assert usages(scene.at_rest()) == {}


@pytest.mark.parametrize(
    ("age", "finalizers", "is_adopted"), [(59, [], False), (60, [], True), (59, ["held"], True)], ids=str
)
def test_what_may_be_deleted_already_is_not_created_again(age: int, finalizers: list[JSON], is_adopted: bool) -> None:
    """A list may show what was deleted a moment ago; where nothing holds it, applying it would create it again."""
    scene = cache_that_left_one_environment()
    paris = "h100-paris/provider-usage"
    metadata = mapping(scene.objects[paris], "metadata")
    metadata.update({"creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers})
    observed = {key: m for key, m in scene.objects.items() if not key.startswith("h100-paris/")}
    scene.objects = {key: m for key, m in scene.objects.items() if key in observed or key == paris}
    created = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    outcome = scene.outcome(observed, now=created + age)
    assert (paris in outcome.composed) is is_adopted
    assert outcome.drops == (), "nothing goes that Crossplane does not observe"


def test_usage_of_a_cache_that_crossplane_does_not_observe_is_adopted_and_then_deleted() -> None:
    scene = cache_that_left_one_environment()
    paris = "h100-paris/provider-usage"
    observed = {key: m for key, m in scene.objects.items() if not key.startswith("h100-paris/")}
    scene.objects = {key: m for key, m in scene.objects.items() if key in observed or key == paris}
    adopted = scene.outcome(observed).composed[paris].manifest
    assert text(adopted, "metadata.resourceVersion") == "7"
    assert paris not in usages(scene.at_rest())


def as_applied(outcome: Outcome, key: str) -> Manifest:
    """Returns a usage as the API server has it."""
    manifest = copy.deepcopy(outcome.composed[key].manifest)
    owner: Manifest = {"apiVersion": "x", "kind": "ModelDeployment", "name": "x", "uid": UID, "controller": True}
    annotations: Manifest = {COMPOSITION_KEY: key}
    more: Manifest = {"ownerReferences": [owner], "resourceVersion": "7", "uid": "usage", "annotations": annotations}
    mapping(manifest, "metadata").update(more)
    return manifest
