"""ModelCache: the same weights on several environments, whatever is deployed.

Each environment gets what a placement would get for its weights, from the same planner. An environment that is not
selected any more, and bytes of an earlier revision, go when no placement reads them: a reader that the status
remembers and that is not listed any more is asked for by name. One that has vanished or cannot be read is kept as it
was observed. Objects of its own that Crossplane does not observe are asked for in every call.

Crossplane reads a response up to a size. An environment for which something new would not fit any more stays as it was
observed until others are complete and need less.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from function.api.inference_environment import ENVIRONMENTS
from function.api.model_cache import parse_model_cache
from function.api.model_placement import PLACEMENTS
from function.composers import requirements, resolve
from function.composers.outcome import build_outcome, keep_observed, unready_if_incomplete
from function.contract import (
    RESPONSE_BYTES,
    Answer,
    Answered,
    Call,
    Composed,
    Condition,
    Outcome,
    RequiredResource,
    Requirement,
)
from function.domain.cache import Consumer, Hydration, ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import Manifest, mapping, max_wire_bytes, text, wire_bytes
from function.reasons import ConditionType, Status
from function.remote.adoption import adopt_objects, find_orphan_objects, observe_orphans
from function.remote.carry_over import carry_over
from function.remote.object_writer import NAMESPACE, ObjectWriter, compose_namespace, find_remote_namespace
from function.status import model_cache as report
from function.status import references
from function.weights.consumers import find_consumers, has_consumers, list_claims, list_owned_claims, may_have_consumers
from function.weights.reconcile import SCRIPTS, Weights, reconcile_weights
from function.weights.request import build_cache_request
from function.weights.sizing import Size

_SEPARATOR = "/"
# Bytes of a response besides what is composed: conditions, events and the like; for each environment its row of the
# status without the message, and the requirement that asks for it; for each resource what surrounds its manifest.
_BESIDE, _ROW, _RESOURCE = 128 * 1024, 768, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A cache with its model, the environments that exist, who names it and who reads from it."""

    cache: ModelCache
    model: Model
    environments: Mapping[str, Environment]
    users: tuple[Placement, ...]
    readers: tuple[Consumer, ...]
    settings: Settings

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the environments that shall have the bytes: those named, or those that the selector admits."""
        if self.cache.environments is not None:
            return tuple(sorted(set(self.cache.environments)))
        return tuple(sorted(e.name for e in self.environments.values() if self.cache.selects(e)))

    def readers_on(self, environment: str) -> tuple[Consumer, ...]:
        """Return the placements that read from this cache on an environment."""
        return tuple(r for r in self.readers if r.environment == environment)


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the remote objects of a ModelCache, with what is so and what to do."""
    listed = call.answer(requirements.OBJECTS)
    orphans = find_orphan_objects(call, listed)
    call = observe_orphans(call, orphans)
    outcome = _compose(call, settings)
    return replace(outcome, composed=adopt_objects(outcome.composed, call, orphans))


def _compose(call: Call, settings: Settings) -> Outcome:
    parsed, asked = parse_model_cache(call.xr), required_resources(call)
    cache = parsed.value
    if cache is None:
        return keep_observed(call, settings, asked, [report.invalid(parsed.problems)])
    task = _gather(call, cache, settings)
    if isinstance(task, Condition):
        return keep_observed(call, settings, asked, [task])
    scopes = _fitting([_scope(call, task, name) for name in sorted({*task.selected, *_scopes(call)})])
    rows = [scope.row for scope in scopes if scope.row]
    sizes = [scope.size for scope in scopes if scope.size]
    conditions = (references.model_resolved(ConditionType.MODEL_RESOLVED, task.model), report.hydrated(rows))
    composed = {key: item for scope in scopes for key, item in scope.composed.items()}
    settled = all(c.status is Status.TRUE for c in conditions)
    users = sorted({p.deployment or p.name for p in task.users})
    return build_outcome(
        call,
        settings,
        requirements=asked,
        composed=composed,
        status=report.status(task.model, sizes[0] if sizes else None, rows, users, task.readers),
        conditions=conditions,
        settled=settled,
        ready=unready_if_incomplete(composed, works=settled),
    )


