"""Conditions of environments, models, caches, deployments and placements beyond the whole-response cases."""

from dataclasses import dataclass, replace

import pytest

from function.contract import Condition
from function.domain.cache import CacheEntry
from function.domain.model import Problem, PvcSource, SecretKey
from function.domain.placement import Rollout
from function.domain.records.rollout import RolloutRecord
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import Manifest, mapping
from function.reasons import (
    OPTIONAL,
    OWNED,
    Admitted,
    ConditionType,
    Hydrated,
    Phase,
    PlacementsReady,
    Refused,
    RolledOut,
    ServiceAccepted,
    Status,
)
from function.remote.observed_object import ObservedObject, State
from function.status import cluster_model as models
from function.status import conditions, model_placement, references
from function.status import inference_environment as environments
from function.status import model_deployment as deployments
from function.status.weights import Row, build_missing_row, build_row, describe_waiting, summarize_hydration
from function.weights.reconcile import ReconciledWeights
from function.weights.state import WeightsFinding, WeightsState
from tests.support import builders
from tests.support.builders import pool

_seen = ObservedObject

KUBECONFIG = SecretKey(name="k", namespace="ns", key="kubeconfig")
THERE: Manifest = {"kind": "LLMInferenceServiceConfig"}


@dataclass(frozen=True)
class Cluster:
    id: str
    remote: ObservedObject
    want: tuple[Status, str]
    word: str


CLUSTERS = (
    Cluster("new", _seen(State.UNSEEN, {}), (Status.UNKNOWN, "Connecting"), "ns/k"),
    Cluster("no-kubeconfig", _seen(State.INVALID_KUBECONFIG, {}), (Status.FALSE, "KubeconfigMissing"), "holds no"),
    Cluster("secret", _seen(State.NO_CREDENTIALS, {}, "not found"), (Status.FALSE, "KubeconfigMissing"), "ns/k"),
    Cluster("no-kind", _seen(State.KIND_MISSING, {}, "no matches"), (Status.FALSE, "KServeMissing"), "install KServe"),
    Cluster("no-namespace", _seen(State.NAMESPACE_MISSING, {}, "x"), (Status.FALSE, "KServeMissing"),
         "install KServe"),
    Cluster("there", _seen(State.PRESENT, THERE), (Status.TRUE, "Connected"), "answers"),
    Cluster("refused", _seen(State.REJECTED, {}, "forbidden"), (Status.FALSE, "Unreachable"), "forbidden"),
    Cluster("down", _seen(State.UNREACHABLE, THERE, "dial"), (Status.FALSE, "Unreachable"), "dial"),
    Cluster("expired", _seen(State.UNAUTHORISED, THERE, "Unauthorized"), (Status.FALSE, "Unreachable"), "Renew"),
    Cluster("older-kserve", _seen(State.UNKNOWN_FIELD, {}, "x"), (Status.FALSE, "KServeMissing"), "install KServe"),
    Cluster("webhook", _seen(State.WEBHOOK_FAILED, {}, "dial"), (Status.UNKNOWN, "SyncFailed"), "dial"),
    Cluster("conflict", _seen(State.CONFLICT, THERE, "modified"), (Status.UNKNOWN, "SyncFailed"), "modified"),
    Cluster("odd-words", _seen(State.UNRECOGNISED, THERE, "odd"), (Status.UNKNOWN, "SyncFailed"), "odd"),
)  # fmt: skip


@pytest.mark.parametrize("case", CLUSTERS, ids=lambda c: c.id)
def test_cluster_ready(case: Cluster) -> None:
    found = environments.build_cluster_ready(case.remote, KUBECONFIG)
    assert (found.status, found.reason) == case.want
    assert case.word in found.message


def test_storage_of_an_environment() -> None:
    unseen, absent = _seen(State.UNSEEN, {}), _seen(State.ABSENT, {})
    found = [
        environments.build_storage_ready(name, remote)
        for name, remote in (
            (None, unseen),
            ("", unseen),
            ("rwx", _seen(State.PRESENT, THERE)),
            ("rwx", absent),
            ("rwx", unseen),
            ("rwx", _seen(State.UNRECOGNISED, {}, "odd")),
        )
    ]
    assert [(c.status, c.reason) for c in found] == [
        (Status.FALSE, "NotConfigured"),
        (Status.TRUE, "DefaultClass"),
        (Status.TRUE, "StorageClassFound"),
        (Status.FALSE, "StorageClassNotFound"),
        (Status.UNKNOWN, "Connecting"),
        (Status.UNKNOWN, "Connecting"),
    ]
    assert "odd" in found[-1].message


