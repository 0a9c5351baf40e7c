"""Status of admission: whether a placement may start, and if not, what it waits for. There is no queue to report."""

from function.contract import Condition, Event
from function.domain.allocation import Free, format_replicas
from function.domain.placement import Placement
from function.kube.messages import format_count, truncate_middle
from function.reasons import Admitted, ConditionType, Status
from function.scheduling.admission import Admission


def build_admitted(placement: Placement, admission: Admission) -> Condition:
    """Returns Admitted, with the pool, what is required and what is free."""
    return Condition(
        type=ConditionType.ADMITTED,
        status=Status.TRUE if admission.reason is Admitted.ADMITTED else Status.FALSE,
        reason=admission.reason,
        message=_describe(placement, admission),
    )


def build_cannot_start() -> Condition:
    """Returns Admitted of a placement that cannot start as it is, and for which nothing was composed."""
    message = "Nothing is composed and no GPUs are reserved until its references resolve"
    return Condition(type=ConditionType.ADMITTED, status=Status.FALSE, reason=Admitted.CANNOT_START, message=message)


def build_rollout_blocked(placement: Placement, admission: Admission, *, needs_same_node: bool) -> Event:
    """Returns the event for an edit that Kubernetes cannot roll out, while KServe continues to report Ready."""
    request = placement.requested
    assert request is not None  # a service was composed for it
    if needs_same_node:
        cause = "its claim is ReadWriteOnce, so the new pod needs the node of the old one, which has no room for both"
    else:
        pod = format_replicas(1, request.nodes, request.gpus_per_node, exclusive_node=admission.exclusive_node)
        cause = f"pool {request.pool} of {placement.environment} has no room for {pod} beside the running ones, "
        cause += _describe_free(admission.free)
    message = (
        f"The edit is applied, and KServe starts a new pod before it stops an old one: {cause}. The old pods keep "
        "serving until there is room, or until you scale to 0 replicas and back"
    )
    return Event(reason="RolloutNeedsRoom", message=truncate_middle(message), warning=True)


def _describe(placement: Placement, admission: Admission) -> str:
    environment, usage = placement.environment, admission.quota_usage
    if admission.reason is Admitted.LABEL_MISSING:
        labels = ", ".join(f"{key}: {value}" for key, value in sorted(admission.labels.items()))
        effect = "without them the environment cannot see this placement and nothing is started"
        return f"metadata.labels must include {labels}; {effect}"
    if admission.reason is Admitted.QUOTA_EXCEEDED:
        if usage is None:
            return f"Quota is available again; waiting for {environment} to re-admit it"
        consequence = "it keeps what it has" if placement.has_resources else "nothing is composed"
        return f"{format_count(usage.requested, 'GPU')} required; {usage.message}; until then {consequence}"
    if admission.reason is Admitted.CANNOT_START:
        return f"Its references resolve again; waiting for {environment} to re-admit it"
    return _describe_request(placement, admission)


def _describe_request(placement: Placement, admission: Admission) -> str:
    request = placement.requested
    assert request is not None  # no environment evaluates a placement that cannot be read
    pool = f"pool {request.pool} of {placement.environment}"
    if admission.reason is Admitted.ADMITTED:
        return f"Admitted to {pool}: {format_replicas(request.replicas, request.nodes, request.gpus_per_node)}"
    exclusive = admission.exclusive_node
    size = format_replicas(request.replicas, request.nodes, request.gpus_per_node, exclusive_node=exclusive)
    required = f"{pool}: {size} required"
    if admission.replicas:
        required += f", {admission.replicas} admitted"
    environment, limit = f"InferenceEnvironment {placement.environment}", admission.status_limit
    if not admission.evaluated:
        others = f": it rejects {limit} others, and lists no more" if limit else " yet"
        return f"{required}; {environment} has not evaluated this placement{others}"
    is_rejected = admission.reason is Admitted.REJECTED
    next_step = "its deployment reschedules it" if is_rejected else "it will be admitted when capacity is available"
    if limit:
        return f"{required}; {environment} has admitted {limit} placements and lists no more; {next_step}"
    if admission.exceeds_pool:
        next_step = next_step if is_rejected else "request less, or raise what the pool declares"
        return f"{required}, more than the empty pool holds; {next_step}"
    return f"{required}, {_describe_free(admission.free)}; {next_step}"


def _describe_free(free: Free | None) -> str:
    levels = [f"{gpus} on {format_count(nodes, 'node')}" for gpus, nodes in reversed(free.nodes)] if free else []
    return f"free GPUs: {', '.join(levels)}" if levels else "no GPU is free"
