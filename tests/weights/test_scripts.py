"""The ConfigMap with the scripts exists exactly as long as a pod of a download may mount it."""

import pytest

from function.domain.cache import CreatedStorage
from function.domain.model import HuggingFaceSource
from function.kube.manifests import Manifest, get
from function.remote.object_writer import ManagementPolicy
from function.status.weights import describe_storage
from function.weights.job import DOWNLOAD, SCRIPT_FILES
from function.weights.state import WeightsFinding
from tests.support.weights_requests import SECRET, model
from tests.support.weights_scene import (
    ALL_KEPT,
    COMPLETE,
    FAILED,
    RUNS,
    list_policies,
    observe_started,
    reconcile_observed,
    request_weights,
    with_job_status,
    with_sync_error,
)


def test_reports_refused_config_map() -> None:
    message = 'configmaps is forbidden: User "modelplane" cannot create resource "configmaps"'
    request = request_weights()
    found = reconcile_observed(
        request, observe_started(request, with_job_status(RUNS), with_sync_error("scripts-", message))
    )
    assert list_policies(found.composed) == ALL_KEPT
    assert (found.state.finding, found.state.message) == (WeightsFinding.SCRIPTS_REFUSED, message)
    assert message in describe_storage(found.state)


@pytest.mark.parametrize(
    ("status", "then"),
    [
        (RUNS, [ManagementPolicy.RETAIN]),  # the next call composes the next Job with its own scripts
        (FAILED, [ManagementPolicy.RETAIN, ManagementPolicy.FULL]),
    ],
    ids=["runs", "failed"],
)
def test_replaced_scripts_stay_while_their_job_is_observed_to_run(
    monkeypatch: pytest.MonkeyPatch, status: Manifest, then: list[ManagementPolicy]
) -> None:
    before = observe_started(request_weights(), with_job_status(status))
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "another release's")
    composed = reconcile_observed(request_weights(), before).composed
    policies = {key: get(item.manifest, "spec.managementPolicies") for key, item in composed.items()}
    assert sorted(map(str, (policies[key] for key in composed if key.startswith("scripts-")))) == sorted(
        str([*lifetime.value]) for lifetime in then
    )


@pytest.mark.parametrize(
    ("status", "stays"), [(RUNS, True), (FAILED, False), (COMPLETE, False)], ids=["runs", "failed", "complete"]
)
def test_scripts_for_other_weights_stay_while_their_job_runs(status: Manifest, stays: bool) -> None:
    before = observe_started(request_weights(CreatedStorage()), with_job_status(status))
    other = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", revision="v2", secret=SECRET)
    found = reconcile_observed(request_weights(CreatedStorage(), model=model(other)), before)
    assert any(key.startswith("scripts-") for key in found.kept) is stays
    assert {key for key in before if key.startswith(("claim-", "job-"))} <= found.kept.keys()
