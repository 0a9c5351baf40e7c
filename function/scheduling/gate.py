"""The gate of a rollout: an object of the user's whose condition must be True before the next environment changes.

turns.py decides whether a change needs the gate.
"""

from function.contract import Answer
from function.domain.placement import Gate
from function.kube.manifests import condition, integer, is_condition_current, is_deleting, text
from function.kube.messages import truncate_middle
from function.reasons import Status
from function.remote.health import is_current

_MAX_STATE = 256  # bytes of what the object says


def find_gate_obstacle(gate: Gate, answer: Answer | None) -> str:
    """Returns why a gate does not let the next environment change; empty if it does.

    `answer` has the object that is the gate; None while Crossplane has not answered. A condition about an earlier
    generation of the object does not count: it must be True for the current generation.
    """
    name = f"{gate.kind} {gate.name}"
    if answer is None:
        return f"waiting for Crossplane to fetch {name}"
    manifest = next((item.load() for item in answer), None)
    if manifest is None:
        return f"waiting for {name}, which does not exist"
    if is_deleting(manifest):
        return f"waiting for {name}, which is being deleted"
    state = condition(manifest, gate.condition)
    if not state:
        return f"waiting for {name}, which has no condition {gate.condition}"
    if not (is_current(manifest) and is_condition_current(manifest, gate.condition)):
        generation = integer(manifest, "metadata.generation")
        return f"waiting for {name}, whose {gate.condition} is not about its generation {generation} yet"
    if state.get("status") == Status.TRUE:
        return ""
    cause = ": ".join(filter(None, (text(state, "reason"), text(state, "message"))))
    description = f"{text(state, 'status') or 'not set'}{f' ({cause})' if cause else ''}"
    return f"waiting for {name}, whose {gate.condition} is {truncate_middle(description, _MAX_STATE)}"
