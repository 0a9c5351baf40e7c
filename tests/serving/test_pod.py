"""What a pod is given beside its command: resources, memory, rights, the initializer."""

from dataclasses import dataclass, replace

import pytest

from function.domain.model import Engine, EngineResources, Shape
from function.domain.settings import Initializer
from function.kube.manifests import JSON, Manifest, get
from function.serving.digest import ServingRequest
from tests.support.builders import pool, shape
from tests.support.serving_requests import (
    DATA,
    FRONTIER,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    build_pods,
    engine,
    get_main,
    request,
)

SHARED_MEMORY: Manifest = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
USER: Manifest = {"name": "USER", "value": "engine"}
OWN_VOLUMES: JSON = [
    SHARED_MEMORY, {"name": "tmp-dir", "emptyDir": {}}, {"name": "engine-cache", "emptyDir": {}}
]  # fmt: skip
OWN_MOUNTS: JSON = [
    {"name": "dshm", "mountPath": "/dev/shm"}, {"name": "tmp-dir", "mountPath": "/tmp"},
    {"name": "engine-cache", "mountPath": "/var/cache/engine"},
]  # fmt: skip
LOCKS_MEMORY: Manifest = {"capabilities": {"add": ["IPC_LOCK"]}}


def build_leader(asked: ServingRequest) -> Manifest:
    """Returns the leader's pod, with weights that are not on a claim."""
    return build_pods(replace(asked, uri="hf://org/kimi:main"))[0]


def test_builds_smallest_pod() -> None:
    bare = replace(FRONTIER, labels=())
    assert build_leader(request(ONE_GPU, pool=bare)) == {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "enableServiceLinks": False,
        "containers": [
            {
                "name": "main",
                "image": "vllm/vllm-openai:v0.15.0",
                "env": [USER],
                "startupProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 140},
                "readinessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
                "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 30},
                "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "16Gi"}},
                "securityContext": {"runAsNonRoot": False},
            }
        ],
    }


def test_keeps_variables_of_author() -> None:
    env: Manifest = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    assert get_main(build_leader(request(run=engine(env=(env,)))))["env"] == [env, USER]


def test_requests_gpus_of_pool_on_its_nodes() -> None:
    amd = replace(pool(), gpu_resource="amd.com/gpu", labels=(("a", "1"), ("b", "2")))
    made = build_leader(request(shape(1, 4), pool=amd))
    assert made["nodeSelector"] == {"a": "1", "b": "2"}
    assert get(get_main(made), "resources.limits") == {"amd.com/gpu": "4"}


def test_engine_resources_override_model_resources() -> None:
    asked = EngineResources(cpu="1", memory="2Gi", ephemeral_storage="3Gi", shm="4Gi")
    made = build_leader(request(ONE_GPU, replace(engine(), resources=asked)))
    requests = get(get_main(made), "resources.requests")
    assert requests == {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "3Gi"}
    assert made["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    security: Manifest | None
    volumes: JSON
    mounts: JSON


ROOT: Manifest = {"runAsNonRoot": False}
CASES = [
    Case("one-gpu", "the 1Gi of shared memory in the preset suffices for one GPU", ONE_GPU, engine(), ROOT, None, None),
    Case("several-gpus",
        "the preset's volume of shared memory is enlarged under its name",
        ONE_NODE, engine(), ROOT, [SHARED_MEMORY], None),
    Case("sglang",
        "SGLang's image starts as root, as vLLM's image does",
        ONE_GPU, engine(image=SGLANG), ROOT, None, None),
    Case("preset-image", "the image of the preset starts as the preset's user", ONE_GPU,
         engine(image="mirror.example/llm-d/llm-d-cuda:v0.8.0"), None, None, None),
    Case("data",
        "the preset for data parallelism has a volume of shared memory as well",
        DATA, engine(), ROOT, [SHARED_MEMORY], None),
    Case("pipeline",
        "without a preset, the function adds the volumes and the capability",
        PIPELINE, engine(), LOCKS_MEMORY, OWN_VOLUMES, OWN_MOUNTS),
    Case("pipeline-one-gpu",
        "a group with one GPU per pod has the same volumes and capability",
        shape(2, 1), engine(), LOCKS_MEMORY,
         OWN_VOLUMES, OWN_MOUNTS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_rights_and_memory(case: Case) -> None:
    made = build_leader(request(case.shape, case.engine))
    container = get_main(made)
    assert container.get("securityContext") == case.security, case.reason
    assert made.get("volumes") == case.volumes, case.reason
    assert container.get("volumeMounts") == case.mounts, case.reason


TOKEN: Manifest = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "token-1", "key": "HF_TOKEN"}}}


@dataclass(frozen=True)
class InitializerCase:
    id: str
    reason: str
    given: Initializer
    want: Manifest


INITIALIZERS = [
    InitializerCase(
        "nothing-said", "the initializer needs more than 1Gi, and a merge cannot remove KServe's limit", Initializer(),
        {"name": "storage-initializer", "resources": {"limits": {"cpu": "64", "memory": "1Ti"}}},
    ),
    InitializerCase(
        "all-said", "declared resources take precedence, and an undeclared limit is raised",
        Initializer(
            image="kserve/storage-initializer:v0.20.0",
            resources={"requests": {"memory": "8Gi"}, "limits": {"memory": "32Gi"}},
            env=(TOKEN,),
            env_from=({"secretRef": {"name": "s3"}},),
        ),
        {
            "name": "storage-initializer",
            "image": "kserve/storage-initializer:v0.20.0",
            "resources": {"requests": {"memory": "8Gi"}, "limits": {"cpu": "64", "memory": "32Gi"}},
            "env": [TOKEN],
            "envFrom": [{"secretRef": {"name": "s3"}}],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", INITIALIZERS, ids=lambda c: c.id)
def test_initializer(case: InitializerCase) -> None:
    made = build_leader(request(initializer=case.given))
    assert made["initContainers"] == [case.want], case.reason
