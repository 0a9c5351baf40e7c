"""Notes about pools with RDMA but without its devices, and about pools whose nodes cannot be told apart."""

from dataclasses import dataclass, replace

import pytest

from function.contract import Condition
from function.domain.environment import Pool
from function.domain.pods import InterNode, PodAdditions
from function.kube.manifests import Manifest
from function.reasons import ConditionType, ServiceReady, Status
from function.status import inference_environment as environments
from function.status.model_placement import with_pool_notes
from tests.support.builders import VLLM, engine, pool, shape

LABELS = (("modelplane.ai/pool", "x"),)
OTHER = (("modelplane.ai/pool", "y"),)
SLOW = (
    "2 pools. Note: pool b declares ib-400g and gives its pods no network device, so replicas of several nodes "
    "communicate over TCP; set interNode of the pool"
)


def test_notes_tcp_fallback_in_pools_valid() -> None:
    labelled = replace(pool("a", bandwidth="eth-100g"), labels=LABELS), replace(pool("b"), labels=OTHER)
    found = environments.build_pools_valid(labelled, ())
    assert (found.status, found.reason, found.message) == (Status.TRUE, "Valid", SLOW)


QUIET = pool("a", bandwidth=None), pool("b", bandwidth=None)
WRONG = "pods may start on its nodes, with other GPUs than are counted; give each pool labels that only its nodes have"
BOTH = f"pools a, b have no label that another pool lacks, so {WRONG}"
TAINT: Manifest = {"key": "team", "value": "x", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Unlabelled:
    id: str
    reason: str
    pools: tuple[Pool, ...]
    said: str = ""


UNLABELLED = [
    Unlabelled("both", "each pool selects the nodes of the other one", QUIET, BOTH),
    Unlabelled("one", "one pool without labels is enough for a note", (QUIET[0], replace(QUIET[1], labels=LABELS)),
               f"pool a has no label that another pool lacks, so {WRONG}"),
    Unlabelled("alone", "a single pool has no other nodes to select", QUIET[:1]),
    Unlabelled("labelled", "each pool selects its own nodes",
               (replace(QUIET[0], labels=LABELS), replace(QUIET[1], labels=OTHER))),
    Unlabelled("subset", "the nodes of pool b also have the labels of pool a",
               (replace(QUIET[0], labels=LABELS), replace(QUIET[1], labels=(*LABELS, ("tier", "gold")))),
               f"pool a has no label that another pool lacks, so {WRONG}"),
    Unlabelled("resource", "the pools have GPUs of different vendors",
               (QUIET[0], replace(QUIET[1], gpu_resource="amd.com/gpu"))),
    Unlabelled("taint", "pods of pool b can still start on the nodes of pool a",
               (QUIET[0], replace(QUIET[1], taints=(TAINT,))),
               f"pool b has no label that another pool lacks, so {WRONG}"),
    Unlabelled("same-taint", "the pods of both pools tolerate the taint",
               tuple(replace(p, taints=(TAINT,)) for p in QUIET), BOTH),
    Unlabelled("gpu-taint", "every pod tolerates the taint of its GPUs",
               (QUIET[0], replace(QUIET[1], taints=({"key": "nvidia.com/gpu", "effect": "NoSchedule"},))), BOTH),
]  # fmt: skip


@pytest.mark.parametrize("case", UNLABELLED, ids=lambda c: c.id)
def test_notes_pools_without_labels(case: Unlabelled) -> None:
    found = environments.build_pools_valid(case.pools, ())
    note = f". Note: {case.said}" if case.said else ""
    number = "1 pool" if len(case.pools) == 1 else f"{len(case.pools)} pools"
    assert (found.status, found.message) == (Status.TRUE, number + note), case.reason


def test_notes_more_nodes_than_the_pool_may_have() -> None:
    large = replace(pool("a", bandwidth=None, nodes=2), node_count=6)
    found = environments.build_pools_valid((large,), ())
    assert found.message == "1 pool. Note: pool a has nodeCount 6, and only its maxNodeCount of 2 counts"
    assert environments.build_pools_valid((replace(large, node_count=2),), ()).message == "1 pool"


def test_note_fits_with_the_longest_names() -> None:
    pools = tuple(pool(f"{index:x<63}", bandwidth=None) for index in range(9))
    assert len(environments.build_pools_valid(pools, ()).message) <= 1024


@dataclass(frozen=True)
class Device:
    id: str
    reason: str
    pool: Pool


DEVICES = [
    Device("ethernet", "Ethernet needs no RDMA devices", pool(bandwidth="eth-800g")),
    Device("one-node", "no replica spans nodes of the pool", pool(multi_node=False)),
    Device("resource", "the pods get devices from a device plugin",
           replace(pool(), pod=PodAdditions(resources=(("rdma/ib", "1"),)))),
    Device("claim", "the pods get devices by dynamic resource allocation",
           replace(pool(), pod=PodAdditions(resource_claims=({"name": "n"},)))),
    Device("node-network", "the host network includes the devices of the node",
           replace(pool(), pod=PodAdditions(host_network=True))),
    Device("between-nodes", "only replicas of several nodes need it",
           replace(pool(), inter_node=InterNode(merged=PodAdditions(resources=(("rdma/ib", "1"),))))),
    Device("network", "a webhook adds the devices of the network",
           replace(pool(), pod=PodAdditions(annotations=(("networking.gke.io/interfaces", "[]"),)))),
]  # fmt: skip


@pytest.mark.parametrize("case", DEVICES, ids=lambda c: c.id)
def test_notes_nothing_for_a_healthy_pool(case: Device) -> None:
    assert environments.build_pools_valid((case.pool,), ()).message == "1 pool", case.reason


def test_none_of_a_resource_is_no_device() -> None:
    assert environments.note_tcp_fallback(replace(pool(), pod=PodAdditions(resources=(("rdma/ib", "0"),))))


def test_huge_pages_are_no_device() -> None:
    assert environments.note_tcp_fallback(replace(pool(), pod=PodAdditions(resources=(("hugepages-2Mi", "1Gi"),))))


def serving(reason: ServiceReady) -> Condition:
    return Condition(type=ConditionType.SERVICE_READY, status=Status.TRUE, reason=reason, message="Said")


def test_notes_tcp_fallback_in_service_ready() -> None:
    said = with_pool_notes(serving(ServiceReady.SERVING), pool("b"), shape(2), "east", VLLM).message
    assert said == "Said. Note on InferenceEnvironment east: " + SLOW.removeprefix("2 pools. Note: ")


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        (
            "one node has no traffic between nodes",
            with_pool_notes(serving(ServiceReady.SERVING), pool(), shape(1), "east", VLLM),
        ),
        (
            "nor has a service without replicas",
            with_pool_notes(serving(ServiceReady.SCALED_TO_ZERO), pool(), shape(2), "east", VLLM),
        ),
        (
            "nothing is lost",
            with_pool_notes(serving(ServiceReady.SERVING), pool(bandwidth=None), shape(2), "east", VLLM),
        ),
    ],
)
def test_notes_nothing_without_tcp_fallback(reason: str, given: Condition) -> None:
    assert given.message == "Said", reason


