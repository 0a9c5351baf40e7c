"""Objects of a ModelCache that Crossplane composed and does not observe: found by their label, and kept until it does.

In a simulated history a cache was selected for other environments while its list was late: claim, Job and token of the
earlier one stayed on the hub with nobody to delete them.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from function.composers import compose
from function.contract import Answered, Call, Outcome, RequiredResource, Requirement
from function.kube.manifests import JSON, Manifest, listing, mapping, strings, text
from tests.support.plane import only, plane

ME = "uid-of-the-cache"


class Scene:
    """A cache at rest, and what is there of it."""

    def __init__(self) -> None:
        self.control = plane("model-cache")
        ref = only(self.control, "ModelCache")
        self.xr = copy.deepcopy(self.control.composites[ref])
        mapping(self.xr, "metadata")["uid"] = ME
        self.objects = {key: copy.deepcopy(m) for key, m in self.control.store.owned(ref).items()}
        for manifest in self.objects.values():
            listing(manifest, "metadata.ownerReferences")[0]["uid"] = ME
            mapping(manifest, "metadata")["resourceVersion"] = "7"

    def outcome(self, observed: Mapping[str, Manifest] | None = None) -> Outcome:
        """Return what is composed when Crossplane observes as much and finds everything that is asked for."""
        call = Call(xr=self.xr, observed=observed or {})
        answers: dict[str, Answered] = {}
        for _ in range(4):
            asked = compose(replace(call, answers=answers)).requirements
            answers = {name: self._find(wanted) for name, wanted in asked.items()}
        return compose(replace(call, answers=answers))

    def _find(self, wanted: Requirement) -> Answered:
        if wanted.kind != "Object":
            return self.control.store.find(wanted)
        return tuple(
            RequiredResource(b"", partial(copy.deepcopy, m))
            for m in self.objects.values()
            if text(m, "metadata.namespace") == wanted.namespace
            and wanted.labels.items() <= strings(m, "metadata.labels").items()
        )


def test_adopts_orphan_objects_of_cache() -> None:
    scene = Scene()
    rest, lost = scene.outcome(scene.objects), scene.outcome()
    assert lost.composed.keys() == rest.composed.keys() == scene.objects.keys()
    assert lost.status == rest.status
    for key, item in lost.composed.items():
        assert text(item.manifest, "metadata.resourceVersion") == "7"
        assert "uid" not in mapping(item.manifest, "metadata"), "Crossplane's list of what it composed knows none"
        assert item.manifest["spec"] == rest.composed[key].manifest["spec"], key


@pytest.mark.parametrize("selector", [None, {}], ids=["selects-another", "says-two-things"])
def test_keeps_orphans_of_deselected_environment_until_observed(selector: JSON) -> None:
    scene = Scene()
    nowhere: list[JSON] = ["nowhere"]
    mapping(scene.xr, "spec").update({"environments": nowhere, "environmentSelector": selector})
    mapping(scene.xr, "status")["readers"] = []
    assert scene.outcome().composed.keys() == scene.objects.keys()
