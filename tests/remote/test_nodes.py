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
    assert made.ready, "a collection is always ready, because no environment waits for it"
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
    Selected("one-pool",
        "a single pool is selected by all of its labels",
        environment(pool()), {"matchLabels": {POOL: "h100"}}),
    Selected("shared", "several pools are selected by the labels that they share",
             environment(pool(labels=(("gpu", "yes"), ("x", "1"))), pool("b", labels=(("gpu", "yes"), ("x", "2")))),
             {"matchLabels": {"gpu": "yes"}}),
    Selected("key", "pools without a common value are selected by a label key that all of them have",
             environment(pool("b"), pool("a")),
             {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["a", "b"]}]}),
    Selected("nothing-in-common",
        "pools without a common label key cannot be selected",
        environment(pool(), pool("b", labels=(("x", "1"),))),
             Unobserved.NO_LABELS),
    Selected("no-labels", "a pool without labels shares no label with other pools", environment(pool(labels=())),
             Unobserved.NO_LABELS),
    Selected("given", "the selector of the environment takes precedence",
             environment(pool(labels=()), node_selector=CHOSEN), CHOSEN),
    Selected("never",
        "no nodes are selected when observation is off",
        environment(observe=Observe.NEVER, node_selector=CHOSEN), Unobserved.NEVER),
    Selected("file",
        "an environment from a file has no cluster whose nodes can be observed",
        environment(uid=""), Unobserved.IN_FILE),
    Selected("no-pools",
        "without pools, there is nothing to compare the nodes with",
        Environment(name="east", uid="1"), Unobserved.NO_POOLS),
    Selected("no-pools-always", "observe: Always selects all nodes before any pool is declared",
             Environment(name="east", uid="1", observe=Observe.ALWAYS), {}),
    Selected("64", "observe: Auto selects up to 64 nodes", environment(WIDE), {"matchLabels": {POOL: "wide"}}),
    Selected("65", "observe: Auto does not select 65 nodes", environment(WIDE, pool(max_nodes=1)), Unobserved.TOO_MANY),
    Selected("always", "observe: Always selects any number of nodes", environment(WIDE, WIDE, observe=Observe.ALWAYS),
             {"matchLabels": {POOL: "wide"}}),
    Selected("always-all",
        "observe: Always selects all nodes if the pools share no label",
        environment(pool(labels=()), observe=Observe.ALWAYS),
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
    Seen("not-listed",
        "a collection that was never reconciled is not known to be empty",
        collection(listed=False), (), HardwareAsDeclared.OBSERVING),
    Seen("not-answered",
        "Crossplane has not fetched the members of the collection yet",
        collection(), None, HardwareAsDeclared.OBSERVING),
    Seen("none", "a reconciled collection without members shows that there are no nodes", collection(), (), None),
    Seen("one", "", collection(), (member(node()),), None, ("gpu-1",)),
    Seen("unseen-member", "a member without an observed node does not show that the node is absent", collection(),
         (member(node()), member(node("gpu-2"), seen=False)), HardwareAsDeclared.OBSERVING),
    Seen("two-of-one-name", "a member that shows another node than its own does not count as observed",
         collection(), (member(node(), meant="gpu-7"),), HardwareAsDeclared.OBSERVING),
    Seen("gone",
        "a node that was deleted after the collection was listed does not count",
        collection(), (member(node()), member(node("gpu-2"), synced=GONE)), None,
         ("gpu-1",)),
    Seen("leaving",
        "a member that is being deleted does not count",
        collection(), (member(node(), leaving=True),), None),
    Seen("of-another", "a member of another collection does not count", collection(), (member(node(), owner="other"),),
         None),
    Seen("forbidden",
        "the kubeconfig does not permit listing nodes",
        collection(synced=FORBIDDEN_LIST), (member(node()),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-at-first",
        "the kubeconfig did not permit listing nodes on the first attempt",
        collection(listed=False, synced=FORBIDDEN_LIST), (),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-patch",
        "the kubeconfig permits listing nodes, but not patching them",
        collection(), (member(node(), synced=FORBIDDEN_PATCH),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-first",
        "a missing permission, which a user can correct, is reported before an outage",
        collection(),
         (member(node("a"), synced=AWAY), member(node("b"), synced=FORBIDDEN_PATCH)), HardwareAsDeclared.FORBIDDEN),
    Seen("away",
        "nodes that were observed before an outage do not count",
        collection(synced=AWAY), (member(node()),), HardwareAsDeclared.UNREACHABLE),
    Seen("member-away",
        "nodes do not count if the cluster does not answer for one of them",
        collection(), (member(node(), synced=AWAY), member(node("gpu-2"))),
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
    Case("usable", "a node is usable if it has everything that its pool declares", node(), None),
    Case("number", "the quantity of GPUs may be a number", node(gpus=8), None),
    Case("milli", "the quantity of GPUs may have a suffix", node(gpus="8k"), None),
    Case("deleting",
        "a node that is being deleted is reported as such before any other reason",
        node(deleting=True, ready="False"), (UnusableReason.DELETING, "")),
    Case("not-ready",
        "a node whose Ready condition is False is unusable",
        node(ready="False"), (UnusableReason.NOT_READY, "")),
    Case("silent",
        "a node whose Ready condition is Unknown is reported as not ready before it is cordoned",
        node(ready="Unknown", cordoned=True), (UnusableReason.NOT_READY, "")),
    Case("cordoned", "a node that a user has cordoned is unusable", node(cordoned=True), (UnusableReason.CORDONED, "")),
    Case(
        "cordoned-with-its-taint",
        "the taint of a cordoned node is not reported in addition",
        node(cordoned=True, taints=(taint("node.kubernetes.io/unschedulable"),)),
        (UnusableReason.CORDONED, ""),
    ),
    Case(
        "starting",
        "taints of a starting node do not count, because Kubernetes removes them",
        node(
            taints=(
                taint("node.kubernetes.io/not-ready"),
                taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
            )
        ),
        None,
    ),
    Case("gpu-taint",
        "every pod tolerates the taint of its GPU resource",
        node(taints=(taint("nvidia.com/gpu", "present"),)), None),
    Case("preferred",
        "a taint with the effect PreferNoSchedule does not make a node unusable",
        node(taints=(taint("x", "y", "PreferNoSchedule"),)), None),
    Case(
        "tainted",
        "no pod of the pool tolerates a taint that the pool does not declare",
        node(taints=(taint("dedicated", "ml"),)),
        (UnusableReason.TAINTED, "dedicated=ml:NoSchedule"),
    ),
    Case(
        "evicted",
        "a NoExecute taint makes a node unusable, even without a value",
        node(taints=(taint("maintenance", effect="NoExecute"),)),
        (UnusableReason.TAINTED, "maintenance:NoExecute"),
    ),
    Case(
        "declared-taint",
        "the pods of a pool tolerate the taints that the pool declares",
        node(taints=(taint("dedicated", "ml"),)),
        None,
        pool(taints=(taint("dedicated", "ml"),)),
    ),
    Case(
        "any-value",
        "a taint that is declared without a value is tolerated with any value",
        node(taints=(taint("dedicated", "ml"),)),
        None,
        pool(taints=(taint("dedicated"),)),
    ),
    Case(
        "other-effect",
        "a toleration applies to one effect only",
        node(taints=(taint("dedicated", "ml", "NoExecute"),)),
        (UnusableReason.TAINTED, "dedicated=ml:NoExecute"),
        pool(taints=(taint("dedicated", "ml"),)),
    ),
    Case("installing",
        "a node without allocatable GPUs has no driver yet",
        node(gpus=None), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("nonsense",
        "an invalid quantity counts as no GPUs",
        node(gpus="many"), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("truth", "a boolean quantity counts as no GPUs", node(gpus=True), (UnusableReason.NO_GPUS, "nvidia.com/gpu")),
    Case("seven",
        "a node with seven GPUs is unusable for a pool with eight GPUs per node",
        node(gpus="7"), (UnusableReason.TOO_FEW_GPUS, "7 of 8 nvidia.com/gpu")),
    Case("seven-for-four",
        "a node with seven GPUs is usable for a pool with four GPUs per node",
        node(gpus="7"), None, pool(gpus_per_node=4)),
    Case(
        "other-resource",
        "GPUs are counted under the resource name of the pool",
        node(gpus="8", resource="amd.com/gpu"),
        None,
        pool(gpu_resource="amd.com/gpu"),
    ),
    Case("gke",
        "pods tolerate the GPU taint of GKE nodes",
        node(labels=GKE_L4, gpus="2", taints=(taint("nvidia.com/gpu", "present"),)),
         None, pool(gpus_per_node=2)),
    Case("eks", "an EKS node without taints is usable", node(labels=EKS_A100), None),
    Case("dgx", "a DGX node without taints is usable", node(labels=DGX_H100), None),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_unusable_reason(case: Case) -> None:
    assert find_unusable_reason(parse_node(case.node), case.pool) == case.want, case.reason


def test_parses_node_with_missing_or_malformed_fields() -> None:
    """A node with fields of unexpected types must not raise an error."""
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
    Drifts("all",
        "an H100 with 80Gi reports 81559 MiB, which is no drift",
        declared(80 * GIB, "nvidia-h100-80gb"), labelled()),
    Drifts("l4", "an L4 with 24Gi reports 23034 MiB, which is no drift", declared(24 * GIB, "nvidia-l4"),
         labelled(gpu_product="NVIDIA-L4", gpu_memory="23034")),
    Drifts("tenth",
        "a pool may declare a tenth more than the label reports: 1100 MiB for 1000 MiB",
        declared(1100 * MIB), labelled(gpu_memory="1000")),
    Drifts("more-than-a-tenth",
        "a pool that declares more than a tenth above the label has drift",
        declared(1101 * MIB), labelled(gpu_memory="1000"),
         drift(DriftField.MEMORY_PER_GPU, "1101Mi", "1000Mi", "gpu-1")),
    Drifts("more-than-declared", "more memory than declared is no drift", declared(40 * GIB), labelled()),
    Drifts("no-labels", "a node without labels shows no drift", declared(800 * GIB, "nvidia-b200"), node()),
    Drifts("no-number", "a memory label that is no number is ignored", declared(80 * GIB), labelled(gpu_memory="much")),
    Drifts("long-number",
        "a memory label with 60 digits is ignored",
        declared(80 * GIB), labelled(gpu_memory="1" * 60)),
    Drifts("other-model",
        "a product label of another GPU model is drift",
        declared(None, "nvidia-h200-141gb"), labelled(),
         drift(DriftField.ACCELERATOR_TYPE, "nvidia-h200-141gb", "NVIDIA-H100-80GB-HBM3", "gpu-1")),
    Drifts("name-of-ones-own",
        "an acceleratorType without a known GPU model is not compared",
        declared(None, "frontier"), labelled()),
    Drifts("amd", "the product label of AMD's node labeller counts as well", declared(None, "amd-mi300x"),
         node(labels={POOL: "h100", "amd.com/gpu.product-name": "AMD_Instinct_MI325X"}),
         drift(DriftField.ACCELERATOR_TYPE, "amd-mi300x", "AMD_Instinct_MI325X", "gpu-1")),
    Drifts("fewer-gpus", "a node with four GPUs is drift if the pool declares eight", declared(),
         labelled(gpu_count="4"), drift(DriftField.GPUS_PER_NODE, "8", "4", "gpu-1")),
    Drifts("more-gpus", "a pool may declare four GPUs per node of eight", declared(gpus_per_node=4), labelled()),
    Drifts("mig",
        "GPUs that MIG has split are drift if the pool declares whole GPUs",
        declared(), labelled(mig_strategy="mixed"),
         drift(DriftField.MIG, "none", "mixed", "gpu-1")),
    Drifts("mig-declared", "a pool of MIG slices may have more slices than GPUs per node",
         declared(40 * GIB, gpu_resource=SLICE, gpus_per_node=16), sliced()),
    Drifts("taint", "a taint of every node is drift if the pool does not declare it", declared(),
         node(taints=(taint("dedicated", "ml"),)), drift(DriftField.TAINTS, "not among them", "dedicated=ml:NoSchedule",
                                                         "gpu-1")),
    Drifts("domain", "one node cannot be an NVLink domain of 16 GPUs", declared(nvlink_domain=16),
         labelled(gpu_clique="fabric.1"), drift(DriftField.NVLINK_DOMAIN, "16", "8")),
    Drifts("domain-unknown",
        "the NVLink domain is not compared without a label",
        declared(nvlink_domain=72), labelled()),
    Drifts("domain-of-a-node",
        "an NVLink domain of one node is not compared with clique labels",
        declared(nvlink_domain=8),
         labelled(gpu_clique="fabric.1")),
)  # fmt: skip


@pytest.mark.parametrize("case", DRIFTS, ids=lambda c: c.id)
def test_drift(case: Drifts) -> None:
    assert facts(case.node, of=case.pool).drift == case.want, case.reason


def test_facts_of_pool_with_two_nodes() -> None:
    """The facts of a pool show the fewest GPUs and the least memory of its nodes."""
    more = {POOL: "h100", **H100, "nvidia.com/gpu.memory": "95830", "nvidia.com/gpu.product": "NVIDIA-H100-NVL"}
    assert facts(labelled(), node("gpu-2", more), of=pool()) == PoolFacts(
        nodes=2, usable=2, gpus_per_node=8, product="NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL", memory_per_gpu=81559 * MIB
    )


def test_nvlink_domain_over_two_nodes() -> None:
    """Both nodes report the same NVLink domain, which has the declared 16 GPUs."""
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
    """Each node has another taint. The status has eight rows, of which the last counts the remaining nodes."""
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
    Absent("none", "no node has the labels of the pool", pool("h200"), (),
           drift(DriftField.LABELS, f"{POOL}=h200", "")),
    Absent("nearest", "drift names the node that has the most labels of the pool",
           pool("h200", labels=((POOL, "h200"), ("zone", "a"))),
           (node("gpu-1", {POOL: "h100"}), node("gpu-2", {POOL: "h100", "zone": "a"})),
           drift(DriftField.LABELS, f"{POOL}=h200, zone=a", f"{POOL}=h100", "gpu-2")),
    Absent("no-such-key", "drift tells if no node has the label key", pool("h200"), (node("gpu-1", {}),),
           drift(DriftField.LABELS, f"{POOL}=h200", f"no {POOL}", "gpu-1")),
    Absent("fewer", "a missing node is drift if no autoscaler can add it", pool(max_nodes=3), (node(), node("gpu-2")),
           drift(DriftField.NODE_COUNT, "3", "2")),
    Absent("more", "more nodes than declared are no drift", pool(max_nodes=1),
           (node(), node("gpu-2"))),
    Absent("autoscaled", "missing nodes are no drift if an autoscaler can add them", pool("h200", autoscaled=True), ()),
    Absent("autoscaled-slip", "GPU nodes of no pool are drift of an autoscaled pool that has no nodes",
           pool("h200", autoscaled=True), (node("cpu", {POOL: "web"}, gpus=None), node("gpu-1", {POOL: "h100"})),
           drift(DriftField.LABELS, f"{POOL}=h200", f"{POOL}=h100", "gpu-1")),
    Absent("autoscaled-without-gpus",
        "nodes without GPUs are no drift of an autoscaled pool",
        pool("h200", autoscaled=True),
           (node("cpu", {POOL: "web"}, gpus=None),)),
    Absent("empty", "a pool of no nodes has no missing nodes", pool("h200", max_nodes=0), ()),
    Absent("unlabelled", "a pool without labels has every node with its GPU resource", pool(labels=(), max_nodes=1),
           (node("control-plane", gpus=None), node(labels=EKS_A100))),
    Absent("unlabelled-none",
        "a pool without labels has drift if no node has its GPU resource",
        pool(labels=(), max_nodes=1), (node("cpu", {}, gpus=None),),
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
    Usable("unseen", "all declared nodes count if nodes are not observed", False, None, 4),
    Usable("all", "all nodes count if they exist and are usable", False, (4, 4), 4),
    Usable("cordoned", "an unusable node does not count", False, (4, 3), 3),
    Usable("fewer", "missing nodes do not count if no autoscaler can add them", False, (2, 2), 2),
    Usable("more", "at most the declared number of nodes counts", False, (9, 9), 4),
    Usable("spare", "an unusable node beyond the declared number reduces nothing", False, (5, 4), 4),
    Usable("none", "a pool that finds no nodes has no usable nodes", False, (0, 0), 0),
    Usable("at-zero", "nodes that the autoscaler can add count as usable", True, (0, 0), 4),
    Usable("grows", "nodes that the autoscaler can add count beside existing nodes", True, (2, 2), 4),
    Usable("grows-cordoned", "the autoscaler cannot replace an unusable node", True, (2, 1), 3),
    Usable("grows-none", "the number of usable nodes is never negative", True, (9, 0), 0),
    Usable("grows-beyond", "unusable nodes reduce nothing while enough usable nodes exist", True, (16, 14), 4),
)


@pytest.mark.parametrize("case", USABLE, ids=lambda c: c.id)
def test_usable_nodes(case: Usable) -> None:
    seen = None if case.seen is None else PoolFacts(nodes=case.seen[0], usable=case.seen[1])
    assert pool(max_nodes=4, autoscaled=case.autoscaled, facts=seen).usable_nodes == case.want, case.reason
