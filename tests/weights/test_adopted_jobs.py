"""Which Job that is there is taken for the wanted one, and which is followed by another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheChoice, ManagedCache, UserClaim
from function.domain.model import HuggingFaceSource
from function.domain.settings import Download
from function.kube.manifests import Manifest, get
from tests.weights.requests import SECRET, model
from tests.weights.test_reconcile_weights import (
    ALL_OWNED,
    COMPLETE,
    DESCRIBED,
    FAILED,
    RETAINED,
    RUNS,
    asked,
    at,
    begun,
    job,
    lives,
    weighed,
)

Change = Callable[[Download], Download]
OWN = ManagedCache()


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    choice: CacheChoice
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


def proxied(download: Download) -> Download:
    return replace(download, env=({"name": "HTTPS_PROXY", "value": "http://proxy"},))


def moved(download: Download) -> Download:
    return replace(download, node_selector={"zone": "a"}, tolerations=({"key": "a", "operator": "Exists"},))


CASES = (
    Case("finished", "its bytes are there, however they were fetched", OWN, COMPLETE, same, proxied, True),
    Case("finished-retry", "nor is it tried again twice", ManagedCache(retry="1"), COMPLETE, same, proxied, True),
    Case("finished-retained", "so they are for all who describe it", RETAINED, COMPLETE, same, mirrored, True),
    Case("pin", "another release's pin ends no download", OWN, RUNS, pinned, same, True),
    Case("image", "an image that somebody names is his word", OWN, RUNS, same, mirrored, False),
    Case("env", "so is a variable", OWN, RUNS, same, proxied, False),
    Case("runs-elsewhere", "what runs is not moved", OWN, {"active": 1, "ready": 1}, same, moved, True),
    Case("waits-elsewhere", "what found no node may find one there", OWN, RUNS, same, moved, False),
    Case("failed", "what failed is tried again with what is new", OWN, FAILED, pinned, same, False),
)


def jobs(found: object) -> set[str]:
    assert isinstance(found, dict)
    return {key for key in found if key.startswith("job-")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_job_stays_unless_somebody_asked_for_another(case: Case) -> None:
    request = asked(case.choice)
    observed = begun(replace(request, download=case.before(request.download)), job(case.status))
    changed = weighed(replace(request, download=case.now(request.download)), observed)
    assert (jobs(changed.composed) == jobs(observed)) is case.stays, case.reason
    assert len(jobs(changed.composed)) == 1, "two would write into one directory"
    assert changed.stale == {}, "what is of the same bytes is replaced at once"
    assert changed.plan is not None
    assert changed.plan.job is not None
    assert {f"job-{changed.plan.job.name}"} == jobs(changed.composed), "the status names the one whose log there is"


@pytest.mark.parametrize(
    ("claim", "repo", "reason"),
    [
        ("mine", "moonshotai/Other", "other bytes of the same claim"),
        ("yours", "moonshotai/Kimi-K2-Instruct", "and another claim"),
    ],
)
def test_a_job_that_has_fetched_something_else_has_not_fetched_this(claim: str, repo: str, reason: str) -> None:
    observed = begun(asked(UserClaim(claim="mine")), job(COMPLETE))
    wanted = asked(UserClaim(claim=claim), model=model(HuggingFaceSource(repo=repo, secret=SECRET)))
    found = weighed(wanted, observed)
    assert not found.open, reason
    assert not jobs(found.composed) & jobs(observed), reason


@pytest.mark.parametrize(
    ("status", "stays", "reason"),
    [
        (RUNS, True, "what it has fetched is not fetched again"),
        (COMPLETE, True, "nor what is there"),
        (FAILED, False, "one that has failed is not waited for"),
    ],
)
def test_a_shared_job_under_an_earlier_releases_name_is_taken_as_it_is(
    status: Manifest, *, stays: bool, reason: str
) -> None:
    observed = begun(asked(), job(status), at("job-", f"{DESCRIBED}.spec.backoffLimit", 1))
    (key,) = jobs(observed)
    observed["job-earlier"] = observed.pop(key)
    (token,) = (key for key in observed if key.startswith("token-"))
    observed["token-earlier"] = observed.pop(token)
    found = weighed(replace(asked(), download=proxied(asked().download)), observed)
    assert ("job-earlier" in found.composed) is stays, reason
    if stays:
        assert jobs(found.composed) == {"job-earlier"}, reason
        tokens = {key for key in found.composed if key.startswith("token-")}
        assert tokens == ({"token-earlier"} if status is RUNS else set()), "it reads the token of its own time"
        assert get(found.composed["job-earlier"].manifest, f"{DESCRIBED}.spec.backoffLimit") == 1, "and not written to"


def test_a_failed_job_that_another_replaces_goes_at_once() -> None:
    failed = begun(asked(ManagedCache()), job(FAILED))
    changed = weighed(asked(ManagedCache(retry="1")), failed)
    assert (changed.stale, changed.hydration.retry) == ({}, "1"), "it is of the same bytes"
    assert lives(changed.composed) == ALL_OWNED
    assert {k for k in changed.composed if k.startswith("job-")}.isdisjoint(failed)
