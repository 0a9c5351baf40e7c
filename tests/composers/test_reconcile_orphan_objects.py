"""Which Objects that Crossplane does not observe are a composite's own, which are asked for, and that none leaves."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from function.composers import orphan_objects
from function.contract import Answered, Call, Composed, RequiredResource, Requirement
from function.kube.manifests import JSON, Manifest, get
from function.remote.object_writer import object_name
from function.remote.orphans import with_orphans
from function.serving.reconcile import service_name
from tests import builders
from tests.support.remote_scene import put

V1 = "kubernetes.m.crossplane.io/v1alpha1"
XR: Manifest = {"metadata": {"name": "chat-env", "namespace": "team", "uid": "me"}}
OWNERS: JSON = [{"uid": "another"}, {"uid": "me", "controller": True}]


def an_object(key: str, **edits: JSON) -> Manifest:
    """Return an Object of this composite under a name of its own, edited by path."""
    made: Manifest = {
        "apiVersion": V1,
        "kind": "Object",
        "metadata": {
            "name": f"of-{key}",
            "namespace": "team",
            "resourceVersion": "7",
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
            "annotations": {"crossplane.io/composition-resource-name": key},
            "ownerReferences": OWNERS,
        },
        "spec": {"forProvider": {"manifest": {"kind": "Job"}}},
    }
    for path, value in edits.items():
        put(made, path.replace("__", "."), value)
    return made


def answer(*manifests: Manifest) -> Answered:
    """Return what was found for a requirement."""
    return tuple(RequiredResource(b"", partial(dict, manifest)) for manifest in manifests)


LOST = an_object("job-lost")
CALL = Call(xr=XR, observed={"job-seen": an_object("job-seen")})
FOREIGN = {
    "of another composite": an_object("job-a", metadata__ownerReferences=[{"uid": "another", "controller": True}]),
    "of nobody": an_object("job-b", metadata__ownerReferences=None),
    "this one is no controller of it": an_object("job-c", metadata__ownerReferences=[{"uid": "me"}]),
    "anybody can write an owner elsewhere": an_object("job-d", metadata__namespace="other"),
    "it has no name among what is composed": an_object("job-e", metadata__annotations=None),
    "another has its name among what is observed": an_object("job-seen"),
    "it is observed, under another name": an_object("job-f", metadata__name="of-job-seen"),
    "it goes": an_object("job-g", metadata__deletionTimestamp="2026-01-01T00:00:00Z"),
    "of another manager": an_object("job-h", metadata__labels={"app.kubernetes.io/managed-by": "helm"}),
    "of a kind that we do not compose": an_object("job-i", kind="Pod"),
}


def test_only_what_this_composite_composed_is_found() -> None:
    found = orphan_objects.found(CALL, [answer(*FOREIGN.values()), answer(LOST, an_object("job-lost", spec={}))])
    assert found == {"job-lost": LOST}, [reason for reason, m in FOREIGN.items() if m in found.values()]
    unnamed = Call(xr={"metadata": {"name": "chat-env", "namespace": "team"}})
    owned_by_none = an_object("job-j", metadata__ownerReferences=[{"uid": "", "controller": True}])
    assert orphan_objects.found(unnamed, [answer(LOST, owned_by_none)]) == {}, "a composite without uid owns nothing"


def test_what_is_observed_is_not_read_again() -> None:
    def unread() -> Manifest:
        raise AssertionError("it is observed")

    call = Call(xr=XR, observed={"job-seen": an_object("job-seen", metadata__uid="seen")})
    again = RequiredResource(b"", unread, "seen")
    assert orphan_objects.found(call, [(again, *answer(LOST))]) == {"job-lost": LOST}


def test_one_on_which_the_label_was_changed_is_known_by_its_name() -> None:
    label: JSON = {"app.kubernetes.io/managed-by": "helm"}
    ours = an_object("job-k", metadata__labels=label, metadata__name=object_name("chat-env", "job-k"))
    assert orphan_objects.found(CALL, [answer(ours)]) == {"job-k": ours}


REFS: JSON = [
    {"apiVersion": V1, "kind": "Object", "name": "of-job-lost"},
    {"apiVersion": V1, "kind": "Object", "name": "of-job-seen"},
    {"apiVersion": V1, "kind": "Usage", "name": "no-object"},
    {"apiVersion": "example.org/v1", "kind": "Object", "name": "of-another-provider"},
    {"apiVersion": V1, "kind": "Object"},
]
SERVED = an_object("service-chat")


@pytest.mark.parametrize(
    ("status", "observed", "want", "reason"),
    [
        (None, {}, {"of-job-seen"}, "what the list names"),
        ("was", {}, {"of-job-seen", object_name("chat-env", "service-was")}, "and the service that it says"),
        ("was", {"service-chat": SERVED}, {"of-job-seen"}, "unless a service is observed"),
        (None, CALL.observed, set(), "what is observed is not looked for"),
    ],
)
def test_what_may_be_there_is_asked_for_by_name(
    status: JSON, observed: Mapping[str, Manifest], want: set[str], reason: str
) -> None:
    xr: Manifest = {**XR, "spec": {"crossplane": {"resourceRefs": REFS}}, "status": {"service": {"name": status}}}
    assert orphan_objects.expected(Call(xr=xr, observed=observed), None) == sorted({"of-job-lost"} | want), reason


def test_the_service_that_a_placement_shall_have_is_asked_for_by_name() -> None:
    placement = builders.placement(name="chat-env", namespace="team")
    assert placement.shape
    name = object_name("chat-env", f"service-{service_name(placement, placement.shape)}")
    assert orphan_objects.expected(Call(xr=XR), placement) == [name]
    assert orphan_objects.expected(Call(xr=XR), replace(placement, shape=None)) == []
    assert orphan_objects.expected(Call(xr=XR, observed={"service-a": SERVED}), placement) == []


def versions(composed: Mapping[str, Composed]) -> dict[str, JSON]:
    """Return over which version each is written; None: over any."""
    return {key: get(item.manifest, "metadata.resourceVersion") for key, item in composed.items()}


def test_nothing_leaves_while_one_is_not_observed() -> None:
    lost = {"job-lost": LOST}
    call = with_orphans(CALL, lost)
    assert call == replace(CALL, observed={**CALL.observed, **lost})
    new = Composed(manifest={"metadata": {"name": "new"}, "spec": {}})
    both = {"job-lost": new, "job-new": new}
    kept = orphan_objects.kept(both, call, lost)
    assert versions(kept) == {"job-lost": "7", "job-new": None}, "an orphan is written over what was seen of it"
    assert {key: item.manifest["spec"] for key, item in kept.items()} == {"job-lost": {}, "job-new": {}}
    leaving = orphan_objects.kept({"job-new": new}, call, lost)
    assert versions(leaving) == {"job-new": None, "job-lost": "7"}, "what is observed goes as decided"
    assert get(leaving["job-lost"].manifest, "spec.managementPolicies") == ["Observe", "Delete"], (
        "it may be gone by now"
    )
    assert orphan_objects.kept({"job-new": new}, CALL, {}) == {"job-new": new}, "without one it goes as decided"


def test_nothing_changes_while_a_service_that_shall_go_is_not_observed() -> None:
    lost = {"service-lost": an_object("service-lost")}
    new = {"service-new": Composed(manifest={"metadata": {"name": "new"}, "spec": {}})}
    held = orphan_objects.kept(new, with_orphans(CALL, lost), lost)
    assert versions(held) == {"service-lost": "7", "job-seen": "7"}
    policies = {key: get(item.manifest, "spec.managementPolicies") for key, item in held.items()}
    assert policies == {"service-lost": ["Observe", "Delete"], "job-seen": None}


def test_everything_as_it_is_has_what_was_found_of_the_objects() -> None:
    asked = {
        "objects": Requirement(api_version=V1, kind="Object"),
        "late": Requirement(api_version=V1, kind="Object"),
        "model": Requirement(api_version="modelplane.ai/v1alpha1", kind="ClusterModel"),
    }
    call = replace(CALL, answers={"objects": answer(LOST), "model": answer(an_object("job-no-object-asked-for"))})
    kept = orphan_objects.everything_as_it_is(call, asked)
    assert versions(kept) == {"job-lost": "7", "job-seen": "7"}
    assert {key: item.manifest["spec"] for key, item in kept.items()} == dict.fromkeys(kept, LOST["spec"])
