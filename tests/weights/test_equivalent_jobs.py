"""Which observed Job stands for the planned one, and which is replaced by another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from function.contract import Composed
from function.domain.cache import CreatedStorage, StorageChoice, UserClaim
from function.domain.model import HuggingFaceSource
from function.domain.settings import Download, Prepare
from function.kube.manifests import Manifest, get
from function.remote.object_writer import ManagementPolicy
from function.weights.job import DOWNLOAD, SCRIPT_FILES
from function.weights.request import WeightsRequest
from tests.support.weights_requests import GIB, SECRET, model, with_download
from tests.support.weights_scene import (
    ABSENT,
    ALL_OWNED,
    COMPLETE,
    DESCRIBED,
    FAILED,
    NOT_WRITABLE,
    RETAINED,
    RUNS,
    SILENT,
    TOKEN_MODEL,
    USERS,
    Edit,
    list_policies,
    observe_composed,
    observe_started,
    reconcile_observed,
    request_weights,
    with_job_status,
    with_sync_error,
    with_value,
    without,
)

Change = Callable[[Download], Download]
OWN = CreatedStorage()


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    choice: StorageChoice
    status: Manifest
    before: Change
    now: Change
    stays: bool


def same(download: Download) -> Download:
    return download


def pinned(download: Download) -> Download:
    return replace(download, image="kserve/storage-initializer:v0.99.0")


def mirrored(download: Download) -> Download:
    return replace(download, image="mirror/init:v1")


def change_download(request: WeightsRequest, change: Callable[[Download], Download]) -> WeightsRequest:
    return with_download(request, change(request.environment.storage.download))


def proxied(download: Download) -> Download:
    return replace(download, env=({"name": "HTTPS_PROXY", "value": "http://proxy"},))


def moved(download: Download) -> Download:
    return replace(download, node_selector={"zone": "a"}, tolerations=({"key": "a", "operator": "Exists"},))


CASES = (
    Case("finished", "the weights are complete, whatever settings the Job had", OWN, COMPLETE, same, proxied, True),
    Case(
        "finished-retry",
        "a retry that is complete is not repeated",
        CreatedStorage(retry="1"),
        COMPLETE,
        same,
        proxied,
        True,
    ),
    Case(
        "finished-retained",
        "the weights are complete for every composite that shares the Job",
        RETAINED,
        COMPLETE,
        same,
        mirrored,
        True,
    ),
    Case(
        "pin",
        "a running Job is replaced, because its successor resumes over the files that exist",
        OWN,
        RUNS,
        pinned,
        same,
        False,
    ),
    Case(
        "image", "a running Job is replaced when the platform team sets another image", OWN, RUNS, same, mirrored, False
    ),
    Case(
        "env", "a running Job is replaced when the platform team sets another variable", OWN, RUNS, same, proxied, False
    ),
    Case(
        "runs-elsewhere",
        "a running Job is replaced when the platform team selects other nodes",
        OWN,
        {"active": 1, "ready": 1},
        same,
        moved,
        False,
    ),
    Case(
        "waits-elsewhere",
        "a Job without a node may find one among the nodes that are selected now",
        OWN,
        RUNS,
        same,
        moved,
        False,
    ),
    Case("failed", "a failed Job is replaced by one with the new settings", OWN, FAILED, pinned, same, False),
)


def jobs(found: object) -> set[str]:
    assert isinstance(found, dict)
    return {key for key in found if key.startswith("job-")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_only_a_completed_job_stands_for_one_with_other_settings(case: Case) -> None:
    request = request_weights(case.choice)
    observed = observe_started(change_download(request, case.before), with_job_status(case.status))
    changed = reconcile_observed(change_download(request, case.now), observed)
    assert (jobs(changed.composed) == jobs(observed)) is case.stays, case.reason
    assert len(jobs(changed.composed)) == 1, "two Jobs would write into one directory"
    assert changed.kept == {}, "objects of the same weights are replaced at once and never kept as stale"
    assert changed.plan is not None
    assert changed.plan.job is not None
    assert {f"job-{changed.job_name}"} == jobs(changed.composed), "the status names the composed Job, whose log exists"


@pytest.mark.parametrize(
    ("claim", "repo", "reason"),
    [
        ("mine", "moonshotai/Other", "a complete Job of another model on the same claim does not count"),
        ("yours", "moonshotai/Kimi-K2-Instruct", "a complete Job on another claim does not count"),
    ],
)
def test_ignores_completed_job_of_other_weights(claim: str, repo: str, reason: str) -> None:
    observed = observe_started(request_weights(UserClaim(claim="mine")), with_job_status(COMPLETE))
    wanted = request_weights(UserClaim(claim=claim), model=model(HuggingFaceSource(repo=repo, secret=SECRET)))
    found = reconcile_observed(wanted, observed)
    assert not found.service_may_read, reason
    assert not jobs(found.composed) & jobs(observed), reason


@pytest.mark.parametrize(
    ("status", "counts"), [(RUNS, False), (COMPLETE, True), (FAILED, False)], ids=["runs", "complete", "failed"]
)
def test_a_completed_job_counts_under_another_name(status: Manifest, *, counts: bool) -> None:
    observed = observe_started(
        request_weights(OWN), with_job_status(status), with_value("job-", f"{DESCRIBED}.spec.backoffLimit", 1)
    )
    (key,) = jobs(observed)
    observed["job-of-another-name"] = observed.pop(key)
    found = reconcile_observed(change_download(request_weights(OWN), proxied), observed)
    assert ("job-of-another-name" in found.composed) is counts
    assert len(jobs(found.composed)) == 1, "two Jobs would write into one directory"
    if counts:
        written = found.composed["job-of-another-name"].manifest
        assert get(written, f"{DESCRIBED}.spec.backoffLimit") == 1, "an existing Job cannot be changed"


def test_a_completed_job_of_other_settings_stays_until_its_claim_is_back() -> None:
    observed = observe_started(request_weights(), with_job_status(COMPLETE), with_sync_error("claim-", ABSENT))
    found = reconcile_observed(change_download(request_weights(), proxied), observed)
    assert jobs(found.composed) == jobs(observed)
    assert not found.service_may_read


def test_drops_failed_job_when_replaced() -> None:
    failed = observe_started(request_weights(CreatedStorage()), with_job_status(FAILED))
    changed = reconcile_observed(request_weights(CreatedStorage(retry="1")), failed)
    assert (changed.kept, changed.download.retry) == ({}, "1"), (
        "a Job that is retried is not kept, because it is of the same weights"
    )
    assert list_policies(changed.composed) == ALL_OWNED
    assert {k for k in changed.composed if k.startswith("job-")}.isdisjoint(failed)


def _to_delete(job: str, composed: Mapping[str, Composed]) -> bool:
    return get(composed[job].manifest, "spec.managementPolicies") == ["Observe", "Delete"]


@pytest.mark.parametrize("choice", [RETAINED, USERS], ids=["retained", "users-claim"])
@pytest.mark.parametrize("change", [pinned, proxied, moved])
def test_deletes_running_job_before_its_successor_starts(choice: StorageChoice, change: Change) -> None:
    request = request_weights(choice)
    observed = observe_started(request, with_job_status({"active": 1}))
    (old,) = jobs(observed)
    changed = change_download(request, change)
    first = reconcile_observed(changed, observed)
    assert jobs(first.composed) == {old}, "two Jobs would write into one directory"
    assert _to_delete(old, first.composed)
    observed[old] = {**first.composed[old].manifest, "status": observed[old]["status"]}
    second = reconcile_observed(changed, observed)
    assert len(jobs(second.composed)) == 1
    assert old not in {**second.composed, **second.kept}
    assert second.download == first.download
    assert not second.service_may_read


SCRIPT_CHANGES: tuple[tuple[str, StorageChoice, Manifest, Edit | Change | None, bool, str], ...] = (
    ("own-runs", OWN, RUNS, None, True, "an upgrade does not restart a running download"),
    ("own-waits", OWN, {}, None, True, "an upgrade does not restart a download whose pod has not started"),
    ("own-failed", OWN, FAILED, None, False, "a failed Job is replaced by one with the new scripts"),
    (
        "own-without-scripts",
        OWN,
        RUNS,
        without("scripts-"),
        False,
        "a Job without its scripts is replaced, because its next pod would not start",
    ),
    (
        "own-with-other-settings",
        OWN,
        RUNS,
        proxied,
        False,
        "a running Job is replaced when the platform team changes its settings",
    ),
    (
        "retained-runs",
        RETAINED,
        RUNS,
        None,
        False,
        "a shared Job is replaced, because a new placement would start another one beside it",
    ),
)


@pytest.mark.parametrize(
    ("choice", "status", "change", "stays", "reason"),
    [row[1:] for row in SCRIPT_CHANGES],
    ids=[row[0] for row in SCRIPT_CHANGES],
)
def test_other_scripts_restart_no_running_download(
    monkeypatch: pytest.MonkeyPatch,
    choice: StorageChoice,
    status: Manifest,
    change: Edit | Change | None,
    reason: str,
    *,
    stays: bool,
) -> None:
    request = request_weights(choice)
    observed = observe_started(request, with_job_status(status))
    (job,) = jobs(observed)
    (scripts,) = {key for key in observed if key.startswith("scripts-")}
    if change is proxied:
        request = change_download(request, proxied)
    elif change:
        change(observed)  # type: ignore[arg-type]  # an edit
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "another release's")
    found = reconcile_observed(request, observed)
    assert (job in found.composed and not _to_delete(job, found.composed)) is stays, reason
    if stays:
        assert found.composed[job].manifest["spec"] == observed[job]["spec"]
        assert scripts in found.composed
        assert not [key for key in found.composed if key.startswith("scripts-") and key != scripts]


@pytest.mark.parametrize(("before", "after"), [(None, 600), (600, 100), (600, None)])
def test_another_number_of_parts_restarts_no_running_download(before: int | None, after: int | None) -> None:
    def declare(gibibytes: int | None) -> WeightsRequest:
        disk = gibibytes and gibibytes * GIB
        return request_weights(OWN, model=replace(TOKEN_MODEL, disk=disk))

    observed = observe_started(declare(before), with_job_status(RUNS))
    (job,) = jobs(observed)
    assert reconcile_observed(declare(after), observed).composed[job].manifest["spec"] == observed[job]["spec"]
    with_job_status(FAILED)(observed)
    (successor,) = jobs(reconcile_observed(declare(after), observed).composed)
    assert successor != job


def test_kept_job_with_root_container_gets_its_full_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    request = change_download(request_weights(OWN), lambda d: replace(d, prepare=Prepare.ALWAYS))
    observed = observe_started(request, with_job_status({}))
    (job,) = jobs(observed)
    deadline = f"{DESCRIBED}.spec.activeDeadlineSeconds"
    assert get(observed[job], deadline) == 600
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "another release's")
    assert get(reconcile_observed(request, observed).composed[job].manifest, deadline) == 600
    with_job_status(RUNS)(observed)
    assert get(reconcile_observed(request, observed).composed[job].manifest, deadline) == 86400


def test_deletes_running_job_beside_completed_one() -> None:
    observed = observe_started(request_weights(), with_job_status(COMPLETE))
    (done,) = jobs(observed)
    changed = change_download(request_weights(), proxied)
    started = observe_started(changed, with_job_status(RUNS))
    (runs,) = jobs(started)
    found = reconcile_observed(changed, {**started, **observed})
    assert found.service_may_read
    assert jobs(found.composed) == {done, runs}
    assert _to_delete(runs, found.composed)
    assert get(found.composed[done].manifest, "spec.managementPolicies") == ["Observe"]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (with_job_status(FAILED), "a failed Job no longer writes, so that its successor starts at once"),
        (with_sync_error("job-", ABSENT), "an absent Job does not write, so that its successor starts at once"),
    ],
    ids=["failed", "absent"],
)
def test_starts_successor_of_job_that_does_not_run_at_once(edit: Edit, reason: str) -> None:
    observed = observe_started(request_weights(), edit)
    changed = change_download(request_weights(), proxied)
    found = reconcile_observed(changed, observed)
    assert len(jobs(found.composed)) == 1
    assert jobs(found.composed).isdisjoint(observed), reason


def test_leaves_running_job_while_no_successor_can_start() -> None:
    observed = observe_started(request_weights(), with_job_status(RUNS), with_sync_error("claim-", SILENT))
    changed = change_download(request_weights(), proxied)
    (old,) = jobs(observed)
    found = reconcile_observed(changed, observed)
    assert jobs(found.composed) == {old}
    assert list_policies(found.composed)["job"] is ManagementPolicy.RETAIN


def test_successor_of_prepared_job_is_prepared() -> None:
    request = request_weights()
    refused = observe_started(request, with_job_status(NOT_WRITABLE))
    prepared = refused | observe_composed(reconcile_observed(request, refused).composed)
    (key,) = prepared.keys() - refused.keys()
    running = {k: m for k, m in prepared.items() if k not in jobs(refused)}
    with_job_status(RUNS)(running)
    changed = change_download(request, proxied)
    first = reconcile_observed(changed, running)
    assert jobs(first.composed) == {key}
    running[key] = {**first.composed[key].manifest, "status": running[key]["status"]}
    second = reconcile_observed(changed, running)
    (successor,) = jobs(second.composed)
    assert successor != key
    assert get(second.composed[successor].manifest, f"{DESCRIBED}.spec.template.spec.initContainers")
