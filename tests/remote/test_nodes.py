"""The collection of an environment's nodes, whether a node is usable, and the facts and drift of its pools."""

from dataclasses import dataclass
from typing import Any

import pytest

from function.domain.environment import (
    Drift,
    DriftField,
    Environment,
    Observe,
    Pool,
    PoolFacts,
    Unusable,
    UnusableReason,
)
from function.kube.manifests import Manifest
from function.reasons import HardwareAsDeclared
from function.remote.node_collection import (
    Unobserved,
    build_collection,
    name_collection,
    observe_nodes,
    parse_member,
    select_nodes,
)
from function.remote.nodes import find_unusable_reason, parse_node, summarize_pools
from function.remote.object_writer import ObjectWriter
from tests.support.nodes import (
    DGX_H100,
    EKS_A100,
    GKE_L4,
    H100,
    POOL,
    collection,
    environment,
    member,
    node,
    pool,
    taint,
)

_MEMBER = len("-0123456")


@pytest.mark.parametrize("environment", ["east", "e" * 253, "a.b" * 80])
def test_collection_name_leaves_room_for_provider_suffix(environment: str) -> None:
    """The provider's kinds have names of at most 63 characters, and so have the values of labels."""
    assert len(name_collection(environment)) + _MEMBER <= 63


def test_long_collection_names_stay_distinct() -> None:
    assert name_collection("e" * 100) != name_collection("e" * 101)


def test_builds_collection_for_selector() -> None:
    writer = ObjectWriter(owner="h200-east", namespace="team", provider_config="east", watch=True, observed={})
    selector: Manifest = {"matchLabels": {"modelplane.ai/pool": "h200"}}
    made = build_collection(writer, selector)
    assert made.ready, "no environment waits for it"
    assert made.manifest == {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ObservedObjectCollection",
        "metadata": {
            # As tests/golden/InferenceEnvironment has it: it never changes.
            "name": "h200-east-nodes-b514667e",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        },
        "spec": {
            "observeObjects": {"apiVersion": "v1", "kind": "Node", "selector": selector},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
        },
    }


WIDE = pool("wide", max_nodes=64)
CHOSEN: Manifest = {"matchLabels": {"gpu": "yes"}}


@dataclass(frozen=True)
class Selected:
    id: str
    reason: str
    environment: Environment
    want: Manifest | Unobserved


SELECTED = (
    Selected("one-pool", "all labels of the only pool", environment(pool()), {"matchLabels": {POOL: "h100"}}),
    Selected("shared", "what all pools share",
             environment(pool(labels=(("gpu", "yes"), ("x", "1"))), pool("b", labels=(("gpu", "yes"), ("x", "2")))),
             {"matchLabels": {"gpu": "yes"}}),
    Selected("key", "else a label that all have",
             environment(pool("b"), pool("a")),
             {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["a", "b"]}]}),
    Selected("nothing-in-common", "no label is every pool's", environment(pool(), pool("b", labels=(("x", "1"),))),
             Unobserved.NO_LABELS),
    Selected("no-labels", "a pool without labels has none in common", environment(pool(labels=())),
             Unobserved.NO_LABELS),
    Selected("given", "what is said counts",
             environment(pool(labels=()), node_selector=CHOSEN), CHOSEN),
    Selected("never", "observation is off", environment(observe=Observe.NEVER, node_selector=CHOSEN), Unobserved.NEVER),
    Selected("file", "who stands in a file has no cluster to ask", environment(uid=""), Unobserved.IN_FILE),
    Selected("no-pools", "there is nothing to compare", Environment(name="east", uid="1"), Unobserved.NO_POOLS),
    Selected("no-pools-always", "who has no pool yet may look what there is",
             Environment(name="east", uid="1", observe=Observe.ALWAYS), {}),
    Selected("64", "Auto looks at 64", environment(WIDE), {"matchLabels": {POOL: "wide"}}),
    Selected("65", "and not at 65", environment(WIDE, pool(max_nodes=1)), Unobserved.TOO_MANY),
    Selected("always", "unless the user asks for it", environment(WIDE, WIDE, observe=Observe.ALWAYS),
             {"matchLabels": {POOL: "wide"}}),
    Selected("always-all", "then also at every node", environment(pool(labels=()), observe=Observe.ALWAYS),
             {}),
)  # fmt: skip


@pytest.mark.parametrize("case", SELECTED, ids=lambda c: c.id)
def test_selection(case: Selected) -> None:
    assert select_nodes(case.environment, None) == case.want, case.reason


