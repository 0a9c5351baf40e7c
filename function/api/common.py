"""Blocks and conditions that several kinds share: references, label selectors, replica shapes, shares and readiness.

Label selectors are refused where apimachinery refuses them: keys are `[prefix/]name`, values have at most 63
characters, In and NotIn need values, Exists and DoesNotExist take none.

A replica spans `nodes` nodes in one of two modes. Pipeline mode: one pipeline stage for each node and tensor
parallelism over the GPUs of a node, or no stages and tensor parallelism over the GPUs of all nodes. Data mode (`data`
and `dataLocal` together): `data / dataLocal` is the number of nodes, `tensor` times `dataLocal` the GPUs of a node,
without a pipeline, because KServe takes one or the other. In both modes tensor times pipeline times data is the
number of GPUs. Sizes that are left out follow from the others; expert parallelism follows the engine's arguments
where the block does not set it.
"""

import re
from dataclasses import replace

from function.api.block import Block
from function.api.problems import invalid_value, join_path
from function.domain.allocation import Share
from function.domain.engine_args import parse_parallel_flags
from function.domain.engine_spec import ENGINES, EXPERT
from function.domain.model import Engine, ModelRef, Parallelism, Shape
from function.kube.manifests import Manifest, condition, get, integer, strings, text
from function.kube.selectors import Operator, Requirement, Selector
from function.reasons import Status


def is_ready(manifest: Manifest) -> bool:
    """Trust Ready only if it speaks of the present spec: Crossplane writes the generation that it saw."""
    return condition(manifest, "Ready").get("status") == Status.TRUE and is_current(manifest)


def is_current(manifest: Manifest, type_: str = "Ready") -> bool:
    """Tell whether a condition speaks of the present spec; where either does not say, it is believed."""
    generation = get(manifest, "metadata.generation")
    return generation is None or condition(manifest, type_).get("observedGeneration", generation) == generation


def parse_model_ref(spec: Block) -> ModelRef:
    """Return which model is meant: a ClusterModel unless another kind is named."""
    reference = spec.block("modelRef")
    return ModelRef(kind=reference.text("kind", "ClusterModel"), name=reference.text("name"))


def parse_share(manifest: Manifest) -> Share:
    """Return what a status says of a part of a pool."""
    selects = isinstance(get(manifest, "nodeSelector"), dict)
    return Share(
        pool=text(manifest, "pool"),
        nodes=integer(manifest, "nodes"),
        gpus_per_node=integer(manifest, "gpusPerNode"),
        replicas=integer(manifest, "replicas"),
        labels=tuple(sorted(strings(manifest, "nodeSelector").items())) if selects else None,
    )


_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/"
_KEY = re.compile(rf"({_PREFIX})?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_A_KEY = "the key of a label, [prefix/]name"
_A_VALUE = "the value of a label, at most 63 letters, digits, dots, dashes and underscores"


def parse_selector(block: Block) -> Selector:
    """Return the selector that a block stands for; without requirements it admits everything."""
    equal = [_equality(block.block("matchLabels"), key, value) for key, value in block.strings("matchLabels")]
    expressions = [_expression(item) for item in block.blocks("matchExpressions")]
    requirements = {requirement for requirement in equal + expressions if requirement is not None}
    return Selector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))


def _equality(labels: Block, key: str, value: str) -> Requirement | None:
    if not _KEY.fullmatch(key):
        labels.faults.add(invalid_value(labels.at(key), key, _A_KEY))
    elif not _VALUE.fullmatch(value):
        labels.deny(key, _A_VALUE)
    else:
        return Requirement(key=key, operator=Operator.IN, values=(value,))
    return None


