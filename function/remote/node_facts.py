"""The facts of each pool of an environment, from the nodes of its cluster.

A node is usable if it is Ready, is neither being deleted nor cordoned, has no taint that the pool's pods do not
tolerate, and offers at least as many GPUs as the pool has on each node: a pod that requests all GPUs of a node would
stay Pending on one with fewer. What runs on the node does not matter here.

A node belongs to the first pool whose labels it has; that it has the labels of another pool as well is drift of that
pool. Observed values never match a pool to nodes, they only contradict its declaration. A GPU has a little less memory
than its name promises (81559 MiB for 80Gi), so the declared value may be a tenth more.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from function.domain.environment import MAX_NODE_NAMES, Drift, Drifted, Environment, Pool, PoolFacts, Unfit, Unusable
from function.kube import quantity
from function.kube.manifests import Manifest, condition, flag, is_deleting, listing, mapping, strings, text
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE, Taint

Value = TypeVar("Value", int, str)
_BLOCKING_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
# Taints that Kubernetes and `kubectl cordon` set while a node comes up or is away; Ready and unschedulable cover them.
_LIFECYCLE_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
# Labels of NVIDIA's gpu-feature-discovery and AMD's node labeller.
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
_MEMORY, _COUNT = "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
_CLIQUE, _MIG = "nvidia.com/gpu.clique", "nvidia.com/mig.strategy"
_MIB = 2**20
_MAX_DIGITS = 12  # of a number in a label
_MEMORY_PERCENT = 110  # allowed of declared memory, in percent of the observed
_MAX_ROWS = 8  # reasons of unusable nodes; further ones are counted with the last
_MAX_TEXT = 120  # characters of a value that a node has
# A GPU's model in a product or type: h100, l40s, gb200, mi300x.
_MODEL = re.compile(r"([a-z]{1,2})([0-9]{1,4})[a-z]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The fields of a Node that decide whether and for which pool it is usable."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int]  # of each extended resource
    ready: bool = True
    cordoned: bool = False
    deleting: bool = False

    def belongs_to(self, pool: Pool) -> bool:
        """Tells whether the node has the labels of a pool; a pool without labels has the nodes that offer its GPUs."""
        if not pool.labels:
            return pool.gpu_resource in self.allocatable
        return all(self.labels.get(key) == value for key, value in pool.labels)

    def read_number(self, label: str) -> int | None:
        """Returns the integer in a label; None where there is none."""
        value = self.labels.get(label, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else None


def parse_node(manifest: Manifest) -> Node:
    """Returns the fields of a Node that matter here."""
    taints = (
        Taint(key=text(taint, "key"), value=text(taint, "value"), effect=text(taint, "effect"))
        for taint in listing(manifest, "spec.taints")
    )
    listed = mapping(manifest, "status.allocatable")
    amounts = {key: quantity.parse_or_none(listed[key]) for key in listed if "/" in key}
    return Node(
        name=text(manifest, "metadata.name"),
        labels=strings(manifest, "metadata.labels"),
        taints=tuple(sorted(taints, key=str)),
        allocatable={key: amount for key, amount in amounts.items() if amount is not None},
        ready=condition(manifest, "Ready").get("status") == "True",
        cordoned=flag(manifest, "spec.unschedulable"),
        deleting=is_deleting(manifest),
    )


def persistent_taints(node: Node) -> list[Taint]:
    """Returns the taints that keep pods away from a node once it is up."""
    return [t for t in node.taints if t.effect in _BLOCKING_EFFECTS and t.key not in _LIFECYCLE_TAINTS]


def _untolerated_taints(node: Node, pool: Pool) -> list[Taint]:
    return [
        taint
        for taint in persistent_taints(node)
        if taint.key != pool.gpu_resource and not any(_tolerates(declared, taint) for declared in pool.taints)
    ]


def _tolerates(declared: Manifest, taint: Taint) -> bool:
    value, effect = text(declared, "value"), text(declared, "effect")
    return declared.get("key") == taint.key and value in {"", taint.value} and effect in {"", taint.effect}


def find_unusable_reason(node: Node, pool: Pool) -> tuple[Unfit, str] | None:
    """Returns the gravest reason why pods of a pool cannot start on a node, with its detail; None: it is usable."""
    if node.deleting:
        return Unfit.DELETING, ""
    if not node.ready:
        return Unfit.NOT_READY, ""
    if node.cordoned:
        return Unfit.CORDONED, ""
    taints = _untolerated_taints(node, pool)
    if taints:
        return Unfit.TAINTED, str(taints[0])
    gpus = node.allocatable.get(pool.gpu_resource)
    if gpus is None:
        return Unfit.NO_GPUS, pool.gpu_resource
    if gpus < pool.gpus_per_node:
        return Unfit.TOO_FEW_GPUS, f"{gpus} of {pool.gpus_per_node} {pool.gpu_resource}"
    return None


def gpu_count(node: Node, resource: str) -> int | None:
    """Returns the number of GPUs of a node: from its label, else what is allocatable."""
    labelled = node.read_number(_COUNT)
    return labelled if labelled is not None else node.allocatable.get(resource)


def gpu_product(node: Node) -> str:
    """Returns the product name of a node's GPUs; empty where no label has it."""
    return next((node.labels[label] for label in _PRODUCTS if node.labels.get(label)), "")


