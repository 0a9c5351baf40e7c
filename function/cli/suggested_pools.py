"""The pools that nodes with GPUs suggest: what `init environment --from-cluster` and `capacity --suggest` write.

A pool is suggested as models require it: with the nominal memory and the documented accelerator type of its product,
its number formats and its interconnect (domain/gpu_products.py). What no label tells is a comment.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from function.domain.environment import GPU_RESOURCE
from function.domain.gke_machines import Machine
from function.domain.gpu_products import PRODUCTS, Product
from function.kube.manifests import JSON, Manifest, mapping, prune
from function.kube.names import GROUP
from function.kube.quantity import GIB, exact
from function.kube.selectors import Taint
from function.remote.nodes import Node, exceeds_memory

# Labels by which clouds and platform teams tell pools apart; the first match counts.
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
_HOSTNAME = "kubernetes.io/hostname"  # of one node alone, so the last resort
# What follows "set" in the comment of a capability.
_HINTS = {
    "interconnect": ": pcie, nvlink, nvswitch or xgmi",
    "multiNodeCapable": " if a replica may span nodes",
    "interNodeBandwidth": ", and interNode (docs/hardware.md)",
}
GPU_RESOURCES = (GPU_RESOURCE, "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A pool as the labels of its nodes describe it."""

    pool: Manifest
    unknown: Mapping[str, str]  # capabilities that no label tells, each with an example in YAML


def suggest_pools(nodes: Iterable[Node]) -> list[Suggestion]:
    """Returns pools for the nodes that have GPUs, by name."""
    all_nodes = sorted(nodes, key=lambda node: node.name)
    # Nodes of a pool have these in common: its name, the resource, the GPUs per node, their product, the taints.
    groups: dict[tuple[str, str, int, str, tuple[str, ...]], list[Node]] = defaultdict(list)
    for node in all_nodes:
        resource = next((name for name in GPU_RESOURCES if node.allocatable.get(name)), "")
        if resource:
            pool = next((node.labels[name] for name in _POOL_LABELS if node.labels.get(name)), "")
            gpus = node.count_gpus(resource) or 0
            taints = tuple(map(str, _list_taints(node, resource)))
            groups[pool, resource, gpus, node.product, taints].append(node)
    names = Counter[str]()
    suggestions: list[Suggestion] = []
    for (pool, resource, gpus, label, _), group in sorted(groups.items()):
        stem = pool or label.lower() or "gpus"
        names[stem] += 1
        declared: list[JSON] = [
            prune({"key": taint.key, "value": taint.value or None, "effect": taint.effect})
            for taint in _list_taints(group[0], resource)
        ]
        product = PRODUCTS.get(label)
        capabilities = _find_capabilities(product, gpus, group)
        suggested: Manifest = {
            "name": stem if names[stem] == 1 else f"{stem}-{names[stem]}",
            "acceleratorType": product.accelerator_type if product else label.lower() or None,
            "gpuResource": None if resource == GPU_RESOURCE else resource,
            "acceleratorCount": gpus,
            "nodeCount": len(group),
            "labels": _choose_labels(group, [node for node in all_nodes if node not in group]),
            "taints": declared or None,
            "capabilities": capabilities or None,
        }
        unknown = {key: value for key, value in _list_examples(product).items() if key not in capabilities}
        suggestions.append(Suggestion(pool=prune(suggested), unknown=unknown))
    return suggestions


def suggest_pool_of_machine(name: str, machine: Machine) -> Suggestion:
    """Returns a pool that GKE creates from a machine type."""
    capabilities = _find_capabilities(machine.product, machine.gpus, ())
    capabilities = {"memoryPerGpu": f"{machine.product.memory}Gi", **capabilities}
    pool: Manifest = {
        "name": name.rpartition("-")[0],
        "acceleratorType": machine.accelerator_type,
        "acceleratorCount": machine.gpus,
        "nodeCount": 2,
        "gke": {"machineType": name, "zones": ["us-central1-a"]},
        "capabilities": capabilities,
    }
    unknown = {key: value for key, value in _list_examples(machine.product).items() if key not in capabilities}
    if machine.needs_sidecar:
        unknown = {
            key: value for key, value in unknown.items() if key not in {"multiNodeCapable", "interNodeBandwidth"}
        }
    return Suggestion(pool=pool, unknown=unknown)


def _find_capabilities(product: Product | None, gpus: int, nodes: Iterable[Node]) -> Manifest:
    observed = min((node.memory_per_gpu for node in nodes if node.memory_per_gpu), default=None)
    return prune(
        {
            "memoryPerGpu": None if observed is None else exact(_choose_memory(product, observed)),
            "precisionSupport": [*product.precision] if product else None,
            "interconnect": product.find_interconnect(gpus) if product else None,
            "nvlinkDomainSize": product.find_nvlink_domain(gpus) if product else None,
        }
    )


def _choose_memory(product: Product | None, observed: int) -> int:
    """Returns the nominal memory of a product, as models require it, if its GPUs report about as much."""
    nominal = product.memory * GIB if product else observed
    is_contradicted = exceeds_memory(nominal, observed) or exceeds_memory(observed, nominal)
    return observed if is_contradicted else nominal


def _list_examples(product: Product | None) -> dict[str, str]:
    """Returns the capabilities that nodes may have, each with an example in YAML."""
    examples = {
        "memoryPerGpu": f"{product.memory if product else 80}Gi",
        "precisionSupport": "[bf16, fp16]",
        "interconnect": "pcie",
        "nvlinkDomainSize": "8",
        "multiNodeCapable": "true",
        "interNodeBandwidth": "ib-400g",
    }
    if product and not product.has_nvlink:
        del examples["nvlinkDomainSize"]
    return examples


def format_pools(suggestions: Iterable[Suggestion]) -> str:
    """Returns pools as YAML. What no label tells is a comment, for users to set."""
    lines: list[str] = []
    for suggestion in suggestions:
        pool = {key: value for key, value in suggestion.pool.items() if key != "capabilities"}
        first, *others = yaml.safe_dump([pool], sort_keys=False).splitlines()
        lines.append(first)
        if "acceleratorType" not in pool:
            lines.append("  # acceleratorType: nvidia-h100-80gb  # set")
        lines += others
        known = mapping(suggestion.pool, "capabilities")
        # Without any known capability, their heading is a comment as well: an empty block is invalid.
        heading, comment = ("  capabilities:", "    # ") if known else ("  # capabilities:", "  #   ")
        lines.append(heading)
        lines += (f"    {key}: {_format_value(value)}" for key, value in known.items())
        lines += (f"{comment}{key}: {value}  # set{_HINTS.get(key, '')}" for key, value in suggestion.unknown.items())
    return "".join(f"{line}\n" for line in lines)


def _format_value(value: JSON) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _list_taints(node: Node, resource: str) -> list[Taint]:
    return [taint for taint in node.taints if taint.key != resource]


def _choose_labels(group: Sequence[Node], others: Sequence[Node]) -> Manifest:
    """Returns labels that select exactly the nodes of a group."""
    common = dict(set.intersection(*(set(node.labels.items()) for node in group)))
    further = sorted(common.keys() - set(_POOL_LABELS), key=lambda key: (key == _HOSTNAME, key))
    order = [key for key in _POOL_LABELS if key in common] + further
    alone = next((key for key in order if not any(node.labels.get(key) == common[key] for node in others)), None)
    chosen = (alone,) if alone else (*order[:1], *(name for name in _PRODUCTS if name in common))
    return {key: common[key] for key in chosen}
