"""One file for each kind of composite: `compose(call, settings) -> Outcome`. Wiring; the rules are in the rooms below.

Each asks for what it needs, hands it to the pure rooms, and turns what comes back into an outcome.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from function.api.inference_environment import ENVIRONMENTS
from function.api.model_placement import PLACEMENTS
from function.api.parse_cache import CacheStats
from function.api.settings import parse_settings
from function.composers import cache, deployment, environment, model, nodes, placement
from function.composers.finish import observed_status
from function.composers.orphan_objects import everything_as_it_is
from function.contract import Call, Event, Outcome, Requirement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, text
from function.kube.messages import truncate_middle
from function.kube.names import GROUP, VERSION
from function.reasons import Unfinished
from function.remote.carry_over import carry_over
from function.remote.ownership import own
from function.status.conditions import OWNED, UNFINISHED, complete, with_slips
from function.status.references import unknown_kind

COMPOSERS: Mapping[str, Callable[[Call, Settings], Outcome]] = {
    "ClusterModel": model.compose,
    "Model": model.compose,
    "InferenceEnvironment": environment.compose,
    "ModelDeployment": deployment.compose,
    "ModelPlacement": placement.compose,
    "ModelCache": cache.compose,
}
# What each asks of Crossplane depends on what is observed alone, so that it is the same on every call of a reconcile,
# and after an error.
REQUIREMENTS: Mapping[str, Callable[[Call], Mapping[str, Requirement]]] = {
    "InferenceEnvironment": environment.required_resources,
    "ModelDeployment": deployment.required_resources,
    "ModelPlacement": placement.required_resources,
    "ModelCache": cache.required_resources,
}
# What is remembered from call to call, and how often that was of use.
MEMORIES: Mapping[str, CacheStats] = {
    "environments": ENVIRONMENTS.stats,
    "placements": PLACEMENTS.stats,
    "verdicts": deployment.VERDICT_CACHE.stats,
    "nodes": nodes.MEMBERS.stats,
}
_KEEPS_A_LEDGER = "InferenceEnvironment"
# A bug is not the user's to wait out: try again soon, with whatever changes meanwhile.
_RETRY_SECONDS = 60


def compose(call: Call) -> Outcome:
    """Return the outcome for a composite of any of our kinds; another kind composes nothing and is told so."""
    call = own(call)
    kind = _kind(call.xr)
    if not kind:
        return _unknown(call)
    settings = parse_settings(call.input, call.context)
    outcome = COMPOSERS[kind](call, settings.value)
    conditions = with_slips(outcome.conditions, settings.problems)
    return replace(outcome, conditions=conditions, version=_version(call, outcome))


def _version(call: Call, outcome: Outcome) -> str:
    """Return the version over which alone a status may be written: much in it is latched, and read back from it.

    Crossplane reads a composite from a cache that may be older than its own last write: written over it, what was
    latched would be lost, or two statuses would follow each other for ever. Where what is composed changes there is
    none, since Crossplane writes the list of it first, and looks again at once: but for an environment, whose ledger
    is never written over another one.
    """
    same = outcome.composed.keys() == call.observed.keys()
    return text(call.xr, "metadata.resourceVersion") if same or _kind(call.xr) == _KEEPS_A_LEDGER else ""


def _kind(xr: Manifest) -> str:
    """Return the kind, empty where it is not one of ours in the version that we know."""
    kind = text(xr, "kind")
    return kind if kind in COMPOSERS and text(xr, "apiVersion") == VERSION else ""


def _unknown(call: Call) -> Outcome:
    """Return the outcome for what another function should compose; what is ours of another version stays as it is."""
    version, kind = text(call.xr, "apiVersion"), text(call.xr, "kind")
    ours = version.startswith(f"{GROUP}/")
    event = Event(
        reason="UnknownKind", message=truncate_middle(unknown_kind(version, kind, tuple(COMPOSERS))), warning=True
    )
    return Outcome(composed=carry_over(call.observed), status=observed_status(call.xr) if ours else {}, events=(event,))


def recover(call: Call, unfinished: Unfinished = Unfinished.INTERNAL_ERROR, detail: str = "") -> Outcome:
    """Return the outcome of a call that came to no end: everything stays as observed, and every condition says so.

    `detail` is a sentence that ends the message of the conditions.
    """
    call = own(call)
    kind = _kind(call.xr)
    asked = REQUIREMENTS[kind](call) if kind in REQUIREMENTS else {}
    said = (UNFINISHED[unfinished], detail)
    outcome = Outcome(
        requirements=asked,
        composed=everything_as_it_is(call, asked),
        status=observed_status(call.xr),
        conditions=complete(kind, (), unfinished, ". ".join(filter(None, said))) if kind in OWNED else (),
        ttl_seconds=_RETRY_SECONDS,
    )
    return replace(outcome, version=_version(call, outcome))
