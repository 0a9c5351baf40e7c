"""Which nodes of a cluster are usable for which pool, and the facts of each pool that follow from its nodes.

A node is usable if it is Ready, is not being deleted, is not cordoned, has only taints that the pool's pods tolerate,
and offers at least as many GPUs as the pool has on each node: on a node with fewer GPUs, a pod that requests all GPUs
of a node would stay Pending. The pods that run on the node do not matter here.

A node belongs to the first pool whose labels it has. If it also has the labels of another pool, this is drift of the
other pool. Observed values never match a pool to nodes; they can only contradict the declaration of the pool. A GPU has
a little less memory than its name promises (81559 MiB for 80Gi), so the declared value may be a tenth higher.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from function.domain.environment import (
    MAX_NODE_NAMES,
    Drift,
    DriftField,
    Environment,
    Pool,
    PoolFacts,
    Unusable,
    UnusableReason,
    is_part_of_gpu,
)
from function.kube import quantity
from function.kube.manifests import Manifest, condition, flag, is_deleting, listing, mapping, strings, text
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE, Taint

_BLOCKING = frozenset({NO_SCHEDULE, NO_EXECUTE})
# Taints that Kubernetes and `kubectl cordon` set while a node comes up or is away; Ready and unschedulable cover them.
_LIFECYCLE_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.cloudprovider.kubernetes.io/uninitialized",
)
# Labels of NVIDIA's gpu-feature-discovery and AMD's node labeller.
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
_MEMORY = "nvidia.com/gpu.memory"  # MiB
_COUNT = "nvidia.com/gpu.count"
_CLIQUE = "nvidia.com/gpu.clique"
_MIG = "nvidia.com/mig.strategy"
_MIB = 2**20
_MAX_DIGITS = 12  # of a number in a label
_MEMORY_PERCENT = 110  # limit of the declared memory, in percent of the observed memory
_MAX_ROWS = 8  # reasons of unusable nodes; further ones are counted with the last
_MAX_TEXT = 120  # characters of a value that a node has
# A GPU's model in a product or type: h100, l40s, gb200, mi300x.
_MODEL = re.compile(r"([a-z]{1,2})([0-9]{1,4})[a-z]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The fields of a Node that decide whether and for which pool it is usable."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]  # that keep pods away from it once it is up
    allocatable: Mapping[str, int]  # of each extended resource
    ready: bool
    cordoned: bool
    deleting: bool
    labelled_gpus: int | None  # None: no label has their number
    product: str  # of its GPUs; empty: no label has it
    memory_per_gpu: int | None  # bytes; None: no label has it

    def belongs_to(self, pool: Pool) -> bool:
        """Tells whether the node has the labels of a pool; a pool without labels has the nodes that offer its GPUs."""
        if not pool.labels:
            return pool.gpu_resource in self.allocatable
        return all(self.labels.get(key) == value for key, value in pool.labels)

    def count_gpus(self, resource: str) -> int | None:
        """Returns the GPUs by its label, which does not count parts of GPUs, otherwise the allocatable amount."""
        is_labelled = self.labelled_gpus is not None and not is_part_of_gpu(resource)
        return self.labelled_gpus if is_labelled else self.allocatable.get(resource)


def parse_node(manifest: Manifest) -> Node:
    labels = strings(manifest, "metadata.labels")
    allocatable = mapping(manifest, "status.allocatable")
    taints = (
        Taint(key=text(taint, "key"), value=text(taint, "value"), effect=text(taint, "effect"))
        for taint in listing(manifest, "spec.taints")
    )
    persistent = (t for t in taints if t.effect in _BLOCKING and t.key not in _LIFECYCLE_TAINTS)
    amounts = {key: quantity.parse_or_none(allocatable[key]) for key in allocatable if "/" in key}
    mebibytes = _parse_number(labels.get(_MEMORY, ""))
    return Node(
        name=text(manifest, "metadata.name"),
        labels=labels,
        taints=tuple(sorted(persistent, key=str)),
        allocatable={key: amount for key, amount in amounts.items() if amount is not None},
        ready=condition(manifest, "Ready").get("status") == "True",
        cordoned=flag(manifest, "spec.unschedulable"),
        deleting=is_deleting(manifest),
        labelled_gpus=_parse_number(labels.get(_COUNT, "")),
        product=next((labels[label] for label in _PRODUCTS if labels.get(label)), ""),
        memory_per_gpu=mebibytes * _MIB if mebibytes else None,
    )


def _parse_number(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else None


def find_unusable_reason(node: Node, pool: Pool) -> tuple[UnusableReason, str] | None:
    """Returns the gravest reason why pods of a pool cannot start on a node, with its detail; None: it is usable."""
    if node.deleting:
        return UnusableReason.DELETING, ""
    if not node.ready:
        return UnusableReason.NOT_READY, ""
    if node.cordoned:
        return UnusableReason.CORDONED, ""
    taints = _untolerated_taints(node, pool)
    if taints:
        return UnusableReason.TAINTED, str(taints[0])
    gpus = node.allocatable.get(pool.gpu_resource)
    if gpus is None:
        return UnusableReason.NO_GPUS, pool.gpu_resource
    if gpus < pool.gpus_per_node:
        return UnusableReason.TOO_FEW_GPUS, f"{gpus} of {pool.gpus_per_node} {pool.gpu_resource}"
    return None


def _untolerated_taints(node: Node, pool: Pool) -> list[Taint]:
    others = (taint for taint in node.taints if taint.key not in pool.tolerated_taints)
    return [taint for taint in others if not any(_tolerates(declared, taint) for declared in pool.taints)]


def _tolerates(declared: Manifest, taint: Taint) -> bool:
    value = text(declared, "value")
    effect = text(declared, "effect")
    return declared.get("key") == taint.key and value in {"", taint.value} and effect in {"", taint.effect}


def summarize_pools(environment: Environment, nodes: Iterable[Node]) -> dict[str, PoolFacts]:
    """Returns the facts of every pool by name; the order of the nodes changes nothing."""
    listed = sorted(nodes, key=lambda node: node.name)
    # A node counts for the first pool whose labels it has, and is shared with the others.
    nodes_with_pools = [(node, [pool.name for pool in environment.pools if node.belongs_to(pool)]) for node in listed]
    summaries: dict[str, PoolFacts] = {}
    for pool in environment.pools:
        own = [node for node, names in nodes_with_pools if names[:1] == [pool.name]]
        shared = [(node, names[0]) for node, names in nodes_with_pools if pool.name in names[1:]]
        nearby = listed
        if pool.autoscaled:
            nearby = [node for node, names in nodes_with_pools if not names and pool.gpu_resource in node.allocatable]
        reasons = {node.name: find_unusable_reason(node, pool) for node in own}
        counts = [count for node in own if (count := node.count_gpus(pool.gpu_resource)) is not None]
        products = sorted({node.product for node in own} - {""})
        summaries[pool.name] = PoolFacts(
            nodes=len(own),
            usable=sum(reason is None for reason in reasons.values()),
            unusable=_group_unusable(reasons),
            gpus_per_node=min(counts, default=None),
            product=", ".join(products[:MAX_NODE_NAMES])[:_MAX_TEXT],
            memory_per_gpu=min((node.memory_per_gpu for node in own if node.memory_per_gpu), default=None),
            drift=(*_find_missing_nodes(pool, own, shared, nearby), *_find_contradictions(pool, own, shared)),
        )
    return summaries


def _group_unusable(reasons: Mapping[str, tuple[UnusableReason, str] | None]) -> tuple[Unusable, ...]:
    """Returns a row for each reason and detail, the gravest first; the last row includes those beyond the limit."""
    names_by_reason: dict[tuple[UnusableReason, str], list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        if reason is not None:
            names_by_reason[reason].append(name)
    by_gravity = sorted(names_by_reason, key=lambda reason: (list(UnusableReason).index(reason[0]), reason[1]))
    rows = [(unfit, detail, names_by_reason[unfit, detail]) for unfit, detail in by_gravity]
    if len(rows) > _MAX_ROWS:
        unfit, _, _ = rows[_MAX_ROWS - 1]
        others = [name for _, _, names in rows[_MAX_ROWS - 1 :] for name in names]
        rows = [*rows[: _MAX_ROWS - 1], (unfit, "", others)]
    return tuple(
        Unusable(reason=unfit, detail=detail[:_MAX_TEXT], count=len(names), nodes=tuple(sorted(names)[:MAX_NODE_NAMES]))
        for unfit, detail, names in rows
    )


def _find_missing_nodes(
    pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]], nearby: Sequence[Node]
) -> Iterable[Drift]:
    """Yields drift if a pool has fewer nodes than declared, with the nearest node if no node has its labels.

    Nodes that are shared with an earlier pool have the labels, although they do not count for this pool. An autoscaled
    pool may be empty, unless there are nodes with its GPUs that belong to no pool: then `nearby` are only these nodes.
    """
    if not nodes and not shared and pool.max_nodes and (nearby or not pool.autoscaled):
        declared = ", ".join(f"{key}={value}" for key, value in pool.labels) or pool.gpu_resource
        nearest = min(nearby, key=lambda node: (len(_missing_labels(node, pool)), node.name), default=None)
        observed = "" if nearest is None else ", ".join(_missing_labels(nearest, pool))
        yield _build_drift(DriftField.LABELS, declared[:_MAX_TEXT], observed, [] if nearest is None else [nearest.name])
    elif len(nodes) < pool.max_nodes and not pool.autoscaled:
        yield _build_drift(DriftField.NODE_COUNT, pool.max_nodes, len(nodes), [])


def _missing_labels(node: Node, pool: Pool) -> list[str]:
    """Returns what a node has in place of each label of the pool that it lacks."""
    lacking = [key for key, value in pool.labels if node.labels.get(key) != value]
    return [f"{key}={node.labels[key]}" if key in node.labels else f"no {key}" for key in lacking]


def _find_contradictions(pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]]) -> Iterable[Drift]:
    """Yields a row for each declared field that nodes contradict, with the worst value, and each overlapping pool."""
    for owner in sorted({name for _, name in shared}):
        overlap = [node.name for node, name in shared if name == owner]
        yield _build_drift(DriftField.OVERLAP, "nodes of its own", f"pool {owner}", overlap)
    declared_memory = pool.memory_per_gpu or 0
    counts: dict[str, int] = {}
    mebibytes: dict[str, int] = {}
    products: dict[str, str] = {}
    mig_strategies: dict[str, str] = {}
    for node in nodes:
        count = node.labelled_gpus
        if count is not None and count < pool.gpus_per_node and not pool.has_parts_of_gpus:
            counts[node.name] = count
        if node.memory_per_gpu and exceeds_memory(declared_memory, node.memory_per_gpu):
            mebibytes[node.name] = node.memory_per_gpu // _MIB
        if _are_other_models(pool.accelerator_type, node.product):
            products[node.name] = node.product
        if node.labels.get(_MIG, "none") not in ("", "none") and not pool.has_parts_of_gpus:
            mig_strategies[node.name] = node.labels[_MIG]
    yield from _find_lowest(DriftField.GPUS_PER_NODE, pool.gpus_per_node, counts)
    yield from _find_lowest(DriftField.MEMORY_PER_GPU, f"{declared_memory // _MIB}Mi", mebibytes, "Mi")
    yield from _find_lowest(DriftField.ACCELERATOR_TYPE, pool.accelerator_type, products)
    yield from _find_small_domain(pool, nodes)
    yield from _find_common_taint(pool, nodes)
    yield from _find_lowest(DriftField.MIG, "none", mig_strategies)


def exceeds_memory(declared: int, observed: int) -> bool:
    """Tells whether GPUs report too little memory for a declared one: a tenth less is usual.

    Suggested pools obey the same rule (cli/suggested_pools.py), so that their nodes do not contradict them.
    """
    return declared * 100 > observed * _MEMORY_PERCENT


def _find_small_domain(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Yields drift if every NVLink clique has fewer GPUs than declared, provided that all nodes have a clique label."""
    domain = pool.nvlink_domain or 0
    cliques = [node.labels.get(_CLIQUE, "") for node in nodes]
    # A domain within a node needs no clique, and an autoscaler may add the missing nodes.
    if domain > pool.gpus_per_node and cliques and all(cliques) and not pool.autoscaled:
        largest = max(Counter(cliques).values()) * pool.gpus_per_node
        if largest < domain:
            yield _build_drift(DriftField.NVLINK_DOMAIN, domain, largest, [])


