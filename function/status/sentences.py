"""One sentence for each refusal, with what was wanted, what was found and what is missing.

The sentences are made of records only, and are the same whatever order the records came in. `remedy` says
what to do where one thing alone stands in the way and one change alone clears it.
"""

from collections.abc import Callable, Iterable, Mapping

from function.domain.model import Shape
from function.kube.messages import format_count
from function.kube.quantity import exact
from function.kube.selectors import Requirement
from function.reasons import Refused
from function.scheduling.verdicts import Field, Infeasible, PoolUse, Refusal, Value
from function.status.inference_environment import unusable
from function.status.quota import exceeded
from function.weights.faults import SHARED_STORAGE


def describe(miss: Infeasible) -> str:
    """Say why an environment was refused, every fault of its nearest pool."""
    profile = miss.refusals[0].profile
    text = joined(map(sentence, miss.refusals))
    return f"profile {profile}: {text}" if profile else text


def joined(sentences: Iterable[str]) -> str:
    """Return sentences as one; that of the API ends in a full stop."""
    return "; ".join(sentences).replace(f"{SHARED_STORAGE};", SHARED_STORAGE)


def sentence(refusal: Refusal) -> str:
    """Say one refusal."""
    return _SENTENCES.get(refusal.field, _requirement)(refusal)


def remedy(refusal: Refusal) -> str:
    """Say what to do, or nothing where there is more than one way."""
    if refusal.storage is not None:
        return refusal.storage.remedy(refusal.environment)
    if refusal.reason is Refused.NO_POOL_SATISFIES_REQUIREMENTS and refusal.pool and refusal.found is None:
        return f"Declare {refusal.field} on pool {refusal.pool} of InferenceEnvironment {refusal.environment}"
    if refusal.field is Field.LEDGER:
        return ""
    if refusal.quota_usage is not None and refusal.quota_usage.exceeds_limit:
        return "Ask for less, or have the platform raise its limits"
    if refusal.reason is Refused.INSUFFICIENT_CAPACITY and refusal.use and refusal.use.unusable_nodes:
        return f"See HardwareAsDeclared of InferenceEnvironment {refusal.environment}"
    return _REMEDIES.get(refusal.reason, "").format(refusal=refusal)


def _selector(refusal: Refusal) -> str:
    clauses = (f"{r} (found {'no such label' if label is None else label})" for r, label in unmet(refusal))
    return f"the {refusal.field} wants {', '.join(clauses)}"


def unmet(refusal: Refusal) -> list[tuple[Requirement, str | None]]:
    """Return what a selector wants in vain, with the value of the label that was found."""
    labels: dict[str, str] = dict(pair for pair in _items(refusal.found) if isinstance(pair, tuple))
    return [(r, labels.get(r.key)) for r in _items(refusal.wanted) if isinstance(r, Requirement)]


def _items(value: Value) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _requirement(refusal: Refusal) -> str:
    if refusal.wanted is None:
        return f"pool {refusal.pool} does not declare {refusal.field}, which {Field.VRAM} is divided by"
    wanted = show(refusal.field, refusal.wanted)
    if refusal.found is None:
        return f"pool {refusal.pool} does not declare {refusal.field}, {wanted} wanted"
    found = show(refusal.field, refusal.found)
    return f"pool {refusal.pool} has {refusal.field} {found}, {wanted} wanted{_missing(refusal)}"


def _missing(refusal: Refusal) -> str:
    wanted, found = refusal.wanted, refusal.found
    if isinstance(wanted, int) and isinstance(found, int):
        return f" ({show(refusal.field, wanted - found)} missing)"
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        return f" ({', '.join(str(item) for item in wanted if item not in found)} missing)"
    return ""


def show(field: Field, value: Value) -> str:
    """Write a value in the unit of its field."""
    match value:
        case int() if field is Field.MEMORY_PER_GPU:
            return exact(value)
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _profile(refusal: Refusal) -> str:
    return f"it is invalid: {', '.join(map(str, _items(refusal.found)))}"


def _engine_args(refusal: Refusal) -> str:
    return f"on pool {refusal.pool} {', '.join(map(str, _items(refusal.found)))}"


def _node_pools(refusal: Refusal) -> str:
    broken = _items(refusal.found)
    if not broken:
        return "it has no GPU node pools"
    return f"node pools are invalid: {', '.join(map(str, broken))}, see its condition PoolsValid"


def _multi_node(refusal: Refusal) -> str:
    return f"pool {refusal.pool} is not multiNodeCapable, {refusal.wanted} nodes wanted"


def _storage(refusal: Refusal) -> str:
    assert refusal.storage is not None
    return refusal.storage.describe_on(refusal.pool)


