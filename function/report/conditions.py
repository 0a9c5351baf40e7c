"""The conditions that each kind owns: all of them, on every call, in one order.

A condition that a function leaves out keeps its old value in Crossplane, so what could not be evaluated is sent as
Unknown with the reason for that. Whatever is said in them is bounded here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.exchange import Condition
from function.reasons import ConditionType, Status
from function.report.bounded import clip

OWNED: Mapping[str, tuple[ConditionType, ...]] = {
    "ClusterModel": (ConditionType.MODEL_VALID,),
    "Model": (ConditionType.MODEL_VALID,),
    "InferenceEnvironment": (
        ConditionType.CLUSTER_READY,
        ConditionType.POOLS_VALID,
        ConditionType.STORAGE_READY,
    ),
    "ModelDeployment": (
        ConditionType.MODEL_RESOLVED,
        ConditionType.SCHEDULED,
        ConditionType.PLACEMENTS_READY,
    ),
    "ModelPlacement": (
        ConditionType.REFERENCES_RESOLVED,
        ConditionType.STORAGE_READY,
        ConditionType.SERVICE_ACCEPTED,
        ConditionType.SERVICE_READY,
    ),
    "ModelCache": (ConditionType.MODEL_RESOLVED, ConditionType.HYDRATED),
}


def complete(kind: str, known: Iterable[Condition], reason: str, message: str = "") -> tuple[Condition, ...]:
    """Return every condition of a kind; those not known are Unknown for the given reason."""
    by_type = {condition.type: condition for condition in known}
    every = (
        by_type.get(type_) or Condition(type=type_, status=Status.UNKNOWN, reason=reason, message=message)
        for type_ in OWNED[kind]
    )
    return tuple(replace(c, message=clip(c.message)) for c in every)
