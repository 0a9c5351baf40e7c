"""The namespace of a placement on its cluster, which is never deleted: others may use it."""

from function.contract import Desired
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import NAMESPACE, compose_namespace


def _run(context: PlacementContext, _: Decisions) -> PartOutcome[None]:
    namespace = compose_namespace(context.resolved.namespace, context.writer)
    return PartOutcome(decision=None, desired=Desired({NAMESPACE: namespace}))


NAMESPACE_PART = Part(run=_run, names={OBJECT: NAMESPACE})
