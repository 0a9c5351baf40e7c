"""Nothing that a service reads is deleted: readers are known by name and by the URI that they serve from."""

import copy

from crossplane.function import resource

from function.cli.store import Ref
from function.kube.manifests import Manifest, listing, mapping, text
from tests.composers.plane import call, change, only, plane, remote, request_of
from tools.control_plane import ControlPlane

STORY = "model-cache"
PLACEMENTS = "placements"


def _cache(control: ControlPlane) -> Ref:
    return only(control, "ModelCache")


def _reader(control: ControlPlane) -> Ref:
    return only(control, "ModelPlacement")


def _environment(control: ControlPlane) -> str:
    return text(control.composites[_reader(control)], "spec.inferenceEnvironmentRef.name")


def _bytes(names: set[str]) -> set[str]:
    return {name for name in names if "/claim-" in name or "/job-" in name}


def _deselect(control: ControlPlane) -> None:
    change(control, _cache(control), "spec.environmentSelector", {"matchLabels": {"nobody": "has-this"}})


def _composed(control: ControlPlane, **changes: list[Manifest] | None) -> set[str]:
    """Return what is composed of the cache when answers are other than they should be; None takes one back."""
    request = request_of(control, _cache(control))
    for name, manifests in changes.items():
        for key in [k for k in request.required_resources if k == name or k.startswith(f"{name}-")]:
            del request.required_resources[key]
            if manifests is not None:
                items = request.required_resources[key].items
                for manifest in manifests:
                    resource.update(items.add(), manifest)
    return _bytes(set(call(request).desired.resources))


def test_a_list_that_is_briefly_empty_deletes_nothing() -> None:
    control = plane(STORY)
    read = {key for key in control.observed(_cache(control)) if key.startswith(_environment(control))}
    _deselect(control)
    kept = _composed(control, placements=[])
    assert kept == _bytes(read), "the reader is asked for by name, and answers"


def test_a_reader_that_has_not_answered_deletes_nothing() -> None:
    control = plane(STORY)
    before = _bytes(set(control.observed(_cache(control))))
    _deselect(control)
    assert _composed(control, placements=[], reader=None) == before


def test_bytes_go_when_no_reader_is_left() -> None:
    control = plane(STORY)
    _deselect(control)
    assert _composed(control, placements=[], reader=[]) == set()


def test_a_reader_that_cannot_be_parsed_is_a_reader() -> None:
    control = plane(STORY)
    broken = copy.deepcopy(control.composites[_reader(control)])
    mapping(broken, "spec").pop("inferenceEnvironmentRef")
    _deselect(control)
    environment = _environment(control)
    assert {key.partition("/")[0] for key in _composed(control, placements=[], reader=[broken])} == {environment}


def test_a_new_revision_leaves_the_bytes_of_a_service_that_has_not_moved() -> None:
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
        assert there or served == planned, "planned is not served"
        still |= there and served != planned
        # A list that shows nobody changes nothing, at any time on the way.
        if served != planned:
            assert old <= _composed(control, placements=[])
    assert still
    assert not old & set(remote(control, cache, f"{environment}/")), "then they go"


def test_a_placement_that_left_the_cache_reads_from_it_until_its_service_has_moved() -> None:
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


def test_readers_are_remembered_by_name() -> None:
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
