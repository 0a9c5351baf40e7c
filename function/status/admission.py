"""What is said of a placement that may start, or may not yet. Never where it stands in a queue: nobody keeps one."""

from function.contract import Condition, Event
from function.domain.allocation import Free
from function.domain.placement import Placement
from function.kube.messages import format_count, truncate_middle
from function.reasons import Admitted, ConditionType, Status
from function.scheduling.admission import Admission
from function.status.quota import exceeded
from function.status.sentences import wish

_WAITS = "it is admitted when there is room"


def admitted(placement: Placement, found: Admission) -> Condition:
    """Return Admitted, with the pool, what is wanted and what is free."""
    status = Status.TRUE if found.reason is Admitted.ADMITTED else Status.FALSE
    return Condition(
        type=ConditionType.ADMITTED, status=status, reason=found.reason, message=_message(placement, found)
    )


def cannot_start() -> Condition:
    """Return Admitted of a placement that cannot start as it is, and of which nothing was begun."""
    message = "Nothing of it is composed and no GPUs are held for it until its references resolve"
    return Condition(type=ConditionType.ADMITTED, status=Status.FALSE, reason=Admitted.CANNOT_START, message=message)


def rollout_blocked(placement: Placement, found: Admission, *, tied: bool) -> Event:
    """Return what is said as an edit is written that Kubernetes cannot roll out: KServe says Ready all the while.

    `tied`: the new pod can only run where the old one does.
    """
    asks = placement.requested
    assert asks is not None  # a service was written for it
    pod = wish(1, asks.nodes, asks.gpus_per_node, exclusive_node=found.exclusive_node)
    room = f"pool {asks.pool} of {placement.environment} has no room for {pod} beside those that run, "
    room += _free(found.free)
    if tied:
        room = "its claim is ReadWriteOnce, so that it can only run on the old one's node, which has no room for both"
    message = (
        f"The edit is written, and KServe starts a new pod before it ends an old one: {room}. The old pods serve on "
        "until there is room, or until replicas were 0 for a moment"
    )
    return Event(reason="RolloutNeedsRoom", message=truncate_middle(message), warning=True)


def _message(placement: Placement, found: Admission) -> str:
    if found.reason is Admitted.LABEL_MISSING:
        labels = ", ".join(f"{key}: {value}" for key, value in sorted(found.labels.items()))
        return f"metadata.labels: must have {labels}, by which it is found. Nothing starts until it has"
    if found.reason is Admitted.QUOTA_EXCEEDED:
        return _over_quota(placement, found)
    if found.reason is Admitted.CANNOT_START:
        return f"Its references resolve again: it starts once {placement.environment} has admitted it again"
    asks = placement.requested
    assert asks is not None  # what cannot be read comes to no environment
    if found.reason is Admitted.ADMITTED:
        size = wish(asks.replicas, asks.nodes, asks.gpus_per_node)
        return f"Admitted to pool {asks.pool} of {placement.environment}: {size}"
    size = wish(asks.replicas, asks.nodes, asks.gpus_per_node, exclusive_node=found.exclusive_node)
    wanted = f"pool {asks.pool} of {placement.environment}: {size} wanted"
    if found.replicas:
        wanted += f", {found.replicas} admitted"
    environment = f"InferenceEnvironment {placement.environment}"
    if not found.evaluated:
        others = (
            f": there is no room for {found.status_limit} others there, and it names no more"
            if found.status_limit
            else " yet"
        )
        return f"{wanted}; {environment} has not judged it{others}"
    then = "its deployment decides again" if found.reason is Admitted.REJECTED else _WAITS
    if found.status_limit:
        return f"{wanted}; {environment} has admitted {found.status_limit} placements and names no more; {then}"
    if found.exceeds_pool:
        then = "lower what it asks for, or raise what the pool declares" if then == _WAITS else then
        return f"{wanted}, more than the pool holds were nobody there; {then}"
    return f"{wanted}, {_free(found.free)}; {then}"


def _over_quota(placement: Placement, found: Admission) -> str:
    if found.quota_usage is None:
        return f"There is room in the quota again: it starts once {placement.environment} has admitted it anew"
    kept = "it keeps what it has" if placement.has_resources else "nothing of it is composed"
    wanted = format_count(found.quota_usage.wanted, "GPU")
    return f"{wanted} wanted; {exceeded(found.quota_usage)}; until there is room {kept}"


def _free(free: Free | None) -> str:
    levels = [f"{gpus} on {format_count(nodes, 'node')}" for gpus, nodes in reversed(free.nodes)] if free else []
    return f"free GPUs: {', '.join(levels)}" if levels else "no GPU is free"