def _replicas(refusal: Refusal) -> str:
    shape, use = refusal.shape, refusal.use
    assert shape is not None
    assert use is not None
    replicas = refusal.wanted if isinstance(refusal.wanted, int) else 0
    wanted = f"{wish(replicas, shape.nodes, shape.gpus_per_node, exclusive_node=refusal.exclusive_node)} wanted"
    nodes = f"{format_count(use.nodes, 'node')}{_usable(use)}"
    if refusal.reason is Refused.POOL_TOO_SMALL:
        return f"pool {refusal.pool} is too small: {wanted}, the whole pool ({nodes}) holds {refusal.found}"
    by = f"by {format_count(use.placements, 'placement')} of others"
    others = (
        f"{nodes}, {use.nodes_in_use} in use {by}"
        if use.unusable_nodes
        else f"{use.nodes_in_use} of {nodes} in use {by}"
    )
    return f"pool {refusal.pool} has no room now: {wanted}, room for {refusal.found}: {others}"


def _usable(use: PoolUse) -> str:
    """Say how many of the declared nodes can be used, where these are fewer, and why."""
    if not use.unusable_nodes:
        return ""
    why = f" ({unusable(use.unusable)})" if use.unusable else ""
    return f" declared, {use.nodes - use.unusable_nodes} usable{why}"


def _ledger(refusal: Refusal) -> str:
    shape = refusal.shape
    assert shape is not None
    replicas = refusal.wanted if isinstance(refusal.wanted, int) else 0
    return f"the environment has not published yet what is free in pool {refusal.pool}: {size(replicas, shape)} wanted"


def size(replicas: int, shape: Shape) -> str:
    """Say how big so many replicas of a shape are."""
    return wish(replicas, shape.nodes, shape.gpus_per_node)


def wish(replicas: int, nodes: int, gpus: int, *, exclusive_node: bool = False) -> str:
    """Say how big so many replicas are; `exclusive_node`: and that they share no node, though they leave GPUs of it."""
    alone = ", each pod with a node to itself (ports of the node's network, or its devices)," if exclusive_node else ""
    return f"{format_count(replicas, 'replica')} of {replica(nodes, gpus)}{alone}"


def replica(nodes: int, gpus: int) -> str:
    """Say how big one replica is."""
    return f"{format_count(nodes, 'node')} x {format_count(gpus, 'GPU')}"


def _quota(refusal: Refusal) -> str:
    assert refusal.quota_usage is not None
    return f"{format_count(refusal.quota_usage.wanted, 'GPU')} wanted; {exceeded(refusal.quota_usage)}"


def _not_ready(refusal: Refusal) -> str:
    if refusal.found is None:
        return "the environment has not reported Ready yet"
    return f"the environment is not Ready: {refusal.found}"


def always(text: str) -> Callable[[object], str]:
    """Return what says the same of everything."""
    return lambda _: text


_SENTENCES: Mapping[Field, Callable[[Refusal], str]] = {
    Field.ENVIRONMENTS: always("There is no InferenceEnvironment to run on"),
    Field.DEPLOYMENT_SELECTOR: _selector,
    Field.MODEL_SELECTOR: _selector,
    Field.PROFILE_SELECTOR: _selector,
    Field.PROFILE: _profile,
    Field.VRAM: always("no replicaTopology, and the model has no spec.resources.vram"),
    Field.ENGINE_ARGS: _engine_args,
    Field.INTER_NODE: _engine_args,
    Field.TLS: _engine_args,
    Field.ENVIRONMENT: always("its spec is invalid, see its conditions"),
    Field.NODE_POOLS: _node_pools,
    Field.MULTI_NODE: _multi_node,
    Field.STORAGE: _storage,
    Field.REPLICAS: _replicas,
    Field.LEDGER: _ledger,
    Field.READY: _not_ready,
    Field.QUOTA: _quota,
}

_REMEDIES: Mapping[Refused, str] = {
    Refused.NO_ENVIRONMENTS: "Create an InferenceEnvironment",
    Refused.POOL_TOO_SMALL: ("Raise maxNodeCount of pool {refusal.pool} of InferenceEnvironment {refusal.environment}"),
    Refused.INSUFFICIENT_CAPACITY: (
        "Wait until others leave pool {refusal.pool} of InferenceEnvironment {refusal.environment}, "
        "or raise its maxNodeCount"
    ),
    Refused.QUOTA_EXCEEDED: "Delete a placement of the namespace, or have the platform raise its limits",
    Refused.ENVIRONMENT_NOT_READY: "It is placed as soon as {refusal.environment} is Ready",
}
