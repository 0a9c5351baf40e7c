"""What the nodes of pools are, and where they contradict what is declared."""

from dataclasses import dataclass
from typing import Any

import pytest

from function.domain.environment import Drift, Drifted, Pool, PoolFacts, Unfit, Unusable
from function.kube.manifests import Manifest
from function.remote.node_facts import parse_node, summarize_pools
from tests.support.nodes import EKS_A100, H100, POOL, environment, node, pool, taint

GIB, MIB = 2**30, 2**20
ONE = pool(max_nodes=1)


def facts(*nodes: Manifest, of: Pool = ONE) -> PoolFacts:
    """Return the facts of a pool."""
    return summarize_pools(environment(of), map(parse_node, nodes))[of.name]


def labelled(**labels: str) -> Manifest:
    """Return a node of the pool with H100s, whose labels are changed; an empty one is taken away."""
    named = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    return node(labels={key: value for key, value in {POOL: "h100", **H100, **named}.items() if value})


def drift(field: Drifted, declared: str, observed: str, *nodes: str) -> tuple[Drift, ...]:
    return (Drift(field=field, declared=declared, observed=observed, nodes=nodes),)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    pool: Pool
    node: Manifest
    want: tuple[Drift, ...] = ()


def declared(memory: int | None = None, type_: str = "", **more: Any) -> Pool:
    return pool(**{"max_nodes": 1, "memory_per_gpu": memory, "accelerator_type": type_} | more)