def test_pools_of_an_environment() -> None:
    assert environments.build_pools_valid((), ()).reason == "NoGpuPools"
    assert environments.build_pools_valid((pool("a"), pool("b")), ()).status is Status.TRUE
    assert environments.build_pools_valid((pool(),), [Problem("spec.nodePools[0].name", "x")]).reason == "InvalidPool"


def test_each_problem_is_in_the_condition_of_its_field() -> None:
    faults = [Problem(path, "x") for path in ("spec.storage.mode", "spec.cluster.source", "spec.kserve.gateway")]
    found = environments.list_invalid((), faults)
    assert {c.type: c.message for c in found} == {
        ConditionType.STORAGE_READY: "spec.storage.mode: x",
        ConditionType.CLUSTER_READY: "spec.cluster.source: x",
        ConditionType.POOLS_VALID: "spec.kserve.gateway: x",
    }


def test_reports_missing_storage_class() -> None:
    found = environments.build_status(builders.environment(), _seen(State.ABSENT, {}))
    assert mapping(found, "storage")["found"] is False


def test_prestaged_model_has_uri_and_no_cache_key() -> None:
    model = replace(builders.model(), source=PvcSource(claim="c", path="/a/"))
    assert mapping(models.build_status(model), "storage") == {"uri": "pvc://c/a"}


def test_profile_without_shape_names_vram() -> None:
    computed = builders.model(builders.profile("computed"), vram="100Gi")
    assert models.build_status(computed)["profiles"] == [
        {"name": "computed", "message": "Sized by spec.resources.vram, for each pool"}
    ]


RUNNING = WeightsState(finding=WeightsFinding.JOB_RUNNING)
NO_ANSWER = WeightsState(finding=WeightsFinding.UNKNOWN, remote=_seen(State.UNREACHABLE, {}))
SYNC_FAILED = WeightsState(finding=WeightsFinding.UNKNOWN, remote=_seen(State.UNRECOGNISED, {}))


def _row(phase: Phase, *, unreachable: bool = False, missing: bool = False) -> Row:
    state = None if missing else NO_ANSWER if unreachable else RUNNING
    return Row(environment="e", phase=phase, message="m", unreachable=unreachable, state=state)


def _build_row(
    state: WeightsState, environment: str = "e", recorded: CacheEntry | None = None, *, is_hydrated: bool
) -> Row:
    weights = ReconciledWeights(state=state, plan=None, service_may_read=is_hydrated)
    return build_row(environment, weights, recorded)


UNPLANNABLE = replace(_row(Phase.PENDING), state=WeightsState(finding=WeightsFinding.UNPLANNABLE))
NO_CLAIM = replace(_row(Phase.PENDING), state=WeightsState(finding=WeightsFinding.CLAIM_NOT_FOUND))
SILENT = replace(_row(Phase.READY, unreachable=True), state=SYNC_FAILED)


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        ((), Hydrated.NO_ENVIRONMENT_MATCHES),
        ((_row(Phase.READY),), Hydrated.HYDRATED),
        ((_row(Phase.READY), _row(Phase.DOWNLOADING)), Hydrated.PARTIALLY_HYDRATED),
        ((_row(Phase.DOWNLOADING),), Hydrated.DOWNLOADING),
        ((_row(Phase.READY), _row(Phase.FAILED)), Hydrated.DOWNLOAD_FAILED),
        ((NO_CLAIM,), Hydrated.CLAIM_NOT_FOUND),
        ((_row(Phase.READY, unreachable=True), _row(Phase.DOWNLOADING)), Hydrated.UNREACHABLE),
        ((_row(Phase.READY, unreachable=True), _row(Phase.FAILED)), Hydrated.DOWNLOAD_FAILED),
        ((SILENT, _row(Phase.DOWNLOADING)), Hydrated.SYNC_FAILED),
        ((SILENT, _row(Phase.READY, unreachable=True)), Hydrated.UNREACHABLE),
        ((_row(Phase.PENDING, missing=True), _row(Phase.READY)), Hydrated.ENVIRONMENT_NOT_FOUND),
        ((_row(Phase.PENDING, missing=True), NO_CLAIM), Hydrated.CLAIM_NOT_FOUND),
        ((_row(Phase.READY, missing=True),), Hydrated.HYDRATED),
        ((_row(Phase.READY), UNPLANNABLE), Hydrated.INVALID_CACHE),
        ((UNPLANNABLE, _row(Phase.FAILED)), Hydrated.DOWNLOAD_FAILED),
    ],
    ids=str,
)
def test_hydrated(rows: tuple[Row, ...], want: Hydrated) -> None:
    assert summarize_hydration(rows).reason == want


