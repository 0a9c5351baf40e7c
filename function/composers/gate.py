"""Gate of a roll-out: an object that a deployment names, required only while a change waits for it.

A kind that Crossplane may not read, or that does not exist, fails the whole reconcile. Only kinds that the platform
settings list are therefore required (decision 32).
"""

from collections.abc import Collection, Iterable

from function.api.common import is_current
from function.composers import requirements
from function.contract import Call, Requirement
from function.domain.placement import Deployment, Placement
from function.domain.settings import Settings
from function.kube.manifests import condition, integer, is_deleting, text
from function.kube.messages import join_with_more, truncate_middle
from function.reasons import Status
from function.remote import observed_object
from function.scheduling.turns import asks_gate

_MAX_STATE = 256  # bytes of what the object says


def check_gate(
    call: Call,
    settings: Settings,
    deployment: Deployment,
    placements: Iterable[Placement],
    leaving: Collection[Placement],
) -> tuple[str, dict[str, Requirement]]:
    """Returns why the gate of a deployment stops the next change, empty if it does not, and what it requires."""
    rollout = deployment.rollout
    if rollout is None or rollout.gate is None or not asks_gate(rollout, placements, leaving):
        return "", {}
    gate, name = rollout.gate, f"{rollout.gate.kind} {rollout.gate.name}"
    if (gate.api_version, gate.kind) not in settings.gates:
        allowed = join_with_more(sorted(f"{version} {kind}" for version, kind in settings.gates)) or "none"
        return f"gates of {gate.api_version} {gate.kind} are not allowed; the platform settings allow {allowed}", {}
    required = {
        requirements.GATE: Requirement(
            api_version=gate.api_version, kind=gate.kind, name=gate.name, namespace=deployment.namespace
        )
    }
    answer = call.answers.get(requirements.GATE)
    if answer is None:
        return f"waiting for Crossplane to fetch {name}", required
    found = next((item.load() for item in answer), None)
    if found is None:
        return f"waiting for {name}, which does not exist", required
    if is_deleting(found):
        return f"waiting for {name}, which is being deleted", required
    state = condition(found, gate.condition)
    if state and not (observed_object.is_current(found) and is_current(found, gate.condition)):
        generation = integer(found, "metadata.generation")
        return f"waiting for {name}, whose {gate.condition} is not about its generation {generation} yet", required
    if state.get("status") == Status.TRUE:
        return "", required
    if not state:
        return f"waiting for {name}, which has no condition {gate.condition}", required
    cause = ": ".join(filter(None, (text(state, "reason"), text(state, "message"))))
    said = f"{text(state, 'status') or 'not set'}{f' ({cause})' if cause else ''}"
    return f"waiting for {name}, whose {gate.condition} is {truncate_middle(said, _MAX_STATE)}", required
