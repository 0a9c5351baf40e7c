"""The condition HardwareAsDeclared: the most severe fault determines the reason, and the message covers every pool."""

from dataclasses import dataclass

import pytest

from function.capacity.ledger import CapacityView, admit_placements
from function.domain.environment import Drift, DriftField, Pool, PoolFacts, Unusable, UnusableReason
from function.kube.manifests import integer, mapping
from function.reasons import HardwareAsDeclared, Status
from function.remote.node_collection import NodeObservation, Unobserved
from function.scheduling.filters import find_shortage
from function.status.inference_environment import build_hardware_as_declared, build_ledger, note_unusable_nodes
from tests.support.builders import candidate, environment, placement, shape
from tests.support.nodes import pool

SEEN = NodeObservation()
GONE = Unusable(reason=UnusableReason.NOT_READY, count=5, nodes=("a", "b", "c"))
FEW = Unusable(reason=UnusableReason.TOO_FEW_GPUS, detail="7 of 8 nvidia.com/gpu", count=1, nodes=("gpu-3",))


def drift(field: DriftField, declared: str = "x", observed: str = "y", *nodes: str) -> Drift:
    return Drift(field=field, declared=declared, observed=observed, nodes=nodes)


def seen(*drifts: Drift, name: str = "h100", nodes: int = 8, unusable: tuple[Unusable, ...] = ()) -> Pool:
    count = nodes - sum(row.count for row in unusable)
    return pool(name, max_nodes=8, facts=PoolFacts(nodes=nodes, usable=count, unusable=unusable, drift=drifts))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    pools: tuple[Pool, ...]
    want: tuple[Status, HardwareAsDeclared, str]
    sight: NodeObservation = SEEN


