"""A claim with `retain: true` outlives its deployment; an Object of the environment still shows that it exists."""

import copy

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, get, mapping, strings
from function.parts.kept_claims import MAX_KEPT
from tests.support.orphans import AtRest
from tests.support.plane import only

CLAIM = "weights-0123456789abcdef-1a2b3c4d"
KEY = f"kept-{CLAIM}"
GONE: JSON = [{"type": "Synced", "status": "False", "message": "observe failed: external resource does not exist"}]


def retaining(*, cache: Manifest | None = None, completed: str = "2026-01-01T00:00:00Z") -> tuple[AtRest, Ref]:
    """Returns an environment with a placement that keeps its weights, and the placement."""
    scene = AtRest("kimi-k2-two-nodes", "InferenceEnvironment")
    ref = only(scene.control, "ModelPlacement")
    placement = copy.deepcopy(scene.control.store[ref])
    mapping(placement, "spec")["modelCache"] = {"type": "PVC", "retain": True} if cache is None else cache
    mapping(placement, "status.storage").update(
        {"type": "RetainedPVC", "claimName": CLAIM, "namespace": "assistants", "completedAt": completed}
    )
    scene.control.store[ref] = placement
    return scene, ref


def test_the_environment_observes_a_kept_claim() -> None:
    scene, _ = retaining()
    item = scene.at_rest().composed[KEY]
    assert get(item.manifest, "spec.managementPolicies") == ["Observe"], "it is never written and never deleted"
    described = mapping(item.manifest, "spec.forProvider.manifest")
    assert (described["kind"], described["metadata"]) == (
        "PersistentVolumeClaim",
        {"name": CLAIM, "namespace": "assistants"},
    )
    assert strings(item.manifest, "metadata.labels")["modelplane.ai/kept-for"] == "assistants"
    assert item.ready, "an environment is Ready without it"


@pytest.mark.parametrize(
    ("cache", "completed", "why"),
    [
        ({"type": "PVC"}, "2026-01-01T00:00:00Z", "the claim is deleted with its placement"),
        ({"claimName": "team"}, "2026-01-01T00:00:00Z", "the claim is the user's"),
        (None, "", "there are no weights on it yet"),
    ],
    ids=["not-retained", "of-a-user", "downloading"],
)
def test_the_environment_observes_no_other_claim(cache: Manifest | None, completed: str, why: str) -> None:
    scene, _ = retaining(cache=cache, completed=completed)
    assert KEY not in scene.at_rest().composed, why


def test_the_environment_observes_no_claim_that_all_models_share() -> None:
    scene, _ = retaining()
    mapping(scene.xr, "spec")["storage"] = {"mode": "Shared", "sharedClaim": {"name": "team", "size": "2Ti"}}
    assert KEY not in scene.at_rest().composed


def observe_kept(scene: AtRest, conditions: JSON = None) -> None:
    """Lets Crossplane observe the Object of the kept claim."""
    manifest = copy.deepcopy(scene.at_rest().composed[KEY].manifest)
    mapping(manifest, "metadata")["resourceVersion"] = "7"
    claim = mapping(manifest, "spec.forProvider.manifest")
    manifest["status"] = (
        {"conditions": conditions}
        if conditions
        else {"atProvider": {"manifest": {**claim, "status": {"phase": "Bound"}}}}
    )
    scene.objects[KEY] = manifest


def test_the_object_stays_without_the_placement_while_the_claim_exists() -> None:
    scene, placement = retaining()
    observe_kept(scene)
    scene.control.delete(placement)
    outcome = scene.at_rest()
    assert KEY in outcome.composed
    assert KEY not in {drop.key for drop in outcome.drops}


def test_the_object_goes_once_the_claim_is_gone_and_no_placement_keeps_it() -> None:
    scene, placement = retaining()
    observe_kept(scene, GONE)
    assert KEY in scene.at_rest().composed, "the placement creates its claim again"
    (placements,) = (name for name in scene.at_rest().requirements if name.startswith("placements"))
    scene.control.delete(placement)
    assert KEY in {drop.key for drop in scene.at_rest().drops}
    unanswered = scene.outcome(scene.objects, pending=placements)
    assert (KEY in unanswered.composed, unanswered.drops) == (True, ())


def test_the_number_of_observed_claims_is_bounded() -> None:
    """Known claims stay, and a further claim is observed only below the limit."""
    scene, _ = retaining()
    observe_kept(scene)
    known = {f"kept-weights-{number}": scene.objects[KEY] for number in range(MAX_KEPT)}
    del scene.objects[KEY]
    scene.objects.update(known)
    composed = scene.at_rest().composed
    assert KEY not in composed
    assert known.keys() <= composed.keys()
    del scene.objects["kept-weights-0"]
    assert KEY in scene.at_rest().composed
