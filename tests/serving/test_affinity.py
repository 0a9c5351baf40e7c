"""Anti-affinity and tolerations, as kube-scheduler reads them."""

from dataclasses import dataclass, replace

import pytest

from function.domain.environment import tolerations
from function.domain.model import Spread
from function.kube.manifests import JSON, Manifest
from function.serving.pod import build_affinity
from tests.support.builders import pool, profile

NONE, PREFERRED, REQUIRED = Spread.NONE, Spread.PREFERRED, Spread.REQUIRED


def term(keys: str, label: str) -> Manifest:
    return {
        "labelSelector": {"matchLabels": {"modelplane.ai/service": "kimi"}},
        keys: [label],
        "topologyKey": "kubernetes.io/hostname",
    }


SAME_GROUP = term("matchLabelKeys", "leaderworkerset.sigs.k8s.io/group-index")
OTHER_GROUP = term("mismatchLabelKeys", "leaderworkerset.sigs.k8s.io/group-index")
SAME_REVISION = term("matchLabelKeys", "pod-template-hash")


def required(*terms: Manifest) -> Manifest:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}


def preferred(*terms: Manifest) -> Manifest:
    weighed: list[JSON] = [{"weight": 100, "podAffinityTerm": term} for term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": weighed}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    nodes: int
    pods: Spread
    replicas: Spread
    want: Manifest | None


CASES = [
    Case("nothing", "no affinity is set unless the profile requests it", 2, NONE, NONE, None),
    Case("pods",
        "the pods of one group are spread over nodes, and groups may share nodes",
        2, REQUIRED, NONE, required(SAME_GROUP)),
    Case("pods-preferred",
        "a preferred spread of pods is a preferred anti-affinity term",
        2, PREFERRED, NONE, preferred(SAME_GROUP)),
    Case("replicas",
        "groups are spread over nodes, and the pods of one group may share a node",
        2, NONE, REQUIRED, required(OTHER_GROUP)),
    Case("both",
        "a spread of pods and of replicas has two terms",
        2, REQUIRED, REQUIRED, required(SAME_GROUP, OTHER_GROUP)),
    Case("mixed", "each term is as strict as its own field requests", 2, REQUIRED, PREFERRED,
         {**required(SAME_GROUP), **preferred(OTHER_GROUP)}),
    Case("one-node", "a replica on one node has no other pods to be kept apart from", 1, REQUIRED, NONE, None),
    Case("one-node-replicas", "pods are kept apart only from pods of the same revision", 1, NONE, REQUIRED,
         required(SAME_REVISION)),
    Case("one-node-preferred",
        "a preferred spread of replicas is a preferred anti-affinity term",
        1, NONE, PREFERRED, preferred(SAME_REVISION)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_affinity(case: Case) -> None:
    asked = profile(pods_across_nodes=case.pods, replicas_across_nodes=case.replicas)
    want = case.want and {"podAntiAffinity": case.want}
    assert build_affinity(asked, "kimi", case.nodes) == want, case.reason


def test_tolerates_gpu_key_and_every_taint() -> None:
    tainted = replace(
        pool(),
        gpu_resource="amd.com/gpu",
        taints=(
            {"key": "team", "value": "research", "effect": "NoSchedule"},
            {"key": "spot", "effect": "NoExecute"},
            {"key": "empty", "value": ""},
            {"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"},
        ),
    )
    assert tolerations(tainted) == [
        {"key": "amd.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "research", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
        {"key": "empty", "operator": "Exists"},
    ]


def test_tolerates_base_taint_of_the_vendor_of_slices_once() -> None:
    """Nodes with slices have the taint `nvidia.com/gpu`, whatever their resource is called."""
    declared: Manifest = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    sliced = replace(pool(), gpu_resource="nvidia.com/mig-3g.40gb")
    tolerated = [
        {"key": "nvidia.com/mig-3g.40gb", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
    ]
    assert tolerations(sliced) == tolerated
    assert tolerations(replace(sliced, taints=(declared,))) == tolerated
    assert replace(sliced, taints=(declared,)).may_start_on(sliced)
    assert sliced.may_start_on(replace(sliced, taints=(declared,)))
