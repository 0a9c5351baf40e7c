"""An `Outcome` becomes a RunFunctionResponse.

A pipeline may hold other functions, so the response starts from what they desire: their resources, status and context
stay, ours are added, and ours count where both wrote a status field. Entries that are None are left out, because for
Kubernetes null and absent are the same while schemas refuse null. The composite's `ready` stays unset unless the
outcome sets it, because users would lose the list of unready resources that Crossplane gives them.
"""

from datetime import timedelta

from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.contract import RESPONSE_BYTES, Outcome
from function.reasons import Status
from function.wire.structs import merge

_STATUS = {
    Status.TRUE: fnv1.STATUS_CONDITION_TRUE,
    Status.FALSE: fnv1.STATUS_CONDITION_FALSE,
    Status.UNKNOWN: fnv1.STATUS_CONDITION_UNKNOWN,
}
_READY = {True: fnv1.READY_TRUE, False: fnv1.READY_FALSE}


class TooLargeError(Exception):
    """A response is larger than what Crossplane reads; the text has both sizes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"It has {size:,} bytes, {RESPONSE_BYTES:,} are read")
        self.size = size


def write_response(request: fnv1.RunFunctionRequest, outcome: Outcome) -> fnv1.RunFunctionResponse:
    """Returns what the pipeline desires so far plus the outcome.

    Raises:
        TooLargeError: Crossplane would not read it.
    """
    answer = response.to(request, ttl=timedelta(seconds=outcome.ttl_seconds))
    desired = answer.desired
    if outcome.status:
        merge(desired.composite.resource, {"status": outcome.status})
    if outcome.version:
        # Crossplane applies the status as written here, and an API server takes a version as a precondition.
        merge(desired.composite.resource, {"metadata": {"resourceVersion": outcome.version}})
    if outcome.ready is not None:
        desired.composite.ready = _READY[outcome.ready]
    for name, composed in sorted(outcome.composed.items()):
        resource = fnv1.Resource(ready=_READY[composed.ready])
        merge(resource.resource, composed.manifest)
        desired.resources[name].CopyFrom(resource)
    for name, requirement in sorted(outcome.requirements.items()):
        # With neither name nor labels the selector matches every object of the kind (docs/facts.md, Crossplane).
        selector = fnv1.ResourceSelector(
            api_version=requirement.api_version,
            kind=requirement.kind,
            match_name=requirement.name,
            match_labels=fnv1.MatchLabels(labels=requirement.labels) if requirement.labels else None,
            namespace=requirement.namespace,
        )
        answer.requirements.resources[name].CopyFrom(selector)
    for condition in outcome.conditions:
        answer.conditions.add(
            type=condition.type,
            status=_STATUS[condition.status],
            reason=condition.reason,
            message=condition.message or None,
            target=fnv1.TARGET_COMPOSITE,
        )
    for event in outcome.events:
        answer.results.add(
            severity=fnv1.SEVERITY_WARNING if event.warning else fnv1.SEVERITY_NORMAL,
            message=event.message,
            reason=event.reason,
            target=fnv1.TARGET_COMPOSITE,
        )
    size = answer.ByteSize()
    if size > RESPONSE_BYTES:
        raise TooLargeError(size)
    return answer


def refuse_request(request: fnv1.RunFunctionRequest, message: str) -> fnv1.RunFunctionResponse:
    """Returns a fatal response: Crossplane retries, and neither applies nor deletes anything."""
    answer = response.to(request)
    response.fatal(answer, message)
    return answer
