"""How often the pods of a group restarted while its service is not Ready, and what they said last.

LeaderWorkerSet creates all pods of a group again when a container restarts, and nothing on the cluster counts this: the
new pods have restarted 0 times. Their names stay, so pods are observed by name, and the status of the placement counts
(domain/records/restarts.py). They are observed only with the consent of the platform, only while replicas are missing,
and at most MAX_PODS of a service (decision 52).

Counted are restarts of containers, and containers that ended for good. How containers end that Kubernetes stops, for
example on a node that is drained, does not count.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from function.contract import Desired, Drop
from function.domain.environment import PodObservation
from function.domain.placement import ResolvedPlacement
from function.domain.records.restarts import CountedPod, LastExit, RestartRecord
from function.kube.manifests import Manifest, condition, get, integer, is_deleting, listing, mapping, parse_time, text
from function.kube.manifests import strings as labels_at
from function.kube.messages import format_count, mask_tokens, to_one_line
from function.kube.names import ANNOTATION_SPEC_DIGEST
from function.remote.composed_kinds import assess
from function.remote.health import is_current
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import ObservedObject
from function.serving.pod_deployment import PRIMARY_WORKLOAD

POD_PREFIX = "pod-"  # of composition-resource-names, before the index of the group and that of the pod in the group
POD_NAMES = rf"{POD_PREFIX}[0-9]{{1,4}}-[0-9]{{1,4}}"
MAX_PODS = 8  # of a service; each wakes its placement at every change while the service starts
_GROUPS = "LeaderWorkerSet"
_SET_LABEL = "leaderworkerset.sigs.k8s.io/name"
_READ_CHARACTERS, _KEPT_CHARACTERS = 8192, 400  # of what a container wrote last; its end has the cause
_MAX_NAME = 63
# A program that gets SIGTERM or SIGKILL often ends because another pod of its group did.
_KILLED = {137, 143}
_SAME_END_SECONDS = 120
# What follows the name of a password, or stands in a URL before the host.
_SECRET = re.compile(
    r"(?i)\b((?:[a-z0-9]{0,40}_){0,8}(?:token|secret|password|passwd|api_?key|access_?key))(['\"]?\s{0,4}[=:]\s{0,4})\S+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s{1,4}[a-z0-9._~+/=-]{8,}")
_USER = re.compile(r"://[^/\s@]{1,200}@")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPod:
    """One pod of a group, as last seen on the cluster."""

    name: str
    uid: str
    created: str  # RFC 3339
    restarts: int
    exits: tuple[LastExit, ...]


def observe_pods(service: ObservedObject, nodes: int, writer: ObjectWriter, *, is_needed: bool) -> Desired:
    """Returns the Objects that observe the pods of a service on the cluster, and drops those that are not needed.

    They always count as ready: a pod that crashes, or does not exist for a moment, is no fault of the placement.
    """
    named = _name_pods(service.manifest, nodes) if is_needed else {}
    namespace = text(service.manifest, "metadata.namespace")
    composed = {}
    for key, name in named.items():
        manifest: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
        composed[key] = replace(writer.compose(key, manifest, ManagementPolicy.OBSERVE_ONLY), ready=True)
    why = "no replica is missing, or the environment does not observe pods"
    others = sorted(key for key in writer.observed if key.startswith(POD_PREFIX) and key not in composed)
    return Desired(composed, tuple(Drop(key, why) for key in others))


def _name_pods(service: Manifest, nodes: int) -> dict[str, str]:
    """Returns the names of the first pods by their composition-resource-names; none for replicas on one node.

    Kubernetes gives the pods of a Deployment names that do not follow from the service.
    """
    workload = mapping(service, PRIMARY_WORKLOAD)
    name = text(workload, "name")
    if text(workload, "kind") != _GROUPS or not name:
        return {}
    replicas = integer(service, "spec.replicas", 1)
    pods = ((group, index) for group in range(replicas) for index in range(max(1, nodes)))
    first = [pod for pod, _ in zip(pods, range(MAX_PODS), strict=False)]
    return {f"{POD_PREFIX}{g}-{i}": f"{name}-{g}" + (f"-{i}" if i else "") for g, i in first}


def read_pods(service: Manifest, writer: ObjectWriter, consent: PodObservation) -> list[GroupPod]:
    """Returns the observed pods of a service; a pod of the same name that is of something else is left out."""
    workload = text(service, f"{PRIMARY_WORKLOAD}.name")
    pods: list[GroupPod] = []
    for key in sorted(key for key in writer.observed if key.startswith(POD_PREFIX)):
        manifest = writer.read(key).manifest
        name, uid = text(manifest, "metadata.name"), text(manifest, "metadata.uid")
        created = text(manifest, "metadata.creationTimestamp")
        is_of_service = workload and labels_at(manifest, "metadata.labels").get(_SET_LABEL) == workload
        if uid and is_of_service and parse_time(created) is not None:
            restarts, exits = _count_restarts(manifest, name, with_messages=consent is PodObservation.MESSAGES)
            pods.append(GroupPod(name=name, uid=uid, created=created, restarts=restarts, exits=exits))
    return pods


def _count_restarts(pod: Manifest, name: str, *, with_messages: bool) -> tuple[int, tuple[LastExit, ...]]:
    """Returns how often the containers of a pod restarted or ended, and how they ended.

    Containers that end together count once. A container that ends while its pod is deleted or evicted is stopped by
    Kubernetes.
    """
    is_stopped = is_deleting(pod) or bool(text(pod, "status.reason"))
    is_stopped = is_stopped or condition(pod, "DisruptionTarget").get("status") == "True"
    restarts = 0
    exits: list[LastExit] = []
    for container in _list_containers(pod):
        count = integer(container, "restartCount")
        ended = mapping(container, "state.terminated")
        is_init = get(container, "init") is True
        has_failed = bool(ended) and not is_stopped and not (is_init and not integer(ended, "exitCode"))
        last = ended if has_failed else mapping(container, "lastState.terminated")
        restarts = max(restarts, count + has_failed)
        if last and (count or has_failed):
            exits.append(_read_exit(name, container, last, with_messages=with_messages))
    return restarts, tuple(exits)


def _list_containers(pod: Manifest) -> Iterator[Manifest]:
    yield from ({**each, "init": True} for each in listing(pod, "status.initContainerStatuses"))
    yield from listing(pod, "status.containerStatuses")


def _read_exit(pod: str, container: Manifest, ended: Manifest, *, with_messages: bool) -> LastExit:
    finished = text(ended, "finishedAt")
    return LastExit(
        pod=pod,
        container=to_one_line(text(container, "name"))[:_MAX_NAME],
        reason=to_one_line(text(ended, "reason"))[:_MAX_NAME],
        exit_code=integer(ended, "exitCode"),
        finished_at=finished if parse_time(finished) is not None else "",
        message=clean_message(text(ended, "message")) if with_messages else "",
    )


def clean_message(message: str) -> str:
    """Returns the end of what a container wrote, on one line, without what looks like a secret."""
    line = to_one_line(message[-_READ_CHARACTERS:])
    masked = _SECRET.sub(r"\1\2***", _BEARER.sub(r"\1 ***", _USER.sub("://***@", mask_tokens(line))))
    return masked if len(masked) <= _KEPT_CHARACTERS else f"...{masked[-_KEPT_CHARACTERS:]}"


def count_restarts(
    record: RestartRecord, service: ObservedObject, pods: Iterable[GroupPod], *, has_served: bool
) -> RestartRecord:
    """Returns the record with what the pods of a service show now.

    Nothing changes while the service is not known to exist as observed. The counting begins again once the service is
    Ready, and with another spec digest; pods that exist then count from what they have.
    `has_served`: the placement was Ready before; if nothing is recorded, it may have been with this digest.
    """
    digest = labels_at(service.manifest, "metadata.annotations").get(ANNOTATION_SPEC_DIGEST, "")[:_MAX_NAME]
    kind = text(service.manifest, f"{PRIMARY_WORKLOAD}.kind")
    if not service.present or not digest or not kind:
        return record
    if kind != _GROUPS:
        return RestartRecord(retry=record.retry)
    observed = tuple(pods)
    readiness = _read_readiness(service.manifest)
    if not record.digest:
        record = replace(record, digest=digest, served=has_served)
    elif record.digest != digest:
        # KServe reports Ready for some moments after an edit, and groups are replaced one after the other.
        of_earlier_pods = readiness.since if readiness.any_is_ready else ""
        record = RestartRecord(digest=digest, retry=record.retry, ready_before=of_earlier_pods)
        return _begin_again(record, observed)
    if readiness.is_ready:
        is_new = readiness.since != record.ready_before
        record = replace(record, served=record.served or is_new, since="", last=None, stopped=False)
        return _begin_again(record, observed) if record.pods else record
    if not readiness.any_is_ready:
        record = replace(record, ready_before="")
    elif not record.ready_before:
        record = replace(record, served=True)
    return _add_pods(record, observed)


def start_again(record: RestartRecord, retry: str) -> RestartRecord:
    """Returns the record of a service whose restarts count from 0 again, also those of the pods that it has."""
    pods = tuple(replace(pod, total=0) for pod in record.pods)
    return replace(record, retry=retry, since="", last=None, stopped=False, pods=pods)


def _begin_again(record: RestartRecord, pods: Iterable[GroupPod]) -> RestartRecord:
    """Returns the record with the pods that exist, of which nothing is counted yet."""
    rows = tuple(
        CountedPod(name=pod.name, uid=pod.uid, created=pod.created, restarts=pod.restarts, total=0) for pod in pods
    )
    return replace(record, pods=rows)


def _add_pods(record: RestartRecord, pods: Iterable[GroupPod]) -> RestartRecord:
    rows = {row.name: row for row in record.pods}
    exits: list[LastExit] = []
    for pod in pods:
        row = rows.get(pod.name)
        if row and pod.created < row.created:
            continue  # an earlier reading
        seen = row.restarts if row and row.uid == pod.uid else 0
        added = max(0, pod.restarts - seen)
        rows[pod.name] = CountedPod(
            name=pod.name,
            uid=pod.uid,
            created=pod.created,
            restarts=max(seen, pod.restarts),
            total=(row.total if row else 0) + added,
        )
        if added:
            exits += pod.exits
    rows = dict(sorted(rows.items())[:MAX_PODS])
    last = _choose_last(record.last, exits)
    since = record.since or min((each.finished_at for each in exits if each.finished_at), default="")
    return replace(record, pods=tuple(rows.values()), last=last, since=since)


def _choose_last(known: LastExit | None, exits: Iterable[LastExit]) -> LastExit | None:
    """Returns the exit that is reported: the latest, and of those of one restart one that nobody forced."""

    def rank(last: LastExit) -> tuple[bool, str, str]:
        return not _is_forced(last), last.finished_at, last.pod

    found = max(exits, key=rank, default=None)
    if found is None or known is None:
        return found or known
    if _is_forced(found) and not _is_forced(known):
        times = parse_time(found.finished_at), parse_time(known.finished_at)
        if None in times or times[0] - times[1] <= _SAME_END_SECONDS:  # type: ignore[operator]  # neither is None
            return known
    return found if found.finished_at >= known.finished_at else known


def _is_forced(last: LastExit) -> bool:
    return last.exit_code in _KILLED and last.reason != "OOMKilled"


def evaluate_restarts(
    resolved: ResolvedPlacement, writer: ObjectWriter, service: ObservedObject, next_digest: str
) -> RestartRecord:
    """Returns the restarts of a service until now, and whether it is stopped for them.

    `next_digest`: of the service that is requested while this one is stopped; empty if it cannot be built. Without the
    consent of the platform, a record stays, so that a stopped service does not start again.
    """
    placement, environment = resolved.placement, resolved.environment
    recorded, limit = placement.restarts, resolved.profile.restart_limit
    is_edited = recorded.stopped and next_digest not in ("", recorded.digest)
    if is_edited or placement.retry != recorded.retry:
        recorded = start_again(recorded, placement.retry)
    if environment.pod_observation is PodObservation.NEVER:
        return recorded if has_reached(recorded, limit) else replace(recorded, stopped=False)
    pods = read_pods(service.manifest, writer, environment.pod_observation)
    record = count_restarts(recorded, service, pods, has_served=placement.has_served)
    may_stop = recorded.stopped or (has_no_ready_pod(service) and not writer.deleting)
    return replace(record, stopped=may_stop and has_reached(record, limit))


class _Readiness(NamedTuple):
    is_ready: bool
    any_is_ready: bool  # at least one replica
    since: str  # when KServe's condition has changed last; of another form than a time if it does not say


def _read_readiness(service: Manifest) -> _Readiness:
    """Returns what KServe reports about the current spec; a service without replicas is Ready and serves nothing."""
    counts = is_current(service) and get(service, "spec.replicas") != 0
    is_ready = counts and assess(service).up
    since = text(condition(service, "Ready"), "lastTransitionTime") or "unknown"
    any_is_ready = is_ready or (counts and integer(service, f"{PRIMARY_WORKLOAD}.readyReplicas") > 0)
    return _Readiness(is_ready, any_is_ready, since)


def find_unready_since(service: ObservedObject) -> str:
    """Returns since when a service is not Ready; empty if it is, or if KServe does not report the time."""
    ready = condition(service.manifest, "Ready")
    since = text(ready, "lastTransitionTime")
    is_unready = service.present and is_current(service.manifest) and ready.get("status") not in {None, "True"}
    return since if is_unready and parse_time(since) is not None else ""


def has_no_ready_pod(service: ObservedObject) -> bool:
    """Tells whether KServe reports, about the current spec, that no replica of a service is ready."""
    manifest = service.manifest
    ready = get(manifest, f"{PRIMARY_WORKLOAD}.readyReplicas")
    is_known = service.present and is_current(manifest) and ready == 0 and not isinstance(ready, bool)
    return is_known and not assess(manifest).up


def has_reached(record: RestartRecord, limit: int | None) -> bool:
    """Tells whether the restarts of a service reach the limit, and the service was never Ready with its spec."""
    return limit is not None and record.count >= limit and not record.served


def describe_restarts(record: RestartRecord, limit: int | None = None) -> str:
    """Returns how often a service restarted, and how its last container ended; empty if it did not."""
    if not record.count:
        return ""
    since = f" since {record.since}" if record.since else ""
    of_limit = f" (restartLimit {limit})" if limit is not None else ""
    return f"its pods restarted {format_count(record.count, 'time')}{since}{of_limit}{_describe_exit(record.last)}"


def find_limit_obstacle(resolved: ResolvedPlacement) -> str:
    """Returns why the restart limit of a profile has no effect; empty if it has one, or if there is none."""
    environment = resolved.environment
    if resolved.profile.restart_limit is None:
        return ""
    if resolved.shape.nodes == 1:
        return "restarts of replicas on one node are not counted"
    if environment.pod_observation is PodObservation.NEVER:
        return f"monitoring.observePods of InferenceEnvironment {environment.name} is {PodObservation.NEVER}"
    return ""


def _describe_exit(last: LastExit | None) -> str:
    if last is None:
        return ""
    why = f" ({last.reason})" if last.reason else ""
    words = f": {last.message}" if last.message else ""
    return f"; container {last.container} of pod {last.pod} ended with exit code {last.exit_code}{why}{words}"
