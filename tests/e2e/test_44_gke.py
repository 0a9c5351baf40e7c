"""Scenario 44: one object from a project of Google Cloud to a model on two nodes, with Google Cloud played.

Crossplane, provider-kubernetes and everything on the GPU cluster are real. Google Cloud and provider-gcp-container are
played (`cloud.py`), with CRDs that are written from the provider's documentation (`tests/support/gke.py`).
"""

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import JSON, Manifest, condition, list_texts, listing, mapping, text
from tests.e2e.cloud import Cloud
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tests.support.gke import build_definitions
from tools.package_roots import ROOT
from tools.stack import manager, packages
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, ENV, NAMESPACE = "gke", "gke-us-central1", "modelplane-system"
CLUSTER = "gke-us-central1-45aff5b3"  # sha256 of the environment's name
KEEP = ("Observe", "Create", "Update", "LateInitialize")
PROVIDER = "provider-gcp-container"
DENIED = "googleapi: Error 403: Permission denied on resource project my-project., forbidden"
QUOTA = "googleapi: Error 403: Insufficient regional quota to satisfy request: resource NVIDIA_L4_GPUS, forbidden"


def gke_environment(*pools: Manifest, **provision: JSON) -> Manifest:
    gke: Manifest = {
        "project": "my-project",
        "region": "us-central1",
        "identitySecretRef": {"name": "gcp-credentials"},
        "provision": provision,
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceEnvironment",
        "metadata": {"name": ENV, "labels": {"e2e": ENV}},
        "spec": {
            "cluster": {"source": "GKE", "gke": gke},
            "nodePools": [*pools],
            "storage": {"storageClassName": "filestore-rwx"},
        },
    }


def a100(**more: JSON) -> Manifest:
    return {
        "name": "frontier-a100",
        "acceleratorType": "nvidia-a100-80gb",
        "acceleratorCount": 4,
        "nodeCount": 4,
        "gke": {"machineType": "a2-ultragpu-4g", "zones": ["us-central1-a"], "reservation": "a100-block"},
        "capabilities": {"memoryPerGpu": "80Gi", "multiNodeCapable": True, "interNodeBandwidth": "eth-100g"},
        **more,
    }


def l4() -> Manifest:
    return {
        "name": "small-l4",
        "acceleratorType": "nvidia-l4",
        "nodeCount": 0,
        "maxNodeCount": 8,
        "gke": {"machineType": "g2-standard-12", "spot": True},
        "capabilities": {"memoryPerGpu": "24Gi"},
    }


@pytest.fixture(scope="module")
def cloud(world: World) -> Iterator[Cloud]:
    world.team(TEAM)
    world.secret("gcp-credentials", {"private_key": "ya29.not-a-token"})
    with Cloud(world.stack) as played:
        yield played
    # What serves there goes with its nodes; the provider is gone for the scenarios that follow.
    world.clear()
    assert played.errors == []


def policies(world: World) -> dict[str, tuple[str, ...]]:
    """Return the management policies of all managed resources by their names in the cloud."""
    managed = [m for kind in ("Cluster", "NodePool") for m in world.stack.hub.find(kind)]
    names = [mapping(m, "metadata.annotations")["crossplane.io/external-name"] for m in managed]
    return {str(name): list_texts(m, "spec.managementPolicies") for name, m in zip(names, managed, strict=True)}


def served_kinds(world: World) -> list[str]:
    found = world.stack.hub.find("CustomResourceDefinition")
    return [name for crd in found if (name := text(crd, "metadata.name")).endswith("container.gcp.m.upbound.io")]


@pytest.mark.usefixtures("cloud")
def test_without_the_provider_it_says_what_to_install(world: World) -> None:
    world.apply(gke_environment(a100()))
    found = world.wait("InferenceEnvironment", ENV, "ClusterReady", "False/ProviderMissing")
    assert text(condition(found, "ClusterReady"), "message") == (
        "The control plane does not serve clusters.container.gcp.m.upbound.io: install provider-gcp-container v3.0.0 "
        "or later, and apply install/gke-activation.yaml"
    )
    assert text(condition(found, "Synced"), "status") == "True", "nothing else of the environment is disturbed"
    assert [text(row, "name") for row in listing(found, "status.pools")] == ["frontier-a100"]