def gpu_memory(node: Node) -> int | None:
    """Returns the memory of each GPU of a node in bytes; None where no label has it."""
    mebibytes = node.read_number(_MEMORY)
    return mebibytes * _MIB if mebibytes else None


def summarize_pools(environment: Environment, nodes: Iterable[Node]) -> dict[str, PoolFacts]:
    """Returns the facts of every pool by name; the order of the nodes changes nothing."""
    listed = sorted(nodes, key=lambda node: node.name)
    strays: list[Node] = []  # that belong to no pool
    own: dict[str, list[Node]] = defaultdict(list)
    shared: dict[str, list[tuple[Node, str]]] = defaultdict(list)  # with the name of the pool that the node counts for
    for node in listed:
        pools = [pool.name for pool in environment.pools if node.belongs_to(pool)]
        for name in pools[:1]:
            own[name].append(node)
        for name in pools[1:]:
            shared[name].append((node, pools[0]))
        if not pools:
            strays.append(node)
    summaries: dict[str, PoolFacts] = {}
    for pool in environment.pools:
        nearby = [node for node in strays if pool.gpu_resource in node.allocatable] if pool.autoscaled else listed
        summaries[pool.name] = _summarize_pool(pool, own[pool.name], shared[pool.name], nearby)
    return summaries


def _summarize_pool(
    pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]], nearby: Sequence[Node]
) -> PoolFacts:
    reasons = {node.name: find_unusable_reason(node, pool) for node in nodes}
    counts = [count for node in nodes if (count := gpu_count(node, pool.gpu_resource)) is not None]
    memories = [memory for node in nodes if (memory := gpu_memory(node))]
    return PoolFacts(
        nodes=len(nodes),
        usable=sum(reason is None for reason in reasons.values()),
        unusable=_group_unusable(reasons),
        gpus_per_node=min(counts, default=None),
        product=", ".join(sorted({name for node in nodes if (name := gpu_product(node))})[:MAX_NODE_NAMES])[:_MAX_TEXT],
        memory_per_gpu=min(memories, default=None),
        drift=(
            *_find_missing_nodes(pool, nodes, shared, nearby),
            *_find_overlap(shared),
            *_find_contradictions(pool, nodes),
        ),
    )


def _group_unusable(reasons: Mapping[str, tuple[Unfit, str] | None]) -> tuple[Unusable, ...]:
    groups: dict[tuple[Unfit, str], list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        if reason is not None:
            groups[reason].append(name)
    rows = sorted(groups.items(), key=lambda row: (tuple(Unfit).index(row[0][0]), row[0][1]))
    shown, rest = rows[:_MAX_ROWS], [name for _, names in rows[_MAX_ROWS:] for name in names]
    if rest:
        key, names = shown[-1]
        shown[-1] = ((key[0], ""), [*names, *rest])
    return tuple(
        Unusable(reason=reason, detail=detail[:_MAX_TEXT], count=len(names), nodes=_first_names(names))
        for (reason, detail), names in shown
    )


def _find_missing_nodes(
    pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]], nearby: Sequence[Node]
) -> Iterable[Drift]:
    """Yields that a pool has fewer nodes than declared, with the nearest node where no node has its labels.

    Nodes that are shared with an earlier pool have the labels, although they do not count for this one. An autoscaled
    pool may be empty, but hardly beside nodes with its GPUs that belong to no pool: `nearby` are only those then.
    """
    if not nodes and not shared and pool.max_nodes and (nearby or not pool.autoscaled):
        declared = ", ".join(f"{key}={value}" for key, value in pool.labels) or pool.gpu_resource
        nearest = min(nearby, key=lambda node: (len(_missing_labels(node, pool)), node.name), default=None)
        observed = "" if nearest is None else ", ".join(_missing_labels(nearest, pool))
        yield _drift(Drifted.LABELS, declared[:_MAX_TEXT], observed, [] if nearest is None else [nearest.name])
    elif len(nodes) < pool.max_nodes and not pool.autoscaled:
        yield _drift(Drifted.NODE_COUNT, pool.max_nodes, len(nodes), [])


