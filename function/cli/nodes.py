"""Observed nodes: where they contradict an environment, and the pools that they would be declared as."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from function.api.inference_environment import parse_environment
from function.cli.store import Store
from function.domain.environment import GPU_RESOURCE, Environment
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, prune, strings, text
from function.kube.names import GROUP
from function.remote.collection import read_member
from function.remote.node_collection import MEMBERSHIP, collection_name
from function.remote.nodes import Node, Taint
from function.remote.nodes import lasting as lasting_taints
from function.remote.pools import gpus_of, look, memory_of, product_of
from function.status.hardware import drifted, unusable

# By which clouds and people tell pools apart, first match wins.
_POOL_LABELS = (
    f"{GROUP}/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "oci.oraclecloud.com/node-pool",
    "compute.coreweave.com/node-pool",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
)
_PRODUCTS = _POOL_LABELS[-2:]
_HOSTNAME = "kubernetes.io/hostname"  # of one node alone, hence the last resort
GPU_RESOURCES = (GPU_RESOURCE, "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi")


@dataclass(frozen=True, slots=True, order=True)
class _Kind:
    """What nodes of one pool have in common."""

    pool: str
    resource: str
    gpus: int
    product: str
    taints: tuple[str, ...]


def suggest_pools(nodes: Iterable[Node]) -> list[JSON]:
    """Return pools for the nodes that have GPUs, by name."""
    every = sorted(nodes, key=lambda node: node.name)
    groups: dict[_Kind, list[Node]] = defaultdict(list)
    for node in every:
        resource = next((name for name in GPU_RESOURCES if node.offers.get(name)), "")
        if resource:
            groups[_classify(node, resource)].append(node)
    names: dict[str, int] = defaultdict(int)
    pools: list[JSON] = []
    for kind, group in sorted(groups.items()):
        stem = kind.pool or kind.product.lower() or "gpus"
        names[stem] += 1
        name = stem if names[stem] == 1 else f"{stem}-{names[stem]}"
        pools.append(_suggest_pool(name, kind, group, [node for node in every if node not in group]))
    return pools


def _classify(node: Node, resource: str) -> _Kind:
    gpus = gpus_of(node, resource) or 0
    label = next((name for name in _POOL_LABELS if node.labels.get(name)), "")
    taints = tuple(str(taint) for taint in _list_taints(node, resource))
    return _Kind(node.labels.get(label, ""), resource, gpus, product_of(node), taints)


def _list_taints(node: Node, resource: str) -> list[Taint]:
    return [taint for taint in lasting_taints(node) if taint.key != resource]


def _suggest_pool(name: str, kind: _Kind, group: Sequence[Node], others: Sequence[Node]) -> Manifest:
    taints: list[JSON] = [
        prune({"key": taint.key, "value": taint.value or None, "effect": taint.effect})
        for taint in _list_taints(group[0], kind.resource)
    ]
    memories = [memory for node in group if (memory := memory_of(node))]
    labels: Manifest = {**_choose_labels(group, others)}
    return prune(
        {
            "name": name,
            "acceleratorType": kind.product.lower() or None,
            "gpuResource": None if kind.resource == GPU_RESOURCE else kind.resource,
            "acceleratorCount": kind.gpus,
            "nodeCount": len(group),
            "labels": labels,
            "taints": taints or None,
            "capabilities": {"memoryPerGpu": f"{min(memories) // 2**20}Mi"} if memories else None,
        }
    )


def _choose_labels(group: Sequence[Node], others: Sequence[Node]) -> Mapping[str, str]:
    """Return labels that all nodes of a group have, and no other node has all of."""
    common = dict(set.intersection(*(set(node.labels.items()) for node in group)))
    further = sorted(common.keys() - set(_POOL_LABELS), key=lambda key: (key == _HOSTNAME, key))
    order = [key for key in _POOL_LABELS if key in common] + further
    for key in order:
        if not any(node.labels.get(key) == common[key] for node in others):
            return {key: common[key]}
    return {key: common[key] for key in (*order[:1], *(name for name in _PRODUCTS if name in common))}


def list_observed_nodes(store: Store, environment: Environment) -> list[Node]:
    """Return the nodes that are shown for an environment; none where it does not look at any."""
    name = collection_name(environment.name)
    members = (m for m in store.all("Object") if strings(m, "metadata.labels").get(MEMBERSHIP) == name)
    return [member.node for member in map(read_member, members) if member.node is not None]


def find_contradictions(store: Store, manifest: Manifest) -> list[Problem]:
    """Return where nodes contradict an environment as it is written, and which cannot be used; nothing of others."""
    if text(manifest, "kind") != "InferenceEnvironment":
        return []
    environment = parse_environment(manifest, BUILT_IN).value
    nodes = list_observed_nodes(store, environment)
    found: list[Problem] = []
    for name, facts in look(environment, nodes).items() if nodes else ():
        said = [drifted(name, row) for row in facts.drift]
        said += [f"pool {name}: {unusable(facts.unusable)}"] if facts.unusable else []
        found += [Problem(f"spec.nodePools[{name}]", words) for words in said]
    return found


def format_suggestions(store: Store, environments: Iterable[Environment]) -> str:
    """Return the pools that the nodes of each environment would be declared as, ready to paste."""
    said = []
    for environment in environments:
        nodes = list_observed_nodes(store, environment)
        if nodes:
            head = f"# spec of InferenceEnvironment {environment.name}, of {len(nodes)} nodes"
            said.append(f"{head}\n{yaml.safe_dump({'nodePools': suggest_pools(nodes)}, sort_keys=False)}")
        else:
            said.append(f"# InferenceEnvironment {environment.name} shows no nodes: see its HardwareAsDeclared\n")
    return "".join(said)