def test_the_package_is_installed_and_its_kinds_are_activated(world: World, cloud: Cloud, tmp_path: Path) -> None:
    """A provider with SafeStart serves no kind until a policy activates it."""
    metadata = {
        "apiVersion": "meta.pkg.crossplane.io/v1",
        "kind": "Provider",
        "metadata": {"name": PROVIDER},
        "spec": {"capabilities": ["SafeStart"]},
    }
    (tmp_path / "crossplane.yaml").write_text(yaml.safe_dump(metadata))
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds/all.yaml").write_text(yaml.safe_dump_all(build_definitions()))
    reference = f"{packages.REGISTRY}/crossplane-contrib/{PROVIDER}:v3.0.0"
    packages.push(world.stack.home, tmp_path, reference)
    package: Manifest = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Provider",
        "metadata": {"name": PROVIDER},
        "spec": {"package": reference, "skipDependencyResolution": True},
    }
    world.stack.kubectl.apply([package])
    manager.install(world.stack.home, "Provider", PROVIDER, lambda: None)
    until("the definitions", lambda: len(world.stack.hub.find("ManagedResourceDefinition")) >= 2)
    assert served_kinds(world) == [], "they are not active"
    # The first that Google says of the cluster.
    cloud.faults[CLUSTER] = DENIED
    world.stack.kubectl("apply", "-f", str(ROOT / "install/gke-activation.yaml"))
    until("the kinds", lambda: len(served_kinds(world)) == 2)
    until("the Cluster", lambda: world.stack.hub.find("Cluster"))


@pytest.mark.usefixtures("cloud")
def test_what_google_says_is_what_the_environment_says(world: World) -> None:
    world.apply(model("k2", profile=spanning(2, 4), resources={"disk": "1Gi"}), deployment(TEAM, "k2", "k2", on=ENV))
    failed = world.wait("InferenceEnvironment", ENV, "ClusterReady", "False/ProvisioningFailed")
    assert text(condition(failed, "ClusterReady"), "message") == (
        f"cluster {CLUSTER} in project my-project, us-central1: {DENIED}"
    )
    assert world.stack.hub.get("Secret", f"{ENV}-kubeconfig", NAMESPACE) is None
    assert world.stack.hub.find("NodePool") == [], "pools follow the cluster"
    waiting = world.wait("ModelDeployment", "k2", "Scheduled", "False/EnvironmentNotReady", TEAM)
    assert DENIED in text(condition(waiting, "Scheduled"), "message") or "is not Ready" in text(
        condition(waiting, "Scheduled"), "message"
    )


def test_one_object_serves_a_model_over_two_nodes(world: World, cloud: Cloud) -> None:
    cloud.faults.clear()
    world.wait("InferenceEnvironment", ENV, "ClusterReady", "True/Connected")
    world.wait("InferenceEnvironment", ENV, "HardwareAsDeclared", "True/AsDeclared")
    world.ready(TEAM, "k2")
    placement = world.placement(TEAM, "k2")
    pods = world.pods(world.service(placement))
    assert len(pods) == 2
    assert all(running(pod) for pod in pods)
    assert {world.pool_of(pod) for pod in pods} == {"frontier-a100"}
    assert policies(world) == dict.fromkeys((CLUSTER, "system", "frontier-a100"), KEEP)


