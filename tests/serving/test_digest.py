"""The wish of a service. The texts below are its form, and for ever: another digest restarts every service there is."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from function.domain.model import EngineResources, SecretKey, Spread
from function.domain.pods import Inputs, InterNode, PodAdditions
from function.domain.pull_secrets import PullSecret
from function.domain.settings import BUILT_IN, Initializer
from function.kube.names import ANNOTATION_SPEC_DIGEST
from function.parse.environments import read_environment
from function.parse.models import read_model
from function.serving.digest import compute_spec_digest
from function.serving.request import ServingRequest
from function.serving.service import build
from tests.builders import GIB, HUB, pool
from tests.serving.requests import DATA, KSERVE, NAME, NAMESPACE, PIPELINE, engine, request

PLAIN = replace(pool(), labels=(), taints=())
UNSAID = (
    '{"engine":{"image":"vllm/vllm-openai:v0.15.0","name":"vLLM"},"name":"org/kimi",'
    '"shape":{"gpusPerNode":1,"nodes":1,"parallelism":{"pipeline":1,"tensor":1}},'
    '"uri":"pvc://weights/models/0123"}'
)
SAID = (
    '{"engine":{"args":["--a"],"env":[{"name":"B","value":"c"}],"image":"vllm/vllm-openai:v0.15.0","name":"vLLM"},'
    '"initializer":{"image":"mirror:1"},'
    '"kserve":{"configPrefix":"","gateway":false},'
    '"name":"org/kimi",'
    '"pool":{"gpuResource":"amd.com/gpu","labels":{"a":"1","b":"2"},"taints":[{"effect":"NoSchedule","key":"k"}]},'
    '"requests":{"cpu":"5","memory":"17Gi"},'
    '"shape":{"gpusPerNode":8,"nodes":2,"parallelism":{"expert":true,"pipeline":2,"tensor":8}},'
    '"spread":{"pods":"required","replicas":"preferred"},'
    '"uri":"hf://org/kimi:main"}'
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def said() -> ServingRequest:
    """Return a request in which everything is said that can be."""
    made = request(
        PIPELINE,
        engine("--a", env=({"name": "B", "value": "c"},)),
        pool=replace(
            PLAIN,
            gpu_resource="amd.com/gpu",
            labels=(("b", "2"), ("a", "1")),
            taints=({"key": "k", "effect": "NoSchedule", "value": ""}, {"key": "amd.com/gpu", "effect": "NoSchedule"}),
        ),
        pods=Spread.REQUIRED,
        replicas_apart=Spread.PREFERRED,
        uri="hf://org/kimi:main",
        kserve=replace(KSERVE, config_prefix="", gateway=False),
        initializer=Initializer(image="mirror:1", named={"image": "mirror:1"}),
    )
    return replace(made, model=replace(made.model, cpu="5", memory="17Gi"))


def test_what_nobody_says_is_not_part_of_it() -> None:
    assert compute_spec_digest(request(pool=PLAIN)) == digest(UNSAID)


def test_what_somebody_says_is() -> None:
    assert compute_spec_digest(said()) == digest(SAID)


def test_what_an_engine_requests_is_part_of_it() -> None:
    asked = EngineResources(cpu="1", memory="2Gi", ephemeral_storage="3Gi", shm="4Gi")
    text = UNSAID.replace(
        '"name":"vLLM"', '"name":"vLLM","resources":{"cpu":"1","ephemeralStorage":"3Gi","memory":"2Gi","shm":"4Gi"}'
    )
    assert compute_spec_digest(request(run=replace(engine(), resources=asked), pool=PLAIN)) == digest(text)


def test_what_images_are_pulled_with_is_part_of_it_by_the_names_that_people_gave() -> None:
    source = SecretKey(name="s", namespace="a", key=".dockerconfigjson")
    run = replace(engine(), pull_secrets=(source,))
    text = UNSAID.replace(
        '"image":"vllm/vllm-openai:v0.15.0","name":"vLLM"},"name"',
        '"image":"vllm/vllm-openai:v0.15.0","imagePullSecrets":["a/s"],"name":"vLLM"},'
        '"imagePullSecrets":["a/s","there"],"name"',
    )
    asked = replace(request(run=run, pool=PLAIN), pull_secrets=(PullSecret(name="there"), PullSecret(source=source)))
    assert compute_spec_digest(asked) == digest(text)


def test_data_parallelism_is_part_of_it() -> None:
    text = UNSAID.replace(
        '"gpusPerNode":1,"nodes":1,"parallelism":{"pipeline":1,"tensor":1}',
        '"gpusPerNode":8,"nodes":2,"parallelism":{"data":4,"dataLocal":2,"expert":true,"pipeline":1,"tensor":4}',
    )
    assert compute_spec_digest(request(DATA, pool=PLAIN)) == digest(text)


def test_a_file_is_part_of_it() -> None:
    said = UNSAID.replace('"name":"org/kimi"', '"file":"a.gguf","name":"org/kimi"')
    assert compute_spec_digest(request(pool=PLAIN, source=replace(HUB, file="a.gguf"))) == digest(said)


def test_a_version_is_part_of_it() -> None:
    run = replace(engine(), version="0.28.0")
    said = UNSAID.replace('"name":"vLLM"}', '"name":"vLLM","version":"0.28.0"}')
    assert compute_spec_digest(request(run=run, pool=PLAIN)) == digest(said)


@pytest.mark.parametrize(
    ("reason", "pods", "now"),
    [
        ("a default is not part of the digest", None, ""),
        ("only an omitted value is the default", Spread.NONE, '"spread":{"pods":"none"},'),
        ("a value is part of the digest", Spread.REQUIRED, '"spread":{"pods":"required"},'),
    ],
)
def test_how_far_apart_pods_are_kept(reason: str, pods: Spread | None, now: str) -> None:
    text = UNSAID.replace(
        '"gpusPerNode":1,"nodes":1,"parallelism":{"pipeline":1,"tensor":1}},',
        '"gpusPerNode":8,"nodes":2,"parallelism":{"expert":true,"pipeline":2,"tensor":8}},SPREAD',
    )
    assert compute_spec_digest(request(PIPELINE, pool=PLAIN, pods=pods)) == digest(text.replace("SPREAD", now)), reason


def test_what_a_pool_gives_is_part_of_it_and_what_a_preset_makes_of_it_is_not() -> None:
    given = PodAdditions(resources=(("rdma/ib", "1"),))
    said_between = InterNode(
        preset="eks-efa",
        inputs=Inputs(instance_type="p5.48xlarge", count=8, nccl_net="Libfabric", networks=("n",), resource="a/b"),
        fail_closed=False,
        pod=PodAdditions(env=({"name": "A", "value": "b"},)),
        given=given,
        preset_env=frozenset({"FI_PROVIDER"}),
        start="source /x",
    )
    made = replace(PLAIN, pod=PodAdditions(host_network=False, labels=(("a", "b"),)), inter_node=said_between)
    text = UNSAID.replace('"nodes":1', '"nodes":2').replace('"gpusPerNode":1', '"gpusPerNode":8')
    text = text.replace('"pipeline":1,"tensor":1', '"expert":true,"pipeline":2,"tensor":8').replace(
        ',"shape"',
        ',"pool":{"interNode":{"failClosed":false,"pod":{"env":[{"name":"A","value":"b"}]},"preset":"eks-efa",'
        '"with":{"count":8,"instanceType":"p5.48xlarge","ncclNet":"Libfabric","networks":["n"],"resourceName":"a/b"}},'
        '"pod":{"hostNetwork":false,"labels":{"a":"b"}}},"shape"',
    )
    assert compute_spec_digest(request(PIPELINE, pool=made)) == digest(text)
    news = replace(said_between, given=PodAdditions(), preset_env=frozenset(), start="")
    assert compute_spec_digest(request(PIPELINE, pool=replace(made, inter_node=news))) == digest(text)


def test_the_service_carries_it() -> None:
    service = build(request(pool=PLAIN))
    assert isinstance(service, dict)
    assert service["metadata"] == {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        "annotations": {ANNOTATION_SPEC_DIGEST: digest(UNSAID)},
    }


def test_defaults_of_the_schemas_are_what_nobody_says() -> None:
    parsed = read_model(
        {
            "kind": "ClusterModel",
            "spec": {
                "model": {"name": "org/kimi"},
                "huggingFace": {"repo": "org/kimi"},
                "serving": [
                    {
                        "name": "default",
                        "replicaTopology": {"gpusPerNode": 1},
                        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0"},
                    }
                ],
            },
        }
    ).value
    found = read_environment({"spec": {"nodePools": [{"name": "pool", "maxNodeCount": 1}]}}, BUILT_IN).value
    assert parsed
    (profile,), (nodes,) = parsed.profiles, found.pools
    assert profile.shape is not None
    asked = replace(
        request(), model=parsed, profile=profile, shape=profile.shape, pool=nodes, kserve=found.kserve, weights=None
    )
    assert compute_spec_digest(asked) == digest(UNSAID), (
        "a default that is passed on as a wish restarts those who never said it"
    )


def pooled(**changes: Any) -> ServingRequest:
    """Return the same request with another pool."""
    return replace(said(), pool=replace(said().pool, **changes))


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("replicas are always taken", replace(said(), replicas=7)),
        ("the size only decides how long to wait", replace(said(), weights=3 * GIB)),
        ("labels are a map", pooled(labels=said().pool.labels[::-1])),
        ("nodes have their taints in no order", pooled(taints=said().pool.taints[::-1])),
        ("a pool's capacity is nothing to pods", pooled(memory_per_gpu=GIB, max_nodes=99)),
        ("KServe's namespace has the preset only", replace(said(), kserve=replace(said().kserve, namespace="other"))),
        (
            "what is built in may change with any release",
            replace(said(), initializer=Initializer(image="mirror:1", resources={}, named={"image": "mirror:1"})),
        ),
    ],
)
def test_what_is_no_wish(reason: str, changed: ServingRequest) -> None:
    assert compute_spec_digest(changed) == digest(SAID), reason


@pytest.mark.parametrize(
    ("reason", "kept", "changed"),
    [
        ("one node has no pods to keep apart", request(), request(pods=Spread.REQUIRED)),
        (
            "one node has nobody to reach",
            request(pool=PLAIN),
            request(pool=replace(PLAIN, inter_node=InterNode(preset="coreweave-infiniband"))),
        ),
        ("only a pipeline names a preset", request(DATA), request(DATA, kserve=replace(KSERVE, config_prefix="x-"))),
    ],
)
def test_what_the_pods_of_a_mode_never_see(reason: str, kept: ServingRequest, changed: ServingRequest) -> None:
    assert compute_spec_digest(kept) == compute_spec_digest(changed), reason
