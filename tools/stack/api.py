"""A client for one API server: the handful of verbs that scenarios and players need, as plain manifests.

kubectl costs a process and 0.1 s of CPU a call, too much for polling on two cores, and so would a connection
for each call; what a user would do by hand is still done with kubectl (`kubectl.py`).
"""

import json
import ssl
import urllib.parse
from collections.abc import Generator
from pathlib import Path
from typing import TypeAlias

import urllib3

from function.kube.manifests import Manifest, listing, text
from tools.stack.layout import Home

# kind: where its objects are served
_PATHS = {
    "Cluster": "apis/container.gcp.m.upbound.io/v1beta1 clusters",
    "NodePool": "apis/container.gcp.m.upbound.io/v1beta1 nodepools",
    "Usage": "apis/protection.crossplane.io/v1beta1 usages",
    "ManagedResourceDefinition": "apis/apiextensions.crossplane.io/v1alpha1 managedresourcedefinitions",
    "ClusterModel": "apis/modelplane.ai/v1alpha1 clustermodels",
    "ClusterProviderConfig": "apis/kubernetes.m.crossplane.io/v1alpha1 clusterproviderconfigs",
    "ClusterQueue": "apis/kueue.x-k8s.io/v1beta2 clusterqueues",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1 clusterroles",
    "Composition": "apis/apiextensions.crossplane.io/v1 compositions",
    "ConfigMap": "api/v1 configmaps",
    "Configuration": "apis/pkg.crossplane.io/v1 configurations",
    "ConfigurationRevision": "apis/pkg.crossplane.io/v1 configurationrevisions",
    "Deployment": "apis/apps/v1 deployments",
    "DeploymentRuntimeConfig": "apis/pkg.crossplane.io/v1beta1 deploymentruntimeconfigs",
    "EndpointSlice": "apis/discovery.k8s.io/v1 endpointslices",
    "Event": "api/v1 events",
    "Function": "apis/pkg.crossplane.io/v1 functions",
    "FunctionRevision": "apis/pkg.crossplane.io/v1 functionrevisions",
    "BackendTLSPolicy": "apis/gateway.networking.k8s.io/v1 backendtlspolicies",
    "CustomResourceDefinition": "apis/apiextensions.k8s.io/v1 customresourcedefinitions",
    "Gateway": "apis/gateway.networking.k8s.io/v1 gateways",
    "GatewayClass": "apis/gateway.networking.k8s.io/v1 gatewayclasses",
    "HorizontalPodAutoscaler": "apis/autoscaling/v2 horizontalpodautoscalers",
    "HTTPRoute": "apis/gateway.networking.k8s.io/v1 httproutes",
    "InferencePool": "apis/inference.networking.k8s.io/v1 inferencepools",
    "InferenceEnvironment": "apis/modelplane.ai/v1alpha1 inferenceenvironments",
    "Job": "apis/batch/v1 jobs",
    "LLMInferenceService": "apis/serving.kserve.io/v1alpha2 llminferenceservices",
    "LLMInferenceServiceConfig": "apis/serving.kserve.io/v1alpha2 llminferenceserviceconfigs",
    "LeaderWorkerSet": "apis/leaderworkerset.x-k8s.io/v1 leaderworkersets",
    "LocalQueue": "apis/kueue.x-k8s.io/v1beta2 localqueues",
    "Model": "apis/modelplane.ai/v1alpha1 models",
    "ModelCache": "apis/modelplane.ai/v1alpha1 modelcaches",
    "ModelService": "apis/modelplane.ai/v1alpha1 modelservices",
    "ModelDeployment": "apis/modelplane.ai/v1alpha1 modeldeployments",
    "ModelPlacement": "apis/modelplane.ai/v1alpha1 modelplacements",
    "Namespace": "api/v1 namespaces",
    "Node": "api/v1 nodes",
    "Object": "apis/kubernetes.m.crossplane.io/v1alpha1 objects",
    "ObservedObjectCollection": "apis/kubernetes.m.crossplane.io/v1alpha1 observedobjectcollections",
    "PersistentVolume": "api/v1 persistentvolumes",
    "PersistentVolumeClaim": "api/v1 persistentvolumeclaims",
    "Pod": "api/v1 pods",
    "Provider": "apis/pkg.crossplane.io/v1 providers",
    "ProviderRevision": "apis/pkg.crossplane.io/v1 providerrevisions",
    "ResourceQuota": "api/v1 resourcequotas",
    "ScaledObject": "apis/keda.sh/v1alpha1 scaledobjects",
    "Secret": "api/v1 secrets",
    "Service": "api/v1 services",
    "StorageClass": "apis/storage.k8s.io/v1 storageclasses",
    "Workload": "apis/kueue.x-k8s.io/v1beta2 workloads",
    "CompositeResourceDefinition": "apis/apiextensions.crossplane.io/v2 compositeresourcedefinitions",
}

