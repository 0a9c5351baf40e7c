"""Which resources are a composite's own, and which of them are adopted although Crossplane does not observe them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import pytest

from function.composers import COMPOSERS
from function.contract import Answer, Call, Composed, RequiredResource
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, get, text
from function.remote.adoption import adopt, adopt_all, find_orphan_placements, find_orphans, observe_orphans, select_own
from function.remote.composed_kinds import NamePatterns
from function.remote.object_writer import carry_over
from tests.support import builders
from tests.support.remote_scene import set_field

NAMES = NamePatterns.join(composer.names for composer in COMPOSERS.values())
OBJECT = "kubernetes.m.crossplane.io/v1alpha1"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    name: str
    version: str
    kind: str
    manager: str | None
    want: bool


JOB = "job-x-0a1b2c3d"
CASES = (
    Case(
        "labelled",
        "the managed-by label identifies a resource under the name of another release",
        "odd",
        OBJECT,
        "Object",
        "modelplane",
        True,
    ),
    Case(
        "other-version",
        "an Object of a later API version is owned as well",
        "odd",
        "kubernetes.m.crossplane.io/v1",
        "Object",
        "modelplane",
        True,
    ),
    Case(
        "unlabelled",
        "a resource without the managed-by label is recognised by its name",
        JOB,
        OBJECT,
        "Object",
        None,
        True,
    ),
    Case(
        "relabelled",
        "a resource with another managed-by label is recognised by its name",
        JOB,
        OBJECT,
        "Object",
        "helm",
        True,
    ),
    Case(
        "of-a-cache",
        "a resource is recognised by its name after the prefix of an environment",
        f"east/{JOB}",
        OBJECT,
        "Object",
        "helm",
        True,
    ),
    Case(
        "odd", "neither label nor name identifies the resource as the function's", "odd", OBJECT, "Object", None, False
    ),
    Case("prefix-only", "a prefix alone is no name that the function gives", "job-", OBJECT, "Object", None, False),
    Case(
        "unhashed",
        "the names that the function gives to Jobs end in a hash",
        "job-nightly",
        OBJECT,
        "Object",
        "helm",
        False,
    ),
    Case("name-of-another-kind", "the function gives other names to Services", JOB, "v1", "Service", "helm", False),
    Case(
        "other-kind",
        "the function never composes a Namespace on the control plane",
        "namespace",
        "v1",
        "Namespace",
        "modelplane",
        False,
    ),
    Case(
        "other-group",
        "an Object of another API group belongs to another provider",
        JOB,
        "example.org/v1",
        "Object",
        "modelplane",
        False,
    ),
)


def _manifest(case: Case) -> Manifest:
    labels: Manifest = {"app.kubernetes.io/managed-by": case.manager} if case.manager else {}
    return {"apiVersion": case.version, "kind": case.kind, "metadata": {"labels": labels}}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_ownership(case: Case) -> None:
    call = Call(xr={}, observed={case.name: _manifest(case)})
    assert bool(select_own(call, NAMES).observed) is case.want, case.reason


def test_ignores_resources_desired_by_earlier_steps() -> None:
    observed = {JOB: _manifest(CASES[0])}
    assert select_own(Call(xr={}, observed=observed, desired_by_earlier_steps=frozenset({JOB})), NAMES).observed == {}


XR: Manifest = {"metadata": {"name": "chat", "namespace": "team", "uid": "me"}}
KEY = "crossplane.io/composition-resource-name"
OBSERVED: Mapping[str, Manifest] = {"placement-seen": {"metadata": {"name": "chat-seen"}}}


def listed(name: str, *, uid: str = "1", key: str = "", **fields: object) -> tuple[RequiredResource, Placement]:
    """Return a placement of this deployment on `env`, as it is listed; `key`: its composition-resource-name."""
    made = replace(builders.placement(name=name, namespace="team", uid=uid), owner="me")
    annotations: JSON = {KEY: key} if key else {}
    manifest: Manifest = {"metadata": {"name": name, "annotations": annotations}}
    return RequiredResource(b"", partial(dict, manifest)), replace(made, **fields)  # type: ignore[arg-type]  # as named


@pytest.mark.parametrize(
    ("found", "want", "reason"),
    [
        (
            [listed("a", key="placement-env")],
            {"placement-env": "a"},
            "an orphan keeps the name under which it was composed",
        ),
        (
            [listed("a")],
            {"placement-env": "a"},
            "an orphan without a composition-resource-name is named after its environment",
        ),
        (
            [listed("a", key="placement-seen")],
            {"placement-a": "a"},
            "an orphan does not take the name of an observed placement",
        ),
        (
            [listed("a", uid="2"), listed("b", uid="1"), listed("c", uid="3")],
            {"placement-env": "b", "placement-a": "a", "placement-c": "c"},
            "of several orphans, the one with the lowest uid is named after the environment",
        ),
        (
            [listed("b"), listed("a")],
            {"placement-env": "a", "placement-b": "b"},
            "of several orphans with one uid, the first by name is named after the environment",
        ),
        ([listed("a", owner="another")], {}, "a placement of another composite is no orphan of this one"),
        ([listed("a", owner="")], {}, "a placement without an owner is no orphan"),
        (
            [listed("a", namespace="other")],
            {},
            "an owner in another namespace does not count, because any user can write it",
        ),
        ([listed("a", deleting=True)], {}, "a placement that is being deleted is no orphan"),
        ([listed("chat-seen")], {}, "an observed placement is no orphan"),
        ([(listed("a")[0], None)], {}, "a placement that cannot be parsed is no orphan"),
    ],
)
def test_finds_orphan_placements_and_their_names(
    found: list[tuple[RequiredResource, Placement | None]], want: dict[str, str], reason: str
) -> None:
    lost = find_orphan_placements(XR, OBSERVED, found)
    assert {key: text(manifest, "metadata.name") for key, manifest in lost.items()} == want, reason


def test_composite_without_uid_has_no_orphans() -> None:
    assert find_orphan_placements({"metadata": {"namespace": "team"}}, {}, [listed("a", owner="")]) == {}


def test_applies_only_orphans_over_seen_version() -> None:
    item = Composed(manifest={"metadata": {"name": "a"}, "spec": {}})
    over = Composed(manifest={"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}})
    lost: dict[str, Manifest] = {"lost": {"metadata": {"resourceVersion": "7"}}, "gone": {"metadata": {}}}
    composed = {"lost": item, "kept": item, "gone": item}
    assert adopt(composed, lost) == {**composed, "lost": over}


V1 = "kubernetes.m.crossplane.io/v1alpha1"
PLACEMENT: Manifest = {"metadata": {"name": "chat-env", "namespace": "team", "uid": "me"}}
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
        set_field(made, path.replace("__", "."), value)
    return made


def answer(*manifests: Manifest) -> Answer:
    """Return what was found for a requirement."""
    return tuple(RequiredResource(b"", partial(dict, manifest)) for manifest in manifests)


LOST = an_object("job-lost")
CALL = Call(xr=PLACEMENT, observed={"job-seen": an_object("job-seen")})
FOREIGN = {
    "of another composite": an_object("job-a", metadata__ownerReferences=[{"uid": "another", "controller": True}]),
    "without an owner": an_object("job-b", metadata__ownerReferences=None),
    "this one is no controller of it": an_object("job-c", metadata__ownerReferences=[{"uid": "me"}]),
    "any user can write an owner in another namespace": an_object("job-d", metadata__namespace="other"),
    "it has no name among what is composed": an_object("job-e", metadata__annotations=None),
    "another has its name among what is observed": an_object("job-seen"),
    "it is observed, under another name": an_object("job-f", metadata__name="of-job-seen"),
    "it goes": an_object("job-g", metadata__deletionTimestamp="2026-01-01T00:00:00Z"),
    "of another manager": an_object("job-h", metadata__labels={"app.kubernetes.io/managed-by": "helm"}),
    "of a kind that we do not compose": an_object("job-i", kind="Pod"),
}


def test_finds_only_own_orphan_objects() -> None:
    found = find_orphans(CALL, answer(*FOREIGN.values(), LOST, an_object("job-lost", spec={})), NAMES)
    assert found == {"job-lost": LOST}, [reason for reason, m in FOREIGN.items() if m in found.values()]
    unnamed = Call(xr={"metadata": {"name": "chat-env", "namespace": "team"}})
    owned_by_none = an_object("job-j", metadata__ownerReferences=[{"uid": "", "controller": True}])
    assert find_orphans(unnamed, answer(LOST, owned_by_none), NAMES) == {}, "a composite without a uid owns no objects"


def test_does_not_load_observed_objects() -> None:
    def unread() -> Manifest:
        raise AssertionError("it is observed")

    call = Call(xr=PLACEMENT, observed={"job-seen": an_object("job-seen", metadata__uid="seen")})
    again = RequiredResource(b"", unread, "seen")
    assert find_orphans(call, (again, *answer(LOST)), NAMES) == {"job-lost": LOST}


def test_recognises_relabelled_orphan_by_name() -> None:
    label: JSON = {"app.kubernetes.io/managed-by": "helm"}
    ours = an_object(JOB, metadata__labels=label)
    assert find_orphans(CALL, answer(ours), NAMES) == {JOB: ours}


def versions(composed: Mapping[str, Composed]) -> dict[str, JSON]:
    """Return the resourceVersion over which each resource is written; None means any version."""
    return {key: get(item.manifest, "metadata.resourceVersion") for key, item in composed.items()}


def test_keeps_orphan_until_it_is_observed() -> None:
    lost = {"job-lost": LOST}
    call = observe_orphans(CALL, lost)
    assert call == replace(CALL, observed={**CALL.observed, **lost})
    new = Composed(manifest={"metadata": {"name": "new"}, "spec": {}})
    both = {"job-lost": new, "job-new": new}
    kept = adopt_all(both, call, lost)
    assert versions(kept) == {"job-lost": "7", "job-new": None}, (
        "only the orphan is written over its observed resourceVersion"
    )
    assert {key: item.manifest["spec"] for key, item in kept.items()} == {"job-lost": {}, "job-new": {}}
    leaving = adopt_all({"job-new": new}, call, lost)
    assert versions(leaving) == {"job-new": None, "job-lost": "7"}, (
        "an observed Job is dropped as decided, while the orphan is written"
    )
    assert get(leaving["job-lost"].manifest, "spec.managementPolicies") == ["Observe", "Delete"], (
        "an orphan that is not needed gets the Delete policy and may not be created again"
    )
    assert adopt_all({"job-new": new}, CALL, {}) == {"job-new": new}, (
        "without orphans, the composed resources do not change"
    )


def test_keeps_orphan_usage_as_it_is_until_it_is_observed() -> None:
    usage: Manifest = {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {"name": "u", "resourceVersion": "7"},
        "spec": {"reason": "reads"},
    }
    leaving = adopt_all({}, CALL, {"cache-usage": usage})
    assert leaving["cache-usage"].manifest == usage, (
        "a Usage has no management policies, so that it is adopted unchanged"
    )


def test_keeps_everything_while_orphan_service_is_deleted() -> None:
    lost = {"service-lost": an_object("service-lost")}
    new = {"service-new": Composed(manifest={"metadata": {"name": "new"}, "spec": {}})}
    held = adopt_all(new, observe_orphans(CALL, lost), lost)
    assert versions(held) == {"service-lost": "7", "job-seen": "7"}
    policies = {key: get(item.manifest, "spec.managementPolicies") for key, item in held.items()}
    assert policies == {"service-lost": ["Observe", "Delete"], "job-seen": None}


def test_leaves_new_orphan_alone_while_orphan_service_is_deleted() -> None:
    """An orphan that was created recently may be deleted already, and adopting it would create it again."""
    created: Manifest = {"metadata__creationTimestamp": "2026-01-01T00:00:00Z"}
    lost = {key: an_object(key, **created) for key in ("service-lost", "job-lost")}
    set_field(lost["service-lost"], "metadata.finalizers", ["held"])
    now = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    call = replace(observe_orphans(CALL, lost), now=now + 59)
    assert versions(adopt_all({}, call, lost)) == {"service-lost": "7", "job-seen": "7"}
    set_field(lost["service-lost"], "metadata.finalizers", [])
    assert versions(adopt_all({}, call, lost)) == {"job-seen": "7"}
    assert versions(adopt_all({}, replace(call, now=now + 60), lost)) == dict.fromkeys((*lost, "job-seen"), "7")


def test_carries_over_everything_with_orphans() -> None:
    lost = find_orphans(CALL, answer(LOST), NAMES)
    call = observe_orphans(CALL, lost)
    kept = adopt_all(carry_over(call.observed), call, lost)
    assert versions(kept) == {"job-lost": "7", "job-seen": "7"}
    assert {key: item.manifest["spec"] for key, item in kept.items()} == dict.fromkeys(kept, LOST["spec"])
