"""A placement that is written by hand needs the label of its ModelCache, whichever of both was created first."""

import copy

import pytest

from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, listing, mapping, text
from tests.support.plane import call, change, manifests, plane, remote, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

STORY = "model-cache"
CACHE_LABEL = "modelplane.ai/cache"


def by_hand() -> Manifest:
    """Return a placement as a person writes it, without the label of its ModelCache."""
    control = plane(STORY)
    found = copy.deepcopy(control.composites[control.all("ModelPlacement")[0]])
    spec = {key: value for key, value in mapping(found, "spec").items() if key != "deploymentRef"}
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {
            "name": "by-hand",
            "namespace": text(found, "metadata.namespace"),
            "labels": {"modelplane.ai/environment": text(found, "spec.inferenceEnvironmentRef.name")},
        },
        "spec": spec,
    }


def created(*order: Manifest) -> ControlPlane:
    """Return a control plane at rest on which these were created one after another, after model and environments."""
    control = ControlPlane(Engine(call), World())
    control.apply([m for m in manifests(STORY) if m["kind"] not in ("ModelCache", "ModelDeployment")])
    control.settle()
    for manifest in order:
        control.apply([manifest])
        control.settle()
    return control


def cache() -> Manifest:
    (found,) = [m for m in manifests(STORY) if m["kind"] == "ModelCache"]
    return found


@pytest.mark.parametrize("first", ["cache", "placement"])
def test_waits_for_the_label_of_its_cache_whichever_came_first(first: str) -> None:
    placement = by_hand()
    control = created(*((cache(), placement) if first == "cache" else (placement, cache())))
    ref = Ref.of(placement)
    assert said(control, ref, "Admitted") == ("False", "LabelMissing")
    assert f"must include {CACHE_LABEL}: qwen-weights; " in text(
        condition(control.composites[ref], "Admitted"), "message"
    )
    assert control.store.owned(ref) == {}
    change(control, ref, "metadata.labels", {**mapping(placement, "metadata.labels"), CACHE_LABEL: "qwen-weights"})
    control.settle()
    assert said(control, ref, "Admitted") == ("True", "Admitted")
    assert said(control, ref, "ServiceReady") == ("True", "Serving")


@pytest.mark.parametrize("first", ["cache", "placement"])
def test_runs_on_when_it_loses_the_label_of_its_cache(first: str) -> None:
    placement = by_hand()
    labels = mapping(placement, "metadata.labels")
    labelled = {
        **placement,
        "metadata": {**mapping(placement, "metadata"), "labels": {**labels, CACHE_LABEL: "qwen-weights"}},
    }
    control = created(*((cache(), labelled) if first == "cache" else (labelled, cache())))
    ref = Ref.of(placement)
    serves = remote(control, ref, "service-")
    assert said(control, ref, "ServiceReady") == ("True", "Serving")
    change(control, ref, "metadata.labels", labels)
    control.settle()
    assert said(control, ref, "Admitted") == ("True", "Admitted")
    assert remote(control, ref, "service-") == serves
    readers = listing(control.composites[Ref.of(cache())], "status.readers")
    assert [reader["name"] for reader in readers] == ["by-hand"]