FALSE, TRUE, UNKNOWN = Status.FALSE, Status.TRUE, Status.UNKNOWN
CASES = (
    Case("all", "all nodes are as declared", (seen(), seen(name="b")),
         (TRUE, HardwareAsDeclared.AS_DECLARED, "16 nodes, all usable and as declared")),
    Case("unseen", "a pool that was not observed yet has no fault", (seen(), pool("b")),
         (TRUE, HardwareAsDeclared.AS_DECLARED, "8 nodes, all usable and as declared")),
    Case("one", "the message has the singular for one node", (seen(nodes=1),),
         (TRUE, HardwareAsDeclared.AS_DECLARED, "1 node, all usable and as declared")),
    Case("zero", "the autoscaler has not added nodes yet", (seen(nodes=0),),
         (TRUE, HardwareAsDeclared.NO_NODES_YET, "No nodes yet; the autoscaler adds them on demand")),
    Case("unusable", "the message names three unusable nodes and counts the others", (seen(unusable=(GONE, FEW)),),
         (FALSE, HardwareAsDeclared.NODES_UNUSABLE,
          "pool h100: a, b, c and 2 more are NotReady, gpu-3 has 7 of 8 nvidia.com/gpu")),
    Case("labels", "no node has similar labels, so the message names none",
         (seen(drift(DriftField.LABELS, "x=1", "")),),
         (FALSE, HardwareAsDeclared.NO_NODES, "pool h100: no node has x=1")),
    Case("nearest", "the message names the node with the most similar labels",
         (seen(drift(DriftField.LABELS, "x=1", "x=2", "gpu-1")),),
         (FALSE, HardwareAsDeclared.NO_NODES, "pool h100: no node has x=1; the nearest, gpu-1, has x=2")),
    Case("overlap", "an overlap is reported for the later pool",
         (seen(drift(DriftField.OVERLAP, "", "pool a", "gpu-1")),),
         (FALSE, HardwareAsDeclared.NODES_OVERLAP,
          "pool h100: nodes also belong to pool a, and count there (gpu-1)")),
    Case("memory", "the message has both sizes and the nodes",
         (seen(drift(DriftField.MEMORY_PER_GPU, "141Gi", "81559Mi", "gpu-1", "gpu-2")),),
         (FALSE, HardwareAsDeclared.DRIFTED,
          "pool h100: memoryPerGpu is declared as 141Gi, nodes have 81559Mi (gpu-1, gpu-2)")),
    Case("taints", "the message has the taint that the pool must declare",
         (seen(drift(DriftField.TAINTS, "", "x:NoSchedule", "gpu-1")),),
         (FALSE, HardwareAsDeclared.DRIFTED,
          "pool h100: its nodes have taint x:NoSchedule, which it does not declare (gpu-1)")),
    Case("count", "the message has the number of existing nodes", (seen(drift(DriftField.NODE_COUNT, "4", "3")),),
         (FALSE, HardwareAsDeclared.DRIFTED, "pool h100: 4 nodes declared, 3 exist")),
    Case("gravest", "a pool without matching nodes is reported before a pool that differs",
         (seen(drift(DriftField.NODE_COUNT, "4", "3"), name="a"), seen(drift(DriftField.LABELS, "x=1", ""), name="b")),
         (FALSE, HardwareAsDeclared.NO_NODES, "pool b: no node has x=1; pool a: 4 nodes declared, 3 exist")),
    Case("past", "the known nodes are from an earlier observation", (seen(unusable=(FEW,)),),
         (UNKNOWN, HardwareAsDeclared.UNREACHABLE, "The nodes are as last known: gone away"),
         NodeObservation(reason=HardwareAsDeclared.UNREACHABLE, message="gone away")),
    Case("never", "the observation of nodes is turned off", (seen(),),
         (UNKNOWN, HardwareAsDeclared.NOT_OBSERVED, "spec.hardware.observe is Never: pools are taken as declared"),
         NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=Unobserved.NEVER)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_as_declared(case: Case) -> None:
    found = build_hardware_as_declared(environment("env", *case.pools), case.sight)
    assert (found.status, found.reason, found.message) == case.want, case.reason


def test_explains_how_to_get_pools_for_an_environment_without_any() -> None:
    found = build_hardware_as_declared(environment("env"), SEEN)
    assert (found.status, found.reason) == (UNKNOWN, HardwareAsDeclared.NOT_OBSERVED)
    assert "capacity --suggest" in found.message


def test_usable_gpus() -> None:
    """One pool has lost one of eight nodes of 8 GPUs, and the other pool is not observed."""
    observed = environment("env", seen(unusable=(FEW,)), pool("b", max_nodes=1))
    ledger = build_ledger(observed, admit_placements(observed, ()), {})
    assert integer(ledger, "gpus.usable") == 7 * 8 + 8
    unobserved = environment("env", pool())
    assert "usable" not in mapping(build_ledger(unobserved, admit_placements(unobserved, ()), {}), "gpus")


def test_notes_nothing_for_a_pool_without_unusable_nodes() -> None:
    assert note_unusable_nodes(pool()) == note_unusable_nodes(seen()) == ""
    note = note_unusable_nodes(seen(unusable=(FEW,)))
    assert note == "pool h100 cannot use 1 of 8 nodes (gpu-3 has 7 of 8 nvidia.com/gpu)"


def test_refusal_names_unusable_nodes() -> None:
    """Three of four nodes are usable and two of them are in use, so one is left for two replicas."""
    cordoned = Unusable(reason=UnusableReason.CORDONED, count=1, nodes=("gpu-3",))
    four = pool("frontier", max_nodes=4, facts=PoolFacts(nodes=4, usable=3, unusable=(cordoned,)))
    other = placement("env", "frontier", deployment="other", shape=shape(2, 8))
    where = environment("env", four)
    found = find_shortage(candidate(four, shape(2, 8), replicas=1), CapacityView((other,)).free_capacity(where, four))
    assert found is not None
    assert found.message == (
        "pool frontier has no capacity now: 1 replica of 2 nodes x 8 GPUs required, 0 fit: 4 nodes declared, 3 usable "
        "(gpu-3 is cordoned), 2 in use by 1 other placement"
    )
    never = find_shortage(candidate(four, shape(5, 8), replicas=1), CapacityView(()).free_capacity(where, four))
    assert never is not None
    assert "the whole pool (4 nodes declared, 3 usable (gpu-3 is cordoned)) holds 0" in never.message
