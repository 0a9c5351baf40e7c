"""A large fleet as Crossplane would send it: 1,000 environments, 2,000 placements of others, one deployment.

BENCH_ENVIRONMENTS sets another number of environments.

Each environment has 16 nodes of 8 GPUs and carries two placements of two nodes each. The deployment finds room
at once; the one that is too large (nine replicas of two nodes) is refused by every environment.
"""

import os

from function.kube.manifests import JSON, Manifest

API = "modelplane.ai/v1alpha1"
ENVIRONMENTS = int(os.environ.get("BENCH_ENVIRONMENTS", "1000"))
PLACEMENTS = 2 * ENVIRONMENTS
SINCE = "2026-10-01T12:00:00Z"

MODEL: Manifest = {
    "apiVersion": API,
    "kind": "ClusterModel",
    "metadata": {"name": "kimi-k2", "uid": "00000000-0000-4000-8000-000000000000"},
    "spec": {
        "model": {"name": "moonshotai/Kimi-K2-Instruct"},
        "source": "HuggingFace",
        "huggingFace": {"repo": "moonshotai/Kimi-K2-Instruct"},
        "environmentSelector": {"matchLabels": {"modelplane.ai/tier": "production"}},
        "serving": [
            {
                "name": "multinode",
                "replicaTopology": {
                    "nodes": 2,
                    "gpusPerNode": 8,
                    "parallelism": {"tensor": 8, "pipeline": 2},
                    "requires": {"memoryPerGpu": "141Gi", "multiNodeBandwidth": "ib-400g-or-better"},
                },
                "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.12.0"},
            }
        ],
    },
}
MODEL_REF: Manifest = {"kind": "ClusterModel", "name": "kimi-k2"}
DEPLOYMENT: Manifest = {
    "apiVersion": API,
    "kind": "ModelDeployment",
    "metadata": {"namespace": "team", "name": "kimi", "uid": "00000000-0000-4000-8000-000000000001"},
    "spec": {"modelRef": {"name": "kimi-k2"}, "environments": 3},
}

TOO_LARGE: Manifest = {
    **DEPLOYMENT,
    "spec": {"modelRef": {"name": "kimi-k2"}, "scaling": {"signal": "Fixed", "fixed": {"replicas": 9}}},
}


CACHE: Manifest = {
    "apiVersion": API,
    "kind": "ModelCache",
    "metadata": {"namespace": "team", "name": "weights", "uid": "00000000-0000-4000-8000-000000000002"},
    "spec": {"modelRef": {"name": "kimi-k2"}, "environments": ["environment-0001"], "storage": {"size": "1Ti"}},
}


def _conditions(*types: str) -> list[JSON]:
    return [{"type": type_, "status": "True", "reason": "Available", "lastTransitionTime": SINCE} for type_ in types]


def _metadata(kind: str, number: int) -> Manifest:
    return {
        "name": f"{kind}-{number:04}",
        "uid": f"{len(kind):08}-0000-4000-8000-{number:012}",
        "resourceVersion": str(100_000 + number),
        "generation": 3,
        "creationTimestamp": SINCE,
    }


def environment(number: int) -> Manifest:
    """Return one environment, ready to serve."""
    labels: Manifest = {"modelplane.ai/region": f"region-{number % 7}", "modelplane.ai/tier": "production"}
    return {
        "apiVersion": API,
        "kind": "InferenceEnvironment",
        "metadata": {**_metadata("environment", number), "labels": labels},
        "spec": {
            "cluster": {
                "source": "Existing",
                "existing": {"secretRef": {"name": f"kubeconfig-{number:04}"}, "provider": "coreweave"},
            },
            "nodePools": [
                {
                    "name": "frontier",
                    "acceleratorType": "nvidia-h200",
                    "acceleratorCount": 8,
                    "maxNodeCount": 16,
                    "labels": {"node.kubernetes.io/instance-type": "gd-8xh200ib-i128"},
                    "taints": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "capabilities": {
                        "memoryPerGpu": "141Gi",
                        "interconnect": "nvlink",
                        "precisionSupport": ["bf16", "fp8"],
                        "multiNodeCapable": True,
                        "interNodeBandwidth": "ib-400g",
                        "nvlinkDomainSize": 8,
                    },
                }
            ],
            "storage": {"storageClassName": "shared-vast"},
        },
        "status": {
            "conditions": _conditions("Ready", "Synced", "ClusterReady"),
            "providerConfigRef": {"name": f"environment-{number:04}"},
            "gpus": {"total": 128, "inUse": 32},
            "pools": [{"name": "frontier", "free": [{"gpus": 8, "nodes": 12}], "placements": 2}],
            "admitted": [_grant(number), _grant(number + ENVIRONMENTS)],
            "rejected": [],
        },
    }


def _grant(number: int) -> Manifest:
    share: Manifest = {"pool": "frontier", "nodes": 2, "gpusPerNode": 8, "replicas": 1}
    metadata = _metadata("placement", number)
    return {"uid": metadata["uid"], "namespace": f"team-{number % 20}", "name": metadata["name"], **share}


def placement(number: int) -> Manifest:
    """Return one placement of another deployment, serving."""
    return {
        "apiVersion": API,
        "kind": "ModelPlacement",
        "metadata": {
            **_metadata("placement", number),
            "namespace": f"team-{number % 20}",
            "labels": {"modelplane.ai/environment": f"environment-{number % ENVIRONMENTS:04}"},
        },
        "spec": {
            "modelRef": {"kind": "ClusterModel", "name": f"model-{number % 30}"},
            "deploymentRef": {"name": f"deployment-{number:04}"},
            "inferenceEnvironmentRef": {"name": f"environment-{number % ENVIRONMENTS:04}"},
            "profile": "multinode",
            "pool": "frontier",
            "topology": {"nodes": 2, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 2}},
            "replicas": 1,
        },
        "status": {
            "conditions": _conditions("Ready", "Synced", "ReferencesResolved", "StorageReady", "ServiceReady"),
            "phase": "Ready",
            "served": True,
            "gpus": 16,
        },
    }


def served() -> Manifest:
    """Return a placement of the model that is there."""
    found = placement(1)
    spec = found["spec"]
    assert isinstance(spec, dict)
    return {**found, "spec": {**spec, "modelRef": MODEL_REF}}


def filled(number: int, version: int) -> Manifest:
    """Return an environment after another placement was admitted."""
    found = environment(number)
    status, metadata = found["status"], found["metadata"]
    assert isinstance(status, dict)
    assert isinstance(metadata, dict)
    pools: list[JSON] = [{"name": "frontier", "free": [{"gpus": 8, "nodes": 10}], "placements": 3}]
    return {**found, "metadata": {**metadata, "resourceVersion": str(version)}, "status": {**status, "pools": pools}}


FLEET = {
    "ClusterModel": [MODEL],
    "InferenceEnvironment": [environment(number) for number in range(ENVIRONMENTS)],
    "ModelPlacement": [placement(number) for number in range(PLACEMENTS)],
}
