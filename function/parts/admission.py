"""Admission: whether a placement has been granted GPUs, and the fields of its status that the ledger reads."""

from function.capacity.admission import (
    Admission,
    apply_quota,
    apply_restart_limit,
    build_required_labels,
    check_admission,
    find_release,
)
from function.capacity.quota import find_excess, may_exceed
from function.contract import Call
from function.domain.allocation import QuotaUsage
from function.domain.placement import ResolvedPlacement, Stage
from function.domain.records.admission import build_released, build_revoked
from function.parts import requirements
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import KeptPlacement, PlacementContext, has_nothing_composed
from function.parts.references import RESOLVED, NotComposableError
from function.reasons import ConditionType, ReferencesResolved
from function.status import model_placement as report
from function.status import references

# Problems that only a change of the placement, its model or its cache can solve. A problem of an environment or a pool
# takes no GPUs from an admitted placement.
_CANNOT_START = {
    ReferencesResolved.INVALID_PLACEMENT,
    ReferencesResolved.MODEL_NOT_FOUND,
    ReferencesResolved.MODEL_INVALID,
    ReferencesResolved.CACHE_NOT_FOUND,
}


def _admit(context: PlacementContext, _: Decisions) -> PartOutcome[Admission]:
    """Admits a placement.

    Raises:
        NotComposableError: The placement waits and has nothing on the cluster yet, or its quota is not known yet.
    """
    placement = context.resolved.placement
    admission = _check_admission(context.call, context.resolved)
    admitted = report.build_admitted(placement, admission)
    if not admission.admits_service and has_nothing_composed(context.call):
        raise NotComposableError(RESOLVED, admitted)
    grants = context.resolved.environment.find_grants(placement.uid)
    return PartOutcome(
        decision=admission,
        conditions=(admitted,),
        status=build_released(find_release(placement, grants)) | build_revoked(grants),
    )


ADMISSION_PART = Part(run=_admit)


def _keep_admission(context: KeptPlacement, _: Decisions) -> PartOutcome[None]:
    """Reports what the ledger reads, and whether the placement can start at all."""
    placement = context.placement
    grants = context.environment.find_grants(placement.uid) if context.environment else ()
    needs_edit = any(condition.reason in _CANNOT_START for condition in context.conditions)
    cannot_start = needs_edit and placement.stage is Stage.NEW and has_nothing_composed(context.call)
    return PartOutcome(
        decision=None,
        conditions=(report.build_cannot_start(),) if cannot_start else (),
        status=build_released(find_release(placement, grants)) | build_revoked(grants),
    )


KEPT_ADMISSION_PART = Part(run=_keep_admission)


def _check_admission(call: Call, resolved: ResolvedPlacement) -> Admission:
    """Returns the admission by the environment, within the quota; the environment finds placements by their labels."""
    placement = resolved.placement
    quota_excess: QuotaUsage | None = None
    limits = resolved.settings.limits_of(placement.namespace)
    if may_exceed(placement, limits):
        in_namespace = requirements.collect_placements(call, [requirements.PLACEMENTS])
        if in_namespace is None:
            raise NotComposableError(RESOLVED, references.resolving(ConditionType.ADMITTED))
        quota_excess = find_excess(placement, [p for p in in_namespace if p.uid != placement.uid], limits)
    admitted = check_admission(placement, resolved.environment, build_required_labels(placement, resolved.cache))
    return apply_restart_limit(apply_quota(admitted, placement, quota_excess), placement)
