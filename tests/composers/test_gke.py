"""The cluster of an environment with `cluster.gke.provision`: what is composed, when, and what is said."""

import pytest

from function.api.inference_environment import parse_environment
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest, get, listing, mapping, strings, text
from tests.support.gke import build_definitions, established
from tests.support.gke_scene import (
    A100,
    CLUSTER,
    ENV,
    FORBIDDEN,
    KEEP,
    NAMESPACE,
    SYSTEM,
    USAGE,
    Scene,
    environment,
    policies,
    said,
)


def test_composes_only_the_cluster_until_it_is_ready() -> None:
    scene = Scene()
    outcome = scene.reconcile()
    assert [*outcome.composed] == [CLUSTER]
    assert said(outcome, "ClusterReady") == (
        "Unknown",
        "Provisioning",
        "Waiting for provider-gcp-container to create cluster gke-us-6695d3fe in project my-project, us-central1",
    )
    assert outcome.composed[CLUSTER].manifest == {
        "apiVersion": "container.gcp.m.upbound.io/v1beta1",
        "kind": "Cluster",
        "metadata": {
            "name": text(outcome.composed[CLUSTER].manifest, "metadata.name"),
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "modelplane", "modelplane.ai/environment": ENV},
            "annotations": {"crossplane.io/external-name": "gke-us-6695d3fe"},
        },
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "default"},
            "managementPolicies": KEEP,
            "writeConnectionSecretToRef": {"name": "gke-us-kubeconfig"},
            "initProvider": {"initialNodeCount": 1},
            "forProvider": {
                "project": "my-project",
                "location": "us-central1",
                "network": "default",
                "ipAllocationPolicy": {},
                "networkingMode": "VPC_NATIVE",
                "datapathProvider": "ADVANCED_DATAPATH",
                "removeDefaultNodePool": True,
                "deletionProtection": False,
                "releaseChannel": {"channel": "REGULAR"},
                "workloadIdentityConfig": {"workloadPool": "my-project.svc.id.goog"},
                "privateClusterConfig": {"enablePrivateNodes": False},
                "addonsConfig": {"gcpFilestoreCsiDriverConfig": {"enabled": True}},
                "maintenancePolicy": {
                    "dailyMaintenanceWindow": {"startTime": "03:00"},
                    "maintenanceExclusion": [
                        {
                            "exclusionName": "modelplane",
                            "startTime": "2026-01-01T00:00:00Z",
                            "exclusionOptions": {
                                "scope": "NO_MINOR_OR_NODE_UPGRADES",
                                "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
                            },
                        }
                    ],
                },
            },
        },
    }


def test_composes_pools_and_the_connection_once_the_cluster_is_ready() -> None:
    scene = Scene()
    scene.reconcile()
    scene.report(CLUSTER)
    outcome = scene.reconcile()
    assert {CLUSTER, SYSTEM, A100, USAGE, "provider-config", "pipeline-preset"} <= outcome.composed.keys()
    assert set(map(str, policies(outcome).values())) == {str(KEEP)}, "nothing is deleted in Google Cloud by default"
    pool = outcome.composed[A100].manifest
    assert mapping(pool, "spec.initProvider") == {}
    assert mapping(pool, "spec.forProvider") == {
        "project": "my-project",
        "location": "us-central1",
        "clusterRef": {"name": text(outcome.composed[CLUSTER].manifest, "metadata.name")},
        "nodeLocations": ["us-central1-a"],
        "management": {"autoRepair": True, "autoUpgrade": True},
        "upgradeSettings": {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1},
        "nodeCount": 4,
        "nodeConfig": {
            "machineType": "a2-ultragpu-4g",
            "diskSizeGb": 100,
            "imageType": "COS_CONTAINERD",
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "gvnic": {"enabled": True},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "metadata": {"disable-legacy-endpoints": "true"},
            "labels": {"modelplane.ai/pool": "a100"},
            "guestAccelerator": [
                {"type": "nvidia-a100-80gb", "count": 4, "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"}}
            ],
            "taint": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": ["projects/my-project/reservations/block"],
            },
        },
    }
    assert strings(pool, "metadata.annotations") == {"crossplane.io/external-name": "a100"}
    usage = outcome.composed[USAGE].manifest
    assert text(usage, "metadata.namespace") == NAMESPACE
    assert mapping(usage, "spec") == {
        "of": {"apiVersion": "v1", "kind": "Secret", "resourceRef": {"name": "gke-us-kubeconfig"}},
        "by": {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "ClusterProviderConfig",
            "resourceRef": {"name": text(outcome.status, "providerConfigRef.name")},
        },
        "replayDeletion": True,
    }
    assert said(outcome, "PoolsValid")[1:] == (
        "Valid",
        "1 pool. Note: Google Cloud creates node pool system; Google Cloud creates node pool a100",
    )
    assert listing(outcome.status, "pools")[0]["nodeSelector"] == {"cloud.google.com/gke-nodepool": "a100"}


