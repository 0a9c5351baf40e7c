"""One LLMInferenceService, its identity, its problems, and the preset that it needs."""

from dataclasses import dataclass, replace
from functools import partial

import pytest

from function.domain.model import Engine, Parallelism, Problem, Shape, Spread
from function.domain.settings import Initializer, Kserve
from function.kube.manifests import JSON, Manifest, get, listing, mapping
from function.kube.names import ANNOTATION_SPEC_DIGEST, build_name
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.reconcile import name_inference_service
from function.serving.service import build_pipeline_preset, build_service, find_service_problems, pipeline_preset_name
from tests.support.builders import GIB, HUB, placement, shape
from tests.support.serving_requests import (
    DATA,
    FRONTIER,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    TENSOR,
    VLLM_OLD,
    engine,
    request,
)


def built(request: ServingRequest) -> Manifest:
    return build_service(request)


def main(service: Manifest, part: str = "template") -> Manifest:
    (container,) = listing(service, f"spec.{part}.containers")
    return container


GEMMA: Manifest = {
    "apiVersion": "serving.kserve.io/v1alpha2",
    "kind": "LLMInferenceService",
    "metadata": {
        "name": "kimi-1a2b3c4d",
        "namespace": "team",
        "labels": {"app.kubernetes.io/managed-by": "modelplane"},
    },
    "spec": {
        "model": {"uri": "hf://google/gemma-3-27b-it:main", "name": "google/gemma-3-27b-it"},
        "replicas": 3,
        "labels": {"app.kubernetes.io/managed-by": "modelplane", "modelplane.ai/service": "kimi-1a2b3c4d"},
        "router": {"gateway": {}, "route": {}},
        "template": {
            "nodeSelector": {"modelplane.ai/pool": "frontier"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "enableServiceLinks": False,
            "initContainers": [
                {
                    "name": "storage-initializer",
                    "image": "kserve/storage-initializer:v0.20.0",
                    "resources": {"limits": {"cpu": "64", "memory": "1Ti"}},
                }
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "args": ["--max-model-len=32768", "'--override-generation-config={\"temperature\": 0.6}'"],
                    "env": [{"name": "USER", "value": "engine"}],
                    "startupProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 104},
                    "readinessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
                    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 30},
                    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "16Gi"}},
                    "securityContext": {"runAsNonRoot": False},
                }
            ],
        },
    },
}


def test_one_node() -> None:
    gemma = replace(HUB, repo="google/gemma-3-27b-it")
    asked = request(
        ONE_GPU,
        engine(
            "--max-model-len=32768",
            '--override-generation-config={"temperature": 0.6}',
            image="vllm/vllm-openai:v0.11.0",
        ),
        source=gemma,
        served_name="google/gemma-3-27b-it",
        uri="hf://google/gemma-3-27b-it:main",
        replicas=3,
        initializer=Initializer(image="kserve/storage-initializer:v0.20.0"),
        weights=55 * GIB,
    )
    service = built(asked)
    digest = {ANNOTATION_SPEC_DIGEST: compute_spec_digest(asked)}
    assert mapping(service, "metadata").pop("annotations") == digest
    assert mapping(service, "spec").pop("annotations") == digest, (
        "KServe copies these annotations to the pods of its Deployment"
    )
    assert service == GEMMA


def test_pipeline_over_two_nodes() -> None:
    service = built(
        request(
            PIPELINE,
            engine("--model=org/kimi", "--tensor-parallel-size=8", image=VLLM_OLD),
            pods=Spread.REQUIRED,
            replicas_apart=Spread.PREFERRED,
        )
    )
    leader, worker = main(service), main(service, "worker")
    assert get(service, "spec.baseRefs") == [{"name": "kserve-config-llm-worker-pipeline-parallel"}]
    assert get(service, "spec.parallelism") == {"tensor": 8, "pipeline": 2, "expert": True}
    assert leader["args"] == [
        "vllm", "serve", "/mnt/models", "--served-model-name", "org/kimi", "publishers/team/models/org/kimi",
        "--port=8000", "--pipeline-parallel-size=2", "--enable-expert-parallel",
        "--distributed-executor-backend=ray", "--tensor-parallel-size=8",
    ]  # fmt: skip
    assert get(leader, "startupProbe.failureThreshold") == 320, (
        "the probe allows 600 s + 100 x 8 s + 1800 s, with one attempt every 10 s"
    )
    assert leader["lifecycle"] == worker["lifecycle"], "a version that finishes no requests needs no wait"
    serves = {"ports", "startupProbe", "readinessProbe", "livenessProbe", "args"}
    assert set(leader) - set(worker) == serves, "only the leader has probes, because only the leader serves"
    template, workers = get(service, "spec.template"), get(service, "spec.worker")
    assert isinstance(template, dict)
    assert isinstance(workers, dict)
    for part in ("nodeSelector", "tolerations", "affinity", "volumes"):
        assert template[part] == workers[part], part


def test_data_over_two_nodes() -> None:
    service = built(request(DATA, engine("--a b")))
    assert get(service, "spec.baseRefs") is None, "the preset belongs to KServe"
    assert get(service, "spec.parallelism") == {"tensor": 4, "data": 4, "dataLocal": 2, "expert": True}
    assert main(service)["args"] == main(service, "worker")["args"] == ["'--a b'"]
    assert get(main(service), "startupProbe.failureThreshold") == 320
    assert "startupProbe" not in main(service, "worker")


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    request: ServingRequest
    path: str
    want: JSON