CASES = (
    Case("all", "an H100 of 80Gi reports 81559 MiB", declared(80 * GIB, "nvidia-h100-80gb"), labelled()),
    Case("l4", "an L4 of 24Gi reports 23034 MiB", declared(24 * GIB, "nvidia-l4"),
         labelled(gpu_product="NVIDIA-L4", gpu_memory="23034")),
    Case("tenth", "a tenth more is allowed: 1,000 MiB for 1,100", declared(1100 * MIB), labelled(gpu_memory="1000")),
    Case("more-than-a-tenth", "and no more", declared(1101 * MIB), labelled(gpu_memory="1000"),
         drift(Drifted.MEMORY_PER_GPU, "1101Mi", "1000Mi", "gpu-1")),
    Case("more-than-declared", "more than declared contradicts nothing", declared(40 * GIB), labelled()),
    Case("no-labels", "who labels nothing contradicts nothing", declared(800 * GIB, "nvidia-b200"), node()),
    Case("no-number", "a label that is no number says nothing", declared(80 * GIB), labelled(gpu_memory="much")),
    Case("long-number", "nor one that goes on and on", declared(80 * GIB), labelled(gpu_memory="1" * 60)),
    Case("other-model", "the product is of another model", declared(None, "nvidia-h200-141gb"), labelled(),
         drift(Drifted.ACCELERATOR_TYPE, "nvidia-h200-141gb", "NVIDIA-H100-80GB-HBM3", "gpu-1")),
    Case("name-of-ones-own", "a type that names no model is a name", declared(None, "frontier"), labelled()),
    Case("amd", "AMD's labeller has a label of its own", declared(None, "amd-mi300x"),
         node(labels={POOL: "h100", "amd.com/gpu.product-name": "AMD_Instinct_MI325X"}),
         drift(Drifted.ACCELERATOR_TYPE, "amd-mi300x", "AMD_Instinct_MI325X", "gpu-1")),
    Case("fewer-gpus", "a node that has four has no eight", declared(),
         labelled(gpu_count="4"), drift(Drifted.GPUS_PER_NODE, "8", "4", "gpu-1")),
    Case("more-gpus", "a pool may take four of eight", declared(gpus_per_node=4), labelled()),
    Case("mig", "GPUs in slices are no GPUs", declared(), labelled(mig_strategy="mixed"),
         drift(Drifted.MIG, "none", "mixed", "gpu-1")),
    Case("taint", "a taint on every node belongs into the pool", declared(),
         node(taints=(taint("dedicated", "ml"),)), drift(Drifted.TAINTS, "not among them", "dedicated=ml:NoSchedule",
                                                         "gpu-1")),
    Case("domain", "no NVLink domain has 16 GPUs where there is one node", declared(nvlink_domain=16),
         labelled(gpu_clique="fabric.1"), drift(Drifted.NVLINK_DOMAIN, "16", "8")),
    Case("domain-unknown", "nobody says which domain a node is in", declared(nvlink_domain=72), labelled()),
    Case("domain-of-a-node", "a domain within a node is not told by cliques", declared(nvlink_domain=8),
         labelled(gpu_clique="fabric.1")),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_drift(case: Case) -> None:
    assert facts(case.node, of=case.pool).drift == case.want, case.reason


def test_facts_of_pool_with_two_nodes() -> None:
    """What is shown is what both are: the fewest GPUs, the least memory."""
    more = {POOL: "h100", **H100, "nvidia.com/gpu.memory": "95830", "nvidia.com/gpu.product": "NVIDIA-H100-NVL"}
    assert facts(labelled(), node("gpu-2", more), of=pool()) == PoolFacts(
        nodes=2,
        usable=2,
        gpus_per_node=8,
        product="NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL",
        memory_per_gpu=81559 * MIB,
    )


def test_nvlink_domain_over_two_nodes() -> None:
    """Both say that they are of one domain, which has the 16 GPUs that are declared."""
    labels = {POOL: "h100", **H100, "nvidia.com/gpu.clique": "fabric.1"}
    assert facts(node("gpu-1", labels), node("gpu-2", labels), of=pool(nvlink_domain=16)).drift == ()


def test_counts_allocatable_gpus_without_label() -> None:
    assert facts(node(gpus="4")).gpus_per_node == 4
    assert facts(node(gpus=None)).gpus_per_node is None


def test_names_three_nodes_and_counts_the_others() -> None:
    names = [f"gpu-{number}" for number in range(5)]
    found = facts(*(node(name, cordoned=True) for name in names), of=pool(max_nodes=5))
    assert found.unusable == (Unusable(reason=Unfit.CORDONED, count=5, nodes=("gpu-0", "gpu-1", "gpu-2")),)


def test_bounds_reasons_of_unusable_nodes() -> None:
    """Each node with another taint: eight rows, the last of which counts the rest."""
    nodes = [node(f"gpu-{number:02}", taints=(taint(f"taint-{number:02}"),)) for number in range(20)]
    found = facts(*nodes, of=pool(max_nodes=20))
    assert [row.count for row in found.unusable] == [1] * 7 + [13]
    assert found.unusable[-1].detail == ""


def test_counts_shared_node_for_first_pool() -> None:
    both = {POOL: "h100", "tier": "gold"}
    gold = Pool(name="gold", gpus_per_node=8, max_nodes=1, labels=(("tier", "gold"),))
    found = summarize_pools(environment(ONE, gold), [parse_node(node(labels=both))])
    assert (found["h100"].nodes, found["gold"].nodes) == (1, 0)
    overlap = Drift(field=Drifted.OVERLAP, declared="nodes of its own", observed="pool h100", nodes=("gpu-1",))
    assert overlap in found["gold"].drift


@dataclass(frozen=True)
class Absent:
    id: str
    reason: str
    pool: Pool
    nodes: tuple[Manifest, ...]
    want: tuple[Drift, ...] = ()


ABSENT = (
    Absent("none", "nobody has the label", pool("h200"), (),
           drift(Drifted.LABELS, f"{POOL}=h200", "")),
    Absent("nearest", "the nearest of those that are looked at tells the slip",
           pool("h200", labels=((POOL, "h200"), ("zone", "a"))),
           (node("gpu-1", {POOL: "h100"}), node("gpu-2", {POOL: "h100", "zone": "a"})),
           drift(Drifted.LABELS, f"{POOL}=h200, zone=a", f"{POOL}=h100", "gpu-2")),
    Absent("no-such-key", "it has not even the key", pool("h200"), (node("gpu-1", {}),),
           drift(Drifted.LABELS, f"{POOL}=h200", f"no {POOL}", "gpu-1")),
    Absent("fewer", "nobody adds the third", pool(max_nodes=3), (node(), node("gpu-2")),
           drift(Drifted.NODE_COUNT, "3", "2")),
    Absent("more", "more nodes than are declared are not this pool's to use", pool(max_nodes=1),
           (node(), node("gpu-2"))),
    Absent("autoscaled", "somebody adds them", pool("h200", autoscaled=True), ()),
    Absent("empty", "a pool of no nodes misses none", pool("h200", max_nodes=0), ()),
    Absent("unlabelled", "a pool without labels has every node with its GPUs", pool(labels=(), max_nodes=1),
           (node("control-plane", gpus=None), node(labels=EKS_A100))),
    Absent("unlabelled-none", "and misses such a node", pool(labels=(), max_nodes=1), (node("cpu", {}, gpus=None),),
           drift(Drifted.LABELS, "nvidia.com/gpu", "", "cpu")),
)  # fmt: skip


@pytest.mark.parametrize("case", ABSENT, ids=lambda c: c.id)
def test_reports_missing_nodes(case: Absent) -> None:
    assert facts(*case.nodes, of=case.pool).drift == case.want, case.reason


@dataclass(frozen=True)
class Usable:
    id: str
    reason: str
    autoscaled: bool
    seen: tuple[int, int] | None  # nodes, of which usable
    want: int  # of four declared


USABLE = (
    Usable("unseen", "nobody looks", False, None, 4),
    Usable("all", "all are there and usable", False, (4, 4), 4),
    Usable("cordoned", "one is not usable", False, (4, 3), 3),
    Usable("fewer", "nobody adds the others", False, (2, 2), 2),
    Usable("more", "a pool takes what it declares", False, (9, 9), 4),
    Usable("spare", "one of five may be lost", False, (5, 4), 4),
    Usable("none", "the labels are wrong", False, (0, 0), 0),
    Usable("at-zero", "the autoscaler adds all", True, (0, 0), 4),
    Usable("grows", "and the rest of those that are there", True, (2, 2), 4),
    Usable("grows-cordoned", "one that is there and of no use is in the way", True, (2, 1), 3),
    Usable("grows-none", "never less than none", True, (9, 0), 0),
)


@pytest.mark.parametrize("case", USABLE, ids=lambda c: c.id)
def test_usable_nodes(case: Usable) -> None:
    seen = None if case.seen is None else PoolFacts(nodes=case.seen[0], usable=case.seen[1])
    assert pool(max_nodes=4, autoscaled=case.autoscaled, facts=seen).usable_nodes == case.want, case.reason
