"""What a deployment looks at: its own first, and everything only while that does not decide it.

A deployment that has what it wants asks for its own placements and, by name, for the environments that they use. One
that wants something else asks for every environment that its selectors admit, and for every environment at all where
those do not do, so that each no has its reason. What is free is published by the environments; only of those that it
uses itself it asks for the placements, since it must know what is free there without its own. Environments from a file
have no uid and publish nothing: there all placements are asked for.

What is asked for follows from what was asked and answered before, and so is the same in every call of a reconcile.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from function.api.inference_environment import ENVIRONMENTS
from function.api.model_cache import parse_model_cache
from function.api.model_placement import PLACEMENTS, parse_placement
from function.composers import requirements
from function.contract import Answer, Answered, Call, RequiredResource, Requirement
from function.domain.cache import ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.placement import Deployment, Placement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, listing, text
from function.remote.adoption import find_orphan_placements

_MOST = 100  # environments of a deployment (apis/modeldeployments/definition.yaml)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is seen of what was `asked`. `others` are placements of everybody else, `orphans` those of ours that were
    not observed, by composition-resource-name.

    `answered` False: something is outstanding.
    """

    requirements: Mapping[str, Requirement]
    answered: bool = False
    environments: tuple[Environment, ...] = ()
    own: tuple[Placement, ...] = ()
    others: tuple[Placement, ...] = ()
    orphans: Mapping[str, Manifest]
    cache: ModelCache | None = None

    @property
    def has_file_environments(self) -> bool:
        """Whether an environment stands in a file and keeps no ledger."""
        return any(not environment.uid for environment in self.environments)


def own_scope(call: Call, deployment: Deployment, settings: Settings) -> Scope:
    """Return what is seen of a deployment's own.

    A placement of its status that is neither observed nor listed is asked for by name: its label may be gone.
    """
    asked = {
        requirements.MODEL: requirements.model(deployment.model, deployment.namespace),
        requirements.OWN: requirements.placements_of(deployment.name, deployment.namespace),
    }
    listed = call.answer(requirements.OWN)
    every: list[tuple[RequiredResource, Placement | None]] = []
    if listed is not Answer.PENDING:
        every = _read(listed)
        seen = {text(manifest, "metadata.name") for manifest in call.observed.values()}
        names = _said(call.xr) - seen - {p.name for _, p in every if p}
        unlisted = {requirements.key_placement(n): requirements.placement(n, deployment.namespace) for n in names}
        asked |= dict(sorted(unlisted.items()))
        every += [found for name in unlisted for found in _read(call.answers.get(name, ()))]
    lost = find_orphan_placements(call.xr, call.observed, every)
    own = (*placements(call.observed), *placements(lost))
    used = {requirements.key_environment(name): requirements.environment(name) for name in _used(own)}
    if isinstance(deployment.cache, NamedCache):
        asked[requirements.CACHE] = requirements.cache(deployment.cache.name, deployment.namespace)
    caches, there = call.answers.get(requirements.CACHE, ()), [call.answer(name) for name in used]
    return Scope(
        requirements=asked | used,
        answered=not any(call.answer(name) is Answer.PENDING for name in asked | used),
        environments=tuple(_environments(there, settings)),
        own=own,
        orphans=lost,
        cache=next((cache for item in caches if (cache := parse_model_cache(item.load()).value)), None),
    )


def fleet_scopes(call: Call, seen: Scope, labels: Mapping[str, str], settings: Settings) -> Iterator[Scope]:
    """Return what is seen beyond a deployment's own: where its selectors admit it, then everywhere.

    Only something new, or more of what is there, can be beyond the quota of the namespace, whose placements are
    therefore required here. Once all environments were answered there is no need to ask for some of them as well.
    """
    asked = {**seen.requirements, **_on(seen.own), **_namespace(call, settings)}
    of_files = False
    if labels and call.answer(requirements.ENVIRONMENTS) is Answer.PENDING:
        selected = _seen(call, seen, asked | _wide(labels), settings)
        of_files = selected.has_file_environments
        if not selected.answered or not of_files:
            yield selected
    asked |= _wide({})
    everything = _seen(call, seen, asked, settings)
    if of_files or everything.has_file_environments:
        everything = _seen(call, seen, {**asked, requirements.PLACEMENTS: requirements.placements()}, settings)
    yield everything


