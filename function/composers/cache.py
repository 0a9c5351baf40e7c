"""ModelCache: the same weights on several environments, whatever is deployed.

Each environment gets what a placement would get for its weights, from the same planner. An environment that is not
selected any more, and bytes of an earlier revision, go when no placement reads them: every reader that the status
remembers is asked for by name, beside the list of all. One that has vanished or cannot be read is kept as it was
observed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from function.composers import requirements, resolve
from function.composers.finish import finish, keep_observed, unready
from function.domain.cache import Hydration, ModelCache, NamedCache, Reader
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.exchange import Answer, Call, Composed, Condition, Outcome, Requirement
from function.kube.manifests import Manifest
from function.lifecycle import readers
from function.lifecycle.carry_over import carry_over
from function.lifecycle.object_writer import NAMESPACE, ObjectWriter, namespace
from function.lifecycle.weights import Weights, weigh
from function.parse.caches import read_cache
from function.parse.environments import ENVIRONMENTS
from function.parse.placements import PLACEMENTS, read_placement
from function.reasons import ConditionType, Status
from function.report import caches as report
from function.report import references
from function.storage.placed import cached_weights
from function.storage.sizing import Size

_SEPARATOR = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A cache with its model, the environments that exist, who names it and who reads from it."""

    cache: ModelCache
    model: Model
    environments: Mapping[str, Environment]
    users: tuple[Placement, ...]
    readers: tuple[Reader, ...]
    settings: Settings

    @property
    def namespace(self) -> str:
        """The namespace on the remote clusters."""
        return f"{self.settings.remote_namespace_prefix}{self.cache.namespace}"

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the environments that shall have the bytes: those named, or those that the selector admits."""
        if self.cache.environments is not None:
            return tuple(sorted(set(self.cache.environments)))
        return tuple(sorted(e.name for e in self.environments.values() if self.cache.selects(e)))

    def readers_on(self, environment: str) -> tuple[Reader, ...]:
        """Return the placements that read from this cache on an environment."""
        return tuple(r for r in self.readers if r.environment == environment)


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the remote objects of a ModelCache, with what is so and what to do."""
    parsed = read_cache(call.xr)
    cache = parsed.value
    if cache is None:
        return keep_observed(call, settings, {}, [report.invalid(parsed.problems)])
    asked = _requirements(cache)
    task = _gather(call, cache, settings)
    if isinstance(task, Condition):
        return keep_observed(call, settings, asked, [task])
    scopes = [_scope(call, task, name) for name in _names(call, task)]
    rows = [scope.row for scope in scopes if scope.row]
    sizes = [scope.size for scope in scopes if scope.size]
    conditions = (references.model_resolved(ConditionType.MODEL_RESOLVED, task.model), report.hydrated(rows))
    composed = {key: item for scope in scopes for key, item in scope.composed.items()}
    settled = all(c.status is Status.TRUE for c in conditions)
    users = sorted({p.deployment or p.name for p in task.users})
    return finish(
        call,
        settings,
        requirements=asked,
        composed=composed,
        status=report.status(task.model, sizes[0] if sizes else None, rows, users, task.readers),
        conditions=conditions,
        settled=settled,
        ready=unready(composed, works=settled),
    )


def asks(call: Call) -> dict[str, Requirement]:
    """Return what is asked for a ModelCache; nothing for one that says nothing."""
    cache = read_cache(call.xr).value
    return _requirements(cache) if cache else {}


def _requirements(cache: ModelCache) -> dict[str, Requirement]:
    asked = {
        requirements.MODEL: requirements.model(cache.model, cache.namespace),
        requirements.ENVIRONMENTS: requirements.environments(),
        requirements.PLACEMENTS: requirements.placements(),
    }
    known = {requirements.reader(r.name): requirements.placement(r.name, cache.namespace) for r in cache.readers}
    return asked | known