def _missing_labels(node: Node, pool: Pool) -> list[str]:
    """Returns what a node has in place of each label of the pool that it lacks."""
    lacking = [key for key, value in pool.labels if node.labels.get(key) != value]
    return [f"{key}={node.labels[key]}" if key in node.labels else f"no {key}" for key in lacking]


def _find_overlap(shared: Sequence[tuple[Node, str]]) -> Iterable[Drift]:
    for owner in sorted({name for _, name in shared}):
        nodes = [node.name for node, name in shared if name == owner]
        yield _drift(Drifted.OVERLAP, "nodes of its own", f"pool {owner}", nodes)


def _find_contradictions(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Yields one row for each declared field that nodes contradict, with the worst value."""
    counts = {n.name: count for n in nodes if (count := n.read_number(_COUNT)) is not None}
    fewer = {name: count for name, count in counts.items() if count < pool.gpus_per_node}
    yield from _find_lowest(Drifted.GPUS_PER_NODE, pool.gpus_per_node, fewer)
    memory = pool.memory_per_gpu or 0
    less = {n.name: m for n in nodes if (m := n.read_number(_MEMORY)) and memory * 100 > m * _MIB * _MEMORY_PERCENT}
    yield from _find_lowest(Drifted.MEMORY_PER_GPU, f"{memory // _MIB}Mi", less, "Mi")
    products = {n.name: product for n in nodes if (product := _contradicting_product(pool, n))}
    yield from _find_lowest(Drifted.ACCELERATOR_TYPE, pool.accelerator_type, products)
    yield from _find_small_nvlink_domain(pool, nodes)
    on_all = set.intersection(*({str(t) for t in _untolerated_taints(n, pool)} for n in nodes)) if nodes else set()
    for taint in sorted(on_all)[:1]:
        yield _drift(Drifted.TAINTS, "not among them", taint, [n.name for n in nodes])
    strategies = {n.name: strategy for n in nodes if (strategy := n.labels.get(_MIG, "")) not in ("", "none")}
    yield from _find_lowest(Drifted.MIG, "none", strategies)


def _find_lowest(drifted: Drifted, declared: object, values: Mapping[str, Value], unit: str = "") -> Iterable[Drift]:
    """Yields the lowest of the contradicting values by node, where there are any."""
    if values:
        lowest = min(values.values())
        yield _drift(drifted, declared, f"{lowest}{unit}", [name for name, value in values.items() if value == lowest])


def _contradicting_product(pool: Pool, node: Node) -> str:
    """Returns the product of a node if it is another GPU model than the accelerator type names, else empty."""
    product = gpu_product(node)
    declared, observed = _gpu_models(pool.accelerator_type), _gpu_models(product)
    return product if declared and observed and not declared & observed else ""


def _gpu_models(name: str) -> set[tuple[str, ...]]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return {match.groups() for word in words if (match := _MODEL.fullmatch(word))}


def _find_small_nvlink_domain(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Yields that no NVLink domain is as large as declared, where it spans nodes and every node is labelled with it."""
    cliques = [node.labels.get(_CLIQUE, "") for node in nodes]
    declared = pool.nvlink_domain or 0
    if declared > pool.gpus_per_node and cliques and all(cliques) and not pool.autoscaled:
        largest = max(Counter(cliques).values()) * pool.gpus_per_node
        if largest < declared:
            yield _drift(Drifted.NVLINK_DOMAIN, declared, largest, [])


def _drift(field_: Drifted, declared: object, observed: object, nodes: Sequence[str]) -> Drift:
    return Drift(field=field_, declared=str(declared), observed=str(observed)[:_MAX_TEXT], nodes=_first_names(nodes))


def _first_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:MAX_NODE_NAMES])