def required_resources(
    call: Call, deployment: Deployment, labels: Mapping[str, str], settings: Settings
) -> dict[str, Requirement]:
    """Return what was asked for by the calls of a reconcile so far, whatever stands in the way of deciding."""
    seen = own_scope(call, deployment, settings)
    everything = {requirements.PLACEMENTS: requirements.placements()}
    further = _namespace(call, settings) | _wide(labels) | _on(seen.own) | _wide({}) | everything
    return {**seen.requirements, **{name: asked for name, asked in further.items() if name in call.answers}}


def placements(composed: Mapping[str, Manifest]) -> tuple[Placement, ...]:
    """Return the placements among composed resources that can be read."""
    parsed = (parse_placement(manifest).value for _, manifest in sorted(composed.items()))
    return tuple(p for p in parsed if p)


def _read(answer: Answered) -> list[tuple[RequiredResource, Placement | None]]:
    return [(item, parse_placement(item.load()).value) for item in answer]


def _said(xr: Manifest) -> set[str]:
    """Return the placements that a deployment's status names, no more than it may ask for."""
    return {name for row in listing(xr, "status.placements")[:_MOST] if (name := text(row, "name"))}


def _used(own: Iterable[Placement]) -> list[str]:
    return sorted({placement.environment for placement in own})


def _on(own: Iterable[Placement]) -> dict[str, Requirement]:
    return {requirements.key_placements_on(name): requirements.placements_on(name) for name in _used(own)}


def _namespace(call: Call, settings: Settings) -> dict[str, Requirement]:
    """Return what is asked for where a quota limits the namespace."""
    asked = {requirements.NAMESPACE: requirements.placements(_name(call)[0])}
    return asked if settings.limits.any else {}


def _wide(labels: Mapping[str, str]) -> dict[str, Requirement]:
    name = requirements.SELECTED if labels else requirements.ENVIRONMENTS
    return {name: requirements.environments(labels)}


def _seen(call: Call, seen: Scope, asked: Mapping[str, Requirement], settings: Settings) -> Scope:
    """Return what is seen of environments and of placements on them; names that are not asked for are not looked at."""
    widest = requirements.ENVIRONMENTS if requirements.ENVIRONMENTS in asked else requirements.SELECTED
    found = call.answer(widest)
    listed = [requirements.PLACEMENTS] if requirements.PLACEMENTS in asked else _listed(seen)
    answers = [call.answer(name) for name in listed]
    awaited = [*answers, *(call.answer(name) for name in _namespace(call, settings))]
    if found is Answer.PENDING or Answer.PENDING in awaited:
        known = () if found is Answer.PENDING else ENVIRONMENTS.parse(found, settings)
        return replace(seen, requirements=asked, answered=False, environments=(*known, *seen.environments))
    environments = {e.name: e for e in (*seen.environments, *ENVIRONMENTS.parse(found, settings))}
    return replace(
        seen,
        requirements=asked,
        answered=True,
        environments=tuple(environments.values()),
        others=tuple(_others(answers, seen.own, _name(call))),
    )


def _name(call: Call) -> tuple[str, str]:
    return text(call.xr, "metadata.namespace"), text(call.xr, "metadata.name")


def _listed(seen: Scope) -> list[str]:
    return [requirements.key_placements_on(name) for name in _used(seen.own)]


def _others(answers: Iterable[Answered | Answer], own: Iterable[Placement], me: tuple[str, str]) -> Iterator[Placement]:
    mine = {(p.namespace, p.name) for p in own}
    for answer in answers:
        for placement in () if isinstance(answer, Answer) else PLACEMENTS.parse(answer):
            if placement and (placement.namespace, placement.name) not in mine:
                # One that names this deployment without being composed by it takes GPUs like anybody's.
                namesake = (placement.namespace, placement.deployment) == me
                yield replace(placement, deployment="") if namesake else placement


def _environments(answers: Iterable[Answered | Answer], settings: Settings) -> Iterator[Environment]:
    for answer in answers:
        for item in () if isinstance(answer, Answer) else answer:
            yield from ENVIRONMENTS.parse([item], settings)
