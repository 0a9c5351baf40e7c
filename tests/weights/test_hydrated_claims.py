"""What happens to a claim and its Secrets once the weights are verified."""

from dataclasses import replace

import pytest

from function.domain.cache import CreatedStorage
from function.domain.model import HuggingFaceSource
from function.domain.pods import PullSecret
from function.kube.manifests import JSON, Manifest, get
from function.remote.object_writer import ManagementPolicy
from function.remote.observed_object import read_object
from function.weights.request import WeightsRequest
from function.weights.state import WeightsFinding
from tests.support.weights_requests import GIB, MULTI, SECRET, model
from tests.support.weights_scene import (
    COMPLETE,
    DESCRIBED,
    FAILED,
    FINALIZER,
    REFUSED,
    RETAINED,
    RUNS,
    Edit,
    list_policies,
    observe_started,
    reconcile_observed,
    request_weights,
    with_job_status,
    with_sync_error,
    with_value,
    without,
)

LARGER = 32 * 141 * GIB


@pytest.mark.parametrize(
    ("status", "size", "edits", "want", "reason"),
    [
        (RUNS, None, (), LARGER // GIB, "a claim grows with its derived size while the weights download"),
        (COMPLETE, None, (), 16 * 141, "a claim with complete weights does not grow with its derived size"),
        (COMPLETE, 9000 * GIB, (), 9000, "a claim with complete weights grows to an explicit size"),
        (COMPLETE, None, (without("claim-"),), LARGER // GIB, "an unobserved claim is composed as it would be created"),
    ],
)
def test_grows_hydrated_claim_only_for_stated_size(
    status: Manifest, size: int | None, edits: tuple[Edit, ...], want: int, reason: str
) -> None:
    earlier = (
        reconcile_observed(request_weights(), observe_started(request_weights(), with_job_status(COMPLETE))).download
        if status is COMPLETE
        else reconcile_observed(request_weights(), {}).download
    )
    observed = observe_started(request_weights(), with_job_status(status), *edits)
    found = reconcile_observed(request_weights(replace(RETAINED, size=size), gpu_memory=LARGER), observed, earlier)
    (claim,) = (item.manifest for key, item in found.composed.items() if key.startswith("claim-"))
    assert get(claim, f"{DESCRIBED}.spec.resources.requests.storage") == f"{want}Gi", reason


def test_deletes_secrets_of_shared_download_in_two_steps() -> None:
    """A token and what the Job's image is pulled with: without the Delete policy each would stay on the cluster."""
    environment = replace(MULTI.environment, pull_secrets=(PullSecret(name="", source=SECRET),))
    request = request_weights(environment=environment)
    first = observe_started(request, with_job_status(COMPLETE))
    tokens = {key for key in first if key.startswith("token-")}
    assert len(tokens) == 2
    found = reconcile_observed(request, first)
    assert tokens <= found.composed.keys(), "the Secrets first get the Delete policy"
    assert list_policies({key: found.composed[key] for key in tokens}) == {"token": ManagementPolicy.FULL}
    second = {**first, **{key: found.composed[key].manifest for key in tokens}}
    after = reconcile_observed(request, second)
    assert tokens.isdisjoint({*after.composed, *after.kept}), "the Secrets are dropped in the next call"
    assert tokens.isdisjoint(
        reconcile_observed(
            request_weights(CreatedStorage()),
            observe_started(request_weights(CreatedStorage()), with_job_status(COMPLETE)),
        ).composed
    )


def test_remarks_refused_change_of_hydrated_claim() -> None:
    found = reconcile_observed(
        request_weights(),
        observe_started(request_weights(), with_job_status(COMPLETE), with_sync_error("claim-", REFUSED)),
    )
    (remark,) = found.state.problems
    assert found.plan
    assert (remark.path, remark.message) == (f"claim {found.plan.claim_name}", REFUSED)


def test_remarks_immutable_change_of_hydrated_claim() -> None:
    made_of = with_value("claim-", "status.atProvider.manifest.spec.storageClassName", "shared-vast")
    found = reconcile_observed(
        request_weights(replace(RETAINED, class_name="other")),
        observe_started(request_weights(), with_job_status(COMPLETE), made_of),
    )
    assert found.state.finding is WeightsFinding.HYDRATED
    assert [remark.path for remark in found.state.problems] == ["spec.storageClassName"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (request_weights(), "a missing token is reported if the Job reads it"),
        (
            request_weights(CreatedStorage(), shape_nodes=1),
            "a missing token is reported if the pods of the service read it",
        ),
    ],
)
def test_names_missing_token_by_its_origin(wanted: WeightsRequest, reason: str) -> None:
    missing = 'cannot get referenced resource: secrets "hf-token" not found'
    state = reconcile_observed(
        wanted, observe_started(wanted, with_job_status(RUNS), with_sync_error("token-", missing))
    ).state
    assert (state.finding, state.name) == (WeightsFinding.TOKEN_MISSING, "modelplane-system/hf-token (key HF_TOKEN)"), (
        reason
    )


def test_accepts_new_job_after_claim_was_replaced() -> None:
    earlier = reconcile_observed(
        request_weights(), observe_started(request_weights(), with_job_status(COMPLETE))
    ).download
    later: Manifest = {**COMPLETE, "completionTime": "2026-02-02T00:00:00Z"}
    refilled = observe_started(
        request_weights(), with_job_status(later), with_value("claim-", "status.atProvider.manifest.metadata.uid", "2")
    )
    found = reconcile_observed(request_weights(), refilled, earlier)
    assert (found.service_may_read, list_policies(found.composed)["job"]) == (True, ManagementPolicy.OBSERVE_ONLY)
    assert found.download == replace(earlier, completed_at="2026-02-02T00:00:00Z", claim_uid="2")


def test_accepts_recorded_hydration_without_namespace() -> None:
    earlier = reconcile_observed(
        request_weights(), observe_started(request_weights(), with_job_status(COMPLETE))
    ).download
    found = reconcile_observed(
        request_weights(),
        observe_started(request_weights(), without("job-")),
        replace(earlier, namespace="", claim_uid=""),
    )
    assert (found.service_may_read, found.download) == (True, earlier)
    elsewhere = reconcile_observed(
        request_weights(), observe_started(request_weights(), without("job-")), replace(earlier, namespace="another")
    )
    assert not elsewhere.service_may_read


@pytest.mark.parametrize(
    ("message", "finding"),
    [(REFUSED, WeightsFinding.TOKEN_REFUSED), ("dial tcp: i/o timeout", WeightsFinding.TOKEN_UNKNOWN)],
)
def test_reports_token_with_the_providers_message(message: str, finding: WeightsFinding) -> None:
    observed = observe_started(request_weights(), with_job_status(RUNS), with_sync_error("token-", message))
    (token,) = (read_object(manifest) for key, manifest in observed.items() if key.startswith("token-"))
    name = "modelplane-system/hf-token (key HF_TOKEN)"
    state = reconcile_observed(request_weights(), observed).state
    assert (state.finding, state.name, state.message, state.remote) == (finding, name, message, token)


@pytest.mark.parametrize(("edits", "ready"), [((), True), ((with_sync_error("job-", "dial tcp: i/o timeout"),), False)])
def test_completed_job_is_ready_unless_state_is_unknown(edits: tuple[Edit, ...], *, ready: bool) -> None:
    found = reconcile_observed(request_weights(), observe_started(request_weights(), with_job_status(COMPLETE), *edits))
    assert [item.ready for key, item in found.composed.items() if key.startswith("job-")] == [ready]
    complete = reconcile_observed(
        request_weights(), observe_started(request_weights(), with_job_status(COMPLETE))
    ).download
    unseen = reconcile_observed(
        request_weights(), observe_started(request_weights(), with_value("job-", "status", {})), complete
    )
    assert [item.ready for key, item in unseen.composed.items() if key.startswith("job-")] == [True], (
        "a Job whose weights are recorded as hydrated is ready without a status"
    )
    assert reconcile_observed(request_weights(), {}).access_mode == "ReadWriteMany", (
        "a claim that was never observed counts with its requested access mode"
    )


def test_deletes_secrets_and_scripts_of_other_shared_bytes_in_two_steps() -> None:
    """Claim and Job stay on the cluster, where others may describe them; a copy of a token may not."""
    before = observe_started(request_weights(), with_job_status(FAILED))
    other = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", revision="v2")
    request = request_weights(model=model(other))
    first = reconcile_observed(request, before).desire_previous(are_read=False)
    leaving = {key: item for key, item in first.composed.items() if key in before}
    assert list_policies(leaving) == {"token": ManagementPolicy.FULL, "scripts": ManagementPolicy.FULL}
    assert {drop.key.partition("-")[0] for drop in first.drops} == {"claim", "job"}
    after = {key: item.manifest for key, item in leaving.items()}
    second = reconcile_observed(request, after).desire_previous(are_read=False)
    assert {drop.key for drop in second.drops} == leaving.keys()


@pytest.mark.parametrize(
    ("finalizers", "dropped"), [([], False), (["foregroundDeletion"], False), ([FINALIZER], True)], ids=str
)
def test_drops_object_that_only_observed_once_the_provider_holds_it(finalizers: list[JSON], dropped: bool) -> None:
    """Without the provider's finalizer the Object would go at once, and the token stay on the cluster."""
    edits = (
        with_value("token-", "spec.managementPolicies", ["Observe"]),
        with_value("token-", "metadata.finalizers", finalizers),
    )
    first = observe_started(request_weights(), with_job_status(COMPLETE), *edits)
    (token,) = (key for key in first if key.startswith("token-"))
    policies = get(reconcile_observed(request_weights(), first).composed[token].manifest, "spec.managementPolicies")
    assert policies == ["*"], "the Object gets the Delete policy"
    second = observe_started(
        request_weights(), with_job_status(COMPLETE), *edits, with_value("token-", "spec.managementPolicies", policies)
    )
    assert (token not in reconcile_observed(request_weights(), second).composed) is dropped
