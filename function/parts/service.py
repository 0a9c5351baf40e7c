"""The LLMInferenceService of a placement, and copies of the Secrets with which its images are pulled."""

from function.contract import Desired, Event
from function.parts.admission import ADMISSION_PART
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.weights import WEIGHTS_PART
from function.remote.composed_kinds import HASHED, OBJECT
from function.remote.object_writer import SERVICE
from function.serving.rollout import PULL, ServiceRollout, reconcile_service
from function.status import model_placement as report


def _run(context: PlacementContext, decisions: Decisions) -> PartOutcome[ServiceRollout]:
    resolved = context.resolved
    admission = decisions.of(ADMISSION_PART)
    rollout = reconcile_service(resolved, context.writer, decisions.of(WEIGHTS_PART), admission)
    events: tuple[Event, ...] = ()
    if rollout.rollout_blocked:
        blocked = report.build_rollout_blocked(
            resolved.placement, admission, same_node_is_full=rollout.same_node_is_full
        )
        events = (blocked,)
    return PartOutcome(
        decision=rollout,
        desired=Desired({**rollout.pull_secrets, **rollout.composed}, rollout.drops),
        conditions=report.build_service_conditions(resolved, rollout),
        status=report.build_service_status(context.call, resolved, rollout),
        events=events,
    )


SERVICE_PART = Part(run=_run, names={OBJECT: f"(?:{PULL}|{SERVICE}){HASHED}"})
