"""Objects of a ModelCache that Crossplane composed and does not observe are found by their label and kept.

In a simulated history a cache was selected for other environments while its list was stale: claim, Job and token of the
earlier one stayed on the hub with nothing to delete them.
"""

import pytest

from function.kube.manifests import JSON, mapping, text
from tests.support.orphans import AtRest


def test_adopts_orphan_objects_of_cache() -> None:
    scene = AtRest("model-cache", "ModelCache")
    rest, lost = scene.at_rest(), scene.outcome()
    assert lost.composed.keys() == rest.composed.keys() == scene.objects.keys()
    assert lost.status == rest.status
    objects = {key: item for key, item in lost.composed.items() if item.manifest["kind"] == "Object"}
    assert objects
    for key, item in objects.items():
        assert text(item.manifest, "metadata.resourceVersion") == "7"
        assert "uid" not in mapping(item.manifest, "metadata"), (
            "an item without a uid does not count as composed in Crossplane's list"
        )
        assert item.manifest["spec"] == rest.composed[key].manifest["spec"], key


@pytest.mark.parametrize("selector", [None, {}], ids=["selects-another", "says-two-things"])
def test_keeps_orphans_of_deselected_environment_until_observed(selector: JSON) -> None:
    scene = AtRest("model-cache", "ModelCache")
    nowhere: list[JSON] = ["nowhere"]
    mapping(scene.xr, "spec").update({"environments": nowhere, "environmentSelector": selector})
    mapping(scene.xr, "status")["readers"] = []
    assert scene.outcome().composed.keys() == scene.objects.keys()


def test_adopts_orphan_objects_whose_label_is_gone() -> None:
    scene = AtRest("model-cache", "ModelCache")
    rest = scene.at_rest()
    for manifest in scene.objects.values():
        mapping(manifest, "metadata")["labels"] = {}
    refs: list[JSON] = [
        {"apiVersion": m["apiVersion"], "kind": m["kind"], "name": text(m, "metadata.name")}
        for m in scene.objects.values()
        if m["kind"] == "Object"
    ]
    mapping(scene.xr, "spec")["crossplane"] = {"resourceRefs": refs}
    lost = scene.outcome()
    assert lost.composed.keys() == rest.composed.keys()
    assert lost.status == rest.status
