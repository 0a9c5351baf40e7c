"""The remote objects of one plan for weights, for placements and caches alike: claim, token, scripts and Job.

What leaves `desired` here: copies of Secrets once the download is verified; the scripts once no Job can start a pod;
a Job that another one for the same bytes replaces; and, as `stale`, the claim and Job of bytes that are not wanted
any more, which the caller keeps for as long as somebody still reads them. A Job that has finished stays as it is,
whatever the platform's download settings have become since, and is only looked at from then on: cleaned up on its
cluster, it is not created again. What several composites describe at once is composed without the Delete policy, so
before it may leave the cluster it is composed once with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from function.contract import Composed
from function.domain.cache import CacheEntry, Hydration, NamedCache, UserClaim
from function.kube.manifests import Manifest, strings, text
from function.kube.names import LABEL_CACHE_KEY
from function.reasons import Phase
from function.remote.carry_over import reapply_observed, stop_managing, with_management_policy
from function.remote.health import Level, assess
from function.remote.object_writer import ManagementPolicy, ObjectWriter, deletes
from function.remote.observed_object import ObservedObject, State
from function.weights import directory as preparation
from function.weights import equivalent_jobs as same_jobs
from function.weights import hydration, volume_claim
from function.weights.equivalent_jobs import JOB
from function.weights.faults import NEW_CLAIM_FAULTS, SIZE_FAULTS, FaultKind, StorageFault
from function.weights.plan import Gate, JobPlan, StoragePlan, plan
from function.weights.request import Case, StorageRequest
from function.weights.secret_copies import SecretCopy, of_credential, of_pull_secrets
from function.weights.state import Finding, Room, StorageState
from function.weights.volume_claim import Ownership

CLAIM, SCRIPTS, TOKEN = "claim-", "scripts-", "token-"
_PREFIXES = (CLAIM, JOB, SCRIPTS, TOKEN)
_LIFETIME: Mapping[Ownership, ManagementPolicy] = {
    Ownership.OBSERVED: ManagementPolicy.OBSERVE_ONLY,
    Ownership.MANAGED: ManagementPolicy.FULL,
    Ownership.RETAINED: ManagementPolicy.RETAIN,
}

_WITHOUT_CLAIM: Mapping[Case, Finding] = {
    Case.PRESTAGED: Finding.PRESTAGED,
    Case.INITIALIZER: Finding.EMPTY_DIR,
}
_ROOM: Mapping[Case, Room] = {Case.SHARED: Room.SHARED, Case.USER_CLAIM: Room.USER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights on one environment. `open`: a service may be composed on the plan's URI. `access_mode` of the claim.

    `told`: the composite says so too. Only what it says is known to every later call, whatever becomes of the Job.
    """

    composed: Mapping[str, Composed]
    stale: Mapping[str, Composed]
    state: StorageState
    plan: StoragePlan | None
    open: bool
    told: bool = False
    hydration: Hydration = Hydration()
    access_mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was observed for a plan. `job_key` None: no Job is wanted. `adopted`: it has an earlier release's name."""

    claim: ObservedObject
    job_key: str | None = None
    job: ObservedObject | None = None
    done: bool = False
    outdated: bool = False
    adopted: bool = False


def reconcile_weights(
    request: StorageRequest,
    writer: ObjectWriter,
    environment: str,
    earlier: Hydration,
    entry: CacheEntry | None = None,
    reads: str = "",
) -> Weights:
    """Return the objects for a request; `earlier` is what was seen complete, `entry` the named ModelCache's state.

    `reads`: where a service reads weights already, if one does.
    """
    if entry and entry.hydration.namespace not in ("", request.namespace):
        entry = None  # before another `remoteNamespacePrefix`: no pod can mount what is there
    planned = _plan(request, writer, earlier, reads)
    if isinstance(planned, tuple):
        return _refused(writer, planned, environment, earlier)
    wanted = _wanted(request, planned)
    seen = _look(writer, planned, earlier, wanted)
    claim = planned.claim
    # Who reads from a ModelCache's claim knows its mode, and how many of his pods would mount it.
    pods = 1 if request.for_cache and planned.type is not Case.USER_CLAIM else request.pods
    obstacle = hydration.of_claim(claim, seen.claim, environment, pods) if claim else None
    jobs = _job(writer, planned.job, seen, blocked=obstacle is not None)
    composed = {
        **_claim(writer, planned, seen),
        **_secrets(writer, planned, request.namespace, seen, reads),
        **_scripts(writer, planned, seen, jobs),
        **jobs,
    }
    return Weights(
        composed=composed,
        stale=_stale(writer, planned, composed, seen),
        state=replace(
            _state(writer, planned, seen, obstacle, environment, entry),
            remarks=tuple(remark.problem for remark in planned.remarks),
            of_cache=request.for_cache,
            room=_ROOM.get(planned.type, Room.OWN),
        ),
        plan=_with_adopted(planned, seen),
        open=_open(planned.gate, seen, entry),
        told=hydration.told(earlier, wanted, seen.claim, seen.job),
        hydration=hydration.latch(earlier, wanted, seen.claim, seen.job, done=seen.done) if planned.job else wanted,
        access_mode=_mode(planned, seen.claim),
    )


