"""Parsing placements: the ledger gets each one that names an environment, its composer all problems."""

from dataclasses import dataclass

import pytest

from function.api.model_deployment import parse_placement
from function.api.problems import Parsed
from function.domain.allocation import Release, Share
from function.domain.cache import UserClaim
from function.domain.model import ModelRef, Parallelism, Problem, Shape
from function.domain.placement import Placement
from function.domain.records.rollout import RolloutRecord
from function.domain.records.service import ServiceRecord
from function.domain.records.weights import WeightsRecord
from function.kube.manifests import JSON, Manifest
from function.reasons import Phase
from tests.api import manifests

GIB = 2**30


def _read(manifest: Manifest) -> Placement:
    placement = parse_placement(manifest).value
    assert placement
    return placement


def test_parses_every_field() -> None:
    given = manifests.placement(
        modelRef={"kind": "Model", "name": "gemma"},
        topology={"nodes": 2, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 2, "expert": "enabled"}},
        replicas=3,
        modelCache={"claimName": "mine"},
        rollout={"digest": "d1", "whenFull": "Replace"},
    )
    given["metadata"] = {
        "name": "chat-east",
        "namespace": "ml-team",
        "uid": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "annotations": {"modelplane.ai/vram": "1200Gi"},
        "labels": {"modelplane.ai/environment": "east"},
    }
    given["status"] = {
        "served": True,
        "phase": "Ready",
        "service": {"url": "http://chat", "pool": "a100", "nodes": 1, "gpusPerNode": 4, "replicas": 2},
        "storage": {"uri": "pvc://mine/models/0"},
        "rollout": {"served": "d1", "requested": "d2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    assert _read(given) == Placement(
        namespace="ml-team",
        name="chat-east",
        deployment="chat",
        model=ModelRef(kind="Model", name="gemma"),
        environment="east",
        profile="vllm",
        pool="h100",
        shape=Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=8, pipeline=2, expert=True)),
        replicas=3,
        storage_choice=UserClaim(claim="mine"),
        uid="1",
        created="2026-01-01T00:00:00Z",
        vram=1200 * GIB,
        has_served=True,
        ready=True,
        deleting=True,
        phase=Phase.READY,
        labels=(("modelplane.ai/environment", "east"),),
        replaces_when_full=True,
        allowed_digest="d1",
        service=ServiceRecord(url="http://chat", allocated=Share(pool="a100", nodes=1, gpus_per_node=4, replicas=2)),
        weights=WeightsRecord(planned_uri="pvc://mine/models/0"),
        rollout=RolloutRecord(served_digest="d1", requested_digest="d2"),
    )
    assert parse_placement(given).problems == ()


@pytest.mark.parametrize(
    ("said", "ready", "phase", "reason"),
    [
        ("Ready", "True", Phase.READY, "both agree"),
        ("Ready", "False", Phase.STARTING, "core has written the status and not yet its condition"),
        ("Ready", None, Phase.STARTING, "as that, of one that never had the condition"),
        ("Failed", "True", Phase.FAILED, "what is worse is believed"),
        ("Downloading", "False", Phase.DOWNLOADING, "its own word"),
        ("Dancing", "True", Phase.PENDING, "an unknown word"),
    ],
)
def test_is_not_ready_before_crossplane_says_so(said: str, ready: str | None, phase: Phase, reason: str) -> None:
    """Else a deployment would report 0 of 1 ready placements and list that one as Ready."""
    given = manifests.placement()
    given["status"] = {"phase": said, "conditions": [{"type": "Ready", "status": ready}] if ready else []}
    assert _read(given).phase is phase, reason


def test_absent_fields_have_the_documented_defaults() -> None:
    assert _read(manifests.placement(deploymentRef=None)) == Placement(
        namespace="ml-team",
        name="chat-east",
        deployment="",
        model=ModelRef(kind="ClusterModel", name="gemma"),
        environment="east",
        profile="vllm",
        pool="h100",
        shape=Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=8, pipeline=2)),
        status_is_current=False,  # it has no status
    )


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    topology: JSON
    path: str


