"""ModelCache: keeps the same weights on several environments, whatever is deployed.

On each environment, the same planner plans the same resources as for the weights of a placement. While an environment
does not exist or cannot be parsed, its resources are carried over. Crossplane limits the size of a response: an
environment whose new resources would exceed the limit stays as observed until others are complete and need less.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from function.api.inference_environment import ENVIRONMENT_CACHE
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import PLACEMENT_CACHE
from function.api.problems import Parsed
from function.contract import RESPONSE_BYTES, Call, Composed, Desired, Drop, Outcome, Requirement
from function.domain.cache import Consumer, ModelCache, ModelCacheChoice
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Placement
from function.domain.records.weights import DownloadRecord
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping, max_wire_bytes, text, wire_bytes
from function.parts import requirements
from function.parts.cached_weights import CACHED_WEIGHTS_PART, CacheContext
from function.parts.namespace import NAMESPACE_PART
from function.parts.outcome import build_writer, keep_observed, unready_if_incomplete
from function.parts.part import Part, join_names, run_parts
from function.parts.references import NotComposableError, resolve_model
from function.reasons import ConditionType, Hydrated, Status
from function.remote.adoption import find_orphans, observe_orphans
from function.remote.composed_kinds import OBJECT, NamePatterns
from function.remote.object_writer import CLUSTER_SEPARATOR, carry_over, deletes, find_remote_namespace, keep_undropped
from function.remote.provider_usage import PROVIDER_USAGE, compose_provider_usages
from function.status import references
from function.status import weights as report
from function.status.conditions import faulty
from function.weights.claim import Size
from function.weights.consumers import find_consumers, list_claims, may_delete_weights
from function.weights.reconcile import SCRIPTS_PREFIX, drop_weights
from function.weights.request import build_cache_request

PARTS: tuple[Part[CacheContext, Any], ...] = (NAMESPACE_PART, CACHED_WEIGHTS_PART)  # on each environment
_PER_ENVIRONMENT = rf"[^/]+{CLUSTER_SEPARATOR}"
NAMES = NamePatterns(
    {**join_names(PARTS, prefix=_PER_ENVIRONMENT), requirements.PROVIDER_USAGE: _PER_ENVIRONMENT + PROVIDER_USAGE}
)
# Bytes of a response besides the composed manifests.
_BASE_BYTES = 128 * 1024  # conditions, events and the like
_ROW_BYTES = 1024  # for each environment: its row of the status without the message, and its requirement
_RESOURCE_BYTES = 24  # for each resource: the fields around its manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """Everything that a ModelCache is composed from."""

    cache: ModelCache
    model: Model
    environments: Mapping[str, Environment]
    selected: Collection[str]  # the environments that the cache names or selects: they must have the weights
    named_by: tuple[Placement, ...]  # the placements that name the cache
    consumers: tuple[Consumer, ...]
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnCluster:
    """What the cache has on the cluster of one environment; mappings are by composition-resource-name."""

    composed: Mapping[str, Composed]  # also carried over resources, since they count for the size of the response
    observed: Mapping[str, Manifest]
    drops: tuple[Drop, ...] = ()
    row: report.Row | None = None  # None: the environment is not selected any more
    size: Size | None = None  # of the claim

    @property
    def adds_resources(self) -> bool:
        return any(key not in self.observed for key in self.composed)

    @property
    def as_observed(self) -> Mapping[str, Composed]:
        """The observed resources without unneeded scripts, because other environments may wait for their bytes."""
        is_script = {key: key.rpartition(CLUSTER_SEPARATOR)[2].startswith(SCRIPTS_PREFIX) for key in self.observed}
        needed = {key: item for key, item in self.composed.items() if is_script.get(key)}
        return carry_over({key: m for key, m in self.observed.items() if not is_script[key]}) | needed


def read(call: Call, _: Settings) -> Parsed[ModelCache | None]:
    return parse_model_cache(call.xr)


def compose(call: Call, parsed: Parsed[ModelCache | None], settings: Settings) -> Outcome:
    if parsed.value is None:
        return keep_observed(call, settings, [faulty(ConditionType.HYDRATED, Hydrated.INVALID_CACHE, parsed.problems)])
    try:
        inputs = _resolve_inputs(call, parsed.value, settings)
    except NotComposableError as error:
        return keep_observed(call, settings, error.conditions)
    observed = _group_observed(call)
    names = sorted({*inputs.selected, *observed})
    clusters = _fit_response(
        call.xr, [_compose_on_cluster(call, inputs, name, observed.get(name, {})) for name in names]
    )
    composed = {key: item for cluster in clusters for key, item in cluster.composed.items()}
    rows = [cluster.row for cluster in clusters if cluster.row]
    size = next((cluster.size for cluster in clusters if cluster.size), None)
    resolved = references.model_resolved(inputs.model)
    conditions = (resolved, report.summarize_hydration(rows))
    is_complete = all(condition.status is Status.TRUE for condition in conditions)
    used_by = sorted({placement.deployment or placement.name for placement in inputs.named_by})
    return Outcome(
        composed=composed,
        drops=tuple(drop for cluster in clusters for drop in cluster.drops),
        status=report.build_cache_status(inputs.model, size, rows, used_by, inputs.consumers),
        conditions=conditions,
        ready=unready_if_incomplete(composed, works=is_complete),
        ttl_seconds=settings.ttl_settled if is_complete else settings.ttl_pending,
    )


def _compose_on_cluster(call: Call, inputs: _Inputs, name: str, prefixed: Mapping[str, Manifest]) -> _OnCluster:
    """Composes the resources of one environment; drops them once it is deselected and the weights have no consumer."""
    cache = inputs.cache
    environment = inputs.environments.get(name)
    prefix = f"{name}{CLUSTER_SEPARATOR}"
    observed = {key.removeprefix(prefix): manifest for key, manifest in prefixed.items()}
    consumers = [consumer for consumer in inputs.consumers if consumer.environment == name]
    named_by = [placement for placement in inputs.named_by if placement.environment == name]
    if environment is None or environment.broken:
        row = report.build_missing_row(name, cache.entry(name))
        return _OnCluster(composed=carry_over(prefixed), observed=prefixed, row=row)
    writer = build_writer(call, inputs.settings, environment.provider_config, observed, scope=name)
    if name not in inputs.selected:
        if not may_delete_weights(list_claims(observed.values()), consumers, named_by, current=None):
            return _OnCluster(composed=carry_over(prefixed), observed=prefixed)
        why = f"environment {name} is not selected, and nothing reads the weights there"
        desired = drop_weights(writer, observed, why).with_prefix(prefix)
        return _OnCluster(composed=desired.composed, observed=prefixed, drops=desired.drops)

    namespace = find_remote_namespace(observed) or inputs.settings.remote_namespace(cache.namespace)
    entry = cache.entry(name)
    context = CacheContext(
        request=build_cache_request(inputs.model, cache, environment, namespace),
        recorded=entry.download if entry else DownloadRecord(),
        consumers=consumers,
        named_by=named_by,
        writer=writer,
        now=call.now,
    )
    joined = run_parts(PARTS, context)
    weights = joined.decision.of(CACHED_WEIGHTS_PART)
    kept = keep_undropped(observed, joined.desired.composed, joined.desired.drops)
    desired = Desired(kept, joined.desired.drops).with_prefix(prefix)
    return _OnCluster(
        composed=desired.composed,
        observed=prefixed,
        drops=desired.drops,
        row=report.build_row(name, weights, entry),
        size=weights.plan.claim.size if weights.plan and weights.plan.claim else None,
    )


def require(call: Call, parsed: Parsed[ModelCache | None], settings: Settings) -> dict[str, Requirement]:
    """Returns what a ModelCache requires; only its own Objects if its spec cannot be parsed."""
    required = requirements.require_unobserved_resources(call, (OBJECT,))
    required |= requirements.require_labelled_resources(call, (OBJECT, requirements.PROVIDER_USAGE))
    call = observe_orphans(call, find_orphans(call, call.answers.get(requirements.OBJECTS, ()), NAMES))
    cache = parsed.value
    if cache is None:
        return required
    required[requirements.MODEL] = requirements.require_model(cache.model, cache.namespace)
    return required | _require_environments(call, cache, settings) | _require_placements(call, cache)


def _require_environments(call: Call, cache: ModelCache, settings: Settings) -> dict[str, Requirement]:
    """Requires the environments that the cache names or selects, and the environments on which it has resources."""
    names = {*(cache.environments or ()), *_group_observed(call)}
    if cache.environments is not None:
        return requirements.require_environments_by_name(sorted(names))
    required = {requirements.ENVIRONMENTS: requirements.require_environments(cache.selector.equalities)}
    listed = call.answers.get(requirements.ENVIRONMENTS)
    if listed is not None:
        names -= {environment.name for environment in ENVIRONMENT_CACHE.parse(listed, settings)}
        required |= requirements.require_environments_by_name(sorted(names))
    return required


def _require_placements(call: Call, cache: ModelCache) -> dict[str, Requirement]:
    """Requires placements by the cache's label, and by name the recorded consumers that lack this label.

    Until the status records consumers, all placements of the namespace are required.
    """
    if not isinstance(mapping(call.xr, "status").get("readers"), list):
        return {requirements.PLACEMENTS: requirements.require_placements(cache.namespace)}
    labelled = {requirements.PLACEMENTS: requirements.require_placements(cache.namespace, cache=cache.name)}
    consumers = [consumer.name for consumer in cache.consumers]
    return requirements.with_recorded_placements(call, labelled, consumers, cache.namespace)


def _resolve_inputs(call: Call, cache: ModelCache, settings: Settings) -> _Inputs:
    model = resolve_model(call, cache.model, cache.namespace, ConditionType.MODEL_RESOLVED, settings)
    environment_items = requirements.collect_items(call, _require_environments(call, cache, settings))
    items = requirements.collect_items(call, _require_placements(call, cache))
    if environment_items is None or items is None:
        raise NotComposableError(references.resolving(ConditionType.MODEL_RESOLVED))
    environments = {e.name: e for e in ENVIRONMENT_CACHE.parse(environment_items, settings)}
    selected = [e.name for e in environments.values() if cache.selects(e)]
    placements = {(p.namespace, p.name): p for p in PLACEMENT_CACHE.parse(items) if p}
    existing_names = {text(item.load(), "metadata.name") for item in items}
    # A placement that exists but cannot be parsed may still read the weights that it read before.
    unparsed = [c for c in cache.consumers if c.name in existing_names and (cache.namespace, c.name) not in placements]
    named_cache = ModelCacheChoice(name=cache.name)
    observed = _group_observed(call).items()
    owned_claims = {name: list_claims(filter(deletes, manifests.values())) for name, manifests in observed}
    return _Inputs(
        cache=cache,
        model=model,
        environments=environments,
        selected=selected if cache.environments is None else cache.environments,
        named_by=tuple(
            p for p in placements.values() if p.namespace == cache.namespace and p.storage_choice == named_cache
        ),
        consumers=(*find_consumers(cache, placements.values(), owned_claims), *unparsed),
        settings=settings,
    )


def _group_observed(call: Call) -> dict[str, dict[str, Manifest]]:
    groups: dict[str, dict[str, Manifest]] = {}
    for key, manifest in call.observed.items():
        groups.setdefault(key.partition(CLUSTER_SEPARATOR)[0], {})[key] = manifest
    return groups


def _fit_response(xr: Manifest, clusters: list[_OnCluster]) -> list[_OnCluster]:
    """Leaves an environment as observed if its new resources do not fit into the response any more."""
    base = _BASE_BYTES + sum(_ROW_BYTES + len(cluster.row.message.encode()) for cluster in clusters if cluster.row)
    complete = [_with_usages(xr, cluster, cluster.composed) for cluster in clusters]
    upper_bound = base + sum(_measure(composed, max_wire_bytes) for composed in complete)
    if upper_bound <= RESPONSE_BYTES or not any(cluster.adds_resources for cluster in clusters):
        return clusters
    without_additions = [cluster.as_observed if cluster.adds_resources else cluster.composed for cluster in clusters]
    sizes = [_measure(_with_usages(xr, *each)) for each in zip(clusters, without_additions, strict=True)]
    total = base + sum(sizes)
    fitting: list[_OnCluster] = []
    for cluster, full, composed, size in zip(clusters, complete, without_additions, sizes, strict=True):
        added = _measure(full) - size if cluster.adds_resources else 0
        if cluster.row is None or not cluster.adds_resources or total + added <= RESPONSE_BYTES:
            total += added
            fitting.append(cluster)
        else:
            row = report.describe_waiting(cluster.row, total + added)
            fitting.append(replace(cluster, composed=composed, row=row))
    return fitting


def _with_usages(xr: Manifest, cluster: _OnCluster, composed: Mapping[str, Composed]) -> Mapping[str, Composed]:
    return {**composed, **compose_provider_usages(xr, composed, cluster.observed)}


def _measure(composed: Mapping[str, Composed], size: Callable[[Manifest], int] = wire_bytes) -> int:
    return sum(_RESOURCE_BYTES + len(key.encode()) + size(item.manifest) for key, item in composed.items())
