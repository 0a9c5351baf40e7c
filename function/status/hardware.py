"""What is said of an environment's nodes: its status, HardwareAsDeclared, and why a pool has fewer than declared."""

from collections.abc import Mapping, Sequence

from function.contract import Condition
from function.domain.environment import Drift, Drifted, Pool, PoolFacts, Unfit, Unusable
from function.kube.manifests import JSON, Manifest, prune
from function.kube.messages import join_with_more
from function.reasons import ConditionType, HardwareAsDeclared, Status
from function.remote.collection import MOST_NODES, Sight, Unobserved

_MIB = 2**20
_UNFIT: Mapping[Unfit, str] = {
    Unfit.DELETING: "{be} being deleted",
    Unfit.NOT_READY: "{be} NotReady",
    Unfit.CORDONED: "cordoned",
    Unfit.TAINTED: "{have} taint {detail}",
    Unfit.NO_GPUS: "{have} no {detail} yet",
    Unfit.TOO_FEW_GPUS: "{have} {detail}",
}
_ONE, _MANY = {"be": "is", "have": "has"}, {"be": "are", "have": "have"}
_UNOBSERVED: Mapping[Unobserved, str] = {
    Unobserved.NEVER: "spec.hardware.observe is Never: pools are taken as declared",
    Unobserved.IN_FILE: "Nodes are not looked at from files: pools are taken as declared",
    Unobserved.NO_POOLS: (
        "There is no pool whose nodes could be looked at; with spec.hardware.observe Always, "
        "`kubectl modelplane capacity --suggest` prints pools for those that are there"
    ),
    Unobserved.INVALID_POOLS: "No pool can be read, see PoolsValid; what is known of the nodes is kept until then",
    Unobserved.NO_LABELS: (
        "The pools have no label in common to find their nodes by: set spec.hardware.selector, or spec.hardware.observe"
    ),
    Unobserved.TOO_MANY: (
        f"The pools have more than {MOST_NODES} nodes, which Auto does not look at: see docs/nodes.md for what that "
        "costs, and set spec.hardware.observe to Always or Never"
    ),
    Unobserved.NO_KIND: (
        "The control plane does not serve ObservedObjectCollection: apply install/activation.yaml, or set "
        "spec.hardware.observe to Never"
    ),
}
_UNKNOWN: Mapping[HardwareAsDeclared, str] = {
    HardwareAsDeclared.OBSERVING: "Waits for provider-kubernetes to list the nodes",
    HardwareAsDeclared.FORBIDDEN: (
        "The kubeconfig lacks rights on nodes; give it get, list and patch of install/remote-rbac.yaml: {said}"
    ),
    HardwareAsDeclared.UNREACHABLE: "The nodes are as last known: {said}",
}
_FAULTS: Mapping[Drifted, HardwareAsDeclared] = {
    Drifted.LABELS: HardwareAsDeclared.NO_NODES,
    Drifted.OVERLAP: HardwareAsDeclared.NODES_OVERLAP,
}


def observed(facts: PoolFacts) -> Manifest:
    """Return what the status says of a pool's nodes."""
    unusable: list[JSON] = [_unusable(row) for row in facts.unusable]
    drift: list[JSON] = [_drift(row) for row in facts.drift]
    return prune(
        {
            "nodes": facts.nodes,
            "usable": facts.usable,
            "unusable": unusable or None,
            "gpusPerNode": facts.gpus_per_node,
            "product": facts.product or None,
            "memoryPerGpu": None if facts.memory_per_gpu is None else f"{facts.memory_per_gpu // _MIB}Mi",
            "drift": drift or None,
        }
    )


def _unusable(row: Unusable) -> Manifest:
    nodes: list[JSON] = [*row.nodes]
    return prune({"reason": str(row.reason), "detail": row.detail or None, "count": row.count, "nodes": nodes})


def _drift(row: Drift) -> Manifest:
    nodes: list[JSON] = [*row.nodes]
    return prune({"field": str(row.field), "declared": row.declared, "observed": row.observed, "nodes": nodes or None})


def usable(pools: Sequence[Pool]) -> int | None:
    """Return the GPUs of nodes that can be used; None where nobody looks at them."""
    if all(pool.facts is None for pool in pools):
        return None
    return sum(pool.usable_nodes * pool.gpus_per_node for pool in pools)