CASES = [
    Case("absent", "the placement has no recorded shape", None, "spec.topology"),
    Case("no-gpus", "an incomplete shape is not used", {"nodes": 2}, "spec.topology.gpusPerNode"),
    Case("contradictory", "a contradictory shape is not used",
         {"nodes": 2, "gpusPerNode": 8, "parallelism": {"tensor": 4}}, "spec.topology.parallelism.tensor"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_invalid_topology_keeps_the_placement_without_a_shape(case: Case) -> None:
    given = manifests.placement(topology=case.topology)
    assert _read(given).shape is None, case.reason
    assert [p.path for p in parse_placement(given).problems] == [case.path], case.reason


def test_fields_out_of_bounds_count_as_absent() -> None:
    given = manifests.placement(replicas=-1, modelCache={"claimName": "a", "size": "x"})
    assert _read(given).replicas == 1
    assert [p.path for p in parse_placement(given).problems] == ["spec.modelCache.size", "spec.replicas"]


@pytest.mark.parametrize("reference", [None, {"name": 3}])
def test_placement_without_an_environment_has_no_value(reference: JSON) -> None:
    given = manifests.placement(inferenceEnvironmentRef=reference)
    parsed = parse_placement(given)
    assert parsed.value is None
    assert parsed.problems[0].path.startswith("spec.inferenceEnvironmentRef")


def test_absent_spec_is_reported() -> None:
    assert parse_placement({}) == Parsed(None, (Problem("spec", "null is not allowed; must be a block of fields"),))


@dataclass(frozen=True)
class Ready:
    id: str
    reason: str
    generation: JSON
    condition: Manifest
    want: bool


READY = [
    Ready("current", "the condition is for the current spec", 2, {"status": "True", "observedGeneration": 2}, True),
    Ready("stale", "the condition is for an earlier spec", 2, {"status": "True", "observedGeneration": 1}, False),
    Ready("unsaid", "a condition without a generation counts for the current spec", 2, {"status": "True"}, True),
    Ready(
        "no-generation",
        "without a generation of the spec, the condition counts",
        None,
        {"status": "True", "observedGeneration": 1},
        True,
    ),
    Ready("false", "the condition is False", 2, {"status": "False", "observedGeneration": 2}, False),
    Ready("none", "the placement does not have the condition", 2, {"type": "Other"}, False),
]


@pytest.mark.parametrize("case", READY, ids=lambda c: c.id)
def test_ready_must_be_about_the_current_spec(case: Ready) -> None:
    given = manifests.placement()
    given["metadata"] = {"generation": case.generation}
    given["status"] = {"conditions": [{"type": "Ready", **case.condition}]}
    assert _read(given).ready is case.want, case.reason


@pytest.mark.parametrize("case", READY, ids=lambda c: c.id)
def test_is_ready_while_its_service_is_ready(case: Ready) -> None:
    """Ready also waits for the download of its next weights, ServiceReady does not."""
    given = manifests.placement()
    given["metadata"] = {"generation": case.generation}
    conditions: list[JSON] = [{"type": "Ready", "status": "False"}, {"type": "ServiceReady", **case.condition}]
    given["status"] = {"conditions": conditions, "phase": "Ready"}
    read = _read(given)
    assert (read.ready, read.phase) == (case.want, Phase.READY if case.want else Phase.STARTING), case.reason


def test_obstacle_is_the_first_condition_that_is_not_true() -> None:
    """The first in the order of the steps of a placement; a condition without a status is none."""
    given = manifests.placement()
    conditions: list[JSON] = [
        {"type": "ServiceReady", "status": "False", "reason": "Starting"},
        {"type": "ServiceAccepted", "status": "Unknown", "reason": "Applying"},
        {"type": "StorageReady", "status": "False", "reason": "DownloadFailed"},
        {"type": "ReferencesResolved", "status": "True", "reason": "Resolved"},
    ]
    given["status"] = {"conditions": conditions}
    assert _read(given).obstacle == "StorageReady is False (DownloadFailed)"
    given["status"] = {"conditions": conditions[3:]}
    assert _read(given).obstacle == ""


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ({"status": "Unknown", "reason": "Unreachable"}, True),
        ({"status": "Unknown", "reason": "SyncFailed"}, True),
        ({"status": "Unknown", "reason": "Starting"}, False),
        ({"status": "False", "reason": "Unreachable"}, False),
    ],
)
def test_is_unreachable_while_the_service_is_unknown(condition: Manifest, *, want: bool) -> None:
    given = manifests.placement() | {"status": {"conditions": [{"type": "ServiceReady", **condition}]}}
    assert _read(given).unreachable is want


