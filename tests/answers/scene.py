"""The nodes, the environment and the models of the scenarios."""

from function.kube.manifests import JSON, Manifest
from tests.answers.model import REPOSITORY
from tests.e2e import objects
from tools import vllm
from tools.stack.kubelet import node

ENVIRONMENT = "processors"
_LABELS = {"modelplane.ai/pool": "processors"}
_GPU = "example.com/fake-gpu"
# In this precision the answer does not depend on the split. Nothing is compiled on two processors.
_ARGS: tuple[JSON, ...] = ("--dtype=float32", "--max-num-seqs=4")
EAGER = "--enforce-eager"
# The same, but vLLM 0.32.0 warms up. Without that, the second stage of a pipeline fails on processors at the first
# request: only the warm-up allocates what it receives into.
TRACED = '--compilation-config={"mode": 2, "backend": "eager"}'
_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


def build_nodes() -> list[Manifest]:
    """Returns two nodes with one fake GPU each."""
    return [node.build_node(f"processors-{number}", _LABELS, {_GPU: "1"}) for number in range(2)]


def build_environment(hub: str) -> Manifest:
    """Returns the environment on these nodes, where downloads ask this hub."""
    labels: Manifest = {**_LABELS}
    pool = objects.pool("processors", labels=labels, gpuResource=_GPU, acceleratorCount=1)
    download: Manifest = {"env": [{"name": "HF_ENDPOINT", "value": hub}], "nodeSelector": labels}
    return objects.environment(ENVIRONMENT, pool, storage={"storageClassName": "shared-vast", "download": download})


def build_model(name: str, nodes: int, *args: JSON, start: str = EAGER, split: Manifest | None = None) -> Manifest:
    """Returns a model whose replicas have this many nodes with one GPU each."""
    variables: list[JSON] = [{"name": key, "value": value} for key, value in _VARIABLES.items()]
    image = f"{vllm.REPOSITORY}:v{vllm.VERSION}"
    engine: Manifest = {"name": "vLLM", "image": image, "args": [start, *_ARGS, *args], "env": variables}
    profile = {**objects.spanning(nodes, 1, **(split or {})), "engine": engine}
    source: Manifest = {"repo": REPOSITORY}
    return objects.model(name, profile=profile, model={"name": REPOSITORY}, huggingFace=source)


def build_deployment(namespace: str, name: str, *, claim: bool = False) -> Manifest:
    """Returns a deployment of the model of the same name; with a claim, also where one node could do without."""
    cache: Manifest = {"modelCache": {"type": "PVC"}} if claim else {}
    return objects.deployment(namespace, name, name, on=ENVIRONMENT, replicas=1, **cache)
