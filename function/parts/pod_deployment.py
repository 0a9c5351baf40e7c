"""The Deployment that KServe creates for a service: observed where environments change one after the other."""

from dataclasses import replace

from function.domain.records.rollout import RolloutRecord, build_rollout
from function.kube.manifests import Manifest, integer
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import KeptPlacement, PlacementContext
from function.parts.requirements import MODEL
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import OBJECT
from function.serving.pod_deployment import POD_DEPLOYMENT, find_update, observe_pod_deployment


def _observe_pods(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    reconciled = decisions.of(SERVICE_PART)
    service = reconciled.remote.manifest
    status: Manifest = {}
    if context.rolls_out_in_order:
        update = find_update(service, context.writer.read(POD_DEPLOYMENT))
        record = RolloutRecord(
            served_digest=reconciled.served_digest,
            requested_digest=reconciled.requested_digest,
            update=update,
            model_generation=context.resolved.model.generation,
        )
        status = {"rollout": build_rollout(record)}
    desired = observe_pod_deployment(service, context.writer, is_needed=context.rolls_out_in_order)
    return PartOutcome(decision=None, desired=desired, status=status)


POD_DEPLOYMENT_PART = Part(run=_observe_pods, names={OBJECT: POD_DEPLOYMENT})


def _keep_rollout(context: KeptPlacement, _: Decisions) -> PartOutcome[None]:
    """Keeps the record, and reports that the model was read: a placement that cannot change keeps nobody waiting."""
    record = context.placement.rollout
    model = next(iter(context.call.answers.get(MODEL, ())), None)
    if model is None or not record.requested_digest:
        return PartOutcome(decision=None)
    read = replace(record, model_generation=integer(model.load(), "metadata.generation"))
    return PartOutcome(decision=None, status={"rollout": build_rollout(read)})


KEPT_POD_DEPLOYMENT_PART = Part(run=_keep_rollout)