def test_cache_without_preload_is_not_said_to_be_downloaded() -> None:
    row = _build_row(WeightsState(finding=WeightsFinding.PRESTAGED), is_hydrated=True)
    found = summarize_hydration((row,))
    assert (found.status, found.reason) == (Status.TRUE, Hydrated.HYDRATED)
    assert found.message == "preload is false: nothing is downloaded, and pods read what is on the claims"


def test_cache_that_cannot_be_stored_says_so_at_once() -> None:
    problem = Problem("spec.storage.size", "required where neither the model's disk nor its vram is declared")
    state = WeightsState(finding=WeightsFinding.UNPLANNABLE, environment="e", for_cache=True, problems=(problem,))
    found = summarize_hydration((_build_row(state, is_hydrated=False),))
    assert (found.status, found.reason) == (Status.FALSE, Hydrated.INVALID_CACHE)
    assert found.message == f"0 of 1 environments have the weights. e: {problem}"


def test_what_is_known_no_longer_is_not_said_to_be_gone() -> None:
    """Both have the weights, as far as is known; of one nothing is learned now, and one environment is gone."""
    silent = WeightsState(
        finding=WeightsFinding.UNKNOWN, environment="b", for_cache=True, remote=_seen(State.UNREACHABLE, {}, "dial tcp")
    )
    gone = build_missing_row("a", CacheEntry(environment="a", phase=Phase.READY))
    rows = (gone, _build_row(silent, "b", is_hydrated=True))
    away = "a: InferenceEnvironment a does not exist or is invalid; existing objects are kept"
    assert summarize_hydration(rows).message == (
        f"1 of 2 environments are known to have the weights. b: The cluster does not answer: dial tcp; {away}"
    )
    assert summarize_hydration(rows[:1]).message == f"1 of 1 environments have the weights. {away}"
    assert summarize_hydration((*rows[:1], replace(rows[1], state=SYNC_FAILED))).status is Status.UNKNOWN


def test_a_row_knows_an_outage_from_words_that_nobody_knows() -> None:
    silent = [
        WeightsState(finding=WeightsFinding.UNKNOWN, for_cache=True, remote=_seen(state, {}, "x"))
        for state in (State.UNREACHABLE, State.UNRECOGNISED)
    ]
    rows = [_build_row(state, is_hydrated=True) for state in silent]
    assert [(row.unreachable, summarize_hydration([row]).reason) for row in rows] == [
        (True, Hydrated.UNREACHABLE),
        (True, Hydrated.SYNC_FAILED),
    ]


def test_only_a_row_without_weights_waits_for_space_in_the_response() -> None:
    ready = build_missing_row("e", CacheEntry(environment="e", phase=Phase.READY))
    assert describe_waiting(ready, 5_000_000) == ready
    waiting = describe_waiting(build_missing_row("e", None), 5_000_000)
    assert (waiting.phase, waiting.too_large) == (Phase.PENDING, True)
    assert "the response would have 5,000,000 bytes" in waiting.message


def test_a_row_without_its_environment_keeps_what_was_known() -> None:
    done = DownloadRecord(claim="c", path="models/k", completed_at="2026-01-01T00:00:00Z")
    entry = CacheEntry(environment="e", phase=Phase.READY, download=done)
    found = build_missing_row("e", entry)
    assert (found.phase, found.download) == (Phase.READY, done)
    assert build_missing_row("e", None).phase is Phase.PENDING


@pytest.mark.parametrize(
    ("there", "earlier", "want"),
    [
        (True, None, Phase.READY),
        (False, CacheEntry(environment="e", phase=Phase.FAILED), Phase.FAILED),
        (False, None, Phase.PENDING),
    ],
)
def test_a_row_without_an_answer_keeps_its_phase(there: bool, earlier: CacheEntry | None, want: Phase) -> None:
    state = WeightsState(finding=WeightsFinding.UNKNOWN, environment="e", message="dial tcp")
    found = _build_row(state, recorded=earlier, is_hydrated=there)
    assert (found.phase, found.unreachable) == (want, True)


