"""One file for each kind of composite: `compose(call, settings) -> Outcome`. The rules are in the rooms below.

Each composer requires resources, hands them to the pure rooms, and turns what comes back into an outcome.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from function.api.inference_environment import ENVIRONMENTS
from function.api.model_placement import PLACEMENTS
from function.api.parse_cache import CacheStats
from function.api.settings import parse_settings
from function.composers import (
    cluster_model,
    inference_environment,
    model_cache,
    model_deployment,
    model_placement,
    model_service,
    node_collection,
    requirements,
)
from function.composers.outcome import observed_status
from function.contract import Call, Event, Outcome, Requirement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, text
from function.kube.messages import truncate_middle
from function.kube.names import GROUP, VERSION
from function.reasons import Unfinished
from function.remote.adoption import carry_over_all, select_own
from function.remote.object_writer import carry_over
from function.status.conditions import OWNED, UNFINISHED, complete, with_settings_problems
from function.status.references import unknown_kind

COMPOSERS: Mapping[str, Callable[[Call, Settings], Outcome]] = {
    "ClusterModel": cluster_model.compose,
    "Model": cluster_model.compose,
    "InferenceEnvironment": inference_environment.compose,
    "ModelDeployment": model_deployment.compose,
    "ModelPlacement": model_placement.compose,
    "ModelCache": model_cache.compose,
    "ModelService": model_service.compose,
}
# The resources that each kind requires depend only on what is observed and was answered before, so that they are the
# same in every call of a reconcile, and after an error.
REQUIREMENTS: Mapping[str, Callable[[Call], Mapping[str, Requirement]]] = {
    "InferenceEnvironment": inference_environment.required_resources,
    "ModelDeployment": model_deployment.required_resources,
    "ModelPlacement": model_placement.required_resources,
    "ModelCache": model_cache.required_resources,
    "ModelService": model_service.required_resources,
}
# The hits and misses of what is cached from call to call.
CACHE_STATS: Mapping[str, CacheStats] = {
    "environments": ENVIRONMENTS.stats,
    "placements": PLACEMENTS.stats,
    "verdicts": model_deployment.VERDICT_CACHE.stats,
    "nodes": node_collection.MEMBERS.stats,
}
_RETRY_SECONDS = 60  # after an internal error, which no change of the user's may end


def compose(call: Call) -> Outcome:
    """Returns the outcome for a composite of any of our kinds; nothing is composed for another kind."""
    call = select_own(call)
    kind = _known_kind(call.xr)
    if not kind:
        return _reject_unknown_kind(call)
    settings = parse_settings(call.input, call.context)
    outcome = COMPOSERS[kind](call, settings.value)
    conditions = with_settings_problems(outcome.conditions, settings.problems)
    return replace(outcome, conditions=conditions, version=_status_version(call, outcome))


def recover(call: Call, unfinished: Unfinished = Unfinished.INTERNAL_ERROR, detail: str = "") -> Outcome:
    """Returns the outcome of a call that failed: everything stays as observed, and every condition says so.

    `detail` is a sentence that ends the message of the conditions.
    """
    call = select_own(call)
    kind = _known_kind(call.xr)
    message = ". ".join(filter(None, (UNFINISHED[unfinished], detail)))
    required = REQUIREMENTS[kind](call) if kind in REQUIREMENTS else {}
    outcome = Outcome(
        requirements=required,
        composed=carry_over_all(call, requirements.collect_resources(call, required)[0]),
        status=observed_status(call.xr),
        conditions=complete(kind, (), unfinished, message) if kind in OWNED else (),
        ttl_seconds=_RETRY_SECONDS,
    )
    return replace(outcome, version=_status_version(call, outcome))


def _status_version(call: Call, outcome: Outcome) -> str:
    """Returns the resourceVersion over which alone the status may be written; empty for any.

    Much of a status is read back from it, and Crossplane reads the composite from a cache that may be older than its
    own last write: written over that, facts would be lost, or two statuses would overwrite each other for ever. Where
    the set of composed resources changes there is no version, since Crossplane writes their list first and reconciles
    again at once. The exception is an environment, whose ledger must never overwrite another one.
    """
    is_stable = outcome.composed.keys() == call.observed.keys()
    has_ledger = _known_kind(call.xr) == "InferenceEnvironment"
    return text(call.xr, "metadata.resourceVersion") if is_stable or has_ledger else ""


def _known_kind(xr: Manifest) -> str:
    """Returns the kind; empty if it is not one of ours in the known version."""
    kind = text(xr, "kind")
    return kind if kind in COMPOSERS and text(xr, "apiVersion") == VERSION else ""


def _reject_unknown_kind(call: Call) -> Outcome:
    """Returns the outcome for another function's kind; the status of one of ours in another version stays."""
    version, kind = text(call.xr, "apiVersion"), text(call.xr, "kind")
    message = truncate_middle(unknown_kind(version, kind, tuple(COMPOSERS)))
    return Outcome(
        composed=carry_over(call.observed),
        status=observed_status(call.xr) if version.startswith(f"{GROUP}/") else {},
        events=(Event(reason="UnknownKind", message=message, warning=True),),
    )