def _expression(block: Block) -> Requirement | None:
    key, operator, values = block.fields.get("key"), block.text("operator"), block.texts("values")
    if isinstance(key, str) and not _KEY.fullmatch(key):
        block.deny("key", _A_KEY)
    for index, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            block.faults.add(invalid_value(block.at(join_path("values", index)), value, _A_VALUE))
    if operator in {Operator.IN, Operator.NOT_IN} and not values and not block.problems("values"):
        block.deny("values", f"at least one value for operator {operator}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and values:
        block.deny("values", f"left out for operator {operator}")
    # The schema says nothing of what is in a list that is too long.
    if block.problems() or operator not in set(Operator):
        return None
    return Requirement(key=block.text("key"), operator=Operator(operator), values=tuple(sorted(set(values))))


def parse_shape(topology: Block) -> Shape | None:
    """Return the declared shape; None where it has faults."""
    nodes, gpus = topology.integer("nodes"), topology.integer("gpusPerNode")
    parallelism = topology.block("parallelism")
    if gpus is None or any(topology.problems(key) for key in ("nodes", "gpusPerNode", "parallelism")):
        return None
    nodes = 1 if nodes is None else nodes
    data_mode = parallelism.has("data") or parallelism.has("dataLocal")
    split = _data_mode(parallelism, nodes, gpus) if data_mode else _pipeline_mode(parallelism, nodes, gpus)
    if parallelism.problems():
        return None
    expert = parallelism.text("expert") == "enabled"
    return Shape(nodes=nodes, gpus_per_node=gpus, parallelism=replace(split, expert=expert))


def fit_engine(topology: Block, shape: Shape, engine: Engine, args_path: str) -> Shape:
    """Return the shape as this engine runs it; note where it cannot."""
    parallelism, data = topology.block("parallelism"), shape.parallelism.data
    if data is not None and shape.nodes > 1 and not ENGINES[engine.name].data_spans_nodes:
        parallelism.deny("data", f"left out, as {engine.name} spans nodes by pipeline only")
    flag = parse_parallel_flags(engine.name, engine.args).values.get(EXPERT)
    if flag is None:
        return shape
    said, given = parallelism.text("expert"), "enabled" if flag else "disabled"
    if said and said != given:
        parallelism.deny("expert", f"{given}, as in {args_path}")
    return replace(shape, parallelism=replace(shape.parallelism, expert=bool(flag)))


def _pipeline_mode(block: Block, nodes: int, gpus: int) -> Parallelism:
    splits = [Parallelism(tensor=gpus, pipeline=nodes), Parallelism(tensor=nodes * gpus, pipeline=1)]
    tensor, pipeline = block.integer("tensor"), block.integer("pipeline")
    of_tensor = [split for split in splits if tensor in {None, split.tensor}]
    if not of_tensor:
        over_all = f", or {nodes * gpus}, that of all nodes" if nodes > 1 else ""
        block.deny("tensor", f"{gpus}, the gpusPerNode{over_all}")
        return splits[0]
    fitting = [split for split in of_tensor if pipeline in {None, split.pipeline}]
    if not fitting:
        stages = " or ".join(str(number) for number in sorted({split.pipeline for split in of_tensor}))
        block.deny("pipeline", f"{stages}, as tensor times pipeline is the number of GPUs")
        return splits[0]
    return fitting[0]


def _data_mode(block: Block, nodes: int, gpus: int) -> Parallelism:
    data, local, tensor = block.integer("data"), block.integer("dataLocal"), block.integer("tensor")
    if data is None or local is None:
        block.demand("dataLocal" if local is None else "data", "as data and dataLocal go together")
        return Parallelism(tensor=gpus)
    if block.integer("pipeline", 1) > 1:
        block.deny("pipeline", "1 together with data")
    if data != local * nodes:
        block.deny("data", f"{local * nodes}, dataLocal times nodes")
    if gpus % local:
        block.deny("dataLocal", f"a divisor of {gpus}, the gpusPerNode")
    elif tensor not in {None, gpus // local}:
        block.deny("tensor", f"{gpus // local}, gpusPerNode by dataLocal")
    return Parallelism(tensor=gpus // local, data=data, data_local=local)