def required_resources(call: Call) -> dict[str, Requirement]:
    """Return what is asked for a ModelCache; only its own Objects for one that says nothing."""
    name, namespace = text(call.xr, "metadata.name"), text(call.xr, "metadata.namespace")
    asked = {requirements.OBJECTS: requirements.objects_of(name, namespace)}
    cache = parse_model_cache(call.xr).value
    if cache is None:
        return asked
    model = {requirements.MODEL: requirements.model(cache.model, cache.namespace)}
    return asked | model | _environments(call, cache) | _placements(call, cache)


def _environments(call: Call, cache: ModelCache) -> dict[str, Requirement]:
    """Ask for the environments that it names, or that its selector admits, and for those on which it has something."""
    asked: dict[str, Requirement] = {}
    names = {*(cache.environments or ()), *_scopes(call)}
    if cache.environments is None:
        asked[requirements.ENVIRONMENTS] = requirements.environments(cache.selector.equalities)
        listed = call.answer(requirements.ENVIRONMENTS)
        if listed is Answer.PENDING:
            return asked
        names -= {e.name for e in ENVIRONMENTS.parse(listed, BUILT_IN)}
    return asked | {requirements.key_environment(name): requirements.environment(name) for name in sorted(names)}


def _placements(call: Call, cache: ModelCache) -> dict[str, Requirement]:
    """Ask for the placements that are labelled with it, and by name for known readers that are not.

    One that has not said yet who reads from it looks at all of its namespace.
    """
    if not isinstance(mapping(call.xr, "status").get("readers"), list):
        return {requirements.PLACEMENTS: requirements.placements(cache.namespace)}
    asked = {requirements.PLACEMENTS: requirements.placements_reading(cache.name, cache.namespace)}
    listed = call.answer(requirements.PLACEMENTS)
    if listed is Answer.PENDING:
        return asked
    found = {p.name for p in PLACEMENTS.parse(listed) if p}
    unlisted = (reader.name for reader in cache.readers if reader.name not in found)
    return asked | {requirements.key_placement(n): requirements.placement(n, cache.namespace) for n in unlisted}


def _gather(call: Call, cache: ModelCache, settings: Settings) -> _Task | Condition:
    model = resolve.model(call, cache.model, cache.namespace, ConditionType.MODEL_RESOLVED, settings)
    if isinstance(model, Condition):
        return model
    environments, placements = _answered(call, _environments(call, cache)), _answered(call, _placements(call, cache))
    if environments is None or placements is None:
        return references.resolving(ConditionType.MODEL_RESOLVED)
    found = {(p.namespace, p.name): p for p in PLACEMENTS.parse(placements) if p}
    read = {text(item.load(), "metadata.name") for item in placements}
    return _Task(
        cache=cache,
        model=model,
        environments={e.name: e for e in ENVIRONMENTS.parse(environments, settings)},
        users=tuple(
            p for p in found.values() if p.namespace == cache.namespace and p.cache == NamedCache(name=cache.name)
        ),
        readers=(
            *find_consumers(cache, found.values(), _owned_claims(call)),
            # One that is there and cannot be read may read what it read.
            *(r for r in cache.readers if r.name in read and (cache.namespace, r.name) not in found),
        ),
        settings=settings,
    )


def _answered(call: Call, asked: Iterable[str]) -> Answered | None:
    """Return all that was found; None while anything is outstanding."""
    found: list[RequiredResource] = []
    for name in asked:
        answer = call.answer(name)
        if answer is Answer.PENDING:
            return None
        found += answer
    return tuple(found)


def _owned_claims(call: Call) -> Mapping[str, frozenset[str]]:
    """Return the claims that would be deleted with their Objects, by environment."""
    by_environment: dict[str, list[Manifest]] = {}
    for key, manifest in call.observed.items():
        by_environment.setdefault(key.partition(_SEPARATOR)[0], []).append(manifest)
    return {name: list_owned_claims(observed) for name, observed in by_environment.items()}


