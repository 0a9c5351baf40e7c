"""The nodes of a cluster as provider-kubernetes mirrors them, and the facts of each pool that follow from them.

An ObservedObjectCollection keeps one Object for each node that its selector matches. It lists at each poll, and a list
that fails changes nothing, so that its Objects are stale as those of any Object that is Synced=False.

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
from dataclasses import dataclass, replace
from enum import Enum

from function.contract import Composed
from function.domain.environment import (
    MAX_NODE_NAMES,
    Drift,
    Drifted,
    Environment,
    Observe,
    Pool,
    PoolFacts,
    Unfit,
    Unusable,
)
from function.kube import quantity
from function.kube.manifests import JSON, Manifest, condition, flag, is_deleting, listing, mapping, strings, text
from function.kube.names import MANAGED_BY, build_name
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE, Taint
from function.reasons import HardwareAsDeclared
from function.remote.object_writer import API_VERSION, COLLECTION_KIND, ObjectWriter
from function.remote.observed_object import ObservedObject, State, read_object

# The CRD of the kind. If it is missing, Crossplane can apply nothing of an environment that composes a collection.
DEFINITION = "observedobjectcollections.kubernetes.m.crossplane.io"
MEMBERSHIP = "kubernetes.crossplane.io/owned-by-collection"  # the label that the provider sets on the Objects
NODES = "nodes"
_NAME_LIMIT = 55  # the provider appends eight characters for its Objects' names, which may have 63

# Each node is some 20 kB of every call, and wakes its environment at every poll (docs/nodes.md).
MAX_AUTO_NODES = 64
_ANSWERED = frozenset({State.PRESENT, State.UNSEEN})

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
_MEMORY, _COUNT = "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
_CLIQUE, _MIG = "nvidia.com/gpu.clique", "nvidia.com/mig.strategy"
_MIB = 2**20
_MAX_DIGITS = 12  # of a number in a label
_MEMORY_PERCENT = 110  # allowed of declared memory, in percent of the observed
_MAX_ROWS = 8  # reasons of unusable nodes; further ones are counted with the last
_MAX_TEXT = 120  # characters of a value that a node has
# A GPU's model in a product or type: h100, l40s, gb200, mi300x.
_MODEL = re.compile(r"([a-z]{1,2})([0-9]{1,4})[a-z]?")


class Unobserved(Enum):
    """Why nodes are not observed; the value is the message."""

    NEVER = "spec.hardware.observe is Never: pools are taken as declared"
    IN_FILE = "Nodes are not observed for files: pools are taken as declared"
    NO_POOLS = (
        "There is no pool whose nodes could be observed; with spec.hardware.observe Always, "
        "`kubectl modelplane capacity --suggest` prints pools for the nodes that exist"
    )
    INVALID_POOLS = "No pool is valid, see PoolsValid; what is known of the nodes is kept until then"
    NO_LABELS = (
        "The pools have no label in common to find their nodes by: set spec.hardware.selector, or spec.hardware.observe"
    )
    TOO_MANY = (
        f"The pools have more than {MAX_AUTO_NODES} nodes, which Auto does not observe: see docs/nodes.md for what "
        "that costs, and set spec.hardware.observe to Always or Never"
    )
    NO_KIND = (
        "The control plane does not serve ObservedObjectCollection: apply install/activation.yaml, or set "
        "spec.hardware.observe to Never"
    )


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
    labelled_gpus: int | None  # None, as of the memory: no label has a number of them
    product: str  # of its GPUs; empty: no label has it
    memory_per_gpu: int | None  # bytes

    def belongs_to(self, pool: Pool) -> bool:
        """Tells whether the node has the labels of a pool; a pool without labels has the nodes that offer its GPUs."""
        if not pool.labels:
            return pool.gpu_resource in self.allocatable
        return all(self.labels.get(key) == value for key, value in pool.labels)

    def count_gpus(self, resource: str) -> int | None:
        """Returns the number of GPUs: from its label, else what is allocatable."""
        return self.allocatable.get(resource) if self.labelled_gpus is None else self.labelled_gpus


def parse_node(manifest: Manifest) -> Node:
    labels, allocatable = strings(manifest, "metadata.labels"), mapping(manifest, "status.allocatable")
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


def _untolerated_taints(node: Node, pool: Pool) -> list[Taint]:
    others = (taint for taint in node.taints if taint.key != pool.gpu_resource)
    return [taint for taint in others if not any(_tolerates(declared, taint) for declared in pool.taints)]


def _tolerates(declared: Manifest, taint: Taint) -> bool:
    value, effect = text(declared, "value"), text(declared, "effect")
    return declared.get("key") == taint.key and value in {"", taint.value} and effect in {"", taint.effect}


def summarize_pools(environment: Environment, nodes: Iterable[Node]) -> dict[str, PoolFacts]:
    """Returns the facts of every pool by name; the order of the nodes changes nothing."""
    listed = sorted(nodes, key=lambda node: node.name)
    # A node counts for the first pool whose labels it has, and is shared with the others.
    pools_of = [(node, [pool.name for pool in environment.pools if node.belongs_to(pool)]) for node in listed]
    summaries: dict[str, PoolFacts] = {}
    for pool in environment.pools:
        own = [node for node, names in pools_of if names[:1] == [pool.name]]
        shared = [(node, names[0]) for node, names in pools_of if pool.name in names[1:]]
        nearby = listed
        if pool.autoscaled:
            nearby = [node for node, names in pools_of if not names and pool.gpu_resource in node.allocatable]
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
        Unusable(reason=r, detail=detail[:_MAX_TEXT], count=len(names), nodes=tuple(sorted(names)[:MAX_NODE_NAMES]))
        for (r, detail), names in shown
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


def _find_contradictions(pool: Pool, nodes: Sequence[Node], shared: Sequence[tuple[Node, str]]) -> Iterable[Drift]:
    """Yields one row for each declared field that nodes contradict, with the worst value, and for each other pool."""
    for owner in sorted({name for _, name in shared}):
        overlap = [node.name for node, name in shared if name == owner]
        yield _drift(Drifted.OVERLAP, "nodes of its own", f"pool {owner}", overlap)
    labelled = {n.name: n.labelled_gpus for n in nodes if n.labelled_gpus is not None}
    fewer = {name: count for name, count in labelled.items() if count < pool.gpus_per_node}
    yield from _find_lowest(Drifted.GPUS_PER_NODE, pool.gpus_per_node, fewer)
    memory = pool.memory_per_gpu or 0
    less = {n.name: m // _MIB for n in nodes if (m := n.memory_per_gpu) and memory * 100 > m * _MEMORY_PERCENT}
    yield from _find_lowest(Drifted.MEMORY_PER_GPU, f"{memory // _MIB}Mi", less, "Mi")
    products = {n.name: n.product for n in nodes if _are_other_models(pool.accelerator_type, n.product)}
    yield from _find_lowest(Drifted.ACCELERATOR_TYPE, pool.accelerator_type, products)
    cliques, domain = [node.labels.get(_CLIQUE, "") for node in nodes], pool.nvlink_domain or 0
    # A domain within a node needs no clique, and an autoscaler may add the nodes that it lacks.
    if domain > pool.gpus_per_node and cliques and all(cliques) and not pool.autoscaled:
        largest = max(Counter(cliques).values()) * pool.gpus_per_node
        if largest < domain:
            yield _drift(Drifted.NVLINK_DOMAIN, domain, largest, [])
    on_all = set.intersection(*({str(t) for t in _untolerated_taints(n, pool)} for n in nodes)) if nodes else set()
    for taint in sorted(on_all)[:1]:
        yield _drift(Drifted.TAINTS, "not among them", taint, [n.name for n in nodes])
    strategies = {n.name: strategy for n in nodes if (strategy := n.labels.get(_MIG, "")) not in ("", "none")}
    yield from _find_lowest(Drifted.MIG, "none", strategies)


def _find_lowest(
    drifted: Drifted, declared: object, values: Mapping[str, int] | Mapping[str, str], unit: str = ""
) -> Iterable[Drift]:
    """Yields the lowest of the contradicting values by node, where there are any."""
    if values:
        lowest = min(values.values())
        yield _drift(drifted, declared, f"{lowest}{unit}", [name for name, value in values.items() if value == lowest])


def _are_other_models(accelerator_type: str, product: str) -> bool:
    """Tells whether a product names another GPU model than an accelerator type; a name without a model never does."""
    declared, observed = _gpu_models(accelerator_type), _gpu_models(product)
    return bool(declared and observed and not declared & observed)


def _gpu_models(name: str) -> set[tuple[str, ...]]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return {match.groups() for word in words if (match := _MODEL.fullmatch(word))}


def _drift(field_: Drifted, declared: object, observed: object, nodes: Sequence[str]) -> Drift:
    first = tuple(sorted(nodes)[:MAX_NODE_NAMES])
    return Drift(field=field_, declared=str(declared), observed=str(observed)[:_MAX_TEXT], nodes=first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One Object of a collection."""

    name: str
    owners: frozenset[str]  # uids
    deleting: bool
    expected_name: str  # of the node
    remote: ObservedObject  # without its manifest
    node: Node | None  # as last seen; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """The nodes of an environment, or why they are not known now. In that case the facts of before are kept."""

    reason: HardwareAsDeclared | None = None  # None: `nodes` is what the cluster has now
    unobserved: Unobserved | None = None  # set with reason NOT_OBSERVED
    message: str = ""  # of the provider
    nodes: tuple[Node, ...] = ()