@pytest.mark.parametrize(
    ("phase", "obstacle", "want"),
    [
        (Phase.PENDING, "StorageReady is False (ClaimNotFound)", "Pending, StorageReady is False (ClaimNotFound)"),
        (Phase.DOWNLOADING, "StorageReady is False (Downloading)", "Downloading"),
        (Phase.STARTING, "", "Starting"),
    ],
)
def test_deployment_names_what_its_placement_waits_for(phase: Phase, obstacle: str, want: str) -> None:
    placement = replace(builders.placement("a", phase=phase), obstacle=obstacle)
    message = deployments.build_placements_ready([placement], 1).message
    assert message == f"0 of 1 placements are ready; {placement.name} on a: {want}"


def test_names_failed_placements_first() -> None:
    phases = (Phase.READY, Phase.DOWNLOADING, Phase.PENDING, Phase.FAILED)
    rows = [Row(environment=f"e{n:03}", phase=phases[n % 4], message="m" * 90, state=RUNNING) for n in range(100)]
    message = summarize_hydration(rows).message
    assert len(message.encode()) <= 1024
    assert message.startswith("25 of 100 environments have the weights. e003: m")
    assert message.endswith(" and 70 more")
    found = [builders.placement(f"e{n}", phase=Phase.STARTING) for n in range(99)]
    waiting = [*found[:77], replace(found[77], phase=Phase.FAILED), *found[78:]]
    message = deployments.build_placements_ready(waiting, 99).message
    assert len(message.encode()) <= 1024
    assert message.startswith("0 of 99 placements are ready; chat-e77 on e77: Failed; ")
    silent = [replace(p, unreachable=True) for p in waiting]
    assert " and 94 more: " in deployments.build_placements_ready(silent, 99).message


def test_refers_to_scheduled_when_all_placements_are_ready() -> None:
    found = deployments.build_placements_ready([builders.placement(ready=True)], 2)
    assert (found.status, found.reason) == (Status.FALSE, PlacementsReady.STARTING)
    assert found.message == "1 of 2 placements are ready; Scheduled says why there are no more"


def test_names_ready_placements_with_an_obstacle() -> None:
    serves = builders.placement(ready=True)
    behind = replace(builders.placement("east", ready=True), obstacle="StorageReady is False (DownloadFailed)")
    found = deployments.build_placements_ready([serves, behind], 2)
    assert (found.status, found.reason) == (Status.TRUE, PlacementsReady.READY)
    assert found.message == (
        "2 of 2 placements are ready. chat-east on east keeps serving, and its StorageReady is False (DownloadFailed)"
    )
    away = replace(behind, ready=False)
    assert deployments.build_placements_ready([serves, away], 1).message == "1 of 1 placements are ready"
    many = [replace(behind, name="n" * 250, environment=f"e{n}") for n in range(99)]
    assert len(deployments.build_placements_ready(many, 99).message.encode()) <= 1024


def test_outage_makes_placements_ready_unknown() -> None:
    placement = replace(builders.placement(environment="east"), unreachable=True)
    found = deployments.build_placements_ready([placement], 1)
    assert (found.status, found.reason) == (Status.UNKNOWN, PlacementsReady.UNREACHABLE)
    assert "east" in found.message


def _conditions(accepted: ServiceAccepted | Admitted, ready: Status) -> tuple[Condition, ...]:
    # Before a placement is admitted, nothing is known of its service; the reason is that of Admitted.
    status = Status.UNKNOWN if isinstance(accepted, Admitted) else Status.FALSE
    return (
        Condition(type=ConditionType.SERVICE_ACCEPTED, status=status, reason=accepted),
        Condition(type=ConditionType.SERVICE_READY, status=ready, reason="Starting"),
    )


