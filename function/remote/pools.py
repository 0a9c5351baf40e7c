"""What the nodes of an environment's pools are, and where they contradict what is declared.

A node belongs to the first pool whose labels it has; that it has another's too is that pool's fault. What is observed
never makes a match: it only contradicts, and only where somebody says something. A GPU has a little less memory than
its name promises (81559 MiB for 80Gi), so declared may be a tenth more. The order of nodes changes nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from function.domain.environment import MAX_NODE_NAMES, Drift, Drifted, Environment, Pool, PoolFacts, Unfit, Unusable
from function.remote.nodes import Node, unfit, untolerated

# NVIDIA's gpu-feature-discovery and AMD's node labeller; nobody else's are known.
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
_MEMORY, _COUNT = "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
_CLIQUE, _MIG = "nvidia.com/gpu.clique", "nvidia.com/mig.strategy"
_MIB = 2**20
# Declared memory may be so much of the observed, in percent.
_ALLOWANCE = 110
# Kinds of reasons that are kept apart; what is beyond them is counted with the last.
_ROWS = 8
_SHOWN = 120  # characters of what a node calls something
# A GPU's model in a product or type: h100, l40s, gb200, mi300x.
_MODEL = re.compile(r"([a-z]{1,2})([0-9]{1,4})[a-z]?")


def look(environment: Environment, nodes: Iterable[Node]) -> dict[str, PoolFacts]:
    """Return the facts of every pool, by its name."""
    every = sorted(nodes, key=lambda node: node.name)
    mine: dict[str, list[Node]] = defaultdict(list)
    shared: dict[str, list[tuple[Node, str]]] = defaultdict(list)
    for node in every:
        fitting = [pool.name for pool in environment.pools if node.is_of(pool)]
        for name in fitting[:1]:
            mine[name].append(node)
        for name in fitting[1:]:
            shared[name].append((node, fitting[0]))
    return {pool.name: _facts(pool, mine[pool.name], shared[pool.name], every) for pool in environment.pools}


def _facts(pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]], every: Sequence[Node]) -> PoolFacts:
    reasons = {node.name: unfit(node, pool) for node in nodes}
    usable = sum(reason is None for reason in reasons.values())
    counts = [count for node in nodes if (count := gpus_of(node, pool.gpu_resource)) is not None]
    memories = [memory for node in nodes if (memory := memory_of(node))]
    return PoolFacts(
        nodes=len(nodes),
        usable=usable,
        unusable=_unusable(reasons),
        gpus_per_node=min(counts, default=None),
        product=", ".join(sorted({name for node in nodes if (name := product_of(node))})[:MAX_NODE_NAMES])[:_SHOWN],
        memory_per_gpu=min(memories, default=None),
        drift=(*_missing(pool, nodes, shared, every), *_overlap(shared), *_contradictions(pool, nodes)),
    )


def gpus_of(node: Node, resource: str) -> int | None:
    """Return how many GPUs a node has: what it is labelled with, else what it offers."""
    labelled = node.number(_COUNT)
    return labelled if labelled is not None else node.offers.get(resource)


def product_of(node: Node) -> str:
    """Return what a node calls its GPUs; empty where nobody labels it."""
    return next((node.labels[label] for label in _PRODUCTS if node.labels.get(label)), "")


def memory_of(node: Node) -> int | None:
    """Return the memory of each GPU of a node in bytes, where it is labelled with it."""
    mebibytes = node.number(_MEMORY)
    return mebibytes * _MIB if mebibytes else None


def _unusable(reasons: Mapping[str, tuple[Unfit, str] | None]) -> tuple[Unusable, ...]:
    groups: dict[tuple[Unfit, str], list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        if reason is not None:
            groups[reason].append(name)
    rows = sorted(groups.items(), key=lambda row: (tuple(Unfit).index(row[0][0]), row[0][1]))
    kept, rest = rows[:_ROWS], [name for _, names in rows[_ROWS:] for name in names]
    if rest:
        key, names = kept[-1]
        kept[-1] = ((key[0], ""), [*names, *rest])
    return tuple(
        Unusable(reason=reason, detail=detail[:_SHOWN], count=len(names), nodes=_first(names))
        for (reason, detail), names in kept
    )


def _missing(
    pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]], every: Sequence[Node]
) -> Iterable[Drift]:
    """Report that a pool has fewer nodes than it counts on, and the nearest node where no node has its labels.

    Nodes that are shared with an earlier pool have the labels, although they do not count here.
    """
    if pool.autoscaled:
        return
    if not nodes and not shared and pool.max_nodes:
        wanted = ", ".join(f"{key}={value}" for key, value in pool.labels) or pool.gpu_resource
        near = min(every, key=lambda node: (len(_lacks(node, pool)), node.name), default=None)
        has = "" if near is None else ", ".join(_has(near, key) for key in _lacks(near, pool))
        yield Drift(
            field=Drifted.LABELS,
            declared=wanted[:_SHOWN],
            observed=has[:_SHOWN],
            nodes=() if near is None else (near.name,),
        )
    elif len(nodes) < pool.max_nodes:
        yield Drift(field=Drifted.NODE_COUNT, declared=str(pool.max_nodes), observed=str(len(nodes)))


def _lacks(node: Node, pool: Pool) -> list[str]:
    return [key for key, value in pool.labels if node.labels.get(key) != value]


def _has(node: Node, key: str) -> str:
    return f"{key}={node.labels[key]}" if key in node.labels else f"no {key}"


def _overlap(shared: Sequence[tuple[Node, str]]) -> Iterable[Drift]:
    for owner in sorted({name for _, name in shared}):
        nodes = [node.name for node, name in shared if name == owner]
        yield Drift(field=Drifted.OVERLAP, declared="nodes of its own", observed=f"pool {owner}", nodes=_first(nodes))


def _contradictions(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Return what nodes say that differs from what their pool declares, one row for each field: of the worst value."""
    fewer = {n.name: count for n in nodes if (count := n.number(_COUNT)) is not None and count < pool.gpus_per_node}
    if fewer:
        least = min(fewer.values())
        yield _drift(Drifted.GPUS_PER_NODE, pool.gpus_per_node, least, [n for n, c in fewer.items() if c == least])
    if pool.memory_per_gpu:
        less = {n.name: m for n in nodes if (m := n.number(_MEMORY)) and _exceeds(pool.memory_per_gpu, m)}
        if less:
            least = min(less.values())
            declared = f"{pool.memory_per_gpu // _MIB}Mi"
            yield _drift(Drifted.MEMORY_PER_GPU, declared, f"{least}Mi", [n for n, m in less.items() if m == least])
    yield from _others(Drifted.ACCELERATOR_TYPE, pool.accelerator_type, {n.name: _other(pool, n) for n in nodes})
    yield from _domain(pool, nodes)
    everywhere = set.intersection(*({str(t) for t in untolerated(n, pool)} for n in nodes)) if nodes else set()
    for taint in sorted(everywhere)[:1]:
        yield _drift(Drifted.TAINTS, "not among them", taint, [n.name for n in nodes])
    yield from _others(Drifted.MIG, "none", {n.name: _mig(n) for n in nodes})