def _plan(
    request: StorageRequest, writer: ObjectWriter, earlier: Hydration, reads: str
) -> StoragePlan | tuple[StorageFault, ...]:
    """Return the plan, or why there is none.

    A size that cannot hold the weights is no reason for those that are there, and what cannot be had of a new claim
    none for one that is there.
    """
    there = frozenset({earlier.claim, *(key.removeprefix(CLAIM) for key in writer.observed if key.startswith(CLAIM))})
    if isinstance(request.choice, UserClaim):
        claim = writer.read(CLAIM + request.choice.claim)
        request = replace(request, held=volume_claim.holds(claim.manifest))
    known = replace(request, existing=there)
    planned = _prepared(writer, known)
    if isinstance(planned, StoragePlan):
        return planned
    kinds = {fault.kind for fault in planned}
    if not kinds <= SIZE_FAULTS | NEW_CLAIM_FAULTS:
        return planned
    anyway = _prepared(writer, replace(known, fetched=True, claimed=True))
    assert isinstance(anyway, StoragePlan)  # that was all that was wrong
    seen = _look(writer, anyway, earlier, _wanted(request, anyway))
    if not kinds <= SIZE_FAULTS and (not seen.claim.seen or hydration.gone(seen.claim)):
        return planned
    if kinds.isdisjoint(SIZE_FAULTS):
        return anyway
    jobs = same_jobs.of_the_bytes(writer, anyway.job) if anyway.job else []
    begun = seen.job_key in writer.observed or bool(preparation.evidence(writer, jobs))
    begun = begun or seen.done or anyway.uri == reads
    return anyway if begun else planned


def _wanted(request: StorageRequest, planned: StoragePlan) -> Hydration:
    retry = "" if isinstance(request.choice, NamedCache) else request.choice.retry
    return Hydration(claim=planned.claim_name, path=planned.path, namespace=request.namespace, retry=retry)


def _refused(writer: ObjectWriter, faults: tuple[StorageFault, ...], environment: str, earlier: Hydration) -> Weights:
    kept = {key: reapply_observed(m) for key, m in writer.observed.items() if key.startswith(_PREFIXES)}
    kinds = {fault.kind for fault in faults}
    finding = Finding.CLAIM_TOO_SMALL if kinds <= SIZE_FAULTS else Finding.UNPLANNABLE
    if FaultKind.CACHE_NOT_SHARED in kinds:
        finding = Finding.CACHE_NOT_SHARED
    problems = tuple(fault.problem for fault in faults)
    state = StorageState(finding=finding, environment=environment, problems=problems)
    return Weights(composed=kept, stale={}, state=state, plan=None, open=False, hydration=earlier)


def _prepared(writer: ObjectWriter, request: StorageRequest) -> StoragePlan | tuple[StorageFault, ...]:
    planned = plan(request)
    if isinstance(planned, tuple) or planned.job is None:
        return planned
    could_not_write = bool(preparation.evidence(writer, same_jobs.of_the_bytes(writer, planned.job)))
    mode = volume_claim.mode(writer.read(CLAIM + planned.claim_name).manifest)
    return plan(replace(request, prepared=could_not_write, claim_mode=mode)) if could_not_write or mode else planned


def _look(writer: ObjectWriter, planned: StoragePlan, earlier: Hydration, wanted: Hydration) -> _Seen:
    claim = writer.read(CLAIM + planned.claim_name)
    if planned.job is None:
        return _Seen(claim=claim)
    adopted = same_jobs.in_its_place(writer, planned.job)
    key = adopted or JOB + planned.job.name
    job = writer.read(key)
    outdated = hydration.outdated(earlier, wanted, claim, job)
    verified = assess(job.manifest).up and not outdated and not hydration.gone(claim)
    return _Seen(
        claim=claim,
        job_key=key,
        job=job,
        done=verified or hydration.holds(earlier, wanted, claim),
        outdated=outdated,
        adopted=adopted is not None and key != JOB + planned.job.name,
    )


