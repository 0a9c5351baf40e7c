"""An `Outcome` becomes a RunFunctionResponse.

A pipeline may hold other functions, so the response starts from what they desire: their resources, status
and context stay, ours is added, and where both wrote a status field ours counts. Entries that are None are
left out, because for Kubernetes null and absent are the same while schemas refuse null. The composite's
`ready` stays unset unless the outcome says otherwise: setting it costs users the list of unready resources
that Crossplane would give them.
"""

from datetime import timedelta

from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.contract import RESPONSE_BYTES, Composed, Condition, Event, Outcome, Requirement
from function.reasons import Status
from function.wire.structs import merge

_STATUS = {
    Status.TRUE: fnv1.STATUS_CONDITION_TRUE,
    Status.FALSE: fnv1.STATUS_CONDITION_FALSE,
    Status.UNKNOWN: fnv1.STATUS_CONDITION_UNKNOWN,
}


class TooLargeError(Exception):
    """A response is larger than what Crossplane reads. Its text is a sentence with both numbers."""

    def __init__(self, size: int) -> None:
        super().__init__(f"It has {size:,} bytes, {RESPONSE_BYTES:,} are read")
        self.size = size


def write(request: fnv1.RunFunctionRequest, outcome: Outcome) -> fnv1.RunFunctionResponse:
    """Return what the pipeline desires so far plus the outcome.

    Raises:
        TooLargeError: Crossplane would not read it.
    """
    answer = response.to(request, ttl=timedelta(seconds=outcome.ttl_seconds))
    desired = answer.desired
    if outcome.status:
        merge(desired.composite.resource, {"status": outcome.status})
    if outcome.version:
        # Crossplane applies the status as it stands here, and an API server takes a version as a condition.
        merge(desired.composite.resource, {"metadata": {"resourceVersion": outcome.version}})
    if outcome.ready is not None:
        desired.composite.ready = _ready(ready=outcome.ready)
    for name, composed in sorted(outcome.composed.items()):
        desired.resources[name].CopyFrom(_resource(composed))
    for name, requirement in sorted(outcome.requirements.items()):
        answer.requirements.resources[name].CopyFrom(_selector(requirement))
    answer.conditions.extend(_condition(condition) for condition in outcome.conditions)
    answer.results.extend(_result(event) for event in outcome.events)
    size = answer.ByteSize()
    if size > RESPONSE_BYTES:
        raise TooLargeError(size)
    return answer


def refuse(request: fnv1.RunFunctionRequest, message: str) -> fnv1.RunFunctionResponse:
    """Return a fatal response: Crossplane retries, and neither applies nor deletes anything."""
    answer = response.to(request)
    response.fatal(answer, message)
    return answer


def _ready(*, ready: bool) -> fnv1.Ready:
    return fnv1.READY_TRUE if ready else fnv1.READY_FALSE


def _resource(composed: Composed) -> fnv1.Resource:
    resource = fnv1.Resource(ready=_ready(ready=composed.ready))
    merge(resource.resource, composed.manifest)
    return resource


def _selector(requirement: Requirement) -> fnv1.ResourceSelector:
    # With neither name nor labels the selector matches every object of the kind (docs/facts.md, Crossplane).
    return fnv1.ResourceSelector(
        api_version=requirement.api_version,
        kind=requirement.kind,
        match_name=requirement.name,
        match_labels=fnv1.MatchLabels(labels=requirement.labels) if requirement.labels else None,
        namespace=requirement.namespace,
    )


def _condition(condition: Condition) -> fnv1.Condition:
    return fnv1.Condition(
        type=condition.type,
        status=_STATUS[condition.status],
        reason=condition.reason,
        message=condition.message or None,
        target=fnv1.TARGET_COMPOSITE,
    )


def _result(event: Event) -> fnv1.Result:
    return fnv1.Result(
        severity=fnv1.SEVERITY_WARNING if event.warning else fnv1.SEVERITY_NORMAL,
        message=event.message,
        reason=event.reason,
        target=fnv1.TARGET_COMPOSITE,
    )
