"""What the XRDs' rules must refuse, each as a change to a manifest that passes, and what they must not."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from function.kube.manifests import JSON, Manifest, get

ENGINE: Manifest = {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0"}
TOPOLOGY = "serving.0.replicaTopology"
GOOD: Mapping[str, Manifest] = {
    "ClusterModel": {
        "model": {"name": "my-org/my-model"},
        "huggingFace": {"repo": "my-org/my-model"},
        "serving": [{"name": "p", "engine": ENGINE, "replicaTopology": {"gpusPerNode": 8}}],
    },
    "InferenceEnvironment": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
        "nodePools": [{"name": "h100", "capabilities": {"memoryPerGpu": "80Gi"}}],
    },
    "ModelDeployment": {"modelRef": {"name": "m"}},
    "ModelPlacement": {
        "modelRef": {"name": "m"},
        "inferenceEnvironmentRef": {"name": "e"},
        "profile": "p",
        "pool": "h100",
        "topology": {"gpusPerNode": 8},
    },
    "ModelCache": {"modelRef": {"name": "m"}, "environments": ["e"], "storage": {"size": "1Ti"}},
}


@dataclass(frozen=True)
class Case:
    """`put` sets fields of the good manifest by their path; `at` is where the validator must point."""

    id: str
    reason: str
    kind: str
    put: Mapping[str, JSON]
    at: str = ""
    say: str = ""
    drop: tuple[str, ...] = ()


MODEL = [
    Case("source-unset", "the block that counts is needed", "ClusterModel", {"source": "OCI"}, "spec.oci"),
    Case("source-other", "no other block", "ClusterModel", {"source": "OCI"}, "spec.huggingFace", "not HuggingFace"),
    Case("source-both", "exactly one", "ClusterModel", {"pvc": {"claimName": "c"}}, "spec.pvc", "not PVC"),
    Case("source-lower", "in lower case, too", "ClusterModel", {"source": "oci"}, "spec.oci", "as source is OCI"),
    Case("source-unknown", "nothing else", "ClusterModel", {"source": "Hub"}, "spec.source", "HuggingFace"),
    Case("repo", "owner/name and no more", "ClusterModel", {"huggingFace.repo": "a/b/c"}, "spec.huggingFace.repo"),
    Case(
        "revision",
        "KServe's address has two components, so no slash",
        "ClusterModel",
        {"huggingFace.revision": "refs/pr/1"},
        "spec.huggingFace.revision",
    ),
    Case("vram", "a quantity", "ClusterModel", {"resources": {"vram": "a lot"}}, "spec.resources.vram"),
    Case("vram-negative", "at least zero", "ClusterModel", {"resources": {"vram": -1}}, "spec.resources.vram"),
    Case("no-serving", "nothing to serve with", "ClusterModel", {"serving": []}, "spec.serving"),
    Case(
        "pipeline",
        "one stage for each node",
        "ClusterModel",
        {f"{TOPOLOGY}.nodes": 2, f"{TOPOLOGY}.parallelism": {"pipeline": 4}},
        "spec.serving[0].replicaTopology.parallelism.pipeline",
        "must equal nodes",
    ),
    Case(
        "tensor",
        "all GPUs of a node",
        "ClusterModel",
        {f"{TOPOLOGY}.parallelism": {"tensor": 4}},
        "spec.serving[0].replicaTopology.parallelism.tensor",
        "must equal gpusPerNode",
    ),
    Case(
        "tensor-and-pipeline",
        "2 stages of 16 GPUs are 32, of 16",
        "ClusterModel",
        {f"{TOPOLOGY}.nodes": 2, f"{TOPOLOGY}.parallelism": {"tensor": 16, "pipeline": 2}},
        "spec.serving[0].replicaTopology.parallelism.pipeline",
        "tensor",
    ),
    Case("version", "a number", "ClusterModel", {"serving.0.engine.version": "x"}, "spec.serving[0].engine.version"),
    Case(
        "data-alone",
        "KServe takes both or none",
        "ClusterModel",
        {f"{TOPOLOGY}.parallelism": {"data": 8}},
        "spec.serving[0].replicaTopology.parallelism.dataLocal",
        "set together",
    ),
    Case(
        "data-and-pipeline",
        "KServe takes one or the other",
        "ClusterModel",
        {f"{TOPOLOGY}.nodes": 2, f"{TOPOLOGY}.parallelism": {"data": 16, "dataLocal": 8, "pipeline": 2}},
        "spec.serving[0].replicaTopology.parallelism.pipeline",
        "cannot exceed 1 together with data",
    ),
    Case(
        "data-nodes",
        "16 / 8 are 2 nodes, not 1",
        "ClusterModel",
        {f"{TOPOLOGY}.parallelism": {"data": 16, "dataLocal": 8}},
        "spec.serving[0].replicaTopology.parallelism.data",
        "dataLocal times nodes",
    ),
    Case(
        "data-tensor",
        "2 times 8 are 16 GPUs of a node, not 8",
        "ClusterModel",
        {f"{TOPOLOGY}.parallelism": {"data": 8, "dataLocal": 8, "tensor": 2}},
        "spec.serving[0].replicaTopology.parallelism.dataLocal",
        "must equal gpusPerNode",
    ),
    Case(
        "data-sglang",
        "SGLang spans nodes by pipeline",
        "ClusterModel",
        {
            f"{TOPOLOGY}.nodes": 2,
            f"{TOPOLOGY}.parallelism": {"data": 16, "dataLocal": 8},
            "serving.0.engine.name": "SGLang",
        },
        "spec.serving[0].replicaTopology.parallelism.data",
        "SGLang",
    ),
    Case(
        "template",
        "KServe would read it as one",
        "ClusterModel",
        {"serving.0.engine": {**ENGINE, "args": ["--a", "--b={{ .Name }}"]}},
        "spec.serving[0].engine.args[1]",
        "template",
    ),
    Case(
        "image-scheme",
        "an image is a name, not an address",
        "ClusterModel",
        {"serving.0.engine.image": "oci://owner/image"},
        "spec.serving[0].engine.image",
    ),
    Case(
        "bandwidth",
        "not a rung of the ladder",
        "ClusterModel",
        {f"{TOPOLOGY}.requires": {"multiNodeBandwidth": "ib-300g-or-better"}},
        "spec.serving[0].replicaTopology.requires.multiNodeBandwidth",
        "ib-200g",
    ),
    Case(
        "bandwidth-twice",
        "one field under two names",
        "ClusterModel",
        {f"{TOPOLOGY}.requires": {"multiNodeBandwidth": "ib-400g", "interNodeBandwidth": "ib-400g"}},
        "spec.serving[0].replicaTopology.requires.interNodeBandwidth",
        "multiNodeBandwidth",
    ),
    Case(
        "interconnect",
        "unknown",
        "ClusterModel",
        {f"{TOPOLOGY}.requires": {"interconnect": "ethernet"}},
        "spec.serving[0].replicaTopology.requires.interconnect",
        "nvlink",
    ),
    Case(
        "precision",
        "unknown",
        "ClusterModel",
        {f"{TOPOLOGY}.requires": {"precisionSupport": ["fp8", "bfloat16"]}},
        "spec.serving[0].replicaTopology.requires.precisionSupport[1]",
        "bf16",
    ),
    Case(
        "uri-scheme",
        "the hub has a source of its own",
        "ClusterModel",
        {"source": "URI", "uri": {"uri": "hf://a/b"}},
        "spec.uri.uri",
        "s3://",
        drop=("huggingFace",),
    ),
    Case(
        "uri-key",
        "Google's credentials are a file",
        "ClusterModel",
        {"source": "URI", "uri": {"uri": "gs://a/b", "secretRef": {"name": "s"}}},
        "spec.uri.secretRef.key",
        "gs://",
        drop=("huggingFace",),
    ),
    Case(
        "pvc-path",
        "stays within the claim",
        "ClusterModel",
        {"source": "PVC", "pvc": {"claimName": "c", "path": "models/../../etc"}},
        "spec.pvc.path",
        "..",
        drop=("huggingFace",),
    ),
    Case(
        "selector-without-values",
        "In needs some",
        "ClusterModel",
        {"environmentSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "spec.environmentSelector.matchExpressions[0].values",
        "at least one",
    ),
    Case(
        "selector-with-values",
        "Exists takes none",
        "ClusterModel",
        {"environmentSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        "spec.environmentSelector.matchExpressions[0].values",
        "no values",
    ),
]
ENVIRONMENT = [
    Case("pull-secret", "one of both", "InferenceEnvironment", {"imagePullSecrets": [{}]}, "spec.imagePullSecrets[0]"),
    Case(
        "cluster-unset", "the block that counts", "InferenceEnvironment", {"cluster.source": "GKE"}, "spec.cluster.gke"
    ),
    Case("cluster-other", "no other block", "InferenceEnvironment", {"cluster.source": "GKE"}, "spec.cluster.existing"),
    Case(
        "pools-twice",
        "in one place only",
        "InferenceEnvironment",
        {"cluster.existing.nodePools": [{"name": "a"}]},
        "spec.nodePools",
        "cluster.existing.nodePools",
    ),
    Case(
        "pool-or-better",
        "a pool declares what it has",
        "InferenceEnvironment",
        {"nodePools.0.capabilities.interNodeBandwidth": "ib-400g-or-better"},
        "spec.nodePools[0].capabilities.interNodeBandwidth",
        "ib-400g",
    ),
    Case(
        "access-mode",
        "weights are written once and read by many",
        "InferenceEnvironment",
        {"storage": {"accessMode": "ReadOnlyMany"}},
        "spec.storage.accessMode",
    ),
    Case(
        "download-env",
        "a value or where it comes from",
        "InferenceEnvironment",
        {"storage": {"download": {"env": [{"name": "A", "value": "b", "valueFrom": {}}]}}},
        "spec.storage.download.env[0].valueFrom",
    ),
]
CACHE_BLOCKS: tuple[tuple[str, Manifest, str], ...] = (
    ("name-and-claim", {"name": "c", "claimName": "d"}, "spec.modelCache.name"),
    ("name-and-type", {"name": "c", "type": "PVC"}, "spec.modelCache.name"),
    ("name-without-preload", {"name": "c", "preload": False}, "spec.modelCache.name"),
    ("claim-and-size", {"claimName": "d", "size": "1Ti"}, "spec.modelCache.claimName"),
    ("claim-and-retain", {"claimName": "d", "retain": True}, "spec.modelCache.claimName"),
)
CACHE = [
    Case(
        f"{kind.lower()}-{name}", "one of three forms", kind, {"modelCache": block}, at, "must not be set together with"
    )
    for kind in ("ModelDeployment", "ModelPlacement")
    for name, block, at in CACHE_BLOCKS
]
OTHERS = [
    Case("environments-zero", "at least one", "ModelDeployment", {"environments": 0}, "spec.environments"),
    Case("model-kind", "two kinds", "ModelDeployment", {"modelRef.kind": "Llama"}, "spec.modelRef.kind"),
    Case("signal", "only Fixed so far", "ModelDeployment", {"scaling": {"signal": "Queue"}}, "spec.scaling.signal"),
    Case("priority-name", "no such letters", "ModelDeployment", {"priorityName": "Critical"}, "spec.priorityName"),
    Case(
        "priority-and-its-name",
        "a priority has a number or a name",
        "ModelDeployment",
        {"priority": -1, "priorityName": "batch"},
        "spec.priorityName",
        "must not be set together with priority",
    ),
    Case("replicas", "not negative", "ModelPlacement", {"replicas": -1}, "spec.replicas"),
    Case(
        "recorded-shape",
        "a placement by hand keeps a profile's rules",
        "ModelPlacement",
        {"topology.parallelism": {"pipeline": 2}},
        "spec.topology.parallelism.pipeline",
    ),
    Case("nowhere", "one of the two", "ModelCache", {}, "spec.environments", drop=("environments",)),
    Case("two-ways", "one of the two", "ModelCache", {"environmentSelector": {}}, "spec.environmentSelector"),
    Case(
        "cache-claim-and-size",
        "the claim is the user's",
        "ModelCache",
        {"storage.claimName": "c"},
        "spec.storage.claimName",
        "must not be set together with",
    ),
    Case("cache-empty-dir", "must outlive pods", "ModelCache", {"storage.type": "EmptyDir"}, "spec.storage.type"),
]
ALLOWED = [
    Case("replicas-zero", "scaled to zero", "ModelDeployment", {"scaling": {"fixed": {"replicas": 0}}}),
    Case("class-empty", "the default class", "ModelDeployment", {"modelCache": {"storageClassName": ""}}),
    Case("priority-name", "0 is the default", "ModelDeployment", {"priority": 0, "priorityName": "batch"}),
    Case("vram-in-bytes", "a quantity may be a number", "ClusterModel", {"resources": {"vram": 85899345920}}),
    Case(
        "data-mode",
        "16 ranks, 8 on each of 2 nodes",
        "ClusterModel",
        {f"{TOPOLOGY}.nodes": 2, f"{TOPOLOGY}.parallelism": {"data": 16, "dataLocal": 8, "tensor": 1}},
    ),
    Case(
        "tensor-over-nodes",
        "16 GPUs share every layer",
        "ClusterModel",
        {f"{TOPOLOGY}.nodes": 2, f"{TOPOLOGY}.parallelism": {"tensor": 16, "pipeline": 1}},
    ),
    Case("version-said", "of a digest", "ClusterModel", {"serving.0.engine.version": "0.28.0"}),
    Case(
        "any-case",
        "names are compared ignoring case",
        "InferenceEnvironment",
        {"nodePools.0.capabilities": {"interconnect": "NVLink", "precisionSupport": ["FP8"]}},
    ),
    Case(
        "either-name",
        "the speed between nodes has two names on both sides",
        "InferenceEnvironment",
        {"nodePools.0.capabilities": {"multiNodeBandwidth": "IB-400G"}},
    ),
    Case(
        "context-beside",
        "context is accepted beside the block",
        "InferenceEnvironment",
        {"cluster.provider": "p", "cluster.instanceType": "i"},
    ),
]
REFUSED = [*MODEL, *ENVIRONMENT, *CACHE, *OTHERS]


def manifest(case: Case) -> Manifest:
    """Return the good manifest of the case's kind with what the case changes."""
    spec = copy.deepcopy(GOOD[case.kind])
    for path, value in case.put.items():
        *steps, last = path.split(".")
        found: JSON = spec
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else get(found, step)
        assert isinstance(found, dict), path
        found[last] = value
    for name in case.drop:
        del spec[name]
    metadata: Manifest = {"name": case.id}
    if case.kind not in {"ClusterModel", "InferenceEnvironment"}:
        metadata["namespace"] = "default"
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": case.kind, "metadata": metadata, "spec": spec}
