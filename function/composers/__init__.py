"""One file for each kind of composite: `compose(call, settings) -> Outcome`. Wiring; the rules are in the rooms below.

Each asks for what it needs, hands it to the pure rooms, and turns what comes back into an outcome.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from function.composers import cache, deployment, environment, model, placement
from function.composers.finish import observed_status
from function.domain.settings import Settings
from function.exchange import Call, Event, Outcome
from function.kube.manifests import text
from function.lifecycle.carry_over import carry_over
from function.lifecycle.ownership import own
from function.parse.settings import read_settings
from function.report.bounded import clip
from function.report.conditions import OWNED, complete

COMPOSERS: Mapping[str, Callable[[Call, Settings], Outcome]] = {
    "ClusterModel": model.compose,
    "Model": model.compose,
    "InferenceEnvironment": environment.compose,
    "ModelDeployment": deployment.compose,
    "ModelPlacement": placement.compose,
    "ModelCache": cache.compose,
}
# A bug is not the user's to wait out: try again soon, with whatever changes meanwhile.
_RETRY_SECONDS = 60


def compose(call: Call) -> Outcome:
    """Return the outcome for a composite of any of our kinds; another kind composes nothing and is told so."""
    call = own(call)
    kind = text(call.xr, "kind")
    if kind not in COMPOSERS:
        known = ", ".join(COMPOSERS)
        message = f"kind {kind} is not composed by this function; its Composition should be for one of {known}"
        event = Event(reason="UnknownKind", message=clip(message), warning=True)
        return Outcome(composed=carry_over(call.observed), events=(event,))
    settings = read_settings(call.input, call.context)
    outcome = COMPOSERS[kind](call, settings.value)
    if not settings.problems or not outcome.events:
        return outcome
    # A slip in a setting stops nothing; it is told beside other news, not on every call.
    slips = tuple(Event(reason="InvalidDefaults", message=clip(str(p)), warning=True) for p in settings.problems)
    return replace(outcome, events=(*outcome.events, *slips))


def recover(call: Call) -> Outcome:
    """Return the outcome after an internal error: everything stays as observed, and every condition says so."""
    kind = text(call.xr, "kind")
    message = "The function failed on this object; its log has the details. What runs is kept"
    return Outcome(
        composed=carry_over(own(call).observed),
        status=observed_status(call.xr),
        conditions=complete(kind, (), "InternalError", message) if kind in OWNED else (),
        ttl_seconds=_RETRY_SECONDS,
    )
