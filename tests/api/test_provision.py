"""Clusters to create on GKE: what is parsed, and what a declaration that cannot work says."""

import copy
from dataclasses import dataclass

import pytest

from function.api.inference_environment import ParsedEnvironment, parse_environment
from function.domain.gke_machines import MACHINES
from function.domain.provision import ClusterPlan, NodePoolPlan
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest, mapping

POOL: Manifest = {
    "name": "a3-ultra",
    "acceleratorType": "nvidia-h200-141gb",
    "acceleratorCount": 8,
    "nodeCount": 2,
    "gke": {"machineType": "a3-ultragpu-8g", "zones": ["us-central1-b", "us-central1-a"]},
}
GKE: Manifest = {
    "project": "my-project",
    "region": "us-central1",
    "identitySecretRef": {"name": "google-identity"},
    "provision": {},
}


def _environment(gke: Manifest, *pools: JSON) -> Manifest:
    return {
        "kind": "InferenceEnvironment",
        "metadata": {"name": "iowa"},
        "spec": {"cluster": {"source": "GKE", "gke": gke}, "nodePools": [*pools]},
    }


def _parse(gke: Manifest, *pools: JSON) -> ParsedEnvironment:
    return parse_environment(_environment(copy.deepcopy(gke), *copy.deepcopy(pools)), Settings())


def test_parses_a_cluster_with_its_defaults() -> None:
    parsed = _parse(GKE, POOL, {"name": "by-hand", "nodeCount": 1})
    assert parsed.problems == ()
    assert parsed.plan == ClusterPlan(
        environment="iowa",
        namespace="modelplane-system",
        kubeconfig="iowa-kubeconfig",
        project="my-project",
        region="us-central1",
        pools=(
            NodePoolPlan(
                name="a3-ultra",
                machine_type="a3-ultragpu-8g",
                zones=("us-central1-a", "us-central1-b"),
                accelerator_type="nvidia-h200-141gb",
                accelerators=8,
                min_nodes=2,
                max_nodes=2,
                first_nodes_per_zone=1,
            ),
        ),
        declared_pools=frozenset({"a3-ultra", "by-hand"}),
    )
    labels = {pool.name: pool.labels for pool in parsed.value.pools}
    assert labels == {"a3-ultra": (("cloud.google.com/gke-nodepool", "a3-ultra"),), "by-hand": ()}


def test_creates_nothing_without_provision() -> None:
    assert _parse({key: value for key, value in GKE.items() if key != "provision"}).plan is None


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        ({"nodeCount": 6}, (6, 6)),
        ({"nodeCount": 1, "maxNodeCount": 4}, (1, 4)),
        ({"nodeCount": 1, "maxNodeCount": 4, "autoscaled": False}, (4, 4)),
        ({"nodeCount": 6, "maxNodeCount": 4, "autoscaled": True}, (4, 4)),
    ],
    ids=["fixed", "autoscaled", "fixed-at-its-maximum", "more-than-its-maximum"],
)
def test_the_size_of_a_pool_is_a_range(pool: Manifest, sizes: tuple[int, int]) -> None:
    plan = _parse(GKE, {**POOL, **pool}).plan
    assert plan
    assert [(p.min_nodes, p.max_nodes) for p in plan.pools] == [sizes]


@dataclass(frozen=True, kw_only=True)
class Bad:
    id: str
    path: str
    words: str
    gke: Manifest | None = None
    pool: Manifest | None = None


