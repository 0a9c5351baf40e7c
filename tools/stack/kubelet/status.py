"""The status of a pod, from what became of its containers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from function.kube.manifests import JSON, Manifest, condition, listing, prune, text


@dataclass(slots=True)
class Observed:
    """One container of a pod, as its status shows it."""

    spec: Manifest
    waits: str = "PodInitializing"  # the reason while it waits
    detail: str = ""
    started_at: float = 0.0
    is_running: bool = False
    started: bool = False
    ready: bool = False
    restarts: int = 0
    terminated: Manifest | None = None  # how it ended for good
    last: Manifest = field(default_factory=dict)  # how it ended before


def write_time(seconds: float) -> str:
    """Returns a time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_status(
    pod: Manifest, addresses: tuple[str, str], phase: str, groups: tuple[Sequence[Observed], Sequence[Observed]]
) -> Manifest:
    """Returns the status: `addresses` are the pod's and the node's, `groups` the init containers and the others."""
    before, main = groups
    initialized = all(c.terminated is not None and c.terminated.get("exitCode") == 0 for c in before)
    ready = phase == "Running" and all(c.ready for c in main)
    conditions: list[JSON] = [
        _condition(pod, "Initialized", ok=initialized),
        _condition(pod, "ContainersReady", ok=ready),
        _condition(pod, "Ready", ok=ready),
    ]
    kept: list[JSON] = [c for c in listing(pod, "status.conditions") if text(c, "type") == "PodScheduled"]
    address, host = addresses
    return {
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": host,
        "conditions": [*kept, *conditions],
        "initContainerStatuses": [_describe(c) for c in before],
        "containerStatuses": [_describe(c) for c in main],
    }


def _describe(observed: Observed) -> Manifest:
    name, image = text(observed.spec, "name"), text(observed.spec, "image")
    if observed.terminated is not None:
        state: Manifest = {"terminated": observed.terminated}
    elif observed.is_running:
        state = {"running": {"startedAt": write_time(observed.started_at)}}
    else:
        state = {"waiting": prune({"reason": observed.waits, "message": observed.detail or None})}
    return {
        "name": name,
        "image": image,
        "imageID": image,
        "ready": observed.ready,
        "started": observed.started,
        "restartCount": observed.restarts,
        "state": state,
        "lastState": {"terminated": observed.last} if observed.last else {},
    }


def _condition(pod: Manifest, type_: str, *, ok: bool) -> Manifest:
    before, status = condition(pod, type_), "True" if ok else "False"
    since = text(before, "lastTransitionTime") if text(before, "status") == status else ""
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": since or write_time(datetime.now(UTC).timestamp()),
        **({} if ok else {"reason": "ContainersNotReady"}),
    }