def _find_common_taint(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Yields the first taint that all nodes have and the pool does not declare."""
    taints_of_nodes = [{str(taint) for taint in _untolerated_taints(node, pool)} for node in nodes]
    common = set.intersection(*taints_of_nodes) if taints_of_nodes else set[str]()
    if common:
        yield _build_drift(DriftField.TAINTS, "not among them", min(common), [node.name for node in nodes])


def _find_lowest(
    field: DriftField, declared: object, values: Mapping[str, int] | Mapping[str, str], unit: str = ""
) -> Iterable[Drift]:
    """Yields the lowest of the contradicting values, with its nodes, if there are any."""
    if values:
        lowest = min(values.values())
        yield _build_drift(
            field, declared, f"{lowest}{unit}", [name for name, value in values.items() if value == lowest]
        )


def _are_other_models(accelerator_type: str, product: str) -> bool:
    """Tells whether a product names another GPU model than an accelerator type; a name without a model never does."""
    declared, observed = _gpu_models(accelerator_type), _gpu_models(product)
    return bool(declared and observed and not declared & observed)


def _gpu_models(name: str) -> set[tuple[str, ...]]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return {match.groups() for word in words if (match := _MODEL.fullmatch(word))}


def _build_drift(field: DriftField, declared: object, observed: object, nodes: Sequence[str]) -> Drift:
    first = tuple(sorted(nodes)[:MAX_NODE_NAMES])
    return Drift(field=field, declared=str(declared), observed=str(observed)[:_MAX_TEXT], nodes=first)
