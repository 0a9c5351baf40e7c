"""Reconciles the remote objects of one plan for weights: claim, copies of Secrets, scripts and Job.

Placements and ModelCaches use the same plans. What is deleted, and when:

- Copies of Secrets: once the weights are verified, unless pods still download by themselves; or nothing reads the
  weights.
- Scripts: once no Job can start a pod that mounts them.
- Jobs: once another Job replaces them, or none is planned. A finished Job stays, whatever the download settings become,
  and is only observed. If its cluster cleans it up, it is not created again.
- Everything that belongs to earlier weights: once the caller says that nothing reads them.

An Object that several composites share has no Delete policy. To delete one, one call adds the policy, and a later call
drops the Object. An Object that has only observed so far has no finalizer. It is dropped only after the provider has
added one; otherwise the remote object would stay behind.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from function.contract import Composed, Desired, Drop, combine
from function.domain.cache import UserClaim
from function.domain.model import DownloadedSource, Problem
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import Manifest, get, mapping, strings, text
from function.kube.names import LABEL_CACHE_KEY
from function.reasons import Phase
from function.remote.composed_kinds import assess
from function.remote.health import Level
from function.remote.object_writer import (
    ManagementPolicy,
    ObjectWriter,
    deletes,
    is_held_by_provider,
    reapply_observed,
    stop_managing,
    with_management_policy,
)
from function.remote.observed_object import ObservedObject, State, read_written
from function.weights.claim import READ_ONLY_MANY, build_claim, find_immutable_changes, get_access_mode, get_capacity
from function.weights.faults import (
    SIZE_FAULTS,
    FaultKind,
    StorageFault,
    find_faults,
    find_remarks,
    list_remaining_faults,
)
from function.weights.job import (
    JOB_PREFIX,
    differs_in_scripts_alone,
    find_equivalent_job,
    find_jobs_of_download,
    find_write_failures,
    name_scripts,
    needs_privileges,
    with_pod_start_deadline,
)
from function.weights.planner import JobPlan, WeightsPlan, name_claim, plan_weights
from function.weights.request import StorageType, WeightsRequest, parse_claim_uri
from function.weights.state import (
    DownloadState,
    WeightsFinding,
    WeightsState,
    describe_cache,
    describe_download,
    describe_unfilled,
    find_claim_obstacle,
    find_secret_obstacle,
    is_gone,
)

CLAIM_PREFIX, SCRIPTS_PREFIX, SECRET_COPY_PREFIX = "claim-", "scripts-", "token-"
_PREFIXES = (CLAIM_PREFIX, JOB_PREFIX, SCRIPTS_PREFIX, SECRET_COPY_PREFIX)


class JobDecision(Enum):
    """What happens to the planned Job in this reconcile; the value says why.

    Status shows the value while the Job is held back. If the claim is the cause, status describes the claim instead.
    """

    NOT_PLANNED = "nothing is downloaded, or the user fills the claim"
    LEAVE_ABSENT = "the weights are verified, and the Job is not on its cluster: it is not created again"
    OBSERVE = "the weights are verified: the Job is only observed"
    RESTART = "the claim was replaced after an earlier Job filled it: the earlier Job is deleted first"
    KEEP = "an earlier Job completed this download on a claim that is gone, and is kept until the claim is back"
    WAIT_FOR_CLAIM = "the claim is missing, refused, of unknown state or not mountable"
    WAIT_FOR_SUPERSEDED = "another Job may still write into the directory of these weights, and is deleted first"
    WAIT_FOR_ANSWER = "another composite may have started this Job, and the cluster has not said yet whether it exists"
    RUN = "the Job starts, runs or has failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledWeights:
    current: Desired = Desired()  # for the planned weights
    # The scripts of earlier weights, while something reads those. Their other objects stay because nothing drops them.
    previous_while_read: Desired = Desired()
    previous_once_unread: Desired = Desired()  # for all of earlier weights, once nothing reads them
    state: WeightsState
    plan: WeightsPlan | None  # None: no plan is possible
    service_may_read: bool  # a service may be composed on the plan's URI
    job_decision: JobDecision | None = None  # None: no plan is possible
    job_name: str = ""  # of the Job that stands for the planned one, and has the log; empty: none is planned
    completion_recorded: bool = False  # in status, where it outlives the Job
    download: DownloadRecord = DownloadRecord()
    access_mode: str = ""  # of the claim

    def desire_previous(self, *, are_read: bool) -> Desired:
        """Returns what becomes of everything of earlier weights."""
        return self.previous_while_read if are_read else self.previous_once_unread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reconciliation(DownloadState):
    """One plan, with everything that decides what becomes of its objects; without a Job nothing is downloaded."""

    writer: ObjectWriter
    request: WeightsRequest
    plan: WeightsPlan
    serving_uri: str
    claim_obstacle: WeightsState | None  # what is wrong with the claim, if anything
    job_key: str = ""  # of the Job that stands for the planned one; empty: none is planned
    superseded: tuple[str, ...] = ()  # other Jobs for the same download that may still write
    write_failures: tuple[str, ...] = ()  # Jobs that prove that root must prepare the directory

    @property
    def superseded_to_delete(self) -> dict[str, Manifest]:
        """The superseded Jobs whose Objects do not delete them yet."""
        jobs = {key: self.writer.observed[key] for key in self.superseded}
        return {key: manifest for key, manifest in jobs.items() if not deletes(manifest)}


_COMPOSED = (JobDecision.WAIT_FOR_ANSWER, JobDecision.RUN)  # with its scripts


def decide_job(download: _Reconciliation) -> JobDecision:
    """Decides what happens to the planned Job.

    Neither its claim nor another Job holds back a Job that is composed already. If faults leave no plan, nothing is
    decided (`_refuse`). A Job that is composed may still wait for a Secret, or be refused (`_find_obstacle`).
    """
    job = download.job
    job_plan = download.plan.job
    key = download.job_key
    if job_plan is None or job is None:
        return JobDecision.NOT_PLANNED
    is_composed = key in download.writer.observed
    if download.is_hydrated:
        exists = is_composed and job.state is not State.ABSENT
        return JobDecision.OBSERVE if exists else JobDecision.LEAVE_ABSENT
    if download.is_outdated:
        return JobDecision.RESTART
    if key != JOB_PREFIX + job_plan.name:
        return JobDecision.KEEP
    if not is_composed and download.claim_obstacle:
        return JobDecision.WAIT_FOR_CLAIM
    if not is_composed and download.superseded_to_delete:
        return JobDecision.WAIT_FOR_SUPERSEDED
    is_shared = job_plan.policy is ManagementPolicy.RETAIN
    may_run_already = is_shared and not job.seen and job.state is not State.ABSENT
    if may_run_already and needs_privileges(job_plan.manifest):
        # A new Job has a short deadline until its pod has started (`with_pod_start_deadline`). Composing it now could
        # set this deadline on a Job that runs.
        return JobDecision.WAIT_FOR_ANSWER
    return JobDecision.RUN


def reconcile_weights(
    request: WeightsRequest, writer: ObjectWriter, recorded: DownloadRecord, serving_uri: str = "", now: float = 0
) -> ReconciledWeights:
    """Composes the objects of the weights for a placement or ModelCache, and describes their state.

    `recorded` is the download that status records as complete. `serving_uri` is the URI that a service already reads;
    empty if none does. `now`: seconds since 1970.
    """
    claim_name = name_claim(request)
    source = request.source
    same_download: tuple[str, ...] = ()
    if claim_name and isinstance(source, DownloadedSource):
        same_download = find_jobs_of_download(writer, request.namespace, claim_name, source)
    write_failures = find_write_failures(writer, same_download)
    entry = request.named_cache_entry if request.adapter else None
    claim = writer.read(CLAIM_PREFIX + claim_name)
    request = replace(
        request,
        observed_access_mode=get_access_mode(claim.manifest) or (entry.access_mode if entry else ""),
        user_claim_capacity=get_capacity(claim.manifest) if isinstance(request.choice, UserClaim) else None,
        write_refused=bool(write_failures),
    )
    faults = () if request.adapter else find_faults(request)  # an adapter has the faults of its model
    # First the faults that matter even if claim and weights exist. Only a plan tells whether they do.
    if list_remaining_faults(faults, claim_exists=True, weights_exist=True):
        return _refuse(request, faults, recorded)
    plan = plan_weights(request)
    download = _Reconciliation(
        writer=writer,
        request=request,
        plan=plan,
        serving_uri=serving_uri,
        wanted=DownloadRecord(claim=plan.claim_name, path=plan.path, namespace=request.namespace, retry=request.retry),
        recorded=recorded,
        claim=claim,
        claim_obstacle=_find_claim_obstacle(request, plan, claim),
        write_failures=write_failures,
        cache_claim_uid=entry.download.claim_uid if entry else "",
        bytes_total=0 if request.adapter else request.model.disk or 0,
        now=now,
    )
    if plan.job:
        plan = replace(plan, job=_keep_running_job(writer, plan.job, same_download))
        download = replace(download, plan=plan)
    if plan.job:
        key = find_equivalent_job(writer, plan.job.manifest, same_download)
        superseded = tuple(other for other in same_download if other != key and _may_write(writer.read(other)))
        download = replace(download, job_key=key, job=writer.read(key), superseded=superseded)
    claim_exists = claim.seen and not is_gone(claim)
    weights_exist = bool(same_download) or download.is_hydrated or plan.uri == serving_uri
    if list_remaining_faults(faults, claim_exists=claim_exists, weights_exist=weights_exist):
        return _refuse(request, faults, recorded)
    return _compose_plan(download)


def _keep_running_job(writer: ObjectWriter, plan: JobPlan, same_download: Iterable[str]) -> JobPlan:
    """Returns the plan of the Job that another release started, if it may still write and only its scripts differ.

    An upgrade thus restarts no download, and the next Job gets the new scripts. A Job that several composites share is
    replaced nevertheless: a new composite knows only the planned Job, and both Jobs would write into one directory.
    """
    is_replaced = plan.policy is ManagementPolicy.FULL and JOB_PREFIX + plan.name not in writer.observed
    for key in same_download if is_replaced else ():
        written = read_written(writer.observed[key])
        scripts = read_written(writer.observed.get(SCRIPTS_PREFIX + name_scripts(written)))
        is_known = scripts and key == JOB_PREFIX + text(written, "metadata.name")
        if is_known and _may_write(writer.read(key)) and differs_in_scripts_alone(written, plan.manifest):
            deadline = get(plan.manifest, "spec.activeDeadlineSeconds")
            manifest: Manifest = {**written, "spec": {**mapping(written, "spec"), "activeDeadlineSeconds": deadline}}
            return replace(plan, manifest=manifest, scripts=scripts)
    return plan


def _may_write(job: ObservedObject) -> bool:
    return assess(job.manifest).level is Level.PROGRESSING and not is_gone(job)


def _compose_plan(download: _Reconciliation) -> ReconciledWeights:
    """Composes the objects of a plan without faults, and describes their state."""
    request = download.request
    plan = download.plan
    decision = decide_job(download)
    others_while_read, others_once_unread = _decide_previous(download)
    state = replace(
        _describe(download, decision),
        environment=request.environment.name,
        namespace=request.namespace,
        remarks=() if request.adapter else tuple(find_remarks(request)),
        for_cache=request.for_cache,
        adapter=request.adapter.name if request.adapter else "",
        storage_type=plan.storage_type,
        progress=download.progress,
    )
    return ReconciledWeights(
        current=combine(
            [
                Desired(_compose_claim(download)),
                _compose_secrets(download),
                _compose_scripts(download, decision),
                _compose_jobs(download, decision),
            ]
        ),
        previous_while_read=others_while_read,
        previous_once_unread=others_once_unread,
        state=state,
        plan=plan,
        job_decision=decision,
        job_name=download.job_key.removeprefix(JOB_PREFIX),
        service_may_read=_service_may_read(download),
        completion_recorded=download.completion_recorded,
        download=download.next_record,
        access_mode=request.observed_access_mode or (plan.claim.access_mode if plan.claim else ""),
    )


def _refuse(request: WeightsRequest, faults: tuple[StorageFault, ...], recorded: DownloadRecord) -> ReconciledWeights:
    """Changes nothing, and reports the faults."""
    kinds = {fault.kind for fault in faults}
    if FaultKind.CACHE_NOT_SHARED in kinds:
        finding = WeightsFinding.CACHE_NOT_SHARED
    else:
        finding = WeightsFinding.CLAIM_TOO_SMALL if kinds <= SIZE_FAULTS else WeightsFinding.UNPLANNABLE
    problems = tuple(fault.problem for fault in faults)
    return ReconciledWeights(
        state=WeightsState(finding=finding, environment=request.environment.name, problems=problems),
        plan=None,
        service_may_read=False,
        download=recorded,
    )


def _find_claim_obstacle(request: WeightsRequest, plan: WeightsPlan, claim: ObservedObject) -> WeightsState | None:
    if plan.claim is None:
        return None
    # The consumers of a ModelCache know the mode of its claim, and how many of their pods would mount it.
    is_own_cache = request.for_cache and plan.storage_type is not StorageType.USER_CLAIM
    is_read_only = plan.job is None and request.observed_access_mode == READ_ONLY_MANY
    pods = 1 if is_own_cache or is_read_only else request.pod_count
    return find_claim_obstacle(plan.claim, claim, pods)


def _compose_claim(download: _Reconciliation) -> dict[str, Composed]:
    claim = download.plan.claim
    if claim is None or download.request.adapter:
        return {}
    # Complete weights fit into the claim, so the claim must not grow because a bound has drifted since.
    if download.is_hydrated and download.claim.seen and claim.size and not claim.size.is_stated:
        claim = replace(claim, size=None)
    key = CLAIM_PREFIX + claim.name
    item = download.writer.compose(key, build_claim(claim, download.claim.manifest), claim.policy)
    # A service that reads the claim stays as ready as before while the claim is observed for the first time.
    is_new = download.claim.state is State.UNSEEN and download.plan.uri == download.serving_uri
    return {key: replace(item, ready=item.ready or is_new)}


def _compose_secrets(download: _Reconciliation) -> Desired:
    writer = download.writer
    policy = download.plan.job.policy if download.plan.job else ManagementPolicy.FULL
    # Pods that download their weights themselves need the copy whenever they start, until they read from the claim.
    pods_download = bool(download.serving_uri) and parse_claim_uri(download.serving_uri) is None
    desired = Desired()
    for copy in download.plan.copies:
        key = SECRET_COPY_PREFIX + copy.name
        if download.is_hydrated and not pods_download:
            desired |= _delete_in_two_steps(writer, key, "the weights are verified")
        else:
            desired |= Desired({key: copy.compose(writer, key, download.request.namespace, policy)})
    return desired


def _delete_in_two_steps(writer: ObjectWriter, key: str, why: str) -> Desired:
    """Switches an Object to a policy with Delete now, and drops it once the provider would delete the remote object."""
    manifest = writer.observed.get(key)
    if manifest is None:
        return Desired()
    if deletes(manifest) and (is_held_by_provider(manifest) or not writer.read(key).seen):
        return Desired(drops=(Drop(key, why),))
    return Desired({key: with_management_policy(manifest, ManagementPolicy.FULL)})


def _compose_jobs(download: _Reconciliation, decision: JobDecision) -> Desired:
    """Composes the Job as decided, and deletes other Jobs of the same weights unless the claim holds it back."""
    writer = download.writer
    job_plan = download.plan.job
    key = download.job_key
    desired = Desired(
        {
            superseded: with_management_policy(manifest, ManagementPolicy.OBSERVE_DELETE)
            for superseded, manifest in download.superseded_to_delete.items()
        }
    )
    if decision is JobDecision.WAIT_FOR_CLAIM:
        # No other Job can start, so the superseded ones are not deleted yet.
        desired = Desired(
            {superseded: reapply_observed(writer.observed[superseded]) for superseded in download.superseded}
        )
    elif decision is JobDecision.OBSERVE:
        is_known = download.job is not None and not download.job.state_unknown
        desired |= Desired({key: replace(stop_managing(writer.observed[key]), ready=is_known)})
    elif decision is JobDecision.RESTART:
        desired |= _delete_in_two_steps(writer, key, decision.value)
    elif decision is JobDecision.KEEP:
        desired |= Desired({key: reapply_observed(writer.observed[key])})
    elif job_plan and download.job and decision in _COMPOSED:
        if key not in writer.observed:
            # The Jobs that prove that root must prepare the directory stay until the new Job is observed.
            proof = (failed for failed in download.write_failures if failed not in download.superseded)
            desired |= Desired({failed: reapply_observed(writer.observed[failed]) for failed in proof})
        policy = job_plan.policy if decision is JobDecision.RUN else ManagementPolicy.OBSERVE_ONLY
        written = read_written(writer.observed.get(key))
        manifest = with_pod_start_deadline(job_plan.manifest, written, download.job.manifest)
        desired |= Desired({key: writer.compose(key, manifest, policy)})
    return desired | Desired(drops=tuple(_drop_jobs(download, decision, desired)))


def _drop_jobs(download: _Reconciliation, decision: JobDecision, desired: Desired) -> Iterator[Drop]:
    """Drops the observed Jobs of the planned weights that are not desired any more."""
    observed = download.writer.observed
    decided = {*desired.composed, *(drop.key for drop in desired.drops)}
    for key in sorted(key for key in observed if key.startswith(JOB_PREFIX) and key not in decided):
        is_planned = key == download.job_key
        if is_planned or _get_cache_key(observed[key]) == download.plan.key:
            is_replaced = download.plan.job is not None and not is_planned
            yield Drop(key, "another Job stands for the same download" if is_replaced else decision.value)


def _compose_scripts(download: _Reconciliation, decision: JobDecision) -> Desired:
    """Composes the ConfigMap of a running Job, and keeps ConfigMaps that other Jobs of the same weights may mount."""
    writer = download.writer
    job = download.plan.job
    has_failed = download.job is not None and assess(download.job.manifest).level is Level.FAILED
    current = Desired()
    if job and decision in _COMPOSED and not has_failed:
        key = _name_scripts(job)
        current = Desired({key: writer.compose(key, job.scripts, job.policy)})
    others = Desired()
    for key, manifest in sorted(writer.observed.items()):
        if (
            key.startswith(SCRIPTS_PREFIX)
            and _get_cache_key(manifest) == download.plan.key
            and key not in current.composed
        ):
            others |= _keep_scripts(writer, key)
    return others | current


def _keep_scripts(writer: ObjectWriter, key: str) -> Desired:
    """Keeps an observed ConfigMap while a Job of the same weights can start a pod, and deletes it afterwards."""
    if _is_mounted(writer, key):
        return Desired({key: reapply_observed(writer.observed[key])})
    return _delete_in_two_steps(writer, key, "no Job can start a pod that mounts it")


def _is_mounted(writer: ObjectWriter, key: str) -> bool:
    """Tells whether a Job of the same weights as an observed ConfigMap can start a pod that mounts it."""
    cache_key = _get_cache_key(writer.observed[key])
    jobs = (job for job, m in writer.observed.items() if job.startswith(JOB_PREFIX) and _get_cache_key(m) == cache_key)
    return any(assess(writer.read(job).manifest).level is Level.PROGRESSING for job in jobs)


def _name_scripts(job: JobPlan) -> str:
    return SCRIPTS_PREFIX + text(job.scripts, "metadata.name")


def _describe(download: _Reconciliation, decision: JobDecision) -> WeightsState:
    """Describes the weights by the first of these topics that applies.

    The topics are: an obstacle of the claim, the ModelCache, a claim that the user fills, verified weights, a Secret or
    ConfigMap that pods wait for in vain, the lack of a planned Job, and the Job. If the cluster refuses a change of the
    claim, verified weights are still described as verified, and the refusal is listed as their problem.
    """
    plan = download.plan
    job = download.job
    claim = download.claim
    claim_obstacle = download.claim_obstacle
    request = download.request
    if claim_obstacle and not (download.is_hydrated and claim_obstacle.finding is WeightsFinding.CLAIM_REFUSED):
        return claim_obstacle
    if plan.storage_type is StorageType.MODEL_CACHE and not request.adapter:
        return describe_cache(request.named_cache_entry, request.namespace)
    if plan.claim and job is None:
        if plan.claim.policy is ManagementPolicy.OBSERVE_ONLY:
            return WeightsState(finding=WeightsFinding.PRESTAGED)
        return describe_unfilled(plan.claim_name, plan.path)  # the function makes the claim, and it is empty
    if download.is_hydrated and job and not job.state_unknown:
        problems = find_immutable_changes(plan.claim, claim.manifest) if plan.claim and not request.adapter else ()
        if claim_obstacle:
            problems = (*problems, Problem(f"claim {plan.claim_name}", claim_obstacle.message))
        return WeightsState(finding=WeightsFinding.HYDRATED, problems=problems)
    obstacle = None if download.is_hydrated else _find_obstacle(download.writer, plan)
    if obstacle:
        return obstacle
    if job is None:
        finding = WeightsFinding.EMPTY_DIR if plan.storage_type is StorageType.EMPTY_DIR else WeightsFinding.NOT_NEEDED
        return WeightsState(finding=finding, bytes_per_pod=request.model.disk)
    state = describe_download(job, claim, plan.claim)
    if state.finding is WeightsFinding.JOB_NOT_STARTED and decision is not JobDecision.RUN:
        return replace(state, finding=WeightsFinding.JOB_HELD_BACK, message=decision.value)
    return state


def _find_obstacle(writer: ObjectWriter, plan: WeightsPlan) -> WeightsState | None:
    """Finds the first Secret or ConfigMap that pods wait for in vain."""
    for copy in plan.copies:
        obstacle = find_secret_obstacle(copy, writer.read(SECRET_COPY_PREFIX + copy.name))
        if obstacle:
            return obstacle
    if plan.job is None:
        return None
    scripts = writer.read(_name_scripts(plan.job))
    if not scripts.refused:
        return None
    return WeightsState(finding=WeightsFinding.SCRIPTS_REFUSED, message=scripts.message, remote=scripts)


def _service_may_read(download: _Reconciliation) -> bool:
    """Tells whether a service may read the plan's URI: once its claim was filled, or the user's claim exists."""
    plan = download.plan
    entry = download.request.named_cache_entry
    if plan.job:
        return download.is_hydrated
    if entry:
        return entry.phase is Phase.READY and entry.is_mountable_from(download.request.namespace)
    is_users_claim = plan.claim is not None and plan.claim.policy is ManagementPolicy.OBSERVE_ONLY
    return download.claim.present or not is_users_claim


def _decide_previous(download: _Reconciliation) -> tuple[Desired, Desired]:
    """Returns what becomes of objects of earlier weights or another claim: while they are read, and afterwards."""
    writer = download.writer
    claim = download.plan.claim
    current = {download.job_key, *(SECRET_COPY_PREFIX + copy.name for copy in download.plan.copies)}
    if claim:
        current.add(CLAIM_PREFIX + claim.name)
    others = [
        key
        for key, manifest in sorted(writer.observed.items())
        if key.startswith(_PREFIXES)
        and key not in current
        and not (key.startswith((JOB_PREFIX, SCRIPTS_PREFIX)) and _get_cache_key(manifest) == download.plan.key)
    ]
    scripts = (_keep_scripts(writer, key) for key in others if key.startswith(SCRIPTS_PREFIX))
    return combine(scripts), drop_weights(writer, others, "nothing reads these weights any more")


def drop_weights(writer: ObjectWriter, keys: Iterable[str], why: str) -> Desired:
    """Drops observed Objects of weights.

    Claims and Jobs that several composites share stay on the cluster, and so do the scripts of a Job that can start a
    pod. Copies of Secrets are deleted: a composite that still needs a copy creates it again.
    """
    desired = Desired()
    for key in keys:
        if key.startswith(SECRET_COPY_PREFIX) or (key.startswith(SCRIPTS_PREFIX) and not _is_mounted(writer, key)):
            desired |= _delete_in_two_steps(writer, key, why)
        else:
            desired |= Desired(drops=(Drop(key, why),))
    return desired


def _get_cache_key(observed: Manifest) -> str:
    return strings(read_written(observed), "metadata.labels").get(LABEL_CACHE_KEY, "")