STOCK = engine(image="vllm/vllm-openai:v0.15.0")
EFA = replace(pool(bandwidth="efa-400g"), inter_node=InterNode(preset="eks-efa"), pod=PodAdditions())
LACKING = (
    "Said. Note on InferenceEnvironment east: pool pool has preset eks-efa with failClosed, and "
    "vllm/vllm-openai:v0.15.0 contains no aws-ofi-nccl, so replicas of several nodes cannot start; use an image with "
    "libfabric and aws-ofi-nccl, or set interNode.failClosed: false, which uses TCP"
)


def _start(between: InterNode, nodes: int = 2, image: str = STOCK.image, status: Status = Status.FALSE) -> str:
    given = replace(serving(ServiceReady.SCALED_TO_ZERO), status=status)
    return with_pool_notes(given, replace(EFA, inter_node=between), shape(nodes), "east", engine(image=image)).message


def test_notes_an_image_that_lacks_the_only_network() -> None:
    assert _start(InterNode(preset="eks-efa")) == LACKING
    assert _start(InterNode(preset="eks-efa", fail_closed=False)) == "Said"
    assert _start(InterNode(preset="gke-rdma")) == "Said"
    assert _start(InterNode(preset="eks-efa"), nodes=1) == "Said"
    assert _start(InterNode(preset="eks-efa"), image="team/vllm-efa:v0.15.0") == "Said"
    assert _start(InterNode(preset="eks-efa"), status=Status.TRUE) == "Said", "it runs, whatever the image contains"