FORBIDDEN_LIST = (
    "error fetching objects for GVK /v1, Kind=NodeList and options {modelplane.ai/pool=h100    0  <nil> <nil>}: nodes "
    'is forbidden: User "modelplane" cannot list resource "nodes" in API group "" at the cluster scope'
)
FORBIDDEN_PATCH = (
    'observe failed: cannot get desired state: cannot dry run SSA: nodes "gpu-1" is forbidden: User "modelplane" '
    'cannot patch resource "nodes" in API group "" at the cluster scope'
)
AWAY = 'observe failed: cannot get object: Get "https://10.0.0.1:6443": dial tcp 10.0.0.1:6443: i/o timeout'
GONE = "observe failed: external resource does not exist"


@dataclass(frozen=True)
class Seen:
    id: str
    reason: str
    collection: Manifest
    members: tuple[Manifest, ...] | None
    want: HardwareAsDeclared | None
    nodes: tuple[str, ...] = ()


SEEN = (
    Seen("not-listed", "never reconciled is not empty", collection(listed=False), (), HardwareAsDeclared.OBSERVING),
    Seen("not-answered", "Crossplane has not fetched them", collection(), None, HardwareAsDeclared.OBSERVING),
    Seen("none", "listed, and there is none", collection(), (), None),
    Seen("one", "", collection(), (member(node()),), None, ("gpu-1",)),
    Seen("unseen-member", "a node that was not read is not absent", collection(),
         (member(node()), member(node("gpu-2"), seen=False)), HardwareAsDeclared.OBSERVING),
    Seen("two-of-one-name", "two nodes whose Objects have one name: it shows another than it is for",
         collection(), (member(node(), meant="gpu-7"),), HardwareAsDeclared.OBSERVING),
    Seen("gone", "deleted since the list", collection(), (member(node()), member(node("gpu-2"), synced=GONE)), None,
         ("gpu-1",)),
    Seen("leaving", "the list no longer has it", collection(), (member(node(), leaving=True),), None),
    Seen("of-another", "another collection of that name had it", collection(), (member(node(), owner="other"),),
         None),
    Seen("forbidden", "the kubeconfig may not list", collection(synced=FORBIDDEN_LIST), (member(node()),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-at-first", "nor could it ever", collection(listed=False, synced=FORBIDDEN_LIST), (),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-patch", "it may list and not patch", collection(), (member(node(), synced=FORBIDDEN_PATCH),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-first", "the problem that a user can correct comes first", collection(),
         (member(node("a"), synced=AWAY), member(node("b"), synced=FORBIDDEN_PATCH)), HardwareAsDeclared.FORBIDDEN),
    Seen("away", "the past is no present", collection(synced=AWAY), (member(node()),), HardwareAsDeclared.UNREACHABLE),
    Seen("member-away", "nor is one member's", collection(), (member(node(), synced=AWAY), member(node("gpu-2"))),
         HardwareAsDeclared.UNREACHABLE),
)  # fmt: skip


@pytest.mark.parametrize("case", SEEN, ids=lambda c: c.id)
def test_sight(case: Seen) -> None:
    found = observe_nodes(case.collection, None if case.members is None else map(parse_member, case.members))
    assert (found.reason, tuple(n.name for n in found.nodes)) == (case.want, case.nodes), case.reason


@pytest.mark.parametrize("said", [FORBIDDEN_LIST, FORBIDDEN_PATCH])
def test_the_providers_words_are_kept(said: str) -> None:
    assert observe_nodes(collection(synced=said), ()).message == said


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    node: Manifest
    want: tuple[UnusableReason, str] | None
    pool: Pool = pool()


CASES = (
    Case("usable", "all that a pool of eight asks for", node(), None),
    Case("number", "a quantity may be a number", node(gpus=8), None),
    Case("milli", "and have a suffix", node(gpus="8k"), None),
    Case("deleting", "it goes, whatever else it is", node(deleting=True, ready="False"), (UnusableReason.DELETING, "")),
    Case("not-ready", "the kubelet says no", node(ready="False"), (UnusableReason.NOT_READY, "")),
    Case("silent", "the kubelet says nothing", node(ready="Unknown", cordoned=True), (UnusableReason.NOT_READY, "")),
    Case("cordoned", "kubectl cordon", node(cordoned=True), (UnusableReason.CORDONED, "")),
    Case(
        "cordoned-with-its-taint",
        "Kubernetes taints what is cordoned; one reason is enough",
        node(cordoned=True, taints=(taint("node.kubernetes.io/unschedulable"),)),
        (UnusableReason.CORDONED, ""),
    ),
    Case(
        "starting",
        "taints with which a node comes up go by themselves; Ready tells",
        node(
            taints=(
                taint("node.kubernetes.io/not-ready"),
                taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
            )
        ),
        None,
    ),
    Case("gpu-taint", "every pod tolerates that of its GPUs", node(taints=(taint("nvidia.com/gpu", "present"),)), None),
    Case("preferred", "PreferNoSchedule keeps no pod away", node(taints=(taint("x", "y", "PreferNoSchedule"),)), None),
    Case(
        "tainted",
        "no pod of the pool tolerates it",
        node(taints=(taint("dedicated", "ml"),)),
        (UnusableReason.TAINTED, "dedicated=ml:NoSchedule"),
    ),
    Case(
        "evicted",
        "NoExecute keeps away too, and a taint need have no value",
        node(taints=(taint("maintenance", effect="NoExecute"),)),
        (UnusableReason.TAINTED, "maintenance:NoExecute"),
    ),
    Case(
        "declared-taint",
        "what the pool declares its pods tolerate",
        node(taints=(taint("dedicated", "ml"),)),
        None,
        pool(taints=(taint("dedicated", "ml"),)),
    ),
    Case(
        "any-value",
        "a taint that is declared without a value is tolerated with any",
        node(taints=(taint("dedicated", "ml"),)),
        None,
        pool(taints=(taint("dedicated"),)),
    ),
    Case(
        "other-effect",
        "a toleration is for one effect",
        node(taints=(taint("dedicated", "ml", "NoExecute"),)),
        (UnusableReason.TAINTED, "dedicated=ml:NoExecute"),
        pool(taints=(taint("dedicated", "ml"),)),
    ),
    Case("installing", "its driver is being installed", node(gpus=None), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("nonsense", "what is no quantity is none", node(gpus="many"), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("truth", "nor is a truth value", node(gpus=True), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("seven", "of no use for eight", node(gpus="7"), (UnusableReason.TOO_FEW_GPUS, "7 of 8 nvidia.com/gpu")),
    Case("seven-for-four", "though for four", node(gpus="7"), None, pool(gpus_per_node=4)),
    Case(
        "other-resource",
        "GPUs have the name that the pool gives them",
        node(gpus="8", resource="amd.com/gpu"),
        None,
        pool(gpu_resource="amd.com/gpu"),
    ),
    Case("gke", "GKE taints its GPU nodes", node(labels=GKE_L4, gpus="2", taints=(taint("nvidia.com/gpu", "present"),)),
         None, pool(gpus_per_node=2)),
    Case("eks", "EKS taints nothing", node(labels=EKS_A100), None),
    Case("dgx", "nor does a DGX", node(labels=DGX_H100), None),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_unusable_reason(case: Case) -> None:
    assert find_unusable_reason(parse_node(case.node), case.pool) == case.want, case.reason


def test_parses_node_with_missing_or_malformed_fields() -> None:
    """What a cluster wrote is never trusted to have a shape."""
    empty = parse_node({"spec": {"taints": "none"}, "status": {"allocatable": [], "conditions": 7}})
    assert find_unusable_reason(empty, pool()) == (UnusableReason.NOT_READY, "")


GIB, MIB = 2**30, 2**20
ONE = pool(max_nodes=1)


def facts(*nodes: Manifest, of: Pool = ONE) -> PoolFacts:
    """Return the facts of a pool."""
    return summarize_pools(environment(of), map(parse_node, nodes))[of.name]


def labelled(**labels: str) -> Manifest:
    """Return a node of the pool with H100s, whose labels are changed; an empty one is taken away."""
    named = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    return node(labels={key: value for key, value in {POOL: "h100", **H100, **named}.items() if value})


def sliced() -> Manifest:
    """Returns a node with eight GPUs in sixteen slices, as the GPU operator labels and taints it."""
    return node(
        labels={POOL: "h100", **H100, "nvidia.com/mig.strategy": "mixed"},
        resource="nvidia.com/mig-1g.10gb",
        gpus="16",
        taints=(taint("nvidia.com/gpu", "present"),),
    )


def drift(field: DriftField, declared: str, observed: str, *nodes: str) -> tuple[Drift, ...]:
    return (Drift(field=field, declared=declared, observed=observed, nodes=nodes),)


@dataclass(frozen=True)
class Drifts:
    id: str
    reason: str
    pool: Pool
    node: Manifest
    want: tuple[Drift, ...] = ()


def declared(memory: int | None = None, type_: str = "", **more: Any) -> Pool:
    return pool(**{"max_nodes": 1, "memory_per_gpu": memory, "accelerator_type": type_} | more)


SLICE = "nvidia.com/mig-1g.10gb"
DRIFTS = (
    Drifts("all", "an H100 of 80Gi reports 81559 MiB", declared(80 * GIB, "nvidia-h100-80gb"), labelled()),
    Drifts("l4", "an L4 of 24Gi reports 23034 MiB", declared(24 * GIB, "nvidia-l4"),
         labelled(gpu_product="NVIDIA-L4", gpu_memory="23034")),
    Drifts("tenth", "a tenth more is allowed: 1,000 MiB for 1,100", declared(1100 * MIB), labelled(gpu_memory="1000")),
    Drifts("more-than-a-tenth", "and no more", declared(1101 * MIB), labelled(gpu_memory="1000"),
         drift(DriftField.MEMORY_PER_GPU, "1101Mi", "1000Mi", "gpu-1")),
    Drifts("more-than-declared", "more than declared contradicts nothing", declared(40 * GIB), labelled()),
    Drifts("no-labels", "who labels nothing contradicts nothing", declared(800 * GIB, "nvidia-b200"), node()),
    Drifts("no-number", "a label that is no number says nothing", declared(80 * GIB), labelled(gpu_memory="much")),
    Drifts("long-number", "nor one that goes on and on", declared(80 * GIB), labelled(gpu_memory="1" * 60)),
    Drifts("other-model", "the product is of another model", declared(None, "nvidia-h200-141gb"), labelled(),
         drift(DriftField.ACCELERATOR_TYPE, "nvidia-h200-141gb", "NVIDIA-H100-80GB-HBM3", "gpu-1")),
    Drifts("name-of-ones-own", "a type that names no model is a name", declared(None, "frontier"), labelled()),
    Drifts("amd", "AMD's labeller has a label of its own", declared(None, "amd-mi300x"),
         node(labels={POOL: "h100", "amd.com/gpu.product-name": "AMD_Instinct_MI325X"}),
         drift(DriftField.ACCELERATOR_TYPE, "amd-mi300x", "AMD_Instinct_MI325X", "gpu-1")),
    Drifts("fewer-gpus", "a node that has four has no eight", declared(),
         labelled(gpu_count="4"), drift(DriftField.GPUS_PER_NODE, "8", "4", "gpu-1")),
    Drifts("more-gpus", "a pool may take four of eight", declared(gpus_per_node=4), labelled()),
    Drifts("mig", "GPUs in slices are no GPUs", declared(), labelled(mig_strategy="mixed"),
         drift(DriftField.MIG, "none", "mixed", "gpu-1")),
    Drifts("mig-declared", "a pool of slices has more slices than GPUs, on nodes with MIG",
         declared(40 * GIB, gpu_resource=SLICE, gpus_per_node=16), sliced()),
    Drifts("taint", "a taint on every node belongs into the pool", declared(),
         node(taints=(taint("dedicated", "ml"),)), drift(DriftField.TAINTS, "not among them", "dedicated=ml:NoSchedule",
                                                         "gpu-1")),
    Drifts("domain", "no NVLink domain has 16 GPUs where there is one node", declared(nvlink_domain=16),
         labelled(gpu_clique="fabric.1"), drift(DriftField.NVLINK_DOMAIN, "16", "8")),
    Drifts("domain-unknown", "no label says which domain a node is in", declared(nvlink_domain=72), labelled()),
    Drifts("domain-of-a-node", "cliques do not identify a domain within a node", declared(nvlink_domain=8),
         labelled(gpu_clique="fabric.1")),
)  # fmt: skip


@pytest.mark.parametrize("case", DRIFTS, ids=lambda c: c.id)
def test_drift(case: Drifts) -> None:
    assert facts(case.node, of=case.pool).drift == case.want, case.reason


def test_facts_of_pool_with_two_nodes() -> None:
    """What is shown is what both are: the fewest GPUs, the least memory."""
    more = {POOL: "h100", **H100, "nvidia.com/gpu.memory": "95830", "nvidia.com/gpu.product": "NVIDIA-H100-NVL"}
    assert facts(labelled(), node("gpu-2", more), of=pool()) == PoolFacts(
        nodes=2, usable=2, gpus_per_node=8, product="NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL", memory_per_gpu=81559 * MIB
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
    assert found.unusable == (Unusable(reason=UnusableReason.CORDONED, count=5, nodes=("gpu-0", "gpu-1", "gpu-2")),)


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
    overlap = Drift(field=DriftField.OVERLAP, declared="nodes of its own", observed="pool h100", nodes=("gpu-1",))
    assert overlap in found["gold"].drift


@dataclass(frozen=True)
class Absent:
    id: str
    reason: str
    pool: Pool
    nodes: tuple[Manifest, ...]
    want: tuple[Drift, ...] = ()


ABSENT = (
    Absent("none", "no node has the label", pool("h200"), (),
           drift(DriftField.LABELS, f"{POOL}=h200", "")),
    Absent("nearest", "the nearest of those that are looked at tells the slip",
           pool("h200", labels=((POOL, "h200"), ("zone", "a"))),
           (node("gpu-1", {POOL: "h100"}), node("gpu-2", {POOL: "h100", "zone": "a"})),
           drift(DriftField.LABELS, f"{POOL}=h200, zone=a", f"{POOL}=h100", "gpu-2")),
    Absent("no-such-key", "it has not even the key", pool("h200"), (node("gpu-1", {}),),
           drift(DriftField.LABELS, f"{POOL}=h200", f"no {POOL}", "gpu-1")),
    Absent("fewer", "no autoscaler adds the third", pool(max_nodes=3), (node(), node("gpu-2")),
           drift(DriftField.NODE_COUNT, "3", "2")),
    Absent("more", "more nodes than are declared are not this pool's to use", pool(max_nodes=1),
           (node(), node("gpu-2"))),
    Absent("autoscaled", "an autoscaler adds them", pool("h200", autoscaled=True), ()),
    Absent("autoscaled-slip", "GPUs that no pool has are most likely those of the empty pool",
           pool("h200", autoscaled=True), (node("cpu", {POOL: "web"}, gpus=None), node("gpu-1", {POOL: "h100"})),
           drift(DriftField.LABELS, f"{POOL}=h200", f"{POOL}=h100", "gpu-1")),
    Absent("autoscaled-without-gpus", "nodes of other kinds are not", pool("h200", autoscaled=True),
           (node("cpu", {POOL: "web"}, gpus=None),)),
    Absent("empty", "a pool of no nodes misses none", pool("h200", max_nodes=0), ()),
    Absent("unlabelled", "a pool without labels has every node with its GPUs", pool(labels=(), max_nodes=1),
           (node("control-plane", gpus=None), node(labels=EKS_A100))),
    Absent("unlabelled-none", "and misses such a node", pool(labels=(), max_nodes=1), (node("cpu", {}, gpus=None),),
           drift(DriftField.LABELS, "nvidia.com/gpu", "", "cpu")),
)  # fmt: skip


@pytest.mark.parametrize("case", ABSENT, ids=lambda c: c.id)
def test_reports_missing_nodes(case: Absent) -> None:
    assert facts(*case.nodes, of=case.pool).drift == case.want, case.reason


def test_nodes_of_other_pools_are_no_slip() -> None:
    """A pool that was scaled to zero beside one that has nodes."""
    found = summarize_pools(environment(ONE, pool("h200", autoscaled=True)), [parse_node(node())])
    assert found["h200"].drift == ()


@dataclass(frozen=True)
class Usable:
    id: str
    reason: str
    autoscaled: bool
    seen: tuple[int, int] | None  # nodes, of which usable
    want: int  # of four declared


USABLE = (
    Usable("unseen", "nodes are not observed", False, None, 4),
    Usable("all", "all are there and usable", False, (4, 4), 4),
    Usable("cordoned", "one is not usable", False, (4, 3), 3),
    Usable("fewer", "no autoscaler adds the others", False, (2, 2), 2),
    Usable("more", "a pool takes what it declares", False, (9, 9), 4),
    Usable("spare", "one of five may be lost", False, (5, 4), 4),
    Usable("none", "the labels are wrong", False, (0, 0), 0),
    Usable("at-zero", "the autoscaler adds all", True, (0, 0), 4),
    Usable("grows", "and the rest of those that are there", True, (2, 2), 4),
    Usable("grows-cordoned", "one that is there and of no use is in the way", True, (2, 1), 3),
    Usable("grows-none", "never less than none", True, (9, 0), 0),
    Usable("grows-beyond", "two of sixteen are cordoned, and the pool takes four", True, (16, 14), 4),
)


@pytest.mark.parametrize("case", USABLE, ids=lambda c: c.id)
def test_usable_nodes(case: Usable) -> None:
    seen = None if case.seen is None else PoolFacts(nodes=case.seen[0], usable=case.seen[1])
    assert pool(max_nodes=4, autoscaled=case.autoscaled, facts=seen).usable_nodes == case.want, case.reason
