"""Which Objects that Crossplane does not observe are a composite's own, which are asked for, and that none leaves."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from function.contract import Answer, Answered, Call, Composed, RequiredResource
from function.kube.manifests import JSON, Manifest, get
from function.remote.adoption import adopt_objects, carry_over_all, find_orphan_objects, observe_orphans
from function.remote.object_writer import object_name
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


def test_finds_only_own_orphan_objects() -> None:
    found = find_orphan_objects(CALL, answer(*FOREIGN.values(), LOST, an_object("job-lost", spec={})))
    assert found == {"job-lost": LOST}, [reason for reason, m in FOREIGN.items() if m in found.values()]
    unnamed = Call(xr={"metadata": {"name": "chat-env", "namespace": "team"}})
    owned_by_none = an_object("job-j", metadata__ownerReferences=[{"uid": "", "controller": True}])
    assert find_orphan_objects(unnamed, answer(LOST, owned_by_none)) == {}, "a composite without uid owns nothing"


def test_does_not_load_observed_objects() -> None:
    def unread() -> Manifest:
        raise AssertionError("it is observed")

    call = Call(xr=XR, observed={"job-seen": an_object("job-seen", metadata__uid="seen")})
    again = RequiredResource(b"", unread, "seen")
    assert find_orphan_objects(call, (again, *answer(LOST))) == {"job-lost": LOST}


def test_recognises_relabelled_orphan_by_name() -> None:
    label: JSON = {"app.kubernetes.io/managed-by": "helm"}
    ours = an_object("job-k", metadata__labels=label, metadata__name=object_name("chat-env", "job-k"))
    assert find_orphan_objects(CALL, answer(ours)) == {"job-k": ours}


def versions(composed: Mapping[str, Composed]) -> dict[str, JSON]:
    """Return over which version each is written; None: over any."""
    return {key: get(item.manifest, "metadata.resourceVersion") for key, item in composed.items()}


def test_keeps_orphan_until_it_is_observed() -> None:
    lost = {"job-lost": LOST}
    call = observe_orphans(CALL, lost)
    assert call == replace(CALL, observed={**CALL.observed, **lost})
    new = Composed(manifest={"metadata": {"name": "new"}, "spec": {}})
    both = {"job-lost": new, "job-new": new}
    kept = adopt_objects(both, call, lost)
    assert versions(kept) == {"job-lost": "7", "job-new": None}, "an orphan is written over what was seen of it"
    assert {key: item.manifest["spec"] for key, item in kept.items()} == {"job-lost": {}, "job-new": {}}
    leaving = adopt_objects({"job-new": new}, call, lost)
    assert versions(leaving) == {"job-new": None, "job-lost": "7"}, "what is observed goes as decided"
    assert get(leaving["job-lost"].manifest, "spec.managementPolicies") == ["Observe", "Delete"], (
        "it may be gone by now"
    )
    assert adopt_objects({"job-new": new}, CALL, {}) == {"job-new": new}, "without one it goes as decided"


def test_keeps_everything_while_orphan_service_is_deleted() -> None:
    lost = {"service-lost": an_object("service-lost")}
    new = {"service-new": Composed(manifest={"metadata": {"name": "new"}, "spec": {}})}
    held = adopt_objects(new, observe_orphans(CALL, lost), lost)
    assert versions(held) == {"service-lost": "7", "job-seen": "7"}
    policies = {key: get(item.manifest, "spec.managementPolicies") for key, item in held.items()}
    assert policies == {"service-lost": ["Observe", "Delete"], "job-seen": None}


def test_carries_over_everything_with_orphans() -> None:
    kept = carry_over_all(CALL, answer(LOST))
    assert versions(kept) == {"job-lost": "7", "job-seen": "7"}
    assert {key: item.manifest["spec"] for key, item in kept.items()} == dict.fromkeys(kept, LOST["spec"])
    assert carry_over_all(CALL, Answer.PENDING).keys() == {"job-seen"}