def _with_adopted(planned: StoragePlan, seen: _Seen) -> StoragePlan:
    """Return a plan whose Job has the name of the one that is there in its place: that one has a log."""
    if planned.job is None or seen.job_key is None or not seen.adopted:
        return planned
    return replace(planned, job=replace(planned.job, name=seen.job_key.removeprefix(JOB)))


def _mode(planned: StoragePlan, claim: ObservedObject) -> str:
    if planned.claim is None:
        return ""
    asked = "" if planned.claim.ownership is Ownership.OBSERVED else planned.claim.access_mode
    return volume_claim.mode(claim.manifest) or asked


def _claim(writer: ObjectWriter, planned: StoragePlan, seen: _Seen) -> dict[str, Composed]:
    if planned.claim is None:
        return {}
    key, wanted = CLAIM + planned.claim.name, planned.claim
    # The bytes are there and fit: a bound that has drifted since is no reason to grow.
    if seen.done and seen.claim.seen and planned.size and not planned.size.stated:
        wanted = replace(wanted, size=0)
    manifest = volume_claim.build(wanted, seen.claim.manifest)
    return {key: writer.compose(key, manifest, _LIFETIME[wanted.ownership])}


def _copies(planned: StoragePlan) -> tuple[SecretCopy, ...]:
    pulled = of_pull_secrets(planned.job.pull_secrets) if planned.job else ()
    return (*of_credential(planned.credential), *pulled)


def _secrets(
    writer: ObjectWriter, planned: StoragePlan, namespace: str, seen: _Seen, reads: str
) -> dict[str, Composed]:
    # Pods that fetch their weights themselves need it whenever they start, until they read from the claim.
    fetching = bool(reads) and "pvc" not in reads.partition("://")
    copies = _copies(planned)
    if copies and seen.adopted and not seen.done:
        return {key: reapply_observed(m) for key, m in sorted(writer.observed.items()) if key.startswith(TOKEN)}
    lifetime = _LIFETIME[planned.job.ownership] if planned.job else ManagementPolicy.FULL
    composed: dict[str, Composed] = {}
    for copy in copies:
        key = TOKEN + copy.name
        if seen.done and not copy.lasting and not fetching:
            composed |= _leaving(writer, key)
        else:
            composed[key] = copy.composed(writer, key, namespace, lifetime)
    return composed


def _leaving(writer: ObjectWriter, key: str) -> dict[str, Composed]:
    """Return the first of two steps by which a remote object goes: its Object gets the Delete policy, then it goes."""
    observed = writer.observed.get(key)
    return (
        {} if observed is None or deletes(observed) else {key: with_management_policy(observed, ManagementPolicy.FULL)}
    )


def _job(writer: ObjectWriter, job: JobPlan | None, seen: _Seen, *, blocked: bool) -> dict[str, Composed]:
    key = seen.job_key
    if job is None or key is None:
        return {}
    observed = writer.observed.get(key)
    if seen.outdated:
        return _leaving(writer, key)
    if seen.done:
        remote = writer.read(key)
        if observed is None or remote.state is State.ABSENT:
            return {}
        return {key: replace(stop_managing(observed), ready=not remote.state_unknown)}
    if seen.adopted and observed:
        return {key: reapply_observed(observed)}
    if blocked and observed is None:
        return {}
    proof = () if observed else preparation.evidence(writer, same_jobs.of_the_bytes(writer, job))
    return {
        **{earlier: reapply_observed(writer.observed[earlier]) for earlier in proof},
        key: preparation.composed(writer, key, job.manifest, _LIFETIME[job.ownership]),
    }


def _scripts(
    writer: ObjectWriter, planned: StoragePlan, seen: _Seen, jobs: Mapping[str, Composed]
) -> dict[str, Composed]:
    """Return the ConfigMap of the planned Job, and those that Jobs of other releases for the same bytes may mount."""
    there = [key for key, m in sorted(writer.observed.items()) if key.startswith(SCRIPTS) and _is_of(m, planned.key)]
    composed = {name: item for key in there for name, item in _scripts_as_observed(writer, key).items()}
    ended = seen.done or seen.outdated or (seen.job and assess(seen.job.manifest).level is Level.FAILED)
    if planned.job and JOB + planned.job.name in jobs and not ended:
        key = _scripts_key(planned.job)
        composed[key] = writer.compose(key, planned.job.scripts, _LIFETIME[planned.job.ownership])
    return composed