def as_declared(pools: Sequence[Pool], sight: Sight, *, invalid: bool = False) -> Condition:
    """Return HardwareAsDeclared from the facts of the pools, where they are known to be so now.

    `pools` are the valid ones; `invalid` tells whether there are others.
    """
    status, reason, message = _judged(pools, sight, Unobserved.INVALID_POOLS if invalid else Unobserved.NO_POOLS)
    return Condition(type=ConditionType.HARDWARE_AS_DECLARED, status=status, reason=reason, message=message)


def _judged(pools: Sequence[Pool], sight: Sight, without: Unobserved) -> tuple[Status, HardwareAsDeclared, str]:
    """Return the parts of the condition; `without` is the reason where there is no valid pool."""
    why = sight.why or (None if pools or sight.reason else Unobserved.NO_POOLS)
    why = without if why is Unobserved.NO_POOLS else why
    if why is not None:
        return Status.UNKNOWN, HardwareAsDeclared.NOT_OBSERVED, _UNOBSERVED[why]
    if sight.reason is not None:
        return Status.UNKNOWN, sight.reason, _UNKNOWN[sight.reason].format(said=sight.said)
    faults = sorted((fault for pool in pools for fault in _faults(pool)), key=lambda fault: _ORDER.index(fault[0]))
    if faults:
        return Status.FALSE, faults[0][0], join_with_more([said for _, said in faults], separator="; ")
    nodes = sum(pool.facts.nodes for pool in pools if pool.facts)
    if not nodes:
        return Status.TRUE, HardwareAsDeclared.NO_NODES_YET, "No node yet; an autoscaler is to add them"
    return Status.TRUE, HardwareAsDeclared.AS_DECLARED, f"{nodes} nodes, all usable and none against its declaration"


_ORDER = tuple(HardwareAsDeclared)


def _faults(pool: Pool) -> list[tuple[HardwareAsDeclared, str]]:
    if pool.facts is None:
        return []
    drift = [(_FAULTS.get(row.field, HardwareAsDeclared.DRIFTED), drifted(pool.name, row)) for row in pool.facts.drift]
    if not pool.facts.unusable:
        return drift
    said = f"pool {pool.name}: {unusable(pool.facts.unusable)}"
    return [*drift, (HardwareAsDeclared.NODES_UNUSABLE, said)]


def drifted(pool: str, row: Drift) -> str:
    """Say where nodes contradict what their pool declares."""
    where = f" ({', '.join(row.nodes)})" if row.nodes else ""
    match row.field:
        case Drifted.LABELS:
            nearest = f"; the nearest, {row.nodes[0]}, has {row.observed}" if row.nodes else ""
            return f"pool {pool}: no node has {row.declared}{nearest}"
        case Drifted.OVERLAP:
            return f"pool {pool}: nodes are of {row.observed} as well, and count there{where}"
        case Drifted.TAINTS:
            return f"pool {pool}: its nodes have taint {row.observed}, which it does not declare{where}"
        case Drifted.NODE_COUNT:
            return f"pool {pool}: {row.declared} nodes declared, {row.observed} there"
        case _:
            return f"pool {pool}: {row.field} is declared as {row.declared}, nodes have {row.observed}{where}"


def unusable(rows: Sequence[Unusable]) -> str:
    """Say which nodes cannot be used, and why."""
    return join_with_more(list(map(_why, rows)))


def _why(row: Unusable) -> str:
    more = row.count - len(row.nodes)
    names = ", ".join(row.nodes) + (f" and {more} more" if more > 0 else "")
    said = _UNFIT[row.reason].format(detail=row.detail, **(_ONE if row.count == 1 else _MANY))
    return f"{names} {said}"


def lost(pool: Pool) -> str:
    """Say that nodes of a pool cannot be used; nothing where all can, or nobody knows."""
    if pool.facts is None or not pool.facts.unusable:
        return ""
    count = sum(row.count for row in pool.facts.unusable)
    return f"pool {pool.name} lost {count} of {pool.facts.nodes} nodes ({unusable(pool.facts.unusable)})"
