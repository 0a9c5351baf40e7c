"""A profile is valid or comes with all its problems, and the other profiles still serve."""

from dataclasses import dataclass

import pytest

from function.api.cluster_model import parse_model
from function.domain.model import (
    BandwidthRequirement,
    Engine,
    EngineName,
    Model,
    Parallelism,
    Problem,
    Profile,
    Requires,
    Shape,
    Spread,
)
from function.kube.manifests import JSON, Manifest
from function.kube.selectors import Operator, Selector, SelectorRequirement
from tests.api import manifests
from tests.api.manifests import engine, profile, topology

GIB = 2**30
SGLANG: Manifest = {"name": "SGLang", "image": "lmsysorg/sglang:v0.5.5"}


def _read(*profiles: JSON, **fields: JSON) -> Model:
    model = parse_model(manifests.model(*profiles, **fields)).value
    assert model
    return model


def test_parses_every_field_of_a_profile() -> None:
    args = ("--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--enable-expert-parallel")
    model = _read(
        profile(
            "big",
            environmentSelector={"matchLabels": {"tier": "production"}},
            replicaTopology=topology(
                nodes=2,
                parallelism={"tensor": 8, "pipeline": 2, "expert": "enabled"},
                requires={
                    "memoryPerGpu": "141Gi",
                    "interconnect": "NVLink",
                    "multiNodeBandwidth": "IB-400G-or-better",
                    "precisionSupport": ["FP8", "bf16", "fp8"],
                    "nvlinkDomainSize": 8,
                    "acceleratorType": "NVIDIA-H200",
                },
                placement={"podsAcrossNodes": "required", "replicasAcrossNodes": "preferred"},
            ),
            engine=engine(*args, env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
        )
    )
    assert model.broken == ()
    assert model.profiles == (
        Profile(
            name="big",
            engine=Engine(
                name=EngineName.VLLM,
                image="vllm/vllm-openai:v0.15.0",
                args=args,
                env=({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},),
            ),
            shape=Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=8, pipeline=2, expert=True)),
            selector=Selector((SelectorRequirement(key="tier", operator=Operator.IN, values=("production",)),)),
            requires=Requires(
                memory_per_gpu=141 * GIB,
                interconnect="nvlink",
                bandwidth=BandwidthRequirement(rung="ib-400g", or_better=True, field="multiNodeBandwidth"),
                precision=("bf16", "fp8"),
                nvlink_domain=8,
                accelerator_type="nvidia-h200",
            ),
            pods_across_nodes=Spread.REQUIRED,
            replicas_across_nodes=Spread.PREFERRED,
        ),
    )


@dataclass(frozen=True)
class ShapeCase:
    id: str
    reason: str
    topology: Manifest
    want: Shape
    engine: JSON


def _declared(nodes: int, gpus: int, **parallelism: JSON) -> Manifest:
    return {"nodes": nodes, "gpusPerNode": gpus, "parallelism": parallelism}


def _shape(nodes: int, gpus: int, parallelism: Parallelism) -> Shape:
    return Shape(nodes=nodes, gpus_per_node=gpus, parallelism=parallelism)


SHAPES = [
    ShapeCase("one-node", "nodes defaults to 1, and tensor to gpusPerNode", {"gpusPerNode": 4},
              _shape(1, 4, Parallelism(tensor=4)), engine()),
    ShapeCase("pipeline", "the pipeline has one stage for each node", {"nodes": 4, "gpusPerNode": 4},
              _shape(4, 4, Parallelism(tensor=4, pipeline=4)), engine()),
    ShapeCase("tensor-over-nodes", "16 GPUs share every layer", _declared(2, 8, tensor=16),
              _shape(2, 8, Parallelism(tensor=16, pipeline=1)), engine("-tp=16")),
    ShapeCase("no-stages", "without pipeline stages, tensor is all 16 GPUs", _declared(2, 8, pipeline=1),
              _shape(2, 8, Parallelism(tensor=16, pipeline=1)), engine()),
    ShapeCase("data", "16 ranks, 8 on each of 2 nodes: a rank has 8 / 8 = 1 GPU", _declared(2, 8, data=16, dataLocal=8),
              _shape(2, 8, Parallelism(tensor=1, data=16, data_local=8)), engine()),
    ShapeCase("data-and-tensor", "4 ranks of 4 GPUs, 2 on each node; a pipeline of 1 is none",
              _declared(2, 8, data=4, dataLocal=2, tensor=4, pipeline=1, expert="disabled"),
              _shape(2, 8, Parallelism(tensor=4, data=4, data_local=2)), engine("-dp=4", "-dpl=2")),
    ShapeCase("expert-by-flag", "where the block is silent the arguments decide", {"gpusPerNode": 8},
              _shape(1, 8, Parallelism(tensor=8, expert=True)), engine("--enable-expert-parallel")),
    ShapeCase("expert-twice", "block and arguments may agree", _declared(1, 8, expert="disabled"),
              _shape(1, 8, Parallelism(tensor=8)), engine("--no-enable-expert-parallel")),
    ShapeCase("sglang", "SGLang spans nodes by pipeline", {"nodes": 2, "gpusPerNode": 8},
              _shape(2, 8, Parallelism(tensor=8, pipeline=2)), SGLANG | {"args": ["--tp", "8", "--pp-size=2"]}),
    ShapeCase("sglang-data", "on one node SGLang may have data ranks", _declared(1, 8, data=2, dataLocal=2),
              _shape(1, 8, Parallelism(tensor=4, data=2, data_local=2)), SGLANG),
]  # fmt: skip


