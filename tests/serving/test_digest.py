"""The spec digest. The texts below are its canonical form: another form restarts every service that exists."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.domain.environment import Pool, PoolFacts
from function.domain.model import (
    BandwidthRequirement,
    Engine,
    EngineResources,
    HuggingFaceSource,
    Model,
    Profile,
    Requires,
    SecretKey,
    Shape,
    Spread,
)
from function.domain.pods import InterNode, PodAdditions, PresetInputs, PullSecret
from function.domain.settings import BUILT_IN, Initializer, Kserve
from function.kube.manifests import Manifest, mapping
from function.kube.names import ANNOTATION_SPEC_DIGEST
from function.serving.digest import EXCLUDED, ServingRequest, compute_spec_digest
from function.serving.service import build_service
from tests.support.builders import broken_profile, pool, selector
from tests.support.serving_requests import DATA, NAME, NAMESPACE, PIPELINE, engine, request

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
PLAIN = replace(pool(), labels=(), taints=())
DEFAULTS = (
    '{"model":{"served_name":"org/kimi"},'
    '"profile":{"engine":{"image":"vllm/vllm-openai:v0.15.0","name":"vLLM"}},'
    '"shape":{"gpus_per_node":1,"nodes":1,"parallelism":{"tensor":1}},'
    '"uri":"pvc://weights/models/0123"}'
)
EVERYTHING = (
    '{"initializer":{"named":{"image":"mirror:1"}},'
    '"kserve":{"config_prefix":"","gateway":false,"tls":true},'
    '"model":{"cpu":"5","memory":"17Gi","served_name":"org/kimi","source":{"file":"a.gguf"}},'
    '"pool":{"gpu_resource":"amd.com/gpu",'
    '"inter_node":{"fail_closed":false,'
    '"inputs":{"count":8,"instance_type":"p5","nccl_net":"Libfabric","networks":["n"],"resource":"a/b"},'
    '"pod":{"env":[{"name":"A","value":"b"}]},"preset":"eks-efa"},'
    '"labels":[["a","1"],["b","2"]],'
    '"pod":{"annotations":[["c","d"]],"env":[{"name":"E","value":"f"}],"host_network":false,"labels":[["g","h"]],'
    '"priority_class":"high","pull_secrets":["pool-pull"],"resource_claims":[{"name":"claim"}],'
    '"resources":[["rdma/ib","1"]],"runtime_class":"nvidia","scheduler":"kueue","security":{"privileged":true},'
    '"service_account":"sa","volume_mounts":[{"mountPath":"/v","name":"v"}],"volumes":[{"emptyDir":{},"name":"v"}]},'
    '"taints":[{"effect":"NoSchedule","key":"k"}]},'
    '"profile":{"engine":{"args":["--a"],"env":[{"name":"B","value":"c"}],"image":"vllm/vllm-openai:v0.15.0",'
    '"name":"vLLM","pull_secrets":[{"key":".dockerconfigjson","name":"s","namespace":"a"}],'
    '"resources":{"cpu":"1","ephemeral_storage":"3Gi","memory":"2Gi","shm":"4Gi"},"version":"0.15.1"},'
    '"pods_across_nodes":"required","replicas_across_nodes":"preferred"},'
    '"pull_secrets":[{"name":"there"},'
    '{"source":{"key":".dockerconfigjson","name":"s","namespace":"a"}}],'
    '"shape":{"gpus_per_node":8,"nodes":2,"parallelism":{"data_local":1,"expert":true,"pipeline":2,"tensor":8}},'
    '"uri":"hf://org/kimi:main"}'
)
SECRET = SecretKey(name="s", namespace="a", key=".dockerconfigjson")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


POD_ADDITIONS = PodAdditions(
    resources=(("rdma/ib", "1"),),
    env=({"name": "E", "value": "f"},),
    annotations=(("c", "d"),),
    labels=(("g", "h"),),
    volumes=({"name": "v", "emptyDir": {}},),
    volume_mounts=({"name": "v", "mountPath": "/v"},),
    host_network=False,
    priority_class="high",
    scheduler="kueue",
    runtime_class="nvidia",
    service_account="sa",
    pull_secrets=("pool-pull",),
    security={"privileged": True},
    resource_claims=({"name": "claim"},),
)


def everything() -> ServingRequest:
    """Returns a request in pipeline mode with every field set, except those of data parallelism."""
    run = replace(
        engine("--a", env=({"name": "B", "value": "c"},)),
        version="0.15.1",
        resources=EngineResources(cpu="1", memory="2Gi", ephemeral_storage="3Gi", shm="4Gi"),
        pull_secrets=(SECRET,),
    )
    made = request(
        replace(PIPELINE, parallelism=replace(PIPELINE.parallelism, data_local=1)),
        run,
        source=HuggingFaceSource(
            repo="org/kimi", revision="v1", secret=SECRET, allow=("*.x",), ignore=("*.y",), file="a.gguf"
        ),
        pool=replace(
            PLAIN,
            gpu_resource="amd.com/gpu",
            labels=(("b", "2"), ("a", "1")),
            taints=({"key": "k", "effect": "NoSchedule", "value": ""}, {"key": "amd.com/gpu", "effect": "NoSchedule"}),
            accelerator_type="h100",
            memory_per_gpu=1,
            interconnect="nvlink",
            precision=("fp8",),
            multi_node=True,
            bandwidth="ib-400g",
            nvlink_domain=8,
            autoscaled=True,
            facts=PoolFacts(nodes=1, usable=1),
            pod=POD_ADDITIONS,
            inter_node=InterNode(
                preset="eks-efa",
                inputs=PresetInputs(instance_type="p5", resource="a/b", count=8, networks=("n",), nccl_net="Libfabric"),
                fail_closed=False,
                pod=PodAdditions(env=({"name": "A", "value": "b"},)),
                merged=PodAdditions(env=({"name": "A", "value": "b"},)),
                preset_env=frozenset({"FI_PROVIDER"}),
                start="source /x",
                whole_node=True,
            ),
        ),
        pods=Spread.REQUIRED,
        replicas_apart=Spread.PREFERRED,
        uri="hf://org/kimi:main",
        kserve=Kserve(namespace="elsewhere", config_prefix="", gateway=False, tls=True),
        initializer=Initializer(
            image="mirror:1",
            resources={"limits": {"cpu": "1"}},
            env=({"name": "HF_HOME", "value": "/tmp"},),
            env_from=({"secretRef": {"name": "s"}},),
            bundle=("ca", "/certs"),
            pull_secrets=("mirror",),
            named={"image": "mirror:1"},
        ),
        bandwidth=10**9,
    )
    return replace(
        made,
        pull_secrets=(PullSecret(name="there"), PullSecret(source=SECRET)),
        profile=replace(
            made.profile,
            selector=selector(a="b"),
            requires=Requires(memory_per_gpu=1, bandwidth=BandwidthRequirement(rung="ib-400g", or_better=True)),
        ),
        model=replace(
            made.model, cpu="5", memory="17Gi", vram=1, disk=1, broken=(broken_profile(),), selector=selector(a="b")
        ),
    )


def test_defaults_are_not_part_of_the_form() -> None:
    assert compute_spec_digest(request(pool=PLAIN)) == digest(DEFAULTS)


def test_every_field_that_is_set_is_part_of_the_form() -> None:
    assert compute_spec_digest(everything()) == digest(EVERYTHING)


def test_data_parallelism_is_part_of_the_form() -> None:
    text = DEFAULTS.replace('"gpus_per_node":1,"nodes":1', '"gpus_per_node":8,"nodes":2')
    text = text.replace('{"tensor":1}', '{"data":4,"data_local":2,"expert":true,"tensor":4}')
    assert compute_spec_digest(request(DATA, pool=PLAIN)) == digest(text)


def test_service_carries_its_digest() -> None:
    service = build_service(request(pool=PLAIN))
    assert service["metadata"] == {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        "annotations": {ANNOTATION_SPEC_DIGEST: digest(DEFAULTS)},
    }


def test_defaults_of_the_schemas_are_the_defaults_of_the_form() -> None:
    parsed = parse_model(
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
    found = parse_environment({"spec": {"nodePools": [{"name": "pool", "maxNodeCount": 1}]}}, BUILT_IN).value
    assert parsed
    (profile,), (nodes,) = parsed.profiles, found.pools
    assert profile.shape is not None
    made = replace(
        request(),
        model=parsed,
        profile=profile,
        shape=profile.shape,
        pool=nodes,
        kserve=found.kserve,
        weights_bytes=None,
    )
    assert compute_spec_digest(made) == digest(DEFAULTS)


@dataclass(frozen=True)
class Edit:
    """An edit of one field: its value in the request, or a request with it, and whether the digest excludes it."""

    id: str
    edited: Any
    excluded: bool


def edits(value: Any) -> Iterator[Edit]:
    """Yields an edit of each field of a dataclass and of the values in it; excluded values are edited as a whole."""
    for entry in fields(value):
        current, name = getattr(value, entry.name), f"{type(value).__name__}.{entry.name}"
        excluded = entry.name in EXCLUDED.get(type(value), ())
        if not is_dataclass(current):
            yield Edit(name, replace(value, **{entry.name: change(current)}), excluded)
            continue
        nested = list(edits(current))
        if excluded:
            yield Edit(name, replace(value, **{entry.name: nested[0].edited}), excluded)
        else:
            yield from (replace(e, edited=replace(value, **{entry.name: e.edited})) for e in nested)


def change(current: Any) -> Any:
    """Returns another value of the same type; a field that is not set gets a number."""
    match current:
        case StrEnum():
            return next(member for member in type(current) if member is not current)
        case bool():
            return not current
        case int():
            return current * 2
        case str():
            return f"{current}x"
        case tuple():
            return () if current else (("x", "1"),)
        case frozenset() | dict():
            return type(current)() if current else {"x": "1"}
        case _:
            assert current is None
            return 1


EDITS = list(edits(everything()))
# Excluded, though pods see them: the first three identify the service and its placement, the others are derived or
# built in, so that a release may change them without a restart.
SEEN_BY_PODS = {
    *("ServingRequest.name", "ServingRequest.namespace", "ServingRequest.labels"),
    *("ServingRequest.weights_bytes", "ServingRequest.read_bandwidth", "InterNode.merged", "InterNode.start"),
    *(f"Initializer.{name}" for name in ("image", "resources", "env", "env_from", "bundle", "pull_secrets")),
}


@pytest.mark.parametrize("case", EDITS, ids=lambda case: case.id)
def test_edit_of_any_included_field_changes_the_digest_and_of_an_excluded_field_does_not(case: Edit) -> None:
    assert (compute_spec_digest(case.edited) == digest(EVERYTHING)) == case.excluded


@pytest.mark.parametrize("case", [e for e in EDITS if e.excluded], ids=lambda case: case.id)
def test_pods_do_not_depend_on_excluded_fields(case: Edit) -> None:
    before, after = build_service(everything()), build_service(case.edited)
    pods = [{**mapping(service, "spec"), "replicas": None} for service in (before, after)]
    assert (pods[0] == pods[1]) == (case.id not in SEEN_BY_PODS)


def test_every_excluded_field_exists() -> None:
    for cls, names in EXCLUDED.items():
        assert names <= {entry.name for entry in fields(cls)}, cls


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterPod(PodAdditions):
    """A class of a later release, which has one more field."""

    added: str = ""
    also: tuple[str, ...] = field(default_factory=tuple)


@pytest.mark.parametrize(
    ("later", "same"), [(LaterPod(), True), (LaterPod(added="x"), False), (LaterPod(also=("x",)), False)]
)
def test_new_field_changes_the_digest_only_where_it_is_set(later: LaterPod, same: bool) -> None:
    made = request(pool=replace(PLAIN, pod=later))
    assert (compute_spec_digest(made) == digest(DEFAULTS)) == same


def with_pool(**changes: Any) -> ServingRequest:
    """Returns the request with everything set and another pool."""
    return replace(everything(), pool=replace(everything().pool, **changes))


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("the order of labels does not change the digest", with_pool(labels=everything().pool.labels[::-1])),
        ("the order of taints does not change the digest", with_pool(taints=everything().pool.taints[::-1])),
        (
            "the order of pull secrets does not change the digest",
            replace(everything(), pull_secrets=everything().pull_secrets[::-1]),
        ),
    ],
)
def test_order_of_maps_and_sets_changes_no_digest(reason: str, changed: ServingRequest) -> None:
    assert compute_spec_digest(changed) == digest(EVERYTHING), reason


def test_order_of_variables_changes_the_digest() -> None:
    variables: tuple[Manifest, ...] = ({"name": "A", "value": "a"}, {"name": "B", "value": "$(A)"})
    made = [request(run=engine(env=env)) for env in (variables, variables[::-1])]
    assert compute_spec_digest(made[0]) != compute_spec_digest(made[1])


@pytest.mark.parametrize(
    ("reason", "kept", "changed"),
    [
        ("a single pod has no other pods of its group to be kept apart from", request(), request(pods=Spread.REQUIRED)),
        (
            "a single pod needs no network between nodes",
            request(pool=PLAIN),
            request(pool=replace(PLAIN, inter_node=InterNode(preset="coreweave-infiniband"))),
        ),
        (
            "only a service in pipeline mode names a preset by prefix",
            request(DATA),
            request(DATA, kserve=replace(BUILT_IN.kserve, config_prefix="x-")),
        ),
    ],
)
def test_inputs_that_the_mode_does_not_use_change_no_digest(
    reason: str, kept: ServingRequest, changed: ServingRequest
) -> None:
    assert compute_spec_digest(kept) == compute_spec_digest(changed), reason


# Where the reference names an input: the word in its table for each included field. Records have their own rows.
DOCUMENTED: dict[type, dict[str, str]] = {
    ServingRequest: {
        "model": "model |",
        "profile": "of the profile",
        "shape": "as recorded in the ModelPlacement",
        "pool": "of the pool",
        "uri": "the address of the weights",
        "kserve": "kserve.",
        "initializer": "`storage.download`",
        "pull_secrets": "`imagePullSecrets`",
        "adapters": "`adapters`",
        "lora": "`lora`",
    },
    Model: {"served_name": "`model.name`", "source": "file", "cpu": "`resources.cpu`", "memory": "`resources.memory`"},
    HuggingFaceSource: {"file": "`huggingFace.file`"},
    Profile: {
        "engine": "`engine` of the profile",
        "pods_across_nodes": "podsAcrossNodes",
        "replicas_across_nodes": "replicasAcrossNodes",
    },
    Engine: {
        "name": "`name`",
        "image": "`image`",
        "args": "`args`",
        "env": "`env`",
        "version": "`version`",
        "resources": "`resources`",
        "pull_secrets": "`imagePullSecrets`",
    },
    Shape: {"nodes": "`nodes`", "gpus_per_node": "`gpusPerNode`", "parallelism": "`parallelism`"},
    Pool: {
        "gpu_resource": "`gpuResource`",
        "labels": "`labels`",
        "taints": "`taints`",
        "pod": "`pod`",
        "inter_node": "`interNode` of the pool",
    },
    InterNode: {"preset": "`preset`", "inputs": "`with`", "fail_closed": "`failClosed`", "pod": "`pod`"},
    Kserve: {"config_prefix": "`kserve.configPrefix`", "gateway": "`kserve.gateway`", "tls": "`kserve.tls`"},
}


@pytest.mark.parametrize("cls", DOCUMENTED, ids=lambda cls: cls.__name__)
def test_the_reference_lists_every_input_of_the_digest(cls: Any) -> None:
    chapter = REFERENCE.read_text().partition("## When a running service changes")[2].partition("\n## ")[0]
    table = "\n".join(line for line in chapter.splitlines() if line.startswith("|"))
    assert DOCUMENTED[cls].keys() == {entry.name for entry in fields(cls)} - EXCLUDED.get(cls, frozenset())
    assert [word for word in DOCUMENTED[cls].values() if word not in table] == []
