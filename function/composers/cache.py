"""ModelCache: the same weights on several environments, whatever is deployed.

Each environment gets what a placement would get for its weights, from the same planner. An environment that is not
selected any more, and bytes of an earlier revision, go when no placement reads them; one that has vanished or cannot be
read is kept as it was observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.composers import requirements, resolve
from function.composers.finish import finish, keep_observed, unready
from function.domain.cache import ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.exchange import Answer, Call, Composed, Condition, Outcome, Requirement
from function.kube.manifests import Manifest
from function.lifecycle.carry_over import carry_over
from function.lifecycle.object_writer import NAMESPACE, ObjectWriter, namespace
from function.lifecycle.weights import Weights, weigh
from function.parse.caches import read_cache
from function.parse.environments import read_environment
from function.parse.placements import read_placement
from function.reasons import ConditionType, Status
from function.report import caches as report
from function.report import references
from function.storage.request import StorageRequest
from function.storage.sizing import Size

_SEPARATOR = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A cache with its model, the environments that exist, and the placements that read from it."""

    cache: ModelCache
    model: Model
    environments: Mapping[str, Environment]
    users: tuple[Placement, ...]
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
        admitted = (e for e in self.environments.values() if not self.cache.selector.refuses(dict(e.labels)))
        return tuple(sorted(e.name for e in admitted))

    def readers(self, environment: str) -> tuple[Placement, ...]:
        """Return the placements that read from this cache on an environment."""
        return tuple(p for p in self.users if p.environment == environment)


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
    return finish(
        call,
        settings,
        requirements=asked,
        composed=composed,
        status=report.status(task.model, sizes[0] if sizes else None, rows, _users(task)),
        conditions=conditions,
        settled=settled,
        ready=unready(composed, works=settled),
    )


def asks(xr: Manifest) -> dict[str, Requirement]:
    """Return what is asked for a ModelCache; nothing for one that says nothing."""
    cache = read_cache(xr).value
    return _requirements(cache) if cache else {}


def _requirements(cache: ModelCache) -> dict[str, Requirement]:
    return {
        requirements.MODEL: requirements.model(cache.model, cache.namespace),
        requirements.ENVIRONMENTS: requirements.environments(),
        requirements.PLACEMENTS: requirements.placements(),
    }


def _gather(call: Call, cache: ModelCache, settings: Settings) -> _Task | Condition:
    model = resolve.model(call, cache.model, cache.namespace, ConditionType.MODEL_RESOLVED, settings)
    if isinstance(model, Condition):
        return model
    environments, placements = call.answer(requirements.ENVIRONMENTS), call.answer(requirements.PLACEMENTS)
    if environments is Answer.PENDING or placements is Answer.PENDING:
        return references.resolving(ConditionType.MODEL_RESOLVED)
    every = [p for p in (read_placement(item.load()).value for item in placements) if p]
    return _Task(
        cache=cache,
        model=model,
        environments={e.name: e for e in (read_environment(item.load(), settings).value for item in environments)},
        users=tuple(p for p in every if p.namespace == cache.namespace and p.cache == NamedCache(name=cache.name)),
        settings=settings,
    )


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
        return _Scope(composed=_prefixed(prefix, carry_over(observed)) if task.readers(name) else {})
    writer = ObjectWriter(
        owner=task.cache.name,
        namespace=task.cache.namespace,
        provider_config=environment.provider_config,
        watch=task.settings.object_watch,
        observed=observed,
        scope=name,
    ).within(task.namespace)
    stored = weigh(_request(task, environment), writer, name)
    composed = {NAMESPACE: namespace(task.namespace, writer), **writer.named(stored.composed)}
    if _is_read(task, name, stored):
        composed |= writer.named(stored.stale) | carry_over(writer.left)
    return _Scope(
        composed=_prefixed(prefix, composed),
        row=report.row(name, stored.said, stored.plan, stored.completed),
        size=stored.plan.size if stored.plan else None,
    )


def _is_read(task: _Task, environment: str, stored: Weights) -> bool:
    """Tell whether bytes of an earlier revision are still wanted: until the new ones are there and read by all."""
    plan = stored.plan
    return plan is None or not stored.open or any(p.uri != plan.uri for p in task.readers(environment))


def _prefixed(prefix: str, composed: Mapping[str, Composed]) -> dict[str, Composed]:
    return {prefix + key: item for key, item in composed.items()}


def _request(task: _Task, environment: Environment) -> StorageRequest:
    return StorageRequest(
        model=task.model,
        choice=task.cache.choice,
        environment=environment.storage,
        download=environment.storage.download,
        default_class=task.settings.storage_class,
        namespace=task.namespace,
        owner=task.cache.name,
        shape_nodes=max((p.shape.nodes for p in task.model.profiles if p.shape), default=1),
        for_cache=True,
    )


def _users(task: _Task) -> list[str]:
    return sorted({p.deployment or p.name for p in task.users})