def parse_member(manifest: Manifest) -> Member:
    remote = read_object(manifest)
    return Member(
        name=text(manifest, "metadata.name"),
        owners=frozenset(text(owner, "uid") for owner in listing(manifest, "metadata.ownerReferences")),
        deleting=is_deleting(manifest),
        expected_name=text(manifest, "spec.forProvider.manifest.metadata.name"),
        remote=replace(remote, manifest={}),
        node=parse_node(remote.manifest) if remote.seen else None,
    )


def name_collection(environment: str) -> str:
    return build_name(f"{environment}-{NODES}", environment, "", NODES, limit=_NAME_LIMIT)


def build_collection(writer: ObjectWriter, selector: Manifest) -> Composed:
    """Returns the collection of the nodes that a LabelSelector matches. Nothing waits for it to become ready."""
    manifest: Manifest = {
        "apiVersion": API_VERSION,
        "kind": COLLECTION_KIND,
        "metadata": {"name": name_collection(writer.owner), "namespace": writer.namespace, "labels": {**MANAGED_BY}},
        "spec": {
            "observeObjects": {"apiVersion": "v1", "kind": "Node", "selector": selector},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": writer.provider_config},
        },
    }
    return Composed(manifest=manifest, ready=True)


def select_nodes(environment: Environment, collection: Manifest | None) -> tuple[Manifest, Unobserved | None]:
    """Returns a LabelSelector of the nodes to observe, which is empty for all nodes, or why none are observed.

    A selector that follows from labels stays as in the collection while a pool is invalid, whose labels are unknown.
    """
    if environment.observe is Observe.NEVER:
        return {}, Unobserved.NEVER
    if not environment.uid:
        return {}, Unobserved.IN_FILE
    always = environment.observe is Observe.ALWAYS
    if not always and sum(pool.max_nodes for pool in environment.pools) > MAX_AUTO_NODES:
        return {}, Unobserved.TOO_MANY
    if environment.node_selector is None and environment.broken_pools and collection is not None:
        return mapping(collection, "spec.observeObjects.selector"), None
    selector = environment.node_selector or _derive_selector(environment.pools)
    if selector is None and not always:
        return {}, Unobserved.NO_LABELS if environment.pools else Unobserved.NO_POOLS
    return selector or {}, None


