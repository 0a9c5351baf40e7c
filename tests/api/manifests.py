"""Minimal valid manifests, of which tests change one field."""

from function.kube.manifests import JSON, Manifest


def engine(*args: str, **fields: JSON) -> JSON:
    """Return an engine block: vLLM by default."""
    return {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0", "args": list(args), **fields}


def topology(nodes: int = 1, gpus: int = 8, **fields: JSON) -> JSON:
    """Return a replicaTopology block."""
    return {"nodes": nodes, "gpusPerNode": gpus, **fields}


def profile(name: str = "vllm", **fields: JSON) -> JSON:
    """Return a serving profile on one node of eight GPUs."""
    return {"name": name, "engine": engine(), "replicaTopology": topology(), **fields}


def model(*profiles: JSON, kind: JSON = "ClusterModel", **fields: JSON) -> Manifest:
    """Return a model from the hub with these profiles, or one of them."""
    return {
        "kind": kind,
        "metadata": {"name": "gemma", **({"namespace": "ml-team"} if kind == "Model" else {})},
        "spec": {
            "model": {"name": "google/gemma"},
            **({} if "source" in fields else {"huggingFace": {"repo": "google/gemma"}}),
            "serving": list(profiles) or [profile()],
            **fields,
        },
    }


def pool(name: str = "h100", **fields: JSON) -> JSON:
    """Return a pool of four nodes of eight GPUs."""
    return {"name": name, "acceleratorCount": 8, "maxNodeCount": 4, **fields}


def environment(*pools: JSON, **fields: JSON) -> Manifest:
    """Return an environment with these pools, or one of them."""
    return {
        "kind": "InferenceEnvironment",
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
            "nodePools": list(pools) or [pool()],
            **fields,
        },
    }


def deployment(**fields: JSON) -> Manifest:
    """Return a deployment of a ClusterModel."""
    return {
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "ml-team"},
        "spec": {"modelRef": {"name": "gemma"}, **fields},
    }


def placement(**fields: JSON) -> Manifest:
    """Return a placement on two nodes of eight GPUs."""
    return {
        "kind": "ModelPlacement",
        "metadata": {"name": "chat-east", "namespace": "ml-team"},
        "spec": {
            "modelRef": {"name": "gemma"},
            "deploymentRef": {"name": "chat"},
            "inferenceEnvironmentRef": {"name": "east"},
            "profile": "vllm",
            "pool": "h100",
            "topology": topology(nodes=2),
            **fields,
        },
    }


def cache(**fields: JSON) -> Manifest:
    """Return a cache of a ClusterModel; it needs environments or a selector."""
    return {
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml-team"},
        "spec": {"modelRef": {"name": "gemma"}, **fields},
    }
