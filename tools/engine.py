"""The function behind protobuf as a renderer: for the demo, and for tests without the programs of Crossplane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.struct_pb2 import Struct

from function.cli.store import Ref, Store
from function.contract import Call, Composed, Condition, Outcome, RequiredResource, Requirement
from function.kube.manifests import Manifest, mapping
from function.reasons import ConditionType, Status
from function.wire import merge, read_struct
from tools.control_plane import Rendered, render_in_process

Function = Callable[[fnv1.RunFunctionRequest], fnv1.RunFunctionResponse]
_STATUS = {
    fnv1.STATUS_CONDITION_TRUE: Status.TRUE,
    fnv1.STATUS_CONDITION_FALSE: Status.FALSE,
    fnv1.STATUS_CONDITION_UNKNOWN: Status.UNKNOWN,
}


class FatalResultError(Exception):
    """The function refused; core would apply nothing and try again."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Reconciles composites with one function. `input` None: what the Compositions say.

    The function answers the same request in the same way, so what has not changed since it was last asked is not asked
    again: a third of all requests on the way to rest.
    """

    function: Function
    input: Manifest | None = None
    # The last call of each composite with the same requirements answered, and what was made of it.
    _last: dict[tuple[Ref, frozenset[str]], tuple[Call, Outcome]] = field(default_factory=dict, init=False, repr=False)

    def render(self, store: Store, refs: Sequence[Ref]) -> Sequence[Rendered]:
        """Return what a reconcile makes of each of some composites.

        Raises:
            FatalResultError: The function answered with a fatal result.
        """
        return [render_in_process(store, ref, self._remembered) for ref in refs]

    def _remembered(self, call: Call) -> Outcome:
        which = Ref.of(call.xr), frozenset(call.answers)
        known = self._last.get(which)
        if known is None or known[0] != call:
            known = self._last[which] = call, self._ask(call)
        return known[1]

    def _ask(self, call: Call) -> Outcome:
        request = fnv1.RunFunctionRequest()
        merge(request.observed.composite.resource, call.xr)
        for name, observed in call.observed.items():
            merge(request.observed.resources[name].resource, observed)
        merge(request.input, self.input or call.input)
        merge(request.context, call.context)
        for name, found in call.answers.items():
            answer = request.required_resources[name]  # there from now on, with or without items
            for item in found:
                answer.items.add().resource.ParseFromString(_written(item))
        return _outcome(self.function(request))


@lru_cache(maxsize=4096)  # of many control planes, in the tests
def _written(item: RequiredResource) -> bytes:
    struct = Struct()
    merge(struct, item.load())
    return bytes(struct.SerializeToString())


def _outcome(response: fnv1.RunFunctionResponse) -> Outcome:
    for result in response.results:
        if result.severity == fnv1.SEVERITY_FATAL:
            raise FatalResultError(result.message)
    desired = response.desired
    return Outcome(
        requirements={name: requirement(wanted) for name, wanted in response.requirements.resources.items()},
        composed={
            name: Composed(manifest=read_struct(item.resource), ready=item.ready == fnv1.READY_TRUE)
            for name, item in desired.resources.items()
        },
        status=mapping(read_struct(desired.composite.resource), "status"),
        conditions=tuple(
            Condition(type=ConditionType(c.type), status=_STATUS[c.status], reason=c.reason, message=c.message)
            for c in response.conditions
        ),
        ready=False if desired.composite.ready == fnv1.READY_FALSE else None,
    )


def requirement(wanted: fnv1.ResourceSelector) -> Requirement:
    """Return what a selector asks for."""
    return Requirement(
        api_version=wanted.api_version,
        kind=wanted.kind,
        name=wanted.match_name if wanted.HasField("match_name") else None,
        namespace=wanted.namespace if wanted.HasField("namespace") else None,
        labels=dict(wanted.match_labels.labels),
    )