def _derive_selector(pools: Iterable[Pool]) -> Manifest | None:
    """Returns the labels that all pools share, else the first key that all have, with its values."""
    labels_of_pools = [dict(pool.labels) for pool in pools] or [{}]
    shared = set.intersection(*(set(labels.items()) for labels in labels_of_pools))
    if shared:
        return {"matchLabels": dict[str, JSON](sorted(shared))}
    keys = sorted(set.intersection(*(set(labels) for labels in labels_of_pools)))
    if not keys:
        return None
    values: list[JSON] = [*sorted({labels[keys[0]] for labels in labels_of_pools})]
    return {"matchExpressions": [{"key": keys[0], "operator": "In", "values": values}]}


def observe_nodes(collection: Manifest, members: Iterable[Member] | None) -> NodeObservation:
    """Returns the nodes of a collection; `members` is None while they are not answered."""
    listed = read_object(collection)
    if listed.state not in _ANSWERED:
        return _build_failure([listed])
    if members is None or not mapping(collection, "status.membershipLabel"):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING)
    uid = text(collection, "metadata.uid")
    # The Object of a deleted node stays until the next poll.
    current = [m for m in members if uid in m.owners and not m.deleting and m.remote.state is not State.ABSENT]
    current.sort(key=lambda member: member.name)
    failed = [m.remote for m in current if m.remote.state not in _ANSWERED]
    if failed:
        return _build_failure(failed)
    nodes = [m.node for m in current if m.node and m.node.name == m.expected_name and m.remote.present]
    if len(nodes) < len(current):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING)
    return NodeObservation(nodes=tuple(nodes))


def _build_failure(failed: Sequence[ObservedObject]) -> NodeObservation:
    """Returns that nodes cannot be read; what a user can correct comes first."""
    forbidden = [one for one in failed if one.state is State.REJECTED and "forbidden" in one.message.lower()]
    reason = HardwareAsDeclared.FORBIDDEN if forbidden else HardwareAsDeclared.UNREACHABLE
    return NodeObservation(reason=reason, message=(forbidden or failed)[0].message)