@pytest.mark.parametrize("case", SHAPES, ids=lambda c: c.id)
def test_completes_the_declared_shape(case: ShapeCase) -> None:
    model = _read(profile(replicaTopology=case.topology, engine=case.engine))
    assert [p.shape for p in model.profiles] == [case.want], (case.reason, model.problems)


def test_profile_without_topology_has_no_shape() -> None:
    model = _read({"name": "vllm", "engine": engine()}, resources={"vram": "1200Gi"})
    assert model.vram == 1200 * GIB
    assert [p.shape for p in model.profiles] == [None]


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    profile: JSON
    want: tuple[tuple[str, str], ...]


def _split(nodes: int = 2, gpus: int = 8, engine_: JSON = None, **parallelism: JSON) -> JSON:
    return profile(replicaTopology=_declared(nodes, gpus, **parallelism), engine=engine_ or engine())


def _requires(**requires: JSON) -> JSON:
    return profile(replicaTopology=topology(requires=requires))


PARALLELISM, REQUIRES = "replicaTopology.parallelism", "replicaTopology.requires"
LEFT_OUT = "must be left out, as SGLang spans nodes by tensor or pipeline only"
LADDER = (
    "eth-10g, eth-25g, eth-50g, eth-100g, eth-200g, eth-400g, eth-800g, roce-100g, efa-100g, ib-100g, roce-200g, "
    "efa-200g, ib-200g, roce-400g, efa-400g, ib-400g, roce-800g, efa-800g, ib-800g"
)
PRECISIONS = "fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, mxfp8, mxfp6, mxfp4, nvfp4, int8, int4"
FAULTS = [
    Fault("tensor", "tensor must be the GPUs of one node or of all nodes", _split(tensor=4),
          ((f"{PARALLELISM}.tensor", "4 is not allowed; must be 8, the gpusPerNode, or 16, that of all nodes"),)),
    Fault("pipeline", "pipeline must be the number of nodes, or absent", _split(pipeline=3),
          ((f"{PARALLELISM}.pipeline",
            "3 is not allowed; must be 1 or 2, as tensor times pipeline is the number of GPUs"),)),
    Fault("tensor-and-pipeline", "2 stages of 16 GPUs are 32", _split(tensor=16, pipeline=2),
          ((f"{PARALLELISM}.pipeline",
            "2 is not allowed; must be 1, as tensor times pipeline is the number of GPUs"),)),
    Fault("data-alone", "data requires dataLocal", _split(data=16),
          ((f"{PARALLELISM}.dataLocal", "is required, as data and dataLocal go together"),)),
    Fault("data-local-alone", "dataLocal requires data", _split(dataLocal=8),
          ((f"{PARALLELISM}.data", "is required, as data and dataLocal go together"),)),
    Fault("data-and-pipeline", "KServe accepts either data or pipeline", _split(data=16, dataLocal=8, pipeline=2),
          ((f"{PARALLELISM}.pipeline", "2 is not allowed; must be 1 together with data"),)),
    Fault("data-by-nodes", "2 nodes of 8 ranks are 16 ranks", _split(data=32, dataLocal=8),
          ((f"{PARALLELISM}.data", "32 is not allowed; must be 16, dataLocal times nodes"),)),
    Fault("data-local", "a node's GPUs are shared evenly", _split(data=6, dataLocal=3),
          ((f"{PARALLELISM}.dataLocal", "3 is not allowed; must be a divisor of 8, the gpusPerNode"),)),
    Fault("data-tensor", "4 ranks share the 8 GPUs of a node", _split(data=8, dataLocal=4, tensor=8),
          ((f"{PARALLELISM}.tensor", "8 is not allowed; must be 2, gpusPerNode by dataLocal"),)),
    Fault("flag", "the arguments must agree with the topology", _split(engine_=engine("-tp=4")),
          (("engine.args[0]", "-tp=4 disagrees with the shape of the replica; must be 8"),)),
    Fault("expert", "the topology and the arguments disagree about expert parallelism",
          _split(expert="disabled", engine_=engine("-ep")),
          ((f"{PARALLELISM}.expert",
            '"disabled" is not allowed; must be enabled, as in spec.serving[0].engine.args'),)),
    Fault("sglang-data", "SGLang has no data mode over nodes", _split(data=2, dataLocal=1, engine_=SGLANG),
          ((f"{PARALLELISM}.data", f"2 is not allowed; {LEFT_OUT}"),)),
    Fault("template", "KServe would expand the template", profile(engine=engine("--chat-template={{ x }}")),
          (("engine.args[0]",
            ('"--chat-template={{ x }}" is not allowed; must be without {{, which KServe reads as a template; '
             "put the value into a ConfigMap, the ConfigMap into engine.env, and $(NAME) into the argument")),)),
    Fault("template-deep", "templates are refused in all fields of the engine",
          profile(engine=engine(env=[{"name": "A", "value": "{{"}])),
          (("engine.env[0].value",
            '"{{" is not allowed; must be without {{, which KServe reads as a template'),)),
    Fault("env", "a variable has one value",
          profile(engine=engine(env=[{"name": "A", "value": "1", "valueFrom": {}}])),
          (("engine.env[0].valueFrom", "{} is not allowed; must be left out together with value"),)),
    Fault("engine", "an unknown engine does not hide problems of the topology",
          profile(engine={"name": "vlm", "image": "a"}, replicaTopology=topology(parallelism={"tensor": 1})),
          (("engine.name", '"vlm" is not known; must be one of vLLM, SGLang (did you mean vLLM?)'),
           (f"{PARALLELISM}.tensor", "1 is not allowed; must be 8, the gpusPerNode"))),
    Fault("no-engine", "an engine is required", {"name": "a", "replicaTopology": topology()},
          (("engine", "is required"),)),
    Fault("no-map", "a profile must be a block", 3, (("", "3 is not allowed; must be a block of fields"),)),
    Fault("no-vram", "a computed shape requires vram", {"name": "a", "engine": engine()},
          (("replicaTopology", "is required, unless spec.resources.vram is set"),)),
    Fault("topology-and-flag", "a faulty topology does not hide a faulty argument",
          _split(tensor=1, engine_=engine("-tp", "x")),
          (("engine.args[0]", "-tp has 'x'; must be a whole number"),
           (f"{PARALLELISM}.tensor", "1 is not allowed; must be 8, the gpusPerNode, or 16, that of all nodes"))),
    Fault("nodes", "a value of the wrong type is not checked further", profile(replicaTopology=topology(nodes=0)),
          (("replicaTopology.nodes", "0 is not allowed; must be at least 1"),)),
    Fault("no-gpus", "gpusPerNode is required", profile(replicaTopology={"parallelism": {"tensor": 3}}),
          (("replicaTopology.gpusPerNode", "is required"),)),
    Fault("interconnect", "the message names the nearest known value", _requires(interconnect="nvlnk"),
          ((f"{REQUIRES}.interconnect",
            '"nvlnk" is not known; must be one of pcie, nvlink, nvswitch, xgmi (did you mean nvlink?)'),)),
    Fault("bandwidth", "the nearest known value may end in -or-better",
          _requires(multiNodeBandwidth="ib-400-or-better"),
          ((f"{REQUIRES}.multiNodeBandwidth",
            f'"ib-400-or-better" is not known; must be one of {LADDER} (did you mean ib-400g-or-better?)'),)),
    Fault("bandwidth-twice", "the two fields are names for the same value",
          _requires(multiNodeBandwidth="ib-400g", interNodeBandwidth="ib-400g"),
          ((f"{REQUIRES}.interNodeBandwidth",
            '"ib-400g" is not allowed; must be left out together with multiNodeBandwidth'),)),
    Fault("precision", "the message names each invalid item", _requires(precisionSupport=["fp8", "fp9"]),
          ((f"{REQUIRES}.precisionSupport[1]",
            f'"fp9" is not known; must be one of {PRECISIONS} (did you mean fp8?)'),)),
    Fault("memory", "a memory of 0 is not a valid requirement", _requires(memoryPerGpu=0),
          ((f"{REQUIRES}.memoryPerGpu", "0 is not allowed; must be more than 0"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_reports_every_problem_of_a_profile(case: Fault) -> None:
    model = _read(case.profile, profile("other"))
    want = tuple(Problem(f"spec.serving[0].{path}".rstrip("."), message) for path, message in case.want)
    assert model.problems == want, case.reason
    assert [p.name for p in model.profiles] == ["other"], case.reason


def test_accepts_the_alias_of_the_bandwidth() -> None:
    model = _read(_requires(interNodeBandwidth="eth-100g"))
    assert model.profiles[0].requires.bandwidth == BandwidthRequirement(rung="eth-100g", or_better=False)


def test_duplicate_name_breaks_the_later_profile() -> None:
    model = _read(profile("a"), profile("a"), profile("b"))
    assert [p.name for p in model.profiles] == ["a", "b"]
    assert [b.name for b in model.broken] == ["a"]
    assert model.problems == (
        Problem("spec.serving[1].name", '"a" is not allowed; must be unique, and spec.serving[0] has the same name'),
    )