def test_a_refused_pool_and_a_stock_out_are_said(world: World, cloud: Cloud) -> None:
    cloud.faults["small-l4"] = QUOTA
    world.apply(gke_environment(a100(), l4()))
    found = world.wait("InferenceEnvironment", ENV, "PoolsValid", "False/NodePoolFailed")
    assert text(condition(found, "PoolsValid"), "message") == f"node pool small-l4: {QUOTA}"
    assert text(condition(found, "Ready"), "status") == "True", "the other pool can be used"
    small = spanning(1, 1)
    small["replicaTopology"] = {**mapping(small, "replicaTopology"), "requires": {"acceleratorType": "nvidia-l4"}}
    world.apply(model("small", profile=small), deployment(TEAM, "small", "small", on=ENV))
    waiting = world.wait("ModelDeployment", "small", "Scheduled", "False/PoolNotCreated", TEAM)
    assert f"pool small-l4 is not created yet: {QUOTA}" in text(condition(waiting, "Scheduled"), "message")
    cloud.faults.clear()
    world.wait("InferenceEnvironment", ENV, "PoolsValid", "True/Valid")
    world.wait("ModelDeployment", "small", "Scheduled", "True/Placed", TEAM)
    world.remove(TEAM, "small")
    # Google keeps a pool for which it has no nodes, and says nothing: the nodes tell it.
    cloud.stock["more-a100"] = 2
    more = a100(name="more-a100", nodeCount=4)
    world.apply(gke_environment(a100(), l4(), more))
    short = world.wait("InferenceEnvironment", ENV, "HardwareAsDeclared", "False/Drifted")
    assert text(condition(short, "HardwareAsDeclared"), "message") == "pool more-a100: 4 nodes declared, 2 exist"
    assert text(condition(short, "HardwareAsDeclared"), "lastTransitionTime"), "since when"
    cloud.stock.clear()
    world.wait("InferenceEnvironment", ENV, "HardwareAsDeclared", "True/AsDeclared")
    world.apply(gke_environment(a100(), l4()))
    until("the pool to be left to the cloud", lambda: "more-a100" not in policies(world))
    assert cloud.nodes("more-a100"), "Keep is the default"


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gke": {"machineType": "a3-ultragpu-8g"}}, "GKE would replace or restart the nodes"),
        ({"acceleratorCount": 8}, "as GKE creates the pool"),
        ({"gke": None}, "cannot be added to a pool or removed from it"),
    ],
    ids=["machine", "gpus", "not-created"],
)
def test_the_schema_refuses_edits_that_replace_nodes(
    world: World, change: dict[str, Manifest | int | None], why: str
) -> None:
    edited: Manifest = {key: value for key, value in {**a100(), **change}.items() if value is not None}
    with pytest.raises(ChildProcessError, match=why):
        world.stack.kubectl.apply([gke_environment(edited, l4())])


def test_an_edit_that_evades_the_schema_replaces_no_node_that_serves(world: World, cloud: Cloud) -> None:
    """To remove a pool and to add it again is two edits, and no rule of a schema sees both."""
    before, nodes = world.remote_uids(TEAM), cloud.nodes("frontier-a100")
    world.apply(gke_environment(l4()))
    world.wait("InferenceEnvironment", ENV, "PoolsValid", "True/Valid")
    edited = a100()
    edited["gke"] = {"machineType": "a2-newer-4g", "zones": ["us-central1-a", "us-central1-b"]}
    world.apply(gke_environment(edited, l4()))
    found = world.wait("InferenceEnvironment", ENV, "PoolsValid", "False/PoolInUse")
    assert "machineType is a2-newer-4g as declared and a2-ultragpu-4g in Google Cloud" in text(
        condition(found, "PoolsValid"), "message"
    )
    steady("the nodes", lambda: cloud.nodes("frontier-a100") == nodes and not cloud.replaced, seconds=6)
    assert before.items() <= world.remote_uids(TEAM).items()
    world.apply(gke_environment(l4()))
    world.wait("InferenceEnvironment", ENV, "PoolsValid", "True/Valid")
    world.apply(gke_environment(a100(), l4()))
    world.wait("InferenceEnvironment", ENV, "PoolsValid", "True/Valid")


def test_a_removed_pool_stays_while_it_serves(world: World, cloud: Cloud) -> None:
    before, nodes = world.remote_uids(TEAM), cloud.nodes("frontier-a100")
    world.apply(gke_environment(onRemoval="Delete"))
    # The pool that nothing uses is deleted; the one that serves is not, nor are the cluster and its system pool.
    until("the unused pool to be deleted", lambda: cloud.deleted == ["small-l4"])
    expected = dict.fromkeys((CLUSTER, "system", "frontier-a100"), KEEP)
    steady("the others", lambda: policies(world) == expected, seconds=6)
    assert cloud.nodes("frontier-a100") == nodes
    assert before.items() <= world.remote_uids(TEAM).items()
    world.apply(gke_environment(a100()))
    world.wait("InferenceEnvironment", ENV, "PoolsValid", "True/Valid")


