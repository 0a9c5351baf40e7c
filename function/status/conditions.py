"""The conditions that each kind owns: all of them, on every call, in one order.

A condition that a function leaves out keeps its old value in Crossplane, so what could not be evaluated is sent as
Unknown with the reason for that. Whatever is said in them is bounded here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from function.contract import Condition
from function.domain.model import Problem
from function.kube.messages import LIMIT, truncate_middle
from function.reasons import ConditionType, Status, Unfinished

OWNED: Mapping[str, tuple[ConditionType, ...]] = {
    "ClusterModel": (ConditionType.MODEL_VALID,),
    "Model": (ConditionType.MODEL_VALID,),
    "InferenceEnvironment": (
        ConditionType.CLUSTER_READY,
        ConditionType.POOLS_VALID,
        ConditionType.STORAGE_READY,
        ConditionType.HARDWARE_AS_DECLARED,
    ),
    "ModelDeployment": (ConditionType.MODEL_RESOLVED, ConditionType.SCHEDULED, ConditionType.PLACEMENTS_READY),
    "ModelPlacement": (
        ConditionType.REFERENCES_RESOLVED,
        ConditionType.ADMITTED,
        ConditionType.STORAGE_READY,
        ConditionType.SERVICE_ACCEPTED,
        ConditionType.SERVICE_READY,
    ),
    "ModelCache": (ConditionType.MODEL_RESOLVED, ConditionType.HYDRATED),
}

UNFINISHED: Mapping[Unfinished, str] = {
    Unfinished.INTERNAL_ERROR: "The function failed on this object; its log has the details. What runs is kept",
    Unfinished.TOO_LONG: (
        "This takes more processor time than one object may have. What runs is kept; it is tried again, and what was "
        "found so far is remembered. Fewer profiles, or a selector that admits fewer environments, make it less"
    ),
    Unfinished.TOO_LARGE: "The response for this object is larger than Crossplane reads. What runs is kept",
}

_SLIPS = 384  # of these for slips in the platform's settings


def complete(kind: str, known: Iterable[Condition], reason: str, message: str = "") -> tuple[Condition, ...]:
    """Return every condition of a kind; those not known are Unknown for the given reason."""
    by_type = {condition.type: condition for condition in known}
    every = (
        by_type.get(type_) or Condition(type=type_, status=Status.UNKNOWN, reason=reason, message=message)
        for type_ in OWNED[kind]
    )
    return tuple(replace(c, message=truncate_middle(c.message)) for c in every)


def faulty(type_: ConditionType, reason: str, problems: Iterable[Problem]) -> Condition:
    """Return the condition of a type that is False for these faults."""
    return Condition(type=type_, status=Status.FALSE, reason=reason, message="; ".join(map(str, problems)))


def with_slips(conditions: Sequence[Condition], slips: Sequence[Problem]) -> tuple[Condition, ...]:
    """Return the conditions, the first of which also says what is wrong with the platform's settings.

    Such a slip stops nothing and belongs to no object of its own, but it must be told for as long as it is there.
    """
    if not slips:
        return tuple(conditions)
    first, *others = conditions
    said = truncate_middle(f"Platform settings: {'; '.join(map(str, slips))}", _SLIPS)
    message = truncate_middle(first.message, LIMIT - len(said.encode()) - len(". "))
    return (replace(first, message=f"{message}. {said}" if message else said), *others)
