"""A node of a remote cluster, and whether pods of a pool could start on it.

A node can be used that is Ready, neither being deleted nor cordoned, has no taint that the pool's pods do not tolerate,
and offers at least as many GPUs as the pool has on each node. One that offers fewer is of no use as a whole: a pool is
counted in equal nodes, and a pod that wants all GPUs of one would wait for ever. A node is judged by what it says of
itself; what runs on it is not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.environment import Pool, Unfit
from function.kube import quantity
from function.kube.manifests import JSON, Manifest, condition, flag, get, listing, mapping, strings, text

# Those that keep pods away; PreferNoSchedule does not.
_REPELS = frozenset({"NoSchedule", "NoExecute"})
# What Kubernetes itself says while a node comes up or is away, and `kubectl cordon`: told by Ready and unschedulable.
_SPOKEN_FOR = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What counts of a node. `offers`: what can be allocated of each extended resource."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    offers: Mapping[str, int]
    ready: bool = True
    cordoned: bool = False
    deleting: bool = False

    def is_of(self, pool: Pool) -> bool:
        """Tell whether it has the labels of a pool; a pool without labels has the nodes that offer its GPUs."""
        if not pool.labels:
            return pool.gpu_resource in self.offers
        return all(self.labels.get(key) == value for key, value in pool.labels)

    def number(self, label: str) -> int | None:
        """Return the whole number that a label holds, if it does."""
        found = self.labels.get(label, "")
        return int(found) if found.isascii() and found.isdigit() and len(found) <= _DIGITS else None


_DIGITS = 12


def read_node(manifest: Manifest) -> Node:
    """Return what counts of a Node's manifest."""
    taints = (
        Taint(key=text(taint, "key"), value=text(taint, "value"), effect=text(taint, "effect"))
        for taint in listing(manifest, "spec.taints")
    )
    offered = ((key, _number(amount)) for key, amount in mapping(manifest, "status.allocatable").items() if "/" in key)
    return Node(
        name=text(manifest, "metadata.name"),
        labels=strings(manifest, "metadata.labels"),
        taints=tuple(sorted(taints, key=str)),
        offers={key: amount for key, amount in offered if amount is not None},
        ready=condition(manifest, "Ready").get("status") == "True",
        cordoned=flag(manifest, "spec.unschedulable"),
        deleting=get(manifest, "metadata.deletionTimestamp") is not None,
    )


def _number(amount: JSON) -> int | None:
    """Return how much of a resource there is: a number, or a quantity as text."""
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        return None
    try:
        return quantity.parse_observed(str(amount))
    except ValueError:
        return None


def lasting(node: Node) -> list[Taint]:
    """Return the taints that keep pods away from a node once it is up."""
    return [taint for taint in node.taints if taint.effect in _REPELS and taint.key not in _SPOKEN_FOR]


def untolerated(node: Node, pool: Pool) -> list[Taint]:
    """Return the taints of a node that pods of a pool do not tolerate (see `tolerations` in domain/environment.py)."""
    return [
        taint
        for taint in lasting(node)
        if taint.key != pool.gpu_resource and not any(_tolerates(own, taint) for own in pool.taints)
    ]


def _tolerates(own: Manifest, taint: Taint) -> bool:
    value, effect = text(own, "value"), text(own, "effect")
    return own.get("key") == taint.key and value in {"", taint.value} and effect in {"", taint.effect}


def unfit(node: Node, pool: Pool) -> tuple[Unfit, str] | None:
    """Return the gravest reason why pods of a pool cannot start on a node, with its detail; None where they can."""
    if node.deleting:
        return Unfit.DELETING, ""
    if not node.ready:
        return Unfit.NOT_READY, ""
    if node.cordoned:
        return Unfit.CORDONED, ""
    taints = untolerated(node, pool)
    if taints:
        return Unfit.TAINTED, str(taints[0])
    offered = node.offers.get(pool.gpu_resource)
    if offered is None:
        return Unfit.NO_GPUS, pool.gpu_resource
    if offered < pool.gpus_per_node:
        return Unfit.TOO_FEW_GPUS, f"{offered} of {pool.gpus_per_node} {pool.gpu_resource}"
    return None