@pytest.mark.parametrize("vram", ["80 gigs", 80, None])
def test_invalid_vram_annotation_is_ignored(vram: JSON) -> None:
    given = manifests.placement()
    given["metadata"] = {"annotations": {"modelplane.ai/vram": vram}}
    assert _read(given).vram is None


def test_vram_annotation_is_bounded() -> None:
    given = manifests.placement()
    given["metadata"] = {"annotations": {"modelplane.ai/vram": "1e999"}}
    assert _read(given).vram == 2**60


@pytest.mark.parametrize(
    ("refs", "want"), [([], False), ([{"kind": "Usage"}], False), ([{"kind": "Usage"}, {"kind": "Object"}], True)]
)
def test_knows_its_objects_without_a_status(refs: list[JSON], *, want: bool) -> None:
    """A backup has Crossplane's list of what was composed, which is in the spec, and no status."""
    assert _read(manifests.placement(crossplane={"resourceRefs": refs})).lists_objects is want


def test_has_seen_its_spec_only_with_a_status() -> None:
    given = manifests.placement()
    assert not _read(given).status_is_current
    assert _read({**given, "status": {"phase": "Pending"}}).status_is_current


@pytest.mark.parametrize(
    ("api_version", "kind", "want"),
    [
        ("modelplane.ai/v1alpha1", "ModelDeployment", "1"),
        ("modelplane.ai/v2", "ModelDeployment", "1"),
        ("example.org/v1", "ModelDeployment", ""),
        ("modelplane.ai/v1alpha1", "ModelCache", ""),
        ("v1", "ConfigMap", ""),
    ],
)
def test_only_a_deployment_composes_a_placement(api_version: str, kind: str, want: str) -> None:
    """A user may name any object of the namespace as the controller."""
    given = manifests.placement()
    owner: Manifest = {"apiVersion": api_version, "kind": kind, "name": "chat", "uid": "1", "controller": True}
    given["metadata"] = {"name": "chat-east", "ownerReferences": [owner]}
    assert _read(given).owner == want


@pytest.mark.parametrize(("generation", "is_known"), [(8, True), (9, True), (7, False), (None, False)])
def test_ignores_release_of_a_later_spec(generation: int | None, *, is_known: bool) -> None:
    """The API server counts generations of a restored backup from 1 again."""
    given = manifests.placement()
    given["metadata"] = {"name": "chat-east", "namespace": "ml-team"} | (
        {"generation": generation} if generation else {}
    )
    size: Manifest = {"pool": "h100", "nodes": 2, "gpusPerNode": 8, "replicas": 1}
    given["status"] = {"released": {"generation": 8, **size}}
    released = Release(generation=8, request=Share(pool="h100", nodes=2, gpus_per_node=8, replicas=1))
    assert _read(given).admission.released == (released if is_known else None)


def test_unknown_phase_is_pending() -> None:
    assert _read(manifests.placement() | {"status": {"phase": "Thinking"}}).phase is Phase.PENDING
