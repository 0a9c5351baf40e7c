"""Which nodes of a cluster are looked at, and what they were last observed to be, as the status says it."""

from function.api.block import Block
from function.api.selectors import read_selector
from function.domain.environment import Hardware, Observe
from function.domain.nodes import Drift, Drifted, PoolFacts, Unfit, Unusable
from function.kube import quantity
from function.kube.manifests import Manifest, get, integer, listing, mapping, text


def read_hardware(block: Block) -> Hardware:
    """Return whether nodes are looked at; a selector that would admit every node is a fault."""
    chosen = block.block("selector")
    if block.has("selector") and not read_selector(chosen).requirements and not block.problems("selector"):
        block.deny("selector", "at least one of matchLabels and matchExpressions, with something in it")
    given = chosen.fields if block.sound("selector") else None
    observe = block.text("observe")
    return Hardware(observe=Observe(observe) if observe in set(Observe) else Observe.AUTO, selector=given)


def read_autoscaled(block: Block) -> bool:
    """Return whether somebody adds nodes to a pool; one that says so must say up to how many."""
    if block.flag("autoscaled", default=False) and not block.has("maxNodeCount"):
        block.deny("autoscaled", "false, or maxNodeCount beside it")
    grows = block.has("maxNodeCount") and block.integer("maxNodeCount", 0) > block.integer("nodeCount", 0)
    return block.flag("autoscaled", default=grows)


def read_facts(pool: Manifest) -> PoolFacts | None:
    """Return what a pool of an environment's status was observed to be; words that are not known are left out."""
    found = mapping(pool, "observed")
    if not found:
        return None
    return PoolFacts(
        nodes=integer(found, "nodes"),
        usable=integer(found, "usable"),
        unusable=tuple(_unusable(row) for row in listing(found, "unusable") if text(row, "reason") in set(Unfit)),
        gpus_per_node=integer(found, "gpusPerNode") or None,
        product=text(found, "product"),
        memory_per_gpu=_amount(text(found, "memoryPerGpu")),
        drift=tuple(_drift(row) for row in listing(found, "drift") if text(row, "field") in set(Drifted)),
    )


def _unusable(row: Manifest) -> Unusable:
    return Unusable(
        reason=Unfit(text(row, "reason")), detail=text(row, "detail"), count=integer(row, "count"), nodes=_names(row)
    )


def _drift(row: Manifest) -> Drift:
    return Drift(
        field=Drifted(text(row, "field")),
        declared=text(row, "declared"),
        observed=text(row, "observed"),
        nodes=_names(row),
    )


def _names(row: Manifest) -> tuple[str, ...]:
    found = get(row, "nodes")
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def _amount(said: str) -> int | None:
    try:
        return quantity.observed(said) if said else None
    except ValueError:
        return None
