"""A claim is composed with the immutable fields of the observed claim, and differences from the plan are problems."""

from dataclasses import dataclass, replace

import pytest

from function.kube.manifests import Manifest
from function.remote.object_writer import ManagementPolicy
from function.weights.claim import ClaimPlan, Size, SizeFrom, build_claim, find_immutable_changes
from tests.support.weights_requests import GIB

PLAN = ClaimPlan(
    name="kimi",
    namespace="team",
    policy=ManagementPolicy.FULL,
    size=Size(amount=720 * GIB, source=SizeFrom.EXPLICIT),
    class_name="filestore-rwx",
    access_mode="ReadWriteMany",
)
CLASS_FIXED = "claim kimi is of class shared-vast and cannot become filestore-rwx; delete it to move"


def live(class_name: str | None, mode: str) -> Manifest:
    spec: Manifest = {"accessModes": [mode], "resources": {"requests": {"storage": "720Gi"}}}
    return {"spec": {**spec, "storageClassName": class_name} if class_name else spec}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    plan: ClaimPlan
    observed: Manifest
    want: Manifest | None
    problems: tuple[str, ...] = ()


def spec(class_name: str | None, mode: str = "ReadWriteMany", size: str = "720Gi") -> Manifest:
    found: Manifest = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    return {**found, "storageClassName": class_name} if class_name else found


CASES = (
    Case("new", "a new claim is composed as planned", PLAN, {}, spec("filestore-rwx")),
    Case("default-class", 'in a claim "" would mean no class', replace(PLAN, class_name=""), {}, spec(None)),
    Case(
        "default-class-was-filled-in",
        "the default class that the cluster has filled in is no difference",
        replace(PLAN, class_name=""),
        live("standard-rwx", "ReadWriteMany"),
        spec(None),
    ),
    Case(
        "settled",
        "an observed claim that equals the plan has no problem",
        PLAN,
        live("filestore-rwx", "ReadWriteMany"),
        spec("filestore-rwx"),
    ),
    Case(
        "another-class",
        "the API server refuses another class, so that the observed class is kept",
        PLAN,
        live("shared-vast", "ReadWriteMany"),
        spec("shared-vast"),
        (f"spec.storageClassName: {CLASS_FIXED}",),
    ),
    Case(
        "another-access-mode",
        "the API server refuses another access mode, so that the observed mode is kept",
        PLAN,
        live("filestore-rwx", "ReadWriteOnce"),
        spec("filestore-rwx", "ReadWriteOnce"),
        ("spec.accessModes: claim kimi is ReadWriteOnce and cannot become ReadWriteMany; delete it to move",),
    ),
    Case(
        "grown",
        "the size of a claim is the only field that may change",
        replace(PLAN, size=Size(amount=900 * GIB, source=SizeFrom.EXPLICIT)),
        live("filestore-rwx", "ReadWriteMany"),
        spec("filestore-rwx", size="900Gi"),
    ),
    Case(
        "users-claim",
        "the user's claim is only observed, so that no spec is composed",
        replace(PLAN, policy=ManagementPolicy.OBSERVE_ONLY),
        live("shared-vast", "ReadWriteOnce"),
        None,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_builds_claim_and_finds_immutable_changes(case: Case) -> None:
    built = build_claim(case.plan, case.observed)
    assert built.get("spec") == case.want, case.reason
    metadata = built["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["name"], metadata["namespace"]) == ("kimi", "team"), case.reason
    assert tuple(str(p) for p in find_immutable_changes(case.plan, case.observed)) == case.problems, case.reason
