"""The namespace on a cluster, which is never deleted: others may use it."""

from typing import Protocol

from function.contract import Desired
from function.parts.part import Decisions, Part, PartOutcome
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import NAMESPACE, ObjectWriter, compose_namespace


class _Context(Protocol):
    @property
    def writer(self) -> ObjectWriter: ...

    @property
    def remote_namespace(self) -> str: ...


def _compose_namespace(context: _Context, _: Decisions) -> PartOutcome[None]:
    namespace = compose_namespace(context.remote_namespace, context.writer)
    return PartOutcome(decision=None, desired=Desired({NAMESPACE: namespace}))


NAMESPACE_PART = Part(run=_compose_namespace, names={OBJECT: NAMESPACE})
