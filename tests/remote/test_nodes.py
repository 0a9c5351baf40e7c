"""Whether pods of a pool could start on a node."""

from dataclasses import dataclass

import pytest

from function.domain.environment import Pool, Unfit
from function.kube.manifests import Manifest
from function.remote.node_facts import find_unusable_reason, parse_node
from tests.support.nodes import DGX_H100, EKS_A100, GKE_L4, node, pool, taint


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    node: Manifest
    want: tuple[Unfit, str] | None
    pool: Pool = pool()


CASES = (
    Case("usable", "all that a pool of eight asks for", node(), None),
    Case("number", "a quantity may be a number", node(gpus=8), None),
    Case("milli", "and have a suffix", node(gpus="8k"), None),
    Case("deleting", "it goes, whatever else it is", node(deleting=True, ready="False"), (Unfit.DELETING, "")),
    Case("not-ready", "the kubelet says no", node(ready="False"), (Unfit.NOT_READY, "")),
    Case("silent", "the kubelet says nothing", node(ready="Unknown", cordoned=True), (Unfit.NOT_READY, "")),
    Case("cordoned", "kubectl cordon", node(cordoned=True), (Unfit.CORDONED, "")),
    Case(
        "cordoned-with-its-taint",
        "Kubernetes taints what is cordoned; one reason is enough",
        node(cordoned=True, taints=(taint("node.kubernetes.io/unschedulable"),)),
        (Unfit.CORDONED, ""),
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
    Case("preferred", "PreferNoSchedule keeps nobody away", node(taints=(taint("x", "y", "PreferNoSchedule"),)), None),
    Case(
        "tainted",
        "no pod of the pool tolerates it",
        node(taints=(taint("dedicated", "ml"),)),
        (Unfit.TAINTED, "dedicated=ml:NoSchedule"),
    ),
    Case(
        "evicted",
        "NoExecute keeps away too, and a taint need have no value",
        node(taints=(taint("maintenance", effect="NoExecute"),)),
        (Unfit.TAINTED, "maintenance:NoExecute"),
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
        (Unfit.TAINTED, "dedicated=ml:NoExecute"),
        pool(taints=(taint("dedicated", "ml"),)),
    ),
    Case("installing", "its driver is being installed", node(gpus=None), (Unfit.NO_GPUS, "nvidia.com/gpu")),
    Case("nonsense", "what is no quantity is none", node(gpus="many"), (Unfit.NO_GPUS, "nvidia.com/gpu")),
    Case("truth", "nor is a truth value", node(gpus=True), (Unfit.NO_GPUS, "nvidia.com/gpu")),
    Case("seven", "of no use for eight", node(gpus="7"), (Unfit.TOO_FEW_GPUS, "7 of 8 nvidia.com/gpu")),
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
    assert find_unusable_reason(empty, pool()) == (Unfit.NOT_READY, "")
