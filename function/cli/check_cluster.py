"""What a GPU cluster needs, checked with the kubeconfig that an environment will name.

No API tells the release of a project: the version that it serves is checked, and the tag of its controller's image
where the identity may read it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from function.cli.live import Cluster
from function.cli.prerequisites import Line, State, check_controller, check_release, check_served, list_denied
from function.kube.manifests import condition, listing, text
from function.kube.messages import format_count, join_with_more
from function.remote.nodes import parse_node
from function.serving.service import API_VERSION

_WRITES = ("get", "list", "watch", "create", "patch")
_ALL = (*_WRITES, "delete")

# What must be allowed on resources in all namespaces.
RIGHTS = {
    "namespaces": _WRITES,
    "secrets": _ALL,
    "persistentvolumeclaims": _ALL,
    "configmaps": _ALL,
    "jobs.batch": _ALL,
    "llminferenceservices.serving.kserve.io": _ALL,
    "llminferenceserviceconfigs.serving.kserve.io": _WRITES,
    "storageclasses.storage.k8s.io": ("get", "list", "watch", "patch"),
    "nodes": ("get", "list", "patch"),
    "deployments.apps": ("get", "list", "watch", "patch"),
    "httproutes.gateway.networking.k8s.io": _ALL,
}
_DISPENSABLE = {
    "storageclasses.storage.k8s.io": (
        "patch may be left out where provider-kubernetes runs with --enable-server-side-apply=false"
    ),
    "nodes": "may be left out where spec.hardware.observe of the environment is Never",
    "deployments.apps": "may be left out where no ModelDeployment on the cluster has rollout.environments: OneByOne",
    "httproutes.gateway.networking.k8s.io": "may be left out where no ModelService sends requests to the cluster",
}
# The minimum versions of docs/install.md.
KUBERNETES, KSERVE, LWS = "v1.31", "v0.20", "v0.8"
_LWS_API, _GATEWAY_API = "leaderworkerset.x-k8s.io/v1", "gateway.networking.k8s.io/v1"
# Controllers as their projects install them.
_LWS_CONTROLLER = "/apis/apps/v1/namespaces/lws-system/deployments/lws-controller-manager"
_KSERVE_CONTROLLER = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager"
_KSERVE_RESOURCES = ("llminferenceservices", "llminferenceserviceconfigs")
_PRESETS = f"/apis/{API_VERSION}/namespaces/kserve/llminferenceserviceconfigs"
_GATEWAY = f"/apis/{_GATEWAY_API}/namespaces/kserve/gateways/kserve-ingress-gateway"
# Presets that KServe looks up for our services, below a prefix of its release. The one for pipelines is ours.
_PRESET_NAMES = ("config-llm-template", "config-llm-worker-data-parallel", "config-llm-router-route")
_NODES_NAMED = 3


def list_cluster_checks(cluster: Cluster, *, with_gateway: bool, gpu_resources: Sequence[str]) -> Iterator[Line]:
    """Runs all checks, in the order in which one would correct what is missing."""
    version = text(cluster.fetch("/version"), "gitVersion")
    yield check_release("Kubernetes", version, KUBERNETES, "Upgrade the cluster")
    todo = "Install LeaderWorkerSet, then restart KServe's controller, which looks for it only when it starts"
    served = check_served(cluster, "LeaderWorkerSet", _LWS_API, ("leaderworkersets",), todo)
    yield check_controller(cluster, served, _LWS_CONTROLLER, LWS, todo)
    todo = "Install KServe with its LLMInferenceService controller"
    served = check_served(cluster, "KServe", API_VERSION, _KSERVE_RESOURCES, todo)
    yield check_controller(cluster, served, _KSERVE_CONTROLLER, KSERVE, todo)
    yield _check_presets(cluster)
    if with_gateway:
        otherwise = "or set kserve.gateway: false on the environment, and check with --no-gateway"
        resources, todo = ("gateways", "httproutes"), f"Install its CRDs, {otherwise}"
        yield check_served(cluster, "Gateway API", _GATEWAY_API, resources, todo)
        yield _check_gateway(cluster, f"Create that Gateway, {otherwise}")
    yield from _check_classes(cluster)
    yield from _check_nodes(cluster, gpu_resources)
    for right, verbs in RIGHTS.items():
        check = Line(check=f"rights on {right.partition('.')[0]}", wanted=", ".join(verbs))
        denied = list_denied(cluster, right, verbs)
        found, todo = (
            f"not {', '.join(denied or ())}",
            "Apply install/remote-rbac.yaml with this identity as its subject",
        )
        if not denied:
            yield replace(check, found="all")
        elif right in _DISPENSABLE:
            yield check.warn(found, f"{todo}; {_DISPENSABLE[right]}")
        else:
            yield check.missing(found, todo)


def _check_presets(cluster: Cluster) -> Line:
    check, answer = Line(check="KServe's presets", wanted=", ".join(_PRESET_NAMES)), cluster.fetch(_PRESETS)
    if answer is None:
        return check.forbidden()
    names = [text(preset, "metadata.name") for preset in listing(answer, "items")]
    lacking = [preset for preset in _PRESET_NAMES if not any(name.endswith(preset) for name in names)]
    found = f"{format_count(len(names), 'LLMInferenceServiceConfig')} in kserve"
    todo = f"Install the presets of KServe's release in its namespace; there is no {' and no '.join(lacking)}"
    return check.missing(found, todo) if lacking else replace(check, found=found)


def _check_gateway(cluster: Cluster, todo: str) -> Line:
    check = Line(check="Gateway kserve/kserve-ingress-gateway", wanted="Programmed, with an address")
    answer = cluster.fetch(_GATEWAY)
    if answer is None:
        return check.forbidden()
    if not answer:
        return check.missing("none", todo)
    addresses = [text(address, "value") for address in listing(answer, "status.addresses")]
    programmed = condition(answer, "Programmed")
    if addresses and text(programmed, "status") == "True":
        return replace(check, found=f"Programmed at {addresses[0]}")
    message = text(programmed, "message")
    todo = f"Look at its GatewayClass and its controller{f', which says: {message}' if message else ''}"
    return check.missing("not Programmed" if addresses else "no address", todo)


def _check_classes(cluster: Cluster) -> Iterator[Line]:
    check = Line(check="storage class", wanted="ReadWriteMany for models over several nodes")
    answer = cluster.fetch("/apis/storage.k8s.io/v1/storageclasses")
    if answer is None:
        yield check.forbidden()
        return
    classes = listing(answer, "items")
    for class_ in classes:
        found = f"{text(class_, 'provisioner')}, {text(class_, 'volumeBindingMode') or 'Immediate'}"
        name = f"{check.check} {text(class_, 'metadata.name')}"
        yield replace(check, check=name, state=State.UNCHECKED, found=found)
    if not classes:
        todo = "Create one, and name it in spec.storage; environments with claims of their own or EmptyDir need none"
        yield check.warn("none", todo)


def _check_nodes(cluster: Cluster, resources: Sequence[str]) -> Iterator[Line]:
    check = Line(check="GPUs", wanted="nodes that offer them to the scheduler")
    answer = cluster.fetch("/api/v1/nodes")
    if answer is None:
        yield check.forbidden()
        return
    nodes = [parse_node(node) for node in listing(answer, "items")]
    for resource in resources:
        offering = [node for node in nodes if node.allocatable.get(resource)]
        if offering:
            gpus = sum(node.allocatable[resource] for node in offering)
            unready = [node.name for node in offering if not node.ready or node.cordoned]
            away = f", not Ready or cordoned: {join_with_more(unready, _NODES_NAMED)}" if unready else ""
            found = f"{gpus} on {format_count(len(offering), 'node')}{away}"
            yield replace(check, check=f"{check.check} {resource}", found=found)
    without = [node.name for node in nodes if not any(node.allocatable.get(resource) for resource in resources)]
    if without and len(without) < len(nodes):
        names = join_with_more(without, _NODES_NAMED)
        yield Line(check="nodes without GPUs", found=f"{len(without)} of {len(nodes)}: {names}")
    if len(without) == len(nodes):
        todo = (
            "Install the device plugin on the GPU nodes, or name what they offer with --gpu-resource; pools that are "
            "scaled to zero show with their first node"
        )
        yield check.missing(f"{format_count(len(nodes), 'node')}, none with {', '.join(resources)}", todo)
