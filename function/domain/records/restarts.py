"""How often the pods of a service restarted without it becoming Ready: `status.restarts` of a placement.

A pod that is created again counts its restarts from 0, so the record counts by the name of a pod. A count grows only
with an incarnation of the pod that is not older than the recorded one, or with more restarts of the same incarnation:
an earlier reading of the cluster changes nothing.
"""

from dataclasses import dataclass

from function.kube.manifests import JSON, Manifest, flag, integer, listing, mapping, prune, text


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPod:
    name: str
    uid: str  # of the latest incarnation that was observed
    created: str  # its time of creation, RFC 3339
    restarts: int  # its restarts
    total: int  # restarts of all incarnations since the counting began


@dataclass(frozen=True, slots=True, kw_only=True)
class LastExit:
    """How a container of a pod ended, as the kubelet reports it."""

    pod: str
    container: str
    reason: str
    exit_code: int
    finished_at: str  # RFC 3339
    message: str = ""  # what it wrote last, shortened; empty: none, or the platform does not show it


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord:
    digest: str = ""  # spec digest of the service whose restarts are counted; empty: nothing was counted
    retry: str = ""  # spec.retry with which the counting began
    served: bool = False  # the service was Ready with this digest
    # When KServe's condition Ready had changed last, as the service got this digest; empty: no replica of the earlier
    # pods is ready any more.
    ready_before: str = ""
    since: str = ""  # end of the first container that is counted, RFC 3339
    pods: tuple[CountedPod, ...] = ()
    last: LastExit | None = None
    stopped: bool = False  # the count has reached the limit, and the service has given back its GPUs, or is about to

    @property
    def count(self) -> int:
        """How often a group restarted at least: the containers of its pods end together."""
        return max((pod.total for pod in self.pods), default=0)


def parse_restarts(block: Manifest) -> RestartRecord:
    last = mapping(block, "last")
    return RestartRecord(
        digest=text(block, "digest"),
        retry=text(block, "retry"),
        served=flag(block, "served"),
        ready_before=text(block, "readyBefore"),
        since=text(block, "since"),
        pods=tuple(_parse_pod(row) for row in listing(block, "pods")),
        last=_parse_exit(last) if last else None,
        stopped=flag(block, "stopped"),
    )


def build_restarts(record: RestartRecord) -> Manifest:
    """Returns `status.restarts`; empty where nothing was counted."""
    if not record.digest:
        return {}
    pods: list[JSON] = [_build_pod(pod) for pod in record.pods]
    block = prune(
        {
            "count": record.count,
            "since": record.since or None,
            "last": _build_exit(record.last) if record.last else None,
            "stopped": record.stopped or None,
            "digest": record.digest,
            "retry": record.retry or None,
            "served": record.served or None,
            "readyBefore": record.ready_before or None,
            "pods": pods or None,
        }
    )
    return {"restarts": block}


def _parse_pod(row: Manifest) -> CountedPod:
    return CountedPod(
        name=text(row, "name"),
        uid=text(row, "uid"),
        created=text(row, "created"),
        restarts=integer(row, "restarts"),
        total=integer(row, "total"),
    )


def _build_pod(pod: CountedPod) -> Manifest:
    return {"name": pod.name, "uid": pod.uid, "created": pod.created, "restarts": pod.restarts, "total": pod.total}


def _parse_exit(row: Manifest) -> LastExit:
    return LastExit(
        pod=text(row, "pod"),
        container=text(row, "container"),
        reason=text(row, "reason"),
        exit_code=integer(row, "exitCode"),
        finished_at=text(row, "finishedAt"),
        message=text(row, "message"),
    )


def _build_exit(last: LastExit) -> Manifest:
    return prune(
        {
            "pod": last.pod,
            "container": last.container,
            "reason": last.reason or None,
            "exitCode": last.exit_code,
            "finishedAt": last.finished_at or None,
            "message": last.message or None,
        }
    )