def _gather(call: Call, cache: ModelCache, settings: Settings) -> _Task | Condition:
    model = resolve.model(call, cache.model, cache.namespace, ConditionType.MODEL_RESOLVED, settings)
    if isinstance(model, Condition):
        return model
    environments, placements = call.answer(requirements.ENVIRONMENTS), _placements(call, cache)
    if environments is Answer.PENDING or placements is Answer.PENDING:
        return references.resolving(ConditionType.MODEL_RESOLVED)
    found, unreadable = placements
    return _Task(
        cache=cache,
        model=model,
        environments={e.name: e for e in ENVIRONMENTS.read(environments, settings)},
        users=tuple(p for p in found if p.namespace == cache.namespace and p.cache == NamedCache(name=cache.name)),
        readers=(*readers.readers(cache, found, _owned_claims(call)), *unreadable),
        settings=settings,
    )


def _placements(call: Call, cache: ModelCache) -> tuple[Collection[Placement], list[Reader]] | Answer:
    """Return every placement that was answered, listed or by name, and the known readers that cannot be read."""
    listed = call.answer(requirements.PLACEMENTS)
    if listed is Answer.PENDING:
        return Answer.PENDING
    every = [p for p in PLACEMENTS.read(listed) if p]
    found = {(p.namespace, p.name): p for p in every}
    unreadable = []
    for reader in cache.readers:
        answer = call.answer(requirements.reader(reader.name))
        if answer is Answer.PENDING:
            return Answer.PENDING
        for item in answer:
            placement = read_placement(item.load()).value
            if placement:
                found.setdefault((placement.namespace, placement.name), placement)
            else:
                unreadable.append(reader)
    return found.values(), unreadable


def _owned_claims(call: Call) -> Mapping[str, frozenset[str]]:
    """Return the claims that would be deleted with their Objects, by environment."""
    by_environment: dict[str, list[Manifest]] = {}
    for key, manifest in call.observed.items():
        by_environment.setdefault(key.partition(_SEPARATOR)[0], []).append(manifest)
    return {name: readers.claims(observed, owned=True) for name, observed in by_environment.items()}


def _names(call: Call, task: _Task) -> list[str]:
    """Return the environments to look at: those selected, and those on which something of ours is observed."""
    observed = {key.partition(_SEPARATOR)[0] for key in call.observed}
    return sorted({*task.selected, *observed})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """One environment's part of the outcome; no row: it is not selected any more."""

    composed: Mapping[str, Composed]
    row: report.Row | None = None
    size: Size | None = None


def _scope(call: Call, task: _Task, name: str) -> _Scope:
    prefix = f"{name}{_SEPARATOR}"
    observed = {key.removeprefix(prefix): m for key, m in call.observed.items() if key.startswith(prefix)}
    environment = task.environments.get(name)
    if environment is None or environment.broken:
        row = report.missing(name, task.cache.entry(name))
        return _Scope(composed=_prefixed(prefix, carry_over(observed)), row=row)
    if name not in task.selected:
        # Not wanted here any more. What a placement reads goes with the last of its readers.
        stays = readers.is_read(readers.claims(observed.values()), task.readers_on(name))
        return _Scope(composed=_prefixed(prefix, carry_over(observed)) if stays else {})
    writer = ObjectWriter(
        owner=task.cache.name,
        namespace=task.cache.namespace,
        provider_config=environment.provider_config,
        watch=task.settings.object_watch,
        observed=observed,
        scope=name,
    ).within(task.namespace)
    entry = task.cache.entry(name)
    stored = weigh(
        cached_weights(task.model, task.cache, environment, task.settings),
        writer,
        name,
        entry.hydration if entry else Hydration(),
    )
    composed = {NAMESPACE: namespace(task.namespace, writer), **writer.named(stored.composed)}
    if _is_read(task, name, stored, observed):
        composed |= writer.named(stored.stale) | carry_over(writer.left)
    return _Scope(
        composed=_prefixed(prefix, composed),
        row=report.row(name, stored.state, stored.hydration, stored.access_mode, entry, there=stored.open),
        size=stored.plan.size if stored.plan else None,
    )


def _is_read(task: _Task, environment: str, stored: Weights, observed: Mapping[str, Manifest]) -> bool:
    """Tell whether bytes of an earlier revision are still wanted: until the new ones are there and read by all."""
    if stored.plan is None or not stored.open:
        return True
    return readers.is_read(readers.claims(observed.values()), task.readers_on(environment), stored.plan.uri)


def _prefixed(prefix: str, composed: Mapping[str, Composed]) -> dict[str, Composed]:
    return {prefix + key: item for key, item in composed.items()}