BY_NAME = "serving.kserve.io/model-based-routing-enabled"
CASES = [
    Case("scaled-to-zero", "zero replicas are written as any other number is", request(replicas=0), "spec.replicas", 0),
    Case("no-gateway",
        "a service has no router on a cluster without a gateway",
        request(kserve=Kserve(config_prefix="kserve-", gateway=False)),
         "spec.router", None),
    Case("tensor-on-one-node",
        "the preset renders the tensor parallelism of the service",
        request(ONE_NODE), "spec.parallelism", {"tensor": 8}),
    Case("expert-on-one-node", "expert parallelism is set, although the preset does not render it",
         request(shape(1, 1, Parallelism(tensor=1, expert=True))), "spec.parallelism", {"expert": True}),
    Case("data-on-one-node", "data parallelism on one node is not set, because KServe would create a group",
         request(shape(1, 8, Parallelism(tensor=1, data=8, data_local=8))), "spec.parallelism", None),
    Case("one-node-annotations",
        "the preset sets the routing annotation, so that only the spec digest is set",
        request(),
         "spec.annotations", {ANNOTATION_SPEC_DIGEST: compute_spec_digest(request())}),
    Case("pipeline-annotations",
        "the function's own command serves both model names",
        request(PIPELINE), "spec.annotations",
         {BY_NAME: "true"}),
    Case("tensor-over-nodes", "KServe derives the number of pods from the pipeline stages",
         request(TENSOR), "spec.parallelism", {"tensor": 16, "pipeline": 2}),
    Case("prefix", "the preset has the name prefix of the controller on its cluster",
         request(PIPELINE, kserve=Kserve(config_prefix="llm-", gateway=True)), "spec.baseRefs",
         [{"name": "llm-config-llm-worker-pipeline-parallel"}]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_field(case: Case) -> None:
    assert get(built(case.request), case.path) == case.want, case.reason


def test_sglang_on_one_node_has_command_and_probes() -> None:
    container = main(built(request(ONE_GPU, engine(image=SGLANG))))
    assert container["command"] == ["python3", "-m", "sglang.launch_server"]
    assert get(container, "readinessProbe.httpGet.scheme") == "HTTP"


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    want: tuple[Problem, ...]


ARGS = "spec.serving[default].engine.args"
FAULTS = [
    Fault("shape",
        "an argument must not contradict the shape, which the memory of the pool decides",
        ONE_NODE, engine("-tp=4"),
          (Problem(f"{ARGS}[0]", "-tp=4 disagrees with the shape of the replica; must be 8"),)),
    Fault("all-at-once", "all faults are reported with their paths", ONE_NODE, engine("-tp=4", "--model=other/kimi"),
          (Problem(f"{ARGS}[0]", "-tp=4 disagrees with the shape of the replica; must be 8"),
           Problem(f"{ARGS}[1]", "--model=other/kimi names other weights; "
                                 "must be left out: the weights of the model are at /mnt/models"))),
    Fault("sglang-data", "SGLang cannot run the recorded shape", DATA, engine(image=SGLANG),
          (Problem("spec.serving[default].replicaTopology.parallelism.data",
                   "must be left out, as SGLang spans nodes by tensor or pipeline only"),)),
]  # fmt: skip


def test_refuses_several_slices_of_gpus_for_one_pod() -> None:
    """This applies also to a placement that a user has written, or that an earlier release has placed."""
    sliced = replace(FRONTIER, gpu_resource="nvidia.com/mig-3g.40gb")
    message = "must be 1, as pool frontier has gpuResource nvidia.com/mig-3g.40gb, of which a pod can use 1"
    problem = Problem("spec.serving[default].replicaTopology.gpusPerNode", message)
    assert find_service_problems(request(ONE_NODE, pool=sliced)) == (problem,)
    assert find_service_problems(request(PIPELINE, pool=sliced)) == (problem,)
    assert find_service_problems(request(shape(2, 1), pool=sliced)) == ()
    assert find_service_problems(request(ONE_GPU, pool=sliced)) == ()


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_refused(case: Fault) -> None:
    assert find_service_problems(request(case.shape, case.engine)) == case.want, case.reason


def test_name_follows_from_mode_and_group_size() -> None:
    of = partial(name_inference_service, placement(namespace="team", name="kimi"))
    assert of(ONE_NODE) == of(ONE_GPU), "the number of GPUs per pod may change"
    assert of(PIPELINE) == build_name("kimi", "team", "kimi", "pipeline", "2")
    assert len({of(s) for s in (ONE_NODE, PIPELINE, DATA, shape(4, 8))}) == 4


def test_preset_is_empty_and_in_namespace_of_kserve() -> None:
    assert build_pipeline_preset(Kserve(namespace="kserve", config_prefix="kserve-", gateway=True)) == {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {
            "name": "kserve-config-llm-worker-pipeline-parallel",
            "namespace": "kserve",
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        },
        "spec": {},
    }


def test_preset_name_has_prefix_of_controller() -> None:
    name = pipeline_preset_name(Kserve(namespace="llm", config_prefix="", gateway=False))
    assert name == "config-llm-worker-pipeline-parallel"