# As every client of Kubernetes: a server that has just started says 429 and when to come again, and nothing else is
# tried twice.
_RETRIES = urllib3.Retry(
    connect=0,
    read=0,
    redirect=0,
    other=0,
    status=10,
    status_forcelist=(429,),
    allowed_methods=None,
    raise_on_status=False,
)

Body: TypeAlias = "Manifest | list[Manifest] | None"


class RefusedError(OSError):
    """The API server said no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Api:
    """One API server, seen by one identity."""

    def __init__(self, home: Home, identity: str) -> None:
        config = json.loads(home.kubeconfig(identity).read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        tls = ssl.create_default_context(cafile=home.certificates / "ca.crt")
        certificate = _certificate(home, identity)
        tls.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
        self._connections = urllib3.PoolManager(ssl_context=tls, maxsize=2, timeout=15, retries=_RETRIES)

    def ready(self) -> bool:
        """Return whether the server serves, the default namespace included."""
        return bool(self._call("GET", "readyz", plain=True)) and self.get("Namespace", "default") is not None

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """Return the object, or None where there is none."""
        try:
            return self._call("GET", _path(kind, namespace, name))
        except RefusedError as refused:
            if refused.code == 404:
                return None
            raise

    def find(self, kind: str, namespace: str = "", labels: str = "") -> list[Manifest]:
        """Return all objects of a kind, of all namespaces where none is given."""
        query = f"?labelSelector={urllib.parse.quote(labels)}" if labels else ""
        return listing(self._call("GET", _path(kind, namespace) + query), "items")

    def watch(self, kind: str, namespace: str, seconds: int) -> Generator[tuple[str, Manifest]]:
        """Yield each event of a kind with its object, what is there first, for so many seconds; close it when done."""
        response = self._connections.request(
            "GET",
            f"{self._server}/{_path(kind, namespace)}?watch=1&timeoutSeconds={seconds}",
            preload_content=False,
            timeout=seconds + 15,
        )
        unfinished = b""
        with response:
            for part in response.stream():
                *lines, unfinished = (unfinished + part).split(b"\n")
                for event in map(json.loads, lines):
                    yield text(event, "type"), event["object"]

    def apply(self, manifest: Manifest, part: str = "") -> Manifest:
        """Create or update an object, or its `status`, as `kubectl apply --server-side --force-conflicts` does."""
        path = _path(text(manifest, "kind"), text(manifest, "metadata.namespace"), text(manifest, "metadata.name"))
        path += f"/{part}" if part else ""
        return self._call("PATCH", path + "?fieldManager=user&force=true", manifest, "application/apply-patch+yaml")

    def patch(self, kind: str, name: str, body: Body, namespace: str = "", part: str = "") -> Manifest:
        """Merge into an object, or into its `status` where that is the part; a list is a JSON patch."""
        media = "json-patch" if isinstance(body, list) else "merge-patch"
        path = _path(kind, namespace, name) + (f"/{part}" if part else "")
        return self._call("PATCH", path, body, f"application/{media}+json")

    def delete(
        self, kind: str, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        """Delete an object where it exists and has this uid, if one is given; dependants go in the background."""
        options: Manifest = {"preconditions": {"uid": uid}} if uid else {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._call("DELETE", _path(kind, namespace, name), options or None, "application/json")
        except RefusedError as refused:
            if refused.code != 404:
                raise

    def _call(self, verb: str, path: str, body: Body = None, media: str = "", *, plain: bool = False) -> Manifest:
        try:
            response = self._connections.request(
                verb,
                f"{self._server}/{path}",
                body=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": media} if media else {},
            )
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"{verb} {path}: {error}") from None
        if response.status >= 400:
            raise RefusedError(response.status, response.data.decode(errors="replace")[:2000])
        found: Manifest = {"body": response.data.decode()} if plain else json.loads(response.data)
        return found


def _certificate(home: Home, identity: str) -> Path:
    return home.certificates / f"{identity}.crt"


def _path(kind: str, namespace: str, name: str = "") -> str:
    if kind not in _PATHS:
        # A KeyError would count as "not yet" where a scenario waits (waiting.py).
        raise ValueError(f"no path is known for kind {kind}")
    group, plural = _PATHS[kind].split()
    parts = (group, *(("namespaces", namespace) if namespace else ()), plural, *((name,) if name else ()))
    return "/".join(parts)