def test_the_provider_may_be_down(world: World, cloud: Cloud) -> None:
    before = world.remote_uids(TEAM)
    cloud.down = True
    world.apply(gke_environment(a100(nodeCount=5)))
    steady("what serves", lambda: before.items() <= world.remote_uids(TEAM).items(), seconds=5)
    cloud.down = False
    until("the fifth node", lambda: len(cloud.nodes("frontier-a100")) == 5)
    assert not cloud.replaced


def test_a_deleted_environment_leaves_the_cloud_and_the_model_alone(world: World, cloud: Cloud) -> None:
    before, nodes = world.remote_uids(TEAM), cloud.nodes("frontier-a100")
    deleted = [*cloud.deleted]
    world.stack.hub.delete("InferenceEnvironment", ENV)
    until("the managed resources to go", lambda: not policies(world))
    assert cloud.deleted == deleted
    assert world.stack.hub.get("Secret", f"{ENV}-kubeconfig", NAMESPACE), "Objects still need it"
    steady("what serves", lambda: before.items() <= world.remote_uids(TEAM).items(), seconds=5)
    # It comes back with another machine type and fewer nodes, and finds its cluster and what serves there.
    edited = a100(nodeCount=3)
    edited["gke"] = {**mapping(edited, "gke"), "machineType": "a2-newer-4g"}
    world.apply(gke_environment(edited))
    world.wait("InferenceEnvironment", ENV, "ClusterReady", "True/Connected")
    found = world.wait("InferenceEnvironment", ENV, "PoolsValid", "False/PoolInUse")
    assert "machineType is a2-newer-4g as declared and a2-ultragpu-4g in Google Cloud" in text(
        condition(found, "PoolsValid"), "message"
    )
    world.ready(TEAM, "k2")
    assert cloud.nodes("frontier-a100") == nodes
    assert not cloud.replaced
    assert before.items() <= world.remote_uids(TEAM).items()


@pytest.mark.usefixtures("cloud")
def test_the_kubeconfig_outlives_every_object_that_needs_it(world: World) -> None:
    """The deployment moves away; what it leaves on the old cluster can only be deleted with the old kubeconfig."""
    other = environment("zz-dallas", pool("gpus"))
    mapping(other, "metadata")["labels"] = {"e2e": ENV}
    world.apply(other)
    world.wait("InferenceEnvironment", "zz-dallas", "Ready", "True")
    (old,) = (text(p, "metadata.name") for p in world.placements(TEAM, "k2"))
    service = world.service(world.placement(TEAM, "k2"))
    world.stack.hub.delete("InferenceEnvironment", ENV)

    def moved() -> bool:
        placements = world.placements(TEAM, "k2")
        gone = old not in {text(p, "metadata.name") for p in placements}
        secret = world.stack.hub.get("Secret", f"{ENV}-kubeconfig", NAMESPACE)
        left = [o for o in world.stack.hub.find("Object", TEAM) if old in text(o, "metadata.name")]
        assert secret or not left, f"without the kubeconfig, nobody deletes {left}"
        return gone and not left

    until("the move", moved)
    world.ready(TEAM, "k2")
    gone = partial(world.stack.remote.get, "LLMInferenceService", text(service, "metadata.name"), TEAM)
    until("the old service to go", lambda: gone() is None)
    until("the kubeconfig to go", lambda: world.stack.hub.get("Secret", f"{ENV}-kubeconfig", NAMESPACE) is None)
    world.remove(TEAM, "k2")
    world.stack.hub.delete("InferenceEnvironment", "zz-dallas")


def test_delete_deletes_what_nothing_uses(world: World, cloud: Cloud) -> None:
    cloud.deleted.clear()
    restored = copy.deepcopy(a100(nodeCount=5))
    world.apply(gke_environment(restored, onRemoval="Delete"))
    world.wait("InferenceEnvironment", ENV, "Ready", "True")
    until("the policies", lambda: set(policies(world).values()) == {("*",)})
    world.stack.hub.delete("InferenceEnvironment", ENV)
    until("everything to go", lambda: not policies(world))
    assert sorted(cloud.deleted) == ["frontier-a100", CLUSTER, "system"]
    assert not cloud.nodes("frontier-a100")