def _scopes(call: Call) -> set[str]:
    """Return the environments on which something of ours is observed."""
    return {key.partition(_SEPARATOR)[0] for key in call.observed}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """One environment's part of the outcome; no row: it is not selected any more.

    `observed` is what is there, by composition-resource-name.
    """

    composed: Mapping[str, Composed]
    observed: Mapping[str, Manifest]
    row: report.Row | None = None
    size: Size | None = None

    @property
    def adds(self) -> bool:
        """Whether something is composed that is not observed."""
        return not self.composed.keys() <= self.observed.keys()

    @property
    def as_observed(self) -> Mapping[str, Composed]:
        """What is there, and scripts only where they are needed still: others may wait for their bytes."""
        scripts = {key for key in self.observed if key.rpartition(_SEPARATOR)[2].startswith(SCRIPTS)}
        needed = {key: item for key, item in self.composed.items() if key in scripts}
        return carry_over({key: m for key, m in self.observed.items() if key not in scripts}) | needed


def _fitting(scopes: list[_Scope]) -> list[_Scope]:
    """Return the scopes, in which those that add something are left as observed once the response is full."""
    beside = _BESIDE + sum(_ROW + len(scope.row.message.encode()) for scope in scopes if scope.row)
    most = beside + sum(_bytes(scope.composed, max_wire_bytes) for scope in scopes)
    if most <= RESPONSE_BYTES or not any(scope.adds for scope in scopes):
        return scopes
    kept = [scope.as_observed if scope.adds else scope.composed for scope in scopes]
    sizes = [_bytes(composed) for composed in kept]
    taken = beside + sum(sizes)
    fitting: list[_Scope] = []
    for scope, composed, size in zip(scopes, kept, sizes, strict=True):
        more = _bytes(scope.composed) - size if scope.adds else 0
        if scope.row is None or taken + more <= RESPONSE_BYTES:
            taken += more
            fitting.append(scope)
        else:
            fitting.append(replace(scope, composed=composed, row=report.waiting(scope.row, taken + more)))
    return fitting


def _bytes(composed: Mapping[str, Composed], size: Callable[[Manifest], int] = wire_bytes) -> int:
    return sum(_RESOURCE + len(key.encode()) + size(item.manifest) for key, item in composed.items())


def _scope(call: Call, task: _Task, name: str) -> _Scope:
    prefix = f"{name}{_SEPARATOR}"
    there = {key: manifest for key, manifest in call.observed.items() if key.startswith(prefix)}
    observed = {key.removeprefix(prefix): manifest for key, manifest in there.items()}
    environment = task.environments.get(name)
    if environment is None or environment.broken:
        row = report.missing(name, task.cache.entry(name))
        return _Scope(composed=_prefixed(prefix, carry_over(observed)), observed=there, row=row)
    if name not in task.selected:
        # Not wanted here any more: what a placement reads goes with the last of its readers.
        users = [user for user in task.users if user.environment == name]
        stays = may_have_consumers(list_claims(observed.values()), task.readers_on(name), users)
        return _Scope(composed=_prefixed(prefix, carry_over(observed)) if stays else {}, observed=there)
    writer = ObjectWriter(
        owner=task.cache.name,
        namespace=task.cache.namespace,
        provider_config=environment.provider_config,
        watch=task.settings.object_watch,
        observed=observed,
        scope=name,
    )
    namespace = find_remote_namespace(observed) or task.settings.remote_namespace(task.cache.namespace)
    entry = task.cache.entry(name)
    stored = reconcile_weights(
        build_cache_request(task.model, task.cache, environment, task.settings, namespace),
        writer,
        name,
        entry.hydration if entry else Hydration(),
    )
    composed = {NAMESPACE: compose_namespace(namespace, writer), **stored.composed}
    if _is_read(task, name, stored, observed):
        composed |= stored.stale
    return _Scope(
        composed=_prefixed(prefix, composed),
        observed=there,
        row=report.row(name, stored.state, stored.hydration, stored.access_mode, entry, there=stored.gate_open),
        size=stored.plan.size if stored.plan else None,
    )


def _is_read(task: _Task, environment: str, stored: Weights, observed: Mapping[str, Manifest]) -> bool:
    """Tell whether bytes of an earlier revision are still wanted: until the new ones are there and read by all."""
    if stored.plan is None or not stored.gate_open:
        return True
    return has_consumers(list_claims(observed.values()), task.readers_on(environment), stored.plan.uri)


def _prefixed(prefix: str, composed: Mapping[str, Composed]) -> dict[str, Composed]:
    return {prefix + key: item for key, item in composed.items()}
