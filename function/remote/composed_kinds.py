"""The kinds of resources that this function composes: one row each, and every list of them follows from these rows.

A row defines when a resource of the kind is up, and which rights the kind needs. The parts of composites define the
names of composed resources (parts/part.py). One table has the kinds that Crossplane applies on the control plane, the
other table the kinds that provider-kubernetes applies on GPU clusters. Tests compare the rules in `install/*.yaml` with
the rows.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.kube.names import VERSION
from function.remote.health import (
    UP,
    Health,
    Level,
    assess_claim,
    assess_job,
    assess_namespace,
    assess_ready_condition,
    assess_route,
    assess_service,
)

OBJECT_GROUP = "kubernetes.m.crossplane.io"
OBJECT_VERSION = f"{OBJECT_GROUP}/v1alpha1"
ResourceKind: TypeAlias = tuple[str, str]  # apiVersion and kind
OBJECT: ResourceKind = (OBJECT_VERSION, "Object")
ROUTE_VERSION = "gateway.networking.k8s.io/v1"
MONITORING_VERSION = "monitoring.coreos.com/v1"
KEDA_VERSION = "keda.sh/v1alpha1"
KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"
GKE_GROUP = "container.gcp.m.upbound.io"
GKE_VERSION = f"{GKE_GROUP}/v1beta1"
USAGE_VERSION = "protection.crossplane.io/v1beta1"
SERVING_VERSION = "serving.kserve.io/v1alpha2"
# The creation time of planned resources: placements are charged in the order of creation, and planned ones last.
PLANNED_TIME = "9999-12-31T23:59:59Z"
PROVIDER_CONFIG_KIND = "ClusterProviderConfig"
COLLECTION_KIND = "ObservedObjectCollection"  # keeps one Object for each node of a cluster
PROVIDER_USAGE_KIND = "ProviderConfigUsage"
USAGE_KIND = "Usage"
CLUSTER_KIND = "Cluster"  # of GKE
NODE_POOL_KIND = "NodePool"
READ = ("get", "list", "watch")
_COMPOSED = (*READ, "create", "patch")
_DELETED = (*_COMPOSED, "delete")
ALL_VERBS = (*READ, "create", "update", "patch", "delete")
HASHED = r"[a-z](?:[a-z0-9-]*[a-z0-9])?-[0-9a-f]{8}"  # `names.build_name`


class Role(Enum):
    """The ClusterRole that allows Crossplane to compose a kind."""

    CORE = "modelplane:aggregate-to-crossplane"  # install/hub-rbac.yaml
    GATEWAY = "modelplane:gateway-aggregate-to-crossplane"  # install/gateway-rbac.yaml
    KEDA = "modelplane:keda-aggregate-to-crossplane"  # install/keda-rbac.yaml
    GKE = "modelplane:gke-aggregate-to-crossplane"  # install/gke-rbac.yaml
    OWN = ""  # Crossplane's own


@lru_cache(maxsize=256)
def _group(version: str) -> str:
    return version.rpartition("/")[0]


def _nothing(_: Manifest) -> Manifest:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedKind:
    """One kind; `resource` is its plural, as rights name it."""

    version: str  # apiVersion
    kind: str
    resource: str
    namespaced: bool = True
    verbs: tuple[str, ...]  # that Crossplane or the provider needs
    assess: Callable[[Manifest], Health] = assess_ready_condition
    # Returns the fields that its controller writes once it is up, where the command line plays this controller.
    report_up: Callable[[Manifest], Manifest] = _nothing

    @property
    def group(self) -> str:
        return _group(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneKind(ComposedKind):
    """A kind on the control plane."""

    role: Role = Role.CORE
    has_external_name: bool = False  # the function sets the name that the resource has in a cloud
    verbs: tuple[str, ...] = ALL_VERBS


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClusterKind(ComposedKind):
    """A kind on a GPU cluster, inside an Object.

    `readiness` is the health in CEL for provider-kubernetes, which polls every 30 s only while an Object is not Ready.
    An error in a query counts as not ready, hence the `has()`.
    """

    readiness: str = ""


def _is_always_up(_: Manifest) -> Health:
    return UP


def _report_claim(manifest: Manifest) -> Manifest:
    size = text(manifest, "spec.resources.requests.storage") or "4Ti"
    modes = get(manifest, "spec.accessModes") or ["ReadWriteMany"]
    spec: Manifest = {"accessModes": modes, "volumeName": "planned", **mapping(manifest, "spec")}
    return {"spec": spec, "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}}


def _report_job(_: Manifest) -> Manifest:
    completed = list_true_conditions("Complete")
    return {"status": {"succeeded": 1, "completionTime": PLANNED_TIME, "conditions": completed}}


def _report_storage_class(_: Manifest) -> Manifest:
    return {"provisioner": "planned", "volumeBindingMode": "WaitForFirstConsumer"}


def _report_service(manifest: Manifest) -> Manifest:
    workload = "WorkerWorkloadReady" if "worker" in mapping(manifest, "spec") else "MainWorkloadReady"
    conditions = list_true_conditions("PresetsCombined", workload, "WorkloadsReady", "RouterReady", "Ready")
    reported: Manifest = {
        "workloads": {
            "primary": {"readyReplicas": get(manifest, "spec.replicas")},
            "service": {"name": f"{text(manifest, 'metadata.name')}-kserve-workload-svc"},
        },
        "router": {"gateways": [{"name": "kserve-ingress-gateway", "namespace": "kserve"}]},
    }
    if scheduler := mapping(manifest, "spec.router.scheduler"):
        mapping(reported, "workloads")["scheduler"] = {"readyReplicas": scheduler.get("replicas", 1)}
        pool: Manifest = {"name": f"{text(manifest, 'metadata.name')}-inference-pool"}
        mapping(reported, "router")["scheduler"] = {"inferencePool": pool}
    return {"status": {"observedGeneration": 1, "conditions": conditions, **reported}}


def _report_route(_: Manifest) -> Manifest:
    seen: list[JSON] = [
        {"type": type_, "status": "True", "observedGeneration": 1} for type_ in ("Accepted", "ResolvedRefs")
    ]
    return {"status": {"parents": [{"conditions": seen}]}}


def list_true_conditions(*types: str) -> list[JSON]:
    """Returns conditions of a planned resource that are True."""
    return [{"type": type_, "status": "True", "reason": "Planned"} for type_ in types]


CONTROL_PLANE_KINDS: tuple[ControlPlaneKind, ...] = (
    ControlPlaneKind(version=OBJECT_VERSION, kind="Object", resource="objects"),
    ControlPlaneKind(
        version=OBJECT_VERSION,
        kind=PROVIDER_CONFIG_KIND,
        resource="clusterproviderconfigs",
        namespaced=False,
        assess=_is_always_up,
    ),
    ControlPlaneKind(
        version=OBJECT_VERSION, kind=COLLECTION_KIND, resource="observedobjectcollections", assess=_is_always_up
    ),
    ControlPlaneKind(
        version=OBJECT_VERSION, kind=PROVIDER_USAGE_KIND, resource="providerconfigusages", assess=_is_always_up
    ),
    ControlPlaneKind(version=USAGE_VERSION, kind=USAGE_KIND, resource="usages", role=Role.OWN),
    ControlPlaneKind(version=VERSION, kind="ModelPlacement", resource="modelplacements"),
    ControlPlaneKind(version=VERSION, kind="ModelService", resource="modelservices"),
    ControlPlaneKind(version="v1", kind="Service", resource="services", role=Role.GATEWAY),
    ControlPlaneKind(version="discovery.k8s.io/v1", kind="EndpointSlice", resource="endpointslices", role=Role.GATEWAY),
    ControlPlaneKind(
        version=ROUTE_VERSION, kind="HTTPRoute", resource="httproutes", role=Role.GATEWAY, report_up=_report_route
    ),
    ControlPlaneKind(version=ROUTE_VERSION, kind="BackendTLSPolicy", resource="backendtlspolicies", role=Role.GATEWAY),
    ControlPlaneKind(version=KEDA_VERSION, kind="ScaledObject", resource="scaledobjects", role=Role.KEDA),
    ControlPlaneKind(
        version=GKE_VERSION, kind=CLUSTER_KIND, resource="clusters", role=Role.GKE, has_external_name=True
    ),
    ControlPlaneKind(
        version=GKE_VERSION, kind=NODE_POOL_KIND, resource="nodepools", role=Role.GKE, has_external_name=True
    ),
)
GPU_CLUSTER_KINDS: tuple[GpuClusterKind, ...] = (
    GpuClusterKind(
        version="v1",
        kind="Namespace",
        resource="namespaces",
        namespaced=False,
        verbs=_COMPOSED,
        assess=assess_namespace,
    ),
    GpuClusterKind(version="v1", kind="Secret", resource="secrets", verbs=_DELETED, assess=_is_always_up),
    GpuClusterKind(
        version="v1",
        kind="PersistentVolumeClaim",
        resource="persistentvolumeclaims",
        verbs=_DELETED,
        assess=assess_claim,
        readiness="has(object.status) && has(object.status.phase) && object.status.phase == 'Bound'",
        report_up=_report_claim,
    ),
    GpuClusterKind(version="v1", kind="ConfigMap", resource="configmaps", verbs=_DELETED, assess=_is_always_up),
    GpuClusterKind(
        version="batch/v1",
        kind="Job",
        resource="jobs",
        verbs=_DELETED,
        assess=assess_job,
        readiness=(
            "has(object.status) && has(object.status.conditions) && "
            "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')"
        ),
        report_up=_report_job,
    ),
    GpuClusterKind(
        version=SERVING_VERSION,
        kind="LLMInferenceService",
        resource="llminferenceservices",
        verbs=_DELETED,
        assess=assess_service,
        readiness=(
            "has(object.status) && has(object.status.conditions) && has(object.status.observedGeneration) && "
            "object.status.observedGeneration == object.metadata.generation && "
            "['Ready', 'PresetsCombined'].all(t, "
            "object.status.conditions.exists(c, c.type == t && c.status == 'True'))"
        ),
        report_up=_report_service,
    ),
    GpuClusterKind(
        version=SERVING_VERSION,
        kind="LLMInferenceServiceConfig",
        resource="llminferenceserviceconfigs",
        verbs=_COMPOSED,
        assess=_is_always_up,
    ),
    GpuClusterKind(
        version="storage.k8s.io/v1",
        kind="StorageClass",
        resource="storageclasses",
        namespaced=False,
        verbs=(*READ, "patch"),
        assess=_is_always_up,
        report_up=_report_storage_class,
    ),
    # Observed by an ObservedObjectCollection.
    GpuClusterKind(version="v1", kind="Node", resource="nodes", namespaced=False, verbs=("get", "list", "patch")),
    GpuClusterKind(version="apps/v1", kind="Deployment", resource="deployments", verbs=(*READ, "patch")),
    GpuClusterKind(version=KUEUE_VERSION, kind="LocalQueue", resource="localqueues", verbs=(*READ, "patch")),
    GpuClusterKind(
        version=KUEUE_VERSION, kind="ClusterQueue", resource="clusterqueues", namespaced=False, verbs=(*READ, "patch")
    ),
    # A pod that is not Ready is polled every 30 s where the provider does not watch.
    GpuClusterKind(
        version="v1",
        kind="Pod",
        resource="pods",
        verbs=(*READ, "patch"),
        readiness=(
            "has(object.status) && has(object.status.conditions) && "
            "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
        ),
    ),
    GpuClusterKind(
        version=MONITORING_VERSION, kind="PodMonitor", resource="podmonitors", verbs=_DELETED, assess=_is_always_up
    ),
    GpuClusterKind(
        version=ROUTE_VERSION,
        kind="HTTPRoute",
        resource="httproutes",
        verbs=_DELETED,
        assess=assess_route,
        readiness=(
            "has(object.status) && has(object.status.parents) && size(object.status.parents) > 0 && "
            "object.status.parents.all(p, has(p.conditions) && ['Accepted', 'ResolvedRefs'].all(t, "
            "p.conditions.exists(c, c.type == t && c.status == 'True' && has(c.observedGeneration) && "
            "c.observedGeneration == object.metadata.generation)))"
        ),
        report_up=_report_route,
    ),
)
_ON_CONTROL_PLANE: Mapping[tuple[str, str], ControlPlaneKind] = {
    (row.group, row.kind): row for row in CONTROL_PLANE_KINDS
}
_ON_GPU_CLUSTERS: Mapping[tuple[str, str], GpuClusterKind] = {(row.group, row.kind): row for row in GPU_CLUSTER_KINDS}


def find_control_plane_kind(manifest: Manifest) -> ControlPlaneKind | None:
    """Returns the row of a resource on the control plane; None for a kind that is not composed."""
    return _ON_CONTROL_PLANE.get(_identify(manifest))


def find_gpu_cluster_kind(manifest: Manifest) -> GpuClusterKind | None:
    """Returns the row of a resource on a GPU cluster; None for a kind that is not composed."""
    return _ON_GPU_CLUSTERS.get(_identify(manifest))


class NamePatterns:
    """The composition-resource-names under which a kind of composite composes resources, by their kinds."""

    def __init__(self, patterns: Mapping[ResourceKind, str]) -> None:
        """Takes regular expressions.

        Raises:
            ValueError: A kind has no row in `CONTROL_PLANE_KINDS`.
        """
        self.patterns = {(_group(version), kind): re.compile(p) for (version, kind), p in patterns.items()}
        if not self.patterns.keys() <= _ON_CONTROL_PLANE.keys():
            raise ValueError(
                f"no row in CONTROL_PLANE_KINDS for {sorted(self.patterns.keys() - _ON_CONTROL_PLANE.keys())}"
            )

    @staticmethod
    def join(several: Iterable["NamePatterns"]) -> "NamePatterns":
        """Returns the names that any of these include."""
        joined = NamePatterns({})
        for names in several:
            for kind, pattern in names.patterns.items():
                earlier = joined.patterns.get(kind)
                joined.patterns[kind] = re.compile(f"{earlier.pattern}|{pattern.pattern}") if earlier else pattern
        return joined

    def include(self, name: str, manifest: Manifest) -> bool:
        """Tells whether a resource of this kind is composed under this name, in any version of its API."""
        pattern = self.patterns.get(_identify(manifest))
        return pattern is not None and pattern.fullmatch(name) is not None


def assess(manifest: Manifest) -> Health:
    """Returns the health of a manifest as read from its cluster; an empty one is progressing."""
    if not manifest:
        return Health(Level.PROGRESSING, "not created yet")
    row = find_gpu_cluster_kind(manifest)
    return row.assess(manifest) if row else assess_ready_condition(manifest)


def build_readiness(manifest: Manifest) -> Manifest | None:
    """Returns the rule by which the provider reports an Object ready; None: as soon as it has applied the manifest."""
    row = find_gpu_cluster_kind(manifest)
    return {"policy": "DeriveFromCelQuery", "celQuery": row.readiness} if row and row.readiness else None


def _identify(manifest: Manifest) -> tuple[str, str]:
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    return (_group(version), kind) if isinstance(version, str) and isinstance(kind, str) else ("", "")