def test_the_nodes_of_a_pool_of_fixed_size_are_divided_among_its_zones() -> None:
    """GKE counts nodes per zone: four nodes in each of two zones would be eight."""
    scene = Scene()
    mapping(scene.pool(), "gke")["zones"] = ["us-central1-a", "us-central1-b"]
    sent = mapping(scene.bring_up().composed[A100].manifest, "spec.forProvider")
    assert sent["nodeCount"] == 2
    assert "autoscaling" not in sent


def test_an_autoscaled_pool_starts_with_its_minimum() -> None:
    """The autoscaler of GKE adds nodes for pods that wait, and never to reach a minimum."""
    scene = Scene()
    scene.pool()["maxNodeCount"] = 9
    manifest = scene.bring_up().composed[A100].manifest
    assert get(manifest, "spec.initProvider.initialNodeCount") == 4
    size = {"totalMinNodeCount": 4, "totalMaxNodeCount": 9, "locationPolicy": "ANY"}
    assert mapping(manifest, "spec.forProvider.autoscaling") == size
    assert get(manifest, "spec.forProvider.nodeCount") is None
    system = scene.observed[SYSTEM]
    assert get(system, "spec.initProvider.initialNodeCount") == 1, "in each of the three zones of a region"


@pytest.mark.parametrize("missing", ["clusters", "nodepools"])
def test_composes_nothing_while_the_provider_does_not_serve_both_kinds(missing: str) -> None:
    served = [established(d) for d in build_definitions() if not text(d, "metadata.name").startswith(missing)]
    outcome = Scene(definitions=served).reconcile()
    assert not outcome.composed
    assert outcome.status["pools"], "the ledger is published all the same"
    assert said(outcome, "ClusterReady") == (
        "False",
        "ProviderMissing",
        (
            f"The control plane does not serve {missing}.container.gcp.m.upbound.io: install provider-gcp-container "
            "v3.0.0 or later, and apply install/gke-activation.yaml"
        ),
    )


def test_composes_nothing_for_a_provider_without_our_fields() -> None:
    cluster, pool = build_definitions()
    schema = "spec.forProvider.maintenancePolicy.maintenanceExclusion"
    fields = mapping(listing(cluster, "spec.versions")[0], "schema.openAPIV3Schema")
    for key in schema.split("."):
        fields = mapping(mapping(fields, "properties"), key)
    options = mapping(mapping(mapping(fields, "items"), "properties"), "exclusionOptions")
    del mapping(options, "properties")["endTimeBehavior"]
    outcome = Scene(definitions=[established(cluster), established(pool)]).reconcile()
    assert not outcome.composed
    assert said(outcome, "ClusterReady")[1:] == (
        "ProviderMissing",
        (
            "clusters.container.gcp.m.upbound.io has no field "
            "spec.forProvider.maintenancePolicy.maintenanceExclusion.exclusionOptions.endTimeBehavior: install "
            "provider-gcp-container v3.0.0 or later"
        ),
    )


def test_waits_for_the_definitions() -> None:
    outcome = Scene().reconcile(unanswered="cluster-definition")
    assert not outcome.composed
    assert said(outcome, "ClusterReady")[:2] == ("Unknown", "Provisioning")


@pytest.mark.parametrize(
    ("type_", "message", "words"),
    [
        (
            "LastAsyncOperation",
            FORBIDDEN,
            (
                "Error creating NodePool: googleapi: Error 403: Insufficient regional quota to satisfy request: "
                "resource NVIDIA_A100_GPUS, forbidden"
            ),
        ),
        ("Synced", "connect failed: cannot get credentials", "connect failed: cannot get credentials"),
    ],
)
def test_says_why_the_cluster_cannot_be_created(type_: str, message: str, words: str) -> None:
    scene = Scene()
    scene.reconcile()
    scene.report(CLUSTER, {}, Ready="False", **{type_: message})
    outcome = scene.reconcile()
    assert [*outcome.composed] == [CLUSTER]
    assert said(outcome, "ClusterReady") == (
        "False",
        "ProvisioningFailed",
        f"cluster gke-us-6695d3fe in project my-project, us-central1: {words}",
    )


def test_a_normal_creation_is_no_failure() -> None:
    scene = Scene()
    scene.reconcile()
    scene.report(CLUSTER, {}, Ready="False")
    assert said(scene.reconcile(), "ClusterReady")[:2] == ("Unknown", "Provisioning")
    scene.report(CLUSTER)
    scene.reconcile()
    scene.report(A100, {}, Ready="False", Synced="cannot resolve references: referenced field was empty")
    assert said(scene.reconcile(), "PoolsValid")[:2] == ("True", "Valid")


