"""What is composed for weights, with which say over the remote object, in every state of claim, token and Job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from function.contract import Composed
from function.domain.cache import CacheChoice, CacheEntry, CacheType, Hydration, ManagedCache, NamedCache, UserClaim
from function.domain.model import HuggingFaceSource, ModelRef
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.reasons import Phase
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.weights.reconcile import Weights, reconcile_weights
from function.weights.request import NamedCacheFacts, StorageRequest
from function.weights.state import Finding
from tests.support import builders
from tests.support.remote_scene import put
from tests.support.weights_requests import MULTI, SECRET, model

DESCRIBED = "spec.forProvider.manifest"
NOTHING, WHEN = Hydration(), "2026-01-01T00:00:00Z"
TOKEN_MODEL = model(HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", secret=SECRET))
RETAINED, USERS = ManagedCache(retain=True), UserClaim(claim="mine")
OWNED, KEPT, FINISHED, OBSERVED = (
    ManagementPolicy.FULL,
    ManagementPolicy.RETAIN,
    ManagementPolicy.OBSERVE_DELETE,
    ManagementPolicy.OBSERVE_ONLY,
)

COMPLETE: Manifest = {"completionTime": WHEN, "conditions": [{"type": "Complete", "status": "True"}]}
FAILED: Manifest = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
EXIT_44 = "Container download for pod team/x failed with exit code 44 matching FailJob rule at index 0"
NOT_WRITABLE: Manifest = {
    "conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": EXIT_44}]
}
RUNS: Manifest = {"active": 1}
ABSENT, SILENT, REFUSED = "external resource does not exist", "dial tcp: i/o timeout", "the PVC is invalid"

Observed = dict[str, Manifest]
Edit = Callable[[Observed], None]


def asked(choice: CacheChoice = RETAINED, **fields: object) -> StorageRequest:
    """Return a request for two nodes with a token."""
    return replace(MULTI, **{"model": TOKEN_MODEL, "choice": choice, **fields})  # type: ignore[arg-type]  # as named


def weighed(
    request: StorageRequest,
    observed: Observed,
    earlier: Hydration = NOTHING,
    *,
    serving_uri: str = "",
    entry: CacheEntry | None = None,
) -> Weights:
    """Return what is composed where these Objects are observed."""
    writer = ObjectWriter(owner="kimi", namespace="team", provider_config="east", watch=False, observed=observed)
    return reconcile_weights(request, writer, "east", earlier, entry, serving_uri=serving_uri)


def seen(composed: Mapping[str, Composed]) -> Observed:
    """Return what is composed as it is observed, claims bound and nothing else begun."""
    found: Observed = {}
    for key, item in composed.items():
        described = mapping(item.manifest, DESCRIBED)
        remote: Manifest = {**described, "metadata": {**mapping(described, "metadata"), "uid": "1"}}
        if key.startswith("claim-"):
            remote["spec"] = {"accessModes": ["ReadWriteMany"], **mapping(described, "spec")}
            remote["status"] = {"phase": "Bound"}
        found[key] = {**item.manifest, "status": {"atProvider": {"manifest": remote}}}
    return found


def begun(request: StorageRequest, *edits: Edit) -> Observed:
    """Return what is observed once everything is composed, after edits."""
    found = seen(weighed(request, {}).composed)
    found |= seen(weighed(request, found).composed)
    for edit in edits:
        edit(found)
    return found


def job(status: Manifest) -> Edit:
    """Let the Job say this."""
    return at("job-", "status.atProvider.manifest.status", status)


def at(prefix: str, path: str, value: JSON) -> Edit:
    """Let the Objects with a prefix have this."""

    def edit(found: Observed) -> None:
        for key in [key for key in found if key.startswith(prefix)]:
            put(found[key], path, value)

    return edit


def said(prefix: str, message: str) -> Edit:
    """Let the provider fail with this."""
    return at(prefix, "status.conditions", [{"type": "Synced", "status": "False", "message": message}])


def gone(prefix: str) -> Edit:
    """Let nothing be observed under a prefix."""

    def edit(found: Observed) -> None:
        for key in [key for key in found if key.startswith(prefix)]:
            del found[key]

    return edit


def lives(composed: Mapping[str, Composed]) -> dict[str, ManagementPolicy]:
    """Return what becomes of each remote object, by what it is."""
    found = {}
    for key, item in sorted(composed.items()):
        policies = get(item.manifest, "spec.managementPolicies")
        assert isinstance(policies, list)
        found[key.partition("-")[0]] = ManagementPolicy(tuple(policies))
    return found


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    choice: CacheChoice
    edits: tuple[Edit, ...]
    want: dict[str, ManagementPolicy]
    finding: Finding
    open: bool = False
    remembers: bool = False


GONE: tuple[Edit, ...] = (gone("job-"), gone("scripts-"), gone("token-"))
ALL_KEPT = dict.fromkeys(("claim", "job", "scripts", "token"), KEPT)
ALL_OWNED = dict.fromkeys(ALL_KEPT, OWNED)
CASES = (
    Case("runs", "retained objects are not ours to delete", RETAINED, (job(RUNS),), ALL_KEPT, Finding.JOB_RUNNING),
    Case("own", "what is of this placement goes with it", ManagedCache(), (job(RUNS),), ALL_OWNED, Finding.JOB_RUNNING),
    Case(
        "users",
        "a claim of the user's is only looked at",
        USERS,
        (job(RUNS),),
        {**ALL_KEPT, "claim": OBSERVED},
        Finding.JOB_RUNNING,
    ),
    Case(
        "users-absent",
        "nothing is begun without the user's claim",
        USERS,
        (gone("job-"), gone("scripts-"), said("claim-", ABSENT), at("claim-", "status.atProvider", None)),
        {"claim": OBSERVED, "token": KEPT},
        Finding.CLAIM_NOT_FOUND,
    ),
    Case(
        "users-absent-by-now",
        "what was begun is reapply_observed",
        USERS,
        (job(RUNS), said("claim-", ABSENT), at("claim-", "status.atProvider", None)),
        {**ALL_KEPT, "claim": OBSERVED},
        Finding.CLAIM_NOT_FOUND,
    ),
    Case(
        "refused",
        "the claim comes first",
        RETAINED,
        (job(RUNS), said("claim-", REFUSED)),
        ALL_KEPT,
        Finding.CLAIM_REFUSED,
    ),
    Case("unanswered", "so it does", RETAINED, (job(RUNS), said("claim-", SILENT)), ALL_KEPT, Finding.UNKNOWN),
    Case(
        "failed",
        "a failed Job stays for its log, and its scripts go in two steps",
        RETAINED,
        (job(FAILED),),
        {**ALL_KEPT, "scripts": OWNED},
        Finding.JOB_FAILED,
    ),
    Case(
        "complete",
        "a Job that was described by several is only looked at; its token and its scripts go in two steps",
        RETAINED,
        (job(COMPLETE),),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        Finding.HYDRATED,
        open=True,
        remembers=True,
    ),
    Case(
        "own-complete",
        "an own one goes with its Object and is never made again; so go its token and its scripts, at once",
        ManagedCache(),
        (job(COMPLETE),),
        {"claim": OWNED, "job": FINISHED},
        Finding.HYDRATED,
        open=True,
        remembers=True,
    ),
    Case(
        "complete-and-silent",
        "an outage is reported, and takes nothing back",
        RETAINED,
        (job(COMPLETE), said("job-", SILENT)),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        Finding.UNKNOWN,
        open=True,
        remembers=True,
    ),
    Case(
        "complete-and-refused",
        "that its claim cannot grow is no matter of bytes that are there",
        RETAINED,
        (job(COMPLETE), said("claim-", REFUSED)),
        {"claim": KEPT, "job": OBSERVED, "scripts": OWNED, "token": OWNED},
        Finding.HYDRATED,
        open=True,
        remembers=True,
    ),
    Case(
        "complete-and-gone",
        "no claim, no bytes, whatever a Job says",
        ManagedCache(),
        (job(COMPLETE), said("claim-", ABSENT)),
        ALL_OWNED,
        Finding.JOB_NOT_STARTED,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_composes_by_observed_state(case: Case) -> None:
    request = asked(case.choice)
    found = weighed(request, begun(request, *case.edits))
    assert lives(found.composed) == case.want, case.reason
    assert (found.state.finding, found.gate_open, found.stale) == (case.finding, case.open, {}), case.reason
    assert found.state.environment == ("" if case.finding is Finding.HYDRATED else "east"), case.reason
    want = Hydration(claim=found.hydration.claim, path=found.hydration.path, namespace="ml-team-research")
    assert found.hydration == (replace(want, completed_at=WHEN, claim_uid="1") if case.remembers else want), case.reason
    places = {text(item.manifest, f"{DESCRIBED}.metadata.namespace") for item in found.composed.values()}
    assert places == {"ml-team-research"}, case.reason
    assert found.plan
    assert (found.hydration.claim, found.hydration.path) == (found.plan.claim_name, found.plan.path)
    assert found.access_mode == ("" if case.finding is Finding.CLAIM_NOT_FOUND else "ReadWriteMany"), case.reason


@pytest.mark.parametrize("choice", [RETAINED, ManagedCache()], ids=["retained", "own"])
def test_stays_hydrated_without_job(choice: CacheChoice) -> None:
    request = asked(choice)
    earlier = weighed(request, begun(request, job(COMPLETE))).hydration
    found = weighed(request, begun(request, *GONE), earlier)
    assert set(lives(found.composed)) == {"claim"}, "nothing is run again, and no token is needed"
    assert (found.state.finding, found.gate_open, found.hydration) == (Finding.HYDRATED, True, earlier)
    absent = weighed(request, begun(request, job(COMPLETE), said("job-", ABSENT)), earlier)
    assert "job" not in lives(absent.composed), "what is gone from its cluster is not described any more"


@pytest.mark.parametrize(
    ("choice", "want", "reason"),
    [
        (RETAINED, {**ALL_KEPT, "job": OWNED, "scripts": OWNED}, "it goes in two steps, as several describe it"),
        (
            ManagedCache(),
            {"claim": OWNED, "token": OWNED},
            "it is deleted, and the next call creates another",
        ),
    ],
)
def test_deletes_job_that_filled_a_replaced_claim(
    choice: CacheChoice, want: dict[str, ManagementPolicy], reason: str
) -> None:
    request = asked(choice)
    earlier = weighed(request, begun(request, job(COMPLETE))).hydration
    replaced = at("claim-", "status.atProvider.manifest.metadata.uid", "2")
    found = weighed(request, begun(request, job(COMPLETE), replaced), earlier)
    assert lives(found.composed) == want, reason
    assert (found.gate_open, found.hydration) == (False, earlier), "and nothing is served on the new one"


def test_returns_objects_of_other_bytes_as_stale() -> None:
    request = asked()
    before = begun(request, job(COMPLETE), gone("scripts-"))
    other = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", revision="v2", secret=SECRET)
    found = weighed(replace(request, model=model(other)), {**before, "service-a": next(iter(before.values()))})
    assert found.stale.keys() == before.keys()
    described = {key: (item.manifest["spec"], item.ready) for key, item in found.stale.items()}
    assert described == {key: (m["spec"], True) for key, m in before.items()}
    assert lives(found.composed) == ALL_KEPT
    assert not found.composed.keys() & before.keys()


SMALL = ManagedCache(retain=True, size=2**30)
TOO_LARGE = replace(TOKEN_MODEL, disk=2**40)


@pytest.mark.parametrize(
    ("edits", "planned", "reason"),
    [
        (GONE, False, "nothing was begun"),
        ((gone(""),), False, "nor is there a claim"),
        ((job(RUNS),), True, "it fetches already"),
        ((job(COMPLETE),), True, "they are there"),
        ((job(NOT_WRITABLE),), True, "it could not write, and a prepared one follows"),
    ],
)
def test_continues_download_despite_small_size(edits: tuple[Edit, ...], planned: bool, reason: str) -> None:
    observed = begun(asked(SMALL), *edits)
    found = weighed(asked(SMALL, model=TOO_LARGE), observed)
    assert (found.plan is not None) is planned, reason
    assert found.composed.keys() >= {key for key in observed if key.startswith("claim-")}
    if not planned:
        assert (found.state.finding, found.state.environment) == (Finding.CLAIM_TOO_SMALL, "east")
        assert (found.gate_open, found.stale) == (False, {})
        assert found.composed.keys() == observed.keys(), "what is there stays as it is"


def test_keeps_served_or_recorded_weights_despite_small_size() -> None:
    request = asked(SMALL, model=TOO_LARGE)
    observed = begun(asked(SMALL), *GONE)
    plan = weighed(asked(SMALL), observed).plan
    assert plan
    assert weighed(request, observed, serving_uri=plan.uri).plan
    earlier = weighed(asked(SMALL), begun(asked(SMALL), job(COMPLETE))).hydration
    assert weighed(request, observed, earlier).gate_open
    refused = weighed(request, observed, replace(earlier, path="models/other"), serving_uri="pvc://other")
    assert refused.plan is None
    assert refused.hydration.path == "models/other", "what was known is not forgotten"


def test_neither_downloads_nor_waits_without_preload() -> None:
    found = weighed(asked(ManagedCache(preload=False)), {})
    assert (lives(found.composed), found.gate_open) == ({"claim": OWNED}, True)
    request = asked(ManagedCache())
    earlier = weighed(request, begun(request, job(COMPLETE))).hydration
    forgotten = replace(earlier, completed_at="", claim_uid="")
    assert weighed(asked(ManagedCache(preload=False)), {}, earlier).hydration == forgotten, "it is not verified"
    refused = weighed(asked(ManagedCache(preload=False)), begun(asked(ManagedCache()), said("claim-", REFUSED)))
    assert refused.state.finding is Finding.CLAIM_REFUSED, "a claim may be filled that is there, and no other"
    users = asked(UserClaim(claim="mine", preload=False))
    assert (weighed(users, {}).gate_open, weighed(users, begun(users)).gate_open) == (False, True), (
        "but for the user's claim"
    )
    assert lives(weighed(users, {}).composed) == {"claim": OBSERVED}
    assert weighed(users, begun(users)).state.finding is Finding.PRESTAGED


PATH = weighed(asked(), {}).hydration.path
FACTS = NamedCacheFacts(model=ModelRef(kind="ClusterModel", name=TOKEN_MODEL.name), claim="c", path=PATH)
ONCE = replace(FACTS, access_mode="ReadWriteOnce")


@pytest.mark.parametrize(
    ("facts", "phase", "finding", "reason"),
    [
        (FACTS, Phase.READY, Finding.CACHE_HYDRATED, "it says that it is there"),
        (FACTS, Phase.DOWNLOADING, Finding.CACHE_DOWNLOADING, "it does not yet"),
        (replace(FACTS, path=""), Phase.READY, Finding.UNPLANNABLE, "the path is unknown"),
        (ONCE, Phase.READY, Finding.CACHE_NOT_SHARED, "two nodes cannot both mount it"),
    ],
)
def test_a_named_cache_is_waited_for_and_nothing_is_composed(
    facts: NamedCacheFacts, phase: Phase, finding: Finding, reason: str
) -> None:
    request = asked(NamedCache(name="weights"), named_cache=facts)
    found = weighed(request, {}, entry=CacheEntry(environment="east", phase=phase))
    assert (found.composed, found.state.finding) == ({}, finding), reason
    assert (found.state.environment, found.access_mode, found.stale) == ("east", "", {}), reason
    assert found.gate_open is (finding is Finding.CACHE_HYDRATED), reason
    known = Hydration(claim="c", path=PATH, namespace="ml-team-research")
    assert found.hydration == (known if found.plan else NOTHING), reason


def test_prepares_job_after_write_failure() -> None:
    observed = begun(asked(), job(NOT_WRITABLE))
    jobs = {key for key in weighed(asked(), observed).composed if key.startswith("job-")}
    assert len(jobs) == 2
    assert jobs & observed.keys(), "it says why the next one is prepared"


@pytest.mark.parametrize(("mode", "near"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_a_claim_that_is_of_one_node_is_filled_on_a_node_of_the_pool(mode: str, *, near: bool) -> None:
    pool = replace(builders.pool(), labels=(("zone", "a"),))
    request = asked(ManagedCache(type=CacheType.PVC), shape_nodes=1, pool=pool)
    modes = at("claim-", "status.atProvider.manifest.spec.accessModes", [mode])
    found = weighed(request, begun(request, gone("job-"), modes))
    (made,) = (item.manifest for key, item in found.composed.items() if key.startswith("job-"))
    assert get(made, f"{DESCRIBED}.spec.template.spec.nodeSelector") == ({"zone": "a"} if near else None)
    assert found.access_mode == mode
    (claim,) = (item.manifest for key, item in found.composed.items() if key.startswith("claim-"))
    assert get(claim, f"{DESCRIBED}.spec.accessModes") == [mode], "no claim can change it"