@pytest.mark.parametrize(
    ("accepted", "ready", "seen", "planned", "want"),
    [
        (ServiceAccepted.REJECTED, Status.FALSE, True, True, Phase.FAILED),
        (Admitted.REJECTED, Status.FALSE, False, False, Phase.PENDING),
        (ServiceAccepted.APPLYING, Status.TRUE, True, True, Phase.READY),
        (ServiceAccepted.APPLYING, Status.FALSE, True, True, Phase.STARTING),
        (ServiceAccepted.APPLYING, Status.FALSE, False, True, Phase.STARTING),
        (ServiceAccepted.APPLYING, Status.FALSE, False, False, Phase.PENDING),
    ],
)
def test_phase_of_a_placement(
    accepted: ServiceAccepted | Admitted, ready: Status, seen: bool, planned: bool, want: Phase
) -> None:
    remote = _seen(State.PRESENT, THERE) if seen else _seen(State.UNSEEN, {})
    said = WeightsState(finding=WeightsFinding.NOT_NEEDED) if planned else None
    assert model_placement.build_progress({}, _conditions(accepted, ready), said, remote)["phase"] == want


def test_truncates_a_long_list_of_problems() -> None:
    problems = [Problem(f"spec.serving[{n}]", "x" * 50) for n in range(40)]
    ref = builders.MODEL
    found = references.model_invalid(ConditionType.MODEL_RESOLVED, ref, problems)
    (sent, *_) = conditions.complete("ModelDeployment", [found], "Pending")
    assert len(sent.message.encode()) == 1024
    (event, *_) = conditions.list_changes({}, [replace(found, message="ü" * 2000)])
    assert 1020 <= len(event.message.encode()) <= 1024
    assert "spec.topology" in references.unreadable_topology().message


@pytest.mark.parametrize(
    ("phase", "obstacle", "want"),
    [
        (Phase.STARTING, "", RolledOut.ROLLING),
        (Phase.STARTING, "StorageReady is False (Downloading)", RolledOut.ROLLING),
        (Phase.FAILED, "", RolledOut.STOPPED),
        (Phase.READY, "ServiceAccepted is False (Rejected)", RolledOut.STOPPED),
    ],
)
def test_failed_environment_stops_a_rollout(phase: Phase, obstacle: str, want: RolledOut) -> None:
    changing = replace(
        builders.placement("b", phase=phase),
        obstacle=obstacle,
        allowed_digest="2",
        rollout=RolloutRecord(served_digest="1", requested_digest="2"),
    )
    (found,) = deployments.build_rolled_out({}, Rollout(), [changing])
    assert (found.status, found.reason) == (Status.FALSE, want)
    assert found.message.startswith("0 of 1 environments serve the requested spec and are Ready; chat-b on b: ")


def test_closed_gate_is_the_reason_of_a_rollout_that_waits() -> None:
    waiting = replace(
        builders.placement("b"), allowed_digest="1", rollout=RolloutRecord(served_digest="1", requested_digest="2")
    )
    (found,) = deployments.build_rolled_out({}, Rollout(), [waiting], gate_obstacle="waiting for Job smoke")
    assert (found.status, found.reason) == (Status.FALSE, RolledOut.WAITING_FOR_GATE)
    counts = "0 of 1 environments serve the requested spec and are Ready"
    assert found.message == f"{counts}; waiting for Job smoke; not changed yet: b"


def test_no_event_without_change_or_while_unknown() -> None:
    known = Condition(type=ConditionType.SCHEDULED, status=Status.FALSE, reason=Refused.POOL_TOO_SMALL, message="m")
    unknown = replace(known, status=Status.UNKNOWN)
    xr: Manifest = {"status": {"conditions": [{"type": "Scheduled", "status": "False", "reason": "PoolTooSmall"}]}}
    assert conditions.list_changes(xr, [known]) == conditions.list_changes({}, [unknown]) == ()
    (event,) = conditions.list_changes({}, [known])
    assert (event.reason, event.message, event.warning) == ("PoolTooSmall", "Scheduled: m", True)


@pytest.mark.parametrize("kind", OWNED)
def test_every_owned_condition_has_a_reason(kind: str) -> None:
    found = conditions.complete(kind, (), "Pending")
    assert [c.type for c in found] == [type_ for type_ in OWNED[kind] if type_ not in OPTIONAL]
    assert {(c.status, c.reason) for c in found} == {(Status.UNKNOWN, "Pending")}


def test_refusals_run_from_furthest_to_nearest() -> None:
    assert Refused.INVALID_DEPLOYMENT.rank < Refused.SHARED_STORAGE_MISSING.rank < Refused.ENVIRONMENT_NOT_READY.rank
    assert Refused.POOL_TOO_SMALL.outlook is not Refused.INSUFFICIENT_CAPACITY.outlook
