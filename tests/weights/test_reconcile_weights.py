"""Which objects are composed for weights, and under which management policy, by state of claim, token and Job."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage, ModelCache, ModelCacheChoice, StorageChoice, UserClaim
from function.domain.model import HuggingFaceSource
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import get, text
from function.reasons import Phase
from function.remote.object_writer import ManagementPolicy
from function.status.weights import describe_storage
from function.weights.state import WeightsFinding
from tests.support import builders
from tests.support.weights_requests import SECRET, model, named_cache
from tests.support.weights_scene import (
    ABSENT,
    ALL_KEPT,
    ALL_OWNED,
    COMPLETE,
    DESCRIBED,
    FAILED,
    FINISHED,
    GONE,
    KEPT,
    NOT_WRITABLE,
    NOTHING,
    OBSERVED,
    OWNED,
    REFUSED,
    RETAINED,
    RUNS,
    SILENT,
    TOKEN_MODEL,
    USERS,
    WHEN,
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


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    choice: StorageChoice
    edits: tuple[Edit, ...]
    want: dict[str, ManagementPolicy]
    finding: WeightsFinding
    may_be_read: bool = False
    is_recorded: bool = False


CASES = (
    Case(
        "runs",
        "retained objects outlive the placement",
        RETAINED,
        (with_job_status(RUNS),),
        ALL_KEPT,
        WeightsFinding.JOB_RUNNING,
    ),
    Case(
        "own",
        "all objects of a placement are deleted with the placement",
        CreatedStorage(),
        (with_job_status(RUNS),),
        ALL_OWNED,
        WeightsFinding.JOB_RUNNING,
    ),
    Case(
        "users",
        "a claim of the user is only observed",
        USERS,
        (with_job_status(RUNS),),
        {**ALL_KEPT, "claim": OBSERVED},
        WeightsFinding.JOB_RUNNING,
    ),
    Case(
        "users-absent",
        "neither the scripts nor the Job are composed before the user's claim exists",
        USERS,
        (
            without("job-"),
            without("scripts-"),
            with_sync_error("claim-", ABSENT),
            with_value("claim-", "status.atProvider", None),
        ),
        {"claim": OBSERVED, "token": KEPT},
        WeightsFinding.CLAIM_NOT_FOUND,
    ),
    Case(
        "users-absent-by-now",
        "a Job that has started is carried over, even if the user's claim is absent",
        USERS,
        (with_job_status(RUNS), with_sync_error("claim-", ABSENT), with_value("claim-", "status.atProvider", None)),
        {**ALL_KEPT, "claim": OBSERVED},
        WeightsFinding.CLAIM_NOT_FOUND,
    ),
    Case(
        "refused",
        "a refused change of the claim is reported before the state of the Job",
        RETAINED,
        (with_job_status(RUNS), with_sync_error("claim-", REFUSED)),
        ALL_KEPT,
        WeightsFinding.CLAIM_REFUSED,
    ),
    Case(
        "unanswered",
        "a cluster that does not answer is reported, although the Job was seen to run",
        RETAINED,
        (with_job_status(RUNS), with_sync_error("claim-", SILENT)),
        ALL_KEPT,
        WeightsFinding.UNKNOWN,
    ),
    Case(
        "failed",
        "a failed Job stays so that users can read its log, and its scripts are deleted in two steps",
        RETAINED,
        (with_job_status(FAILED),),
        {**ALL_KEPT, "scripts": OWNED},
        WeightsFinding.JOB_FAILED,
    ),
    Case(
        "complete",
        "a Job that several composites share is only observed; its token and scripts are deleted in two steps",
        RETAINED,
        (with_job_status(COMPLETE),),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        WeightsFinding.HYDRATED,
        may_be_read=True,
        is_recorded=True,
    ),
    Case(
        "own-complete",
        "the complete Job of one placement is never created again; its token and scripts are deleted at once",
        CreatedStorage(),
        (with_job_status(COMPLETE),),
        {"claim": OWNED, "job": FINISHED},
        WeightsFinding.HYDRATED,
        may_be_read=True,
        is_recorded=True,
    ),
    Case(
        "complete-and-silent",
        "an outage is reported, and the weights still count as hydrated",
        RETAINED,
        (with_job_status(COMPLETE), with_sync_error("job-", SILENT)),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        WeightsFinding.UNKNOWN,
        may_be_read=True,
        is_recorded=True,
    ),
    Case(
        "complete-and-refused",
        "weights stay hydrated, even if their claim cannot grow",
        RETAINED,
        (with_job_status(COMPLETE), with_sync_error("claim-", REFUSED)),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        WeightsFinding.HYDRATED,
        may_be_read=True,
        is_recorded=True,
    ),
    Case(
        "complete-and-gone",
        "the weights are gone with their claim, even if the Job is Complete",
        CreatedStorage(),
        (with_job_status(COMPLETE), with_sync_error("claim-", ABSENT)),
        ALL_OWNED,
        WeightsFinding.JOB_NOT_STARTED,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_composes_by_observed_state(case: Case) -> None:
    request = request_weights(case.choice)
    found = reconcile_observed(request, observe_started(request, *case.edits))
    assert list_policies(found.composed) == case.want, case.reason
    assert (found.state.finding, found.service_may_read, found.kept) == (case.finding, case.may_be_read, {}), (
        case.reason
    )
    assert found.state.environment == "east", case.reason
    want = DownloadRecord(claim=found.download.claim, path=found.download.path, namespace="ml-team-research")
    assert found.download == (replace(want, completed_at=WHEN, claim_uid="1") if case.is_recorded else want), (
        case.reason
    )
    places = {text(item.manifest, f"{DESCRIBED}.metadata.namespace") for item in found.composed.values()}
    assert places == {"ml-team-research"}, case.reason
    assert found.plan
    assert (found.download.claim, found.download.path) == (found.plan.claim_name, found.plan.path)
    assert found.access_mode == ("" if case.finding is WeightsFinding.CLAIM_NOT_FOUND else "ReadWriteMany"), case.reason


@pytest.mark.parametrize("choice", [RETAINED, CreatedStorage()], ids=["retained", "own"])
def test_stays_hydrated_without_job(choice: StorageChoice) -> None:
    request = request_weights(choice)
    earlier = reconcile_observed(request, observe_started(request, with_job_status(COMPLETE))).download
    found = reconcile_observed(request, observe_started(request, *GONE), earlier)
    assert set(list_policies(found.composed)) == {"claim"}, "the function composes neither the Job nor the token again"
    assert (found.state.finding, found.service_may_read, found.download) == (WeightsFinding.HYDRATED, True, earlier)
    absent = reconcile_observed(
        request, observe_started(request, with_job_status(COMPLETE), with_sync_error("job-", ABSENT)), earlier
    )
    assert "job" not in list_policies(absent.composed), "a Job that is absent on its cluster is no longer composed"


@pytest.mark.parametrize(
    ("choice", "want", "reason"),
    [
        (
            RETAINED,
            {**ALL_KEPT, "job": OWNED, "scripts": OWNED},
            "the Job is deleted in two steps, because several composites share it",
        ),
        (
            CreatedStorage(),
            {"claim": OWNED, "token": OWNED},
            "the Job is deleted at once, and the next call creates another one",
        ),
    ],
)
def test_deletes_job_that_filled_a_replaced_claim(
    choice: StorageChoice, want: dict[str, ManagementPolicy], reason: str
) -> None:
    request = request_weights(choice)
    earlier = reconcile_observed(request, observe_started(request, with_job_status(COMPLETE))).download
    replaced = with_value("claim-", "status.atProvider.manifest.metadata.uid", "2")
    found = reconcile_observed(request, observe_started(request, with_job_status(COMPLETE), replaced), earlier)
    assert list_policies(found.composed) == want, reason
    assert (found.service_may_read, found.download) == (False, earlier), (
        "no service may read the new claim, which is empty"
    )


def test_returns_objects_of_earlier_weights_apart() -> None:
    request = request_weights()
    before = observe_started(request, with_job_status(COMPLETE), without("scripts-"))
    other = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", revision="v2", secret=SECRET)
    found = reconcile_observed(
        replace(request, model=model(other)), {**before, "service-a": next(iter(before.values()))}
    )
    with_consumer = found.current | found.desire_previous(are_read=True)
    assert (with_consumer.composed.keys() & before.keys(), with_consumer.drops) == (set(), ()), (
        "all objects of the old weights are carried over while a service reads them"
    )
    assert found.kept.keys() == {key for key in before if not key.startswith("token-")}
    described = {key: (item.manifest["spec"], item.ready) for key, item in found.kept.items()}
    assert described == {key: (before[key]["spec"], True) for key in found.kept}
    assert list_policies({key: item for key, item in found.composed.items() if key not in before}) == ALL_KEPT
    leaving = {key: item for key, item in found.composed.items() if key in before}
    assert list_policies(leaving) == {"token": OWNED}, "the token of the old weights is deleted in two steps"


SMALL = CreatedStorage(retain=True, size=2**30)
TOO_LARGE = replace(TOKEN_MODEL, disk=2**40)


@pytest.mark.parametrize(
    ("edits", "planned", "reason"),
    [
        (GONE, False, "a download that has not started is not planned on a claim that is too small"),
        ((without(""),), False, "a download without claim and Job is not planned on a claim that is too small"),
        ((with_job_status(RUNS),), True, "a running download continues"),
        ((with_job_status(COMPLETE),), True, "weights that are complete stay planned"),
        ((with_job_status(NOT_WRITABLE),), True, "a Job that could not write is followed by a prepared Job"),
    ],
)
def test_continues_download_despite_small_size(edits: tuple[Edit, ...], planned: bool, reason: str) -> None:
    observed = observe_started(request_weights(SMALL), *edits)
    found = reconcile_observed(request_weights(SMALL, model=TOO_LARGE), observed)
    assert (found.plan is not None) is planned, reason
    assert found.composed.keys() >= {key for key in observed if key.startswith("claim-")}
    if not planned:
        assert (found.state.finding, found.state.environment) == (WeightsFinding.CLAIM_TOO_SMALL, "east")
        assert (found.service_may_read, found.kept) == (False, {})
        assert found.composed.keys() == observed.keys(), "no observed object is dropped"


def test_keeps_served_or_recorded_weights_despite_small_size() -> None:
    request = request_weights(SMALL, model=TOO_LARGE)
    observed = observe_started(request_weights(SMALL), *GONE)
    plan = reconcile_observed(request_weights(SMALL), observed).plan
    assert plan
    assert reconcile_observed(request, observed, serving_uri=plan.uri).plan
    earlier = reconcile_observed(
        request_weights(SMALL), observe_started(request_weights(SMALL), with_job_status(COMPLETE))
    ).download
    assert reconcile_observed(request, observed, earlier).service_may_read
    refused = reconcile_observed(request, observed, replace(earlier, path="models/other"), serving_uri="pvc://other")
    assert refused.plan is None
    assert refused.download.path == "models/other", "the record of the earlier download is kept"


def test_refused_change_of_a_claim_is_a_problem_of_verified_weights() -> None:
    request = request_weights(RETAINED)
    earlier = reconcile_observed(request, observe_started(request, with_job_status(COMPLETE))).download
    observed = observe_started(request, with_job_status(COMPLETE), with_sync_error("claim-", REFUSED))
    found = reconcile_observed(request, observed, earlier)
    assert found.plan
    assert found.state.finding is WeightsFinding.HYDRATED
    assert [problem.path for problem in found.state.problems] == [f"claim {found.plan.claim_name}"]
    assert all(problem.message for problem in found.state.problems)


def test_neither_downloads_nor_waits_without_preload() -> None:
    found = reconcile_observed(request_weights(CreatedStorage(preload=False)), {})
    assert (list_policies(found.composed), found.service_may_read) == ({"claim": OWNED}, True)
    request = request_weights(CreatedStorage())
    earlier = reconcile_observed(request, observe_started(request, with_job_status(COMPLETE))).download
    forgotten = replace(earlier, completed_at="", claim_uid="")
    assert reconcile_observed(request_weights(CreatedStorage(preload=False)), {}, earlier).download == forgotten, (
        "without preload, the record does not say that the weights are complete"
    )
    refused = reconcile_observed(
        request_weights(CreatedStorage(preload=False)),
        observe_started(request_weights(CreatedStorage()), with_sync_error("claim-", REFUSED)),
    )
    assert refused.state.finding is WeightsFinding.CLAIM_REFUSED, "a refused claim is reported even without preload"
    users = request_weights(UserClaim(claim="mine", preload=False))
    assert (
        reconcile_observed(users, {}).service_may_read,
        reconcile_observed(users, observe_started(users)).service_may_read,
    ) == (False, True), "without preload, the service waits only for the user's claim"
    assert list_policies(reconcile_observed(users, {}).composed) == {"claim": OBSERVED}
    assert reconcile_observed(users, observe_started(users)).state.finding is WeightsFinding.PRESTAGED
    made = request_weights(CreatedStorage(preload=False))
    state = reconcile_observed(made, observe_started(made)).state
    assert state.finding is WeightsFinding.NOT_PRELOADED, "a claim that was just made is empty"


PATH = reconcile_observed(request_weights(), {}).download.path
ONCE = named_cache(PATH, access_mode="ReadWriteOnce", phase=Phase.READY)


@pytest.mark.parametrize(
    ("cache", "finding", "reason"),
    [
        (
            named_cache(PATH, phase=Phase.READY),
            WeightsFinding.CACHE_HYDRATED,
            "the cache reports that its weights are ready",
        ),
        (
            named_cache(PATH, phase=Phase.DOWNLOADING),
            WeightsFinding.CACHE_DOWNLOADING,
            "the cache reports that its weights are still downloading",
        ),
        (
            named_cache("", phase=Phase.READY),
            WeightsFinding.UNPLANNABLE,
            "a cache that does not report its path cannot be planned",
        ),
        (ONCE, WeightsFinding.CACHE_NOT_SHARED, "two nodes cannot both mount a ReadWriteOnce claim"),
    ],
)
def test_a_named_cache_is_waited_for_and_nothing_is_composed(
    cache: ModelCache, finding: WeightsFinding, reason: str
) -> None:
    request = request_weights(ModelCacheChoice(name="weights"), named_cache=cache)
    found = reconcile_observed(request, {})
    assert (found.composed, found.state.finding) == ({}, finding), reason
    assert (found.state.environment, found.access_mode, found.kept) == ("east", "", {}), reason
    assert found.service_may_read is (finding is WeightsFinding.CACHE_HYDRATED), reason
    known = DownloadRecord(claim="c", path=PATH, namespace="ml-team-research")
    assert found.download == (known if found.plan else NOTHING), reason


@pytest.mark.parametrize(
    ("namespace", "finding", "service_may_read"),
    [
        ("", WeightsFinding.CACHE_HYDRATED, True),
        ("ml-team-research", WeightsFinding.CACHE_HYDRATED, True),
        ("a-research", WeightsFinding.CACHE_IN_OTHER_NAMESPACE, False),
    ],
)
def test_names_namespace_in_which_another_prefix_left_named_cache(
    namespace: str, finding: WeightsFinding, *, service_may_read: bool
) -> None:
    cache = named_cache(PATH, phase=Phase.READY, namespace=namespace)
    weights = reconcile_observed(request_weights(ModelCacheChoice(name="weights"), named_cache=cache), {})
    assert (weights.state.finding, weights.service_may_read) == (finding, service_may_read)
    message = (
        "The ModelCache has its weights in namespace a-research of environment east, where it started under another "
        "remoteNamespacePrefix, and pods in namespace ml-team-research cannot mount them; create another ModelCache "
        "and name that one"
    )
    assert (describe_storage(weights.state) == message) is not service_may_read


def test_prepares_job_after_write_failure() -> None:
    observed = observe_started(request_weights(), with_job_status(NOT_WRITABLE))
    jobs = {key for key in reconcile_observed(request_weights(), observed).composed if key.startswith("job-")}
    assert len(jobs) == 2
    assert jobs & observed.keys(), "the failed Job stays, because its failure is the reason for the prepared Job"


@pytest.mark.parametrize(("mode", "near"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_a_claim_that_is_of_one_node_is_filled_on_a_node_of_the_pool(mode: str, *, near: bool) -> None:
    pool = replace(builders.pool(), labels=(("zone", "a"),))
    request = request_weights(CreatedStorage(type=CacheType.PVC), shape_nodes=1, pool=pool)
    modes = with_value("claim-", "status.atProvider.manifest.spec.accessModes", [mode])
    found = reconcile_observed(request, observe_started(request, without("job-"), modes))
    (made,) = (item.manifest for key, item in found.composed.items() if key.startswith("job-"))
    assert get(made, f"{DESCRIBED}.spec.template.spec.nodeSelector") == ({"zone": "a"} if near else None)
    assert found.access_mode == mode
    (claim,) = (item.manifest for key, item in found.composed.items() if key.startswith("claim-"))
    assert get(claim, f"{DESCRIBED}.spec.accessModes") == [mode], "the access mode of an existing claim cannot change"