def _exceeds(declared: int, mebibytes: int) -> bool:
    return declared * 100 > mebibytes * _MIB * _ALLOWANCE


def _others(field: Drifted, declared: str, found: Mapping[str, str]) -> Iterable[Drift]:
    """Return the first of the values that are others than declared."""
    for value in sorted({value for value in found.values() if value})[:1]:
        yield _drift(field, declared, value, [name for name, other in found.items() if other == value])


def _other(pool: Pool, node: Node) -> str:
    """Return the product of a node where it is of another model than the accelerator type names."""
    product = product_of(node)
    declared, found = _models(pool.accelerator_type), _models(product)
    return product if declared and found and not declared & found else ""


def _models(name: str) -> set[tuple[str, ...]]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return {match.groups() for word in words if (match := _MODEL.fullmatch(word))}


def _mig(node: Node) -> str:
    strategy = node.labels.get(_MIG, "")
    return "" if strategy == "none" else strategy


def _domain(pool: Pool, nodes: Sequence[Node]) -> Iterable[Drift]:
    """Say that no NVLink domain is as large as declared, where it spans nodes and every node says which it is in."""
    cliques = [node.labels.get(_CLIQUE, "") for node in nodes]
    if (pool.nvlink_domain or 0) > pool.gpus_per_node and cliques and all(cliques):
        largest = max(Counter(cliques).values()) * pool.gpus_per_node
        if largest < (pool.nvlink_domain or 0) and not pool.autoscaled:
            yield _drift(Drifted.NVLINK_DOMAIN, pool.nvlink_domain, largest, [])


def _drift(field: Drifted, declared: object, observed: object, nodes: Sequence[str]) -> Drift:
    return Drift(field=field, declared=str(declared), observed=str(observed)[:_SHOWN], nodes=_first(nodes))


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:MAX_NODE_NAMES])
