"""Our kinds as manifests, with everything filled in that a scenario does not care about."""

from function.kube.manifests import JSON, Manifest

GROUP = "modelplane.ai/v1alpha1"
VLLM = "vllm/vllm-openai:v0.15.0"


def model(name: str, *, profile: Manifest | None = None, **spec: JSON) -> Manifest:
    """Return a ClusterModel of one GPU, or with the profile given."""
    shape: Manifest = {"replicaTopology": {"nodes": 1, "gpusPerNode": 1}}
    engine: Manifest = {"engine": {"name": "vLLM", "image": VLLM}}
    return {
        "apiVersion": GROUP,
        "kind": "ClusterModel",
        "metadata": {"name": name},
        "spec": {
            "model": {"name": f"example/{name}"},
            "huggingFace": {"repo": f"example/{name}"},
            "serving": [{"name": "vllm", **engine, **(profile or shape)}],
            **spec,
        },
    }


def spanning(nodes: int, gpus_per_node: int, **parallelism: JSON) -> Manifest:
    """Return the profile of a replica that spans nodes."""
    topology: Manifest = {"nodes": nodes, "gpusPerNode": gpus_per_node}
    if parallelism:
        topology["parallelism"] = parallelism
    return {"replicaTopology": topology}


def pool(name: str, **more: JSON) -> Manifest:
    """Return a pool of two 8-GPU nodes that can work together."""
    capabilities: Manifest = {"memoryPerGpu": "80Gi", "multiNodeCapable": True, "interNodeBandwidth": "ib-400g"}
    return {
        "name": name,
        "acceleratorType": "nvidia-h100-80gb",
        "acceleratorCount": 8,
        "maxNodeCount": 2,
        "labels": {"modelplane.ai/pool": "frontier"},
        "capabilities": capabilities,
        **more,
    }


def environment(
    name: str,
    *pools: Manifest,
    storage: str | Manifest | None = "shared-vast",
    secret: str = "dallas-kubeconfig",
    **more: JSON,
) -> Manifest:
    """Return an environment on the remote cluster that can be selected by its name."""
    spec: Manifest = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": secret}}},
        "nodePools": [*(pools or (pool("gpus"),))],
        **more,
    }
    if storage is not None:
        spec["storage"] = {"storageClassName": storage} if isinstance(storage, str) else storage
    return {
        "apiVersion": GROUP,
        "kind": "InferenceEnvironment",
        "metadata": {"name": name, "labels": {"e2e": name}},
        "spec": spec,
    }


def deployment(
    namespace: str, name: str, model_name: str, *, on: str = "", replicas: int = 1, **spec: JSON
) -> Manifest:
    """Return a ModelDeployment, on the environments with the label given."""
    selector: Manifest = {"environmentSelector": {"matchLabels": {"e2e": on}}} if on else {}
    return {
        "apiVersion": GROUP,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"modelRef": {"name": model_name}, "scaling": {"fixed": {"replicas": replicas}}, **selector, **spec},
    }


def cache(namespace: str, name: str, model_name: str, environments: list[JSON], **spec: JSON) -> Manifest:
    """Return a ModelCache."""
    return {
        "apiVersion": GROUP,
        "kind": "ModelCache",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"modelRef": {"name": model_name}, "environments": environments, **spec},
    }
