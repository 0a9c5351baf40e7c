"""The shape of one replica, declared by a profile or recorded by a placement, and the rules it must keep.

A replica spans `nodes` nodes in one of two modes. Pipeline mode: one pipeline stage for each node, tensor
parallelism over the GPUs of a node; or no stages, and tensor parallelism over the GPUs of all nodes. Data mode
(`data` and `dataLocal` together): `data / dataLocal` is the number of nodes, `tensor` times `dataLocal` the GPUs of
a node, and there is no pipeline, because KServe takes one or the other. In both, tensor times pipeline times data is
then the number of GPUs. What is left out follows from the rest; expert parallelism follows the engine's arguments
where the block does not mention it.
"""

from dataclasses import replace

from function.api.block import Block
from function.domain.engine_args import parallel_flags
from function.domain.engine_spec import ENGINES, EXPERT
from function.domain.model import Engine, Parallelism, Shape


def read_shape(topology: Block) -> Shape | None:
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
    flag = parallel_flags(engine.name, engine.args).values.get(EXPERT)
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
