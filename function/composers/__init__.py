"""One file for each kind of composite, with the functions `read`, `require` and `compose`.

Each composer reads its composite, requires resources, passes them to the packages below, which hold the rules, and
turns the results into an outcome. This file has what all kinds share: the table of composers, the adoption of orphans,
and the outcome after an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from function.api.inference_environment import ENVIRONMENT_CACHE
from function.api.model_deployment import PLACEMENT_CACHE
from function.api.parse_cache import CacheStats
from function.api.settings import parse_settings
from function.composers import (
    cluster_model,
    inference_environment,
    model_cache,
    model_deployment,
    model_placement,
    model_service,
    scopes,
)
from function.contract import Call, Drop, Event, Outcome, Requirement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, text
from function.kube.messages import truncate_middle
from function.kube.names import GROUP, VERSION
from function.parts.nodes import MEMBERS
from function.parts.outcome import complete_conditions, observed_status
from function.parts.requirements import collect_own_resources
from function.reasons import CallFailure
from function.remote.adoption import adopt_all, find_orphans, observe_orphans, select_own
from function.remote.composed_kinds import NamePatterns
from function.remote.object_writer import carry_over, keep_undropped
from function.remote.provider_usage import NO_OBJECTS_LEFT, compose_provider_usages, without_provider_usages
from function.status.conditions import UNFINISHED, complete, list_changes, with_settings_problems
from function.status.references import unknown_kind

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Composer(Generic[Read]):
    """How a kind is read, what it requires, and how it is composed: each happens once in a call.

    `require` repeats what earlier calls of the reconcile required, and adds what their answers make necessary. It does
    so after an error too.
    """

    read: Callable[[Call, Settings], Read]
    require: Callable[[Call, Read, Settings], Mapping[str, Requirement]]
    compose: Callable[[Call, Read, Settings], Outcome]
    names: NamePatterns = field(default_factory=lambda: NamePatterns({}))  # of the resources that it composes
    # `compose` returns the requirements, because they follow from its decision, and adopts the orphans itself.
    requires_in_compose: bool = False


COMPOSERS: Mapping[str, Composer[Any]] = {
    "ClusterModel": Composer(cluster_model.read, cluster_model.require, cluster_model.compose),
    "Model": Composer(cluster_model.read, cluster_model.require, cluster_model.compose),
    "InferenceEnvironment": Composer(
        inference_environment.read,
        inference_environment.require,
        inference_environment.compose,
        inference_environment.NAMES,
    ),
    "ModelDeployment": Composer(
        model_deployment.read,
        model_deployment.require,
        model_deployment.compose,
        scopes.NAMES,
        requires_in_compose=True,
    ),
    "ModelPlacement": Composer(
        model_placement.read, model_placement.require, model_placement.compose, model_placement.NAMES
    ),
    "ModelCache": Composer(model_cache.read, model_cache.require, model_cache.compose, model_cache.NAMES),
    "ModelService": Composer(model_service.read, model_service.require, model_service.compose, model_service.NAMES),
}
# The hits and misses of the caches that last from call to call.
CACHE_STATS: Mapping[str, CacheStats] = {
    "environments": ENVIRONMENT_CACHE.stats,
    "placements": PLACEMENT_CACHE.stats,
    "verdicts": model_deployment.VERDICT_CACHE.stats,
    "nodes": MEMBERS.stats,
}
_RETRY_SECONDS = 60  # after any failed call, since the user may make no change that triggers the next call


def compose(call: Call) -> Outcome:
    """Returns the outcome for a composite of any of our kinds; nothing is composed for another kind."""
    kind = _known_kind(call.xr)
    names = _find_names(kind)
    call = select_own(call, names)
    if not kind:
        return _reject_unknown_kind(call)
    settings = parse_settings(call.input, call.context)
    composer = COMPOSERS[kind]
    read = composer.read(call, settings.value)
    required = {} if composer.requires_in_compose else composer.require(call, read, settings.value)
    outcome = _complete_outcome(call, names, required, lambda call: composer.compose(call, read, settings.value))
    conditions = complete_conditions(call.xr, outcome.conditions)
    return replace(
        outcome,
        conditions=with_settings_problems(conditions, settings.problems),
        events=(*list_changes(call.xr, conditions), *outcome.events),
        version=_find_expected_version(call, outcome),
    )


def recover(call: Call, failure: CallFailure = CallFailure.INTERNAL_ERROR, detail: str = "") -> Outcome:
    """Returns the outcome of a call that failed: everything stays as observed, and every condition says so.

    `detail` is a sentence that ends the message of the conditions.
    """
    kind = _known_kind(call.xr)
    names = _find_names(kind)
    call = select_own(call, names)
    message = ". ".join(filter(None, (UNFINISHED[failure], detail)))
    kept = Outcome(
        status=observed_status(call.xr),
        conditions=complete(kind, (), failure, message) if kind else (),
        ttl_seconds=_RETRY_SECONDS,
    )
    required = _require(call, kind) if kind else {}
    outcome = _complete_outcome(call, names, required, lambda _: kept)
    return replace(outcome, version=_find_expected_version(call, outcome))


def _require(call: Call, kind: str) -> Mapping[str, Requirement]:
    settings = parse_settings(call.input, call.context).value
    composer = COMPOSERS[kind]
    return composer.require(call, composer.read(call, settings), settings)


def _complete_outcome(
    call: Call, names: NamePatterns, required: Mapping[str, Requirement], compose_kind: Callable[[Call], Outcome]
) -> Outcome:
    """Composes as if Crossplane had observed the orphans, and adds what the kind need not know.

    That is everything observed that nothing drops, the orphans, and the usages of the ProviderConfigs. Nothing is
    dropped until the requirements for orphans are answered.
    """
    by_crossplane = call.observed
    listed, is_complete = collect_own_resources(call, required)
    orphans = find_orphans(call, listed, names)
    deleting = find_orphans(call, listed, names, deleting=True)
    with_orphans = observe_orphans(call, orphans)
    # The usages follow from the Objects, so that composers need not know them.
    call = without_provider_usages(with_orphans)
    outcome = compose_kind(call)
    drops = outcome.drops if is_complete else ()
    observed = call.observed if is_complete else with_orphans.observed
    composed = adopt_all(keep_undropped(observed, outcome.composed, drops), call, orphans)
    composed |= compose_provider_usages(call.xr, composed, {**deleting, **call.observed})
    if with_orphans is not call:
        unneeded_usages = sorted(with_orphans.observed.keys() - call.observed.keys() - composed.keys())
        drops = (*drops, *(Drop(key, NO_OBJECTS_LEFT) for key in unneeded_usages))
    drops = tuple(drop for drop in drops if drop.key in by_crossplane and drop.key not in composed)
    requirements = {**required, **outcome.requirements}
    return replace(outcome, requirements=requirements, composed=composed, drops=drops)


def _find_expected_version(call: Call, outcome: Outcome) -> str:
    """Returns the only resourceVersion that the status may overwrite; empty: it may overwrite any.

    Later calls read much of the status back. Crossplane reads the composite from a cache that may be older than its own
    last write. If a status from such a read were written, facts would be lost, or two statuses would overwrite each
    other for ever. If the set of composed resources changes, no version is returned, because Crossplane writes their
    list first and reconciles again at once. An environment is the exception: its ledger must never overwrite another.
    """
    is_stable = outcome.composed.keys() == call.observed.keys()
    has_ledger = _known_kind(call.xr) == "InferenceEnvironment"
    return text(call.xr, "metadata.resourceVersion") if is_stable or has_ledger else ""


def _find_names(kind: str) -> NamePatterns:
    """Returns the names under which a kind composes resources; the names of all kinds if the kind is unknown."""
    return COMPOSERS[kind].names if kind else NamePatterns.join(composer.names for composer in COMPOSERS.values())


def _known_kind(xr: Manifest) -> str:
    """Returns the kind; empty if it is not one of ours in the known version."""
    kind = text(xr, "kind")
    return kind if kind in COMPOSERS and text(xr, "apiVersion") == VERSION else ""


def _reject_unknown_kind(call: Call) -> Outcome:
    """Returns the outcome for a kind of another function; our kinds in another version keep their status."""
    version = text(call.xr, "apiVersion")
    message = truncate_middle(unknown_kind(version, text(call.xr, "kind"), tuple(COMPOSERS)))
    return Outcome(
        composed=carry_over(call.observed),  # nothing of it is known
        status=observed_status(call.xr) if version.startswith(f"{GROUP}/") else {},
        events=(Event(reason="UnknownKind", message=message, warning=True),),
    )