def _scripts_as_observed(writer: ObjectWriter, key: str) -> dict[str, Composed]:
    """Return an observed ConfigMap, which goes where no Job of its bytes can start a pod any more."""
    label = _cache_key(writer.observed[key])
    jobs = (job for job, m in writer.observed.items() if job.startswith(JOB) and _is_of(m, label))
    runs = any(assess(writer.read(job).manifest).level is Level.PROGRESSING for job in jobs)
    return {key: reapply_observed(writer.observed[key])} if runs else _leaving(writer, key)


def _scripts_key(job: JobPlan) -> str:
    return SCRIPTS + text(job.scripts, "metadata.name")


def _state(
    writer: ObjectWriter,
    planned: StoragePlan,
    seen: _Seen,
    obstacle: StorageState | None,
    environment: str,
    entry: CacheEntry | None,
) -> StorageState:
    if obstacle and not (seen.done and obstacle.finding is Finding.CLAIM_REFUSED):
        return obstacle
    if planned.type is Case.MODEL_CACHE:
        return hydration.of_cache(entry, environment)
    if seen.job is not None:
        if seen.done:
            return _hydrated(planned, seen, obstacle, environment)
        missing = _missing_token(writer, planned) or _refused_scripts(writer, planned)
        return missing or hydration.of_download(seen.job, seen.claim, environment)
    if planned.claim:
        return StorageState(finding=Finding.PRESTAGED)
    missing = _missing_token(writer, planned)
    finding = _WITHOUT_CLAIM.get(planned.type, Finding.NOT_NEEDED)
    return missing or StorageState(finding=finding, each_pod=planned.each_pod)


def _hydrated(planned: StoragePlan, seen: _Seen, obstacle: StorageState | None, environment: str) -> StorageState:
    if seen.job and seen.job.state_unknown:
        return hydration.of_download(seen.job, seen.claim, environment)
    remarks = volume_claim.changed(planned.claim, seen.claim.manifest) if planned.claim else ()
    return hydration.hydrated(planned, obstacle, remarks)


def _missing_token(writer: ObjectWriter, planned: StoragePlan) -> StorageState | None:
    states = (hydration.of_token(writer.read(TOKEN + copy.name), copy.origin) for copy in _copies(planned))
    return next((state for state in states if state), None)


def _refused_scripts(writer: ObjectWriter, planned: StoragePlan) -> StorageState | None:
    """Return that the cluster refused the ConfigMap: the pods of the Job wait for it."""
    remote = writer.read(_scripts_key(planned.job)) if planned.job else None
    if remote is None or not remote.refused:
        return None
    return StorageState(finding=Finding.SCRIPTS_REFUSED, said=remote.message, remote=remote)


def _open(gate: Gate, seen: _Seen, entry: CacheEntry | None) -> bool:
    opened: Mapping[Gate, bool] = {
        Gate.NOTHING: True,
        Gate.CLAIM: seen.claim.present,
        Gate.JOB: seen.done,
        Gate.CACHE: entry is not None and entry.phase is Phase.READY,
    }
    return opened[gate]


def _stale(
    writer: ObjectWriter, planned: StoragePlan, composed: Mapping[str, Composed], seen: _Seen
) -> dict[str, Composed]:
    """Return what belongs to other bytes or another claim; what is of the same bytes was replaced and goes at once."""
    stale = {
        key: reapply_observed(manifest)
        for key, manifest in sorted(writer.observed.items())
        if key.startswith(_PREFIXES)
        and key not in composed
        and key != seen.job_key
        and not _superseded(key, manifest, planned)
    }
    for key in [key for key in stale if key.startswith(SCRIPTS)]:
        del stale[key]
        stale |= _scripts_as_observed(writer, key)
    return stale


def _superseded(key: str, observed: Manifest, planned: StoragePlan) -> bool:
    if key in {TOKEN + copy.name for copy in _copies(planned)}:
        return True
    return key.startswith((JOB, SCRIPTS)) and _is_of(observed, planned.key)


def _is_of(observed: Manifest, cache_key: str) -> bool:
    """Tell whether an Object describes something for the bytes of a cache key."""
    return _cache_key(observed) == cache_key


def _cache_key(observed: Manifest) -> str:
    return strings(observed, "spec.forProvider.manifest.metadata.labels").get(LABEL_CACHE_KEY, "")