BAD = (
    Bad(
        id="identity",
        gke={"identitySecretRef": None},
        path="spec.cluster.gke.identitySecretRef",
        words="no credentials",
    ),
    Bad(
        id="namespace",
        gke={"secretRef": {"namespace": "team"}},
        path="spec.cluster.gke.secretRef.namespace",
        words="left out, as provider-gcp-container writes the Secret",
    ),
    Bad(id="key", gke={"secretRef": {"key": "config"}}, path="spec.cluster.gke.secretRef.key", words="left out"),
    Bad(
        id="ranges",
        gke={"provision": {"network": {"name": "vpc", "podRange": "pods"}}},
        path="spec.cluster.gke.provision.network",
        words="has only one of podRange and serviceRange",
    ),
    Bad(
        id="not-created",
        gke={"provision": None},
        path="spec.nodePools[0].gke",
        words="needs spec.cluster.gke.provision",
    ),
    Bad(id="name", pool={"name": "Upper_Case.x"}, path="spec.nodePools[0].name", words="at most 40 lower-case letters"),
    Bad(id="system", pool={"name": "system"}, path="spec.nodePools[0].name", words="and not system"),
    Bad(id="no-type", pool={"acceleratorType": None}, path="spec.nodePools[0].acceleratorType", words="is required"),
    Bad(
        id="other-type",
        pool={"acceleratorType": "nvidia-l4"},
        path="spec.nodePools[0].acceleratorType",
        words="nvidia-h200-141gb, as a node of a3-ultragpu-8g has",
    ),
    Bad(id="gpus", pool={"acceleratorCount": 4}, path="spec.nodePools[0].acceleratorCount", words="8, as a node of"),
    Bad(
        id="fixed-without-zones",
        pool={"gke": {"machineType": "x"}},
        path="spec.nodePools[0].gke.zones",
        words="is required, as the pool has a fixed size; or set maxNodeCount above nodeCount",
    ),
    Bad(
        id="fixed-and-not-divided",
        pool={"nodeCount": 3},
        path="spec.nodePools[0].gke.zones",
        words="has 2 zones, which do not divide the 3 nodes of a pool of fixed size",
    ),
    Bad(
        id="elsewhere",
        pool={"gke": {"machineType": "x", "zones": ["us-central1-a", "us-east4-b"]}},
        path="spec.nodePools[0].gke.zones[1]",
        words="a zone of the region us-central1, in which the cluster is",
    ),
    Bad(
        id="elsewhere-than-a-zone",
        gke={"region": "us-east4-b"},
        pool={"gke": {"machineType": "x", "zones": ["us-east4-c", "us-central1-a"]}},
        path="spec.nodePools[0].gke.zones[1]",
        words="a zone of the region us-east4, in which the cluster is",
    ),
    Bad(
        id="reservation-and-spot",
        pool={"gke": {"machineType": "x", "zones": ["us-central1-a"], "reservation": "r", "spot": True}},
        path="spec.nodePools[0].gke.spot",
        words="false, as the pool has a reservation",
    ),
    Bad(
        id="reservation-without-zones",
        pool={"maxNodeCount": 4, "gke": {"machineType": "x", "reservation": "r"}},
        path="spec.nodePools[0].gke.zones",
        words="is required, as a reservation is in certain zones",
    ),
    Bad(
        id="compact",
        pool={"gke": {"machineType": "x", "zones": ["us-central1-a", "us-central1-b"], "compactPlacement": True}},
        path="spec.nodePools[0].gke.compactPlacement",
        words="zones must have exactly one zone",
    ),
    Bad(
        id="tcpxo",
        pool={
            "acceleratorType": "nvidia-h100-mega-80gb",
            "gke": {"machineType": "a3-megagpu-8g", "zones": ["us-central1-a"]},
            "capabilities": {"multiNodeCapable": True},
        },
        path="spec.nodePools[0].capabilities.multiNodeCapable",
        words="TCPXO between nodes needs networks and a sidecar, which are not created",
    ),
)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_says_what_cannot_work(case: Bad) -> None:
    gke: Manifest = {key: value for key, value in {**GKE, **(case.gke or {})}.items() if value is not None}
    pool: Manifest = {key: value for key, value in {**POOL, **(case.pool or {})}.items() if value is not None}
    parsed = _parse(gke, pool)
    (problem,) = parsed.problems
    assert problem.path == case.path
    assert case.words in problem.message
    if parsed.plan and case.pool:
        assert parsed.plan.pools == (), "an invalid pool is not created"
        assert parsed.plan.declared_pools, "and not removed"


def test_nothing_is_known_of_other_machines() -> None:
    pool = copy.deepcopy(POOL)
    mapping(pool, "gke")["machineType"] = "a9-future-3g"
    assert _parse(GKE, pool).problems == ()


def test_labels_of_google_are_not_set_again() -> None:
    pool: Manifest = {
        **POOL,
        "labels": {"team": "a", "cloud.google.com/gke-nodepool": "a3-ultra", "node.kubernetes.io/x": "y"},
    }
    plan = _parse(GKE, pool).plan
    assert plan
    assert plan.pools[0].labels == (("team", "a"),)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_a_known_product(name: str) -> None:
    """GKE gives the type of its GPUs in the last part but one of many names: a2-ultragpu-4g has four."""
    machine = MACHINES[name]
    assert machine.product.model.split("-")[1] in machine.accelerator_type
    if name.endswith("g"):
        assert machine.gpus == int(name.rpartition("-")[2][:-1])