def test_says_why_a_pool_cannot_be_created_and_uses_the_others() -> None:
    scene = Scene()
    scene.bring_up()
    scene.report(A100, {}, Ready="False", LastAsyncOperation=FORBIDDEN)
    outcome = scene.reconcile()
    assert said(outcome, "PoolsValid") == (
        "False",
        "NodePoolFailed",
        (
            "node pool a100: Error creating NodePool: googleapi: Error 403: Insufficient regional quota to satisfy "
            "request: resource NVIDIA_A100_GPUS, forbidden"
        ),
    )
    assert outcome.composed[A100].ready, "the environment may be Ready for its other pools"


def test_a_pool_counts_only_once_it_is_created() -> None:
    """Nodes of an autoscaled pool count as soon as it could have them, so models would wait there for ever."""
    scene = Scene()
    scene.pool().update({"nodeCount": 0, "maxNodeCount": 4})
    scene.reconcile()
    scene.report(CLUSTER)
    assert _not_created(scene) == ["Google Cloud creates it"]
    scene.report(A100, {}, Ready="False", LastAsyncOperation=FORBIDDEN)
    assert _not_created(scene) == [
        (
            "Error creating NodePool: googleapi: Error 403: Insufficient regional quota to satisfy request: resource "
            "NVIDIA_A100_GPUS, forbidden"
        )
    ]
    scene.report(A100)
    assert _not_created(scene) == [None]
    # A refused change of a pool that exists takes nothing away.
    scene.report(A100, LastAsyncOperation=FORBIDDEN)
    assert _not_created(scene) == [None]


def _not_created(scene: Scene) -> list[JSON]:
    """Return what the status says, and what a deployment reads there, which is the same."""
    scene.reconcile()
    said = [row.get("notCreated") for row in listing(scene.xr, "status.pools")]
    parsed = parse_environment(scene.xr, Settings()).value
    assert [pool.not_created or None for pool in parsed.pools] == said
    return said


def test_every_composed_field_is_in_the_schema_of_the_provider() -> None:
    """Everything that can be set is set; the scene refuses fields that its CRDs lack."""
    provision: Manifest = {
        "providerConfigRef": {"kind": "ProviderConfig", "name": "google"},
        "network": {"name": "vpc", "subnetwork": "sub", "podRange": "pods", "serviceRange": "services"},
        "privateNodes": True,
        "maintenance": {"dailyStart": "22:00", "nodeUpgrades": "InWindow"},
        "systemPool": {"machineType": "n2-standard-8", "maxNodes": 5},
    }
    scene = Scene(environment(**provision))
    mapping(scene.xr, "spec.cluster.gke")["kubernetesVersion"] = "1.34"
    spot: Manifest = {
        "name": "l4",
        "acceleratorType": "nvidia-l4",
        "nodeCount": 0,
        "maxNodeCount": 8,
        "labels": {"team": "research", "cloud.google.com/gke-nodepool": "l4"},
        "taints": [
            {"key": "team", "value": "research", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        ],
        "gke": {
            "machineType": "g2-standard-12",
            "zones": ["us-central1-b"],
            "spot": True,
            "compactPlacement": True,
            "driverVersion": "LATEST",
        },
    }
    mapping(scene.pool(), "gke")["reservation"] = "projects/other/reservations/r/reservationBlocks/b"
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": [scene.pool(), spot]}
    outcome = scene.bring_up()
    cluster = mapping(outcome.composed[CLUSTER].manifest, "spec.forProvider")
    assert cluster["subnetwork"] == "sub"
    assert cluster["minMasterVersion"] == "1.34"
    assert cluster["maintenancePolicy"] == {"dailyMaintenanceWindow": {"startTime": "22:00"}}
    assert mapping(outcome.composed[SYSTEM].manifest, "spec.forProvider.autoscaling")["totalMaxNodeCount"] == 5
    l4 = mapping(outcome.composed["gke-pool-l4"].manifest, "spec.forProvider")
    config = mapping(l4, "nodeConfig")
    assert l4["placementPolicy"] == {"type": "COMPACT"}
    assert config["spot"] is True
    assert config["labels"] == {"modelplane.ai/pool": "l4", "team": "research"}
    assert config["taint"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
        {"key": "team", "value": "research", "effect": "NO_SCHEDULE"},
    ]
    assert l4["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 8, "locationPolicy": "ANY"}
    reservation = mapping(outcome.composed[A100].manifest, "spec.forProvider.nodeConfig.reservationAffinity")
    assert reservation["values"] == ["projects/other/reservations/r/reservationBlocks/b"]
