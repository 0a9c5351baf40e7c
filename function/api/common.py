"""Blocks and conditions that several kinds share: references, label selectors, replica shapes, shares and readiness.

Label selectors are refused where apimachinery refuses them.

A replica on several nodes is in one of two modes. Pipeline mode: one pipeline stage for each node and tensor
parallelism over the GPUs of a node, or no stages and tensor parallelism over the GPUs of all nodes. Data mode: `data`
ranks, of which each node has `dataLocal`, and no pipeline, because KServe takes one or the other. Sizes that are left
out follow from the others.
"""

import re
from dataclasses import replace

from function import schemas
from function.api.problems import Problems, invalid_value
from function.domain.allocation import Share
from function.domain.model import Parallelism, Problem, Shape
from function.kube.manifests import Manifest, condition, get, integer, strings, text
from function.kube.selectors import Operator, Selector, SelectorRequirement
from function.reasons import Status

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/"
_KEY = re.compile(rf"({_PREFIX})?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_KEY_FORM = "the key of a label, [prefix/]name"
_VALUE_FORM = "the value of a label, at most 63 letters, digits, dots, dashes and underscores"


def is_ready(manifest: Manifest) -> bool:
    """Tells whether Crossplane reports Ready for the current spec."""
    return condition(manifest, "Ready").get("status") == Status.TRUE and is_current(manifest)


def is_current(manifest: Manifest, type_: str = "Ready") -> bool:
    """Tells whether a condition is about the current generation; true if either does not have one."""
    generation = get(manifest, "metadata.generation")
    return generation is None or condition(manifest, type_).get("observedGeneration", generation) == generation


def parse_share(row: Manifest, *, exclusive_replica_nodes: bool = False) -> Share:
    """Returns a share of a pool from a row of status."""
    return Share(
        pool=text(row, "pool"),
        nodes=integer(row, "nodes"),
        gpus_per_node=integer(row, "gpusPerNode"),
        replicas=integer(row, "replicas"),
        exclusive_replica_nodes=exclusive_replica_nodes,
        labels=parse_node_selector(row),
    )


def parse_node_selector(row: Manifest) -> tuple[tuple[str, str], ...] | None:
    """Returns the labels by which a row of status says that pods select their nodes; None: not recorded."""
    is_recorded = isinstance(get(row, "nodeSelector"), dict)
    return tuple(sorted(strings(row, "nodeSelector").items())) if is_recorded else None


def build_share(share: Share) -> Manifest:
    """Returns a share of a pool as a row of status, as `parse_share` reads it; without its labels."""
    return {"pool": share.pool, "nodes": share.nodes, "gpusPerNode": share.gpus_per_node, "replicas": share.replicas}


def parse_selector(
    selector: schemas.EnvironmentSelector | schemas.Selector | None, path: str, problems: Problems
) -> Selector:
    """Returns a label selector; without requirements it selects everything."""
    if selector is None:
        return Selector()
    requirements: set[SelectorRequirement] = set()
    for key, value in (selector.match_labels or {}).items():
        at = f"{path}.matchLabels.{key}"
        if problem := find_invalid_label(key, value, at):
            problems.update([problem])
        else:
            requirements.add(SelectorRequirement(key=key, operator=Operator.IN, values=(value,)))
    for index, expression in enumerate(selector.match_expressions or ()):
        at = f"{path}.matchExpressions[{index}]"
        if not problems.refuses(at):
            _check_expression(expression, at, problems)
        if not problems.find_within(at):
            values = tuple(sorted(set(expression.values or ())))
            requirement = SelectorRequirement(key=expression.key, operator=Operator(expression.operator), values=values)
            requirements.add(requirement)
    return Selector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))


def find_invalid_label(key: str, value: object, path: str) -> Problem | None:
    """Returns why no object can have a label; None if one can."""
    if not _KEY.fullmatch(key):
        return invalid_value(path, key, _KEY_FORM)
    if not isinstance(value, str):
        return invalid_value(path, value, "text")
    return None if _VALUE.fullmatch(value) else invalid_value(path, value, _VALUE_FORM)


def _check_expression(expression: schemas.MatchExpression, path: str, problems: Problems) -> None:
    operator, values = expression.operator, expression.values or []
    if not _KEY.fullmatch(expression.key):
        problems.add_invalid(f"{path}.key", expression.key, _KEY_FORM)
    for index, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            problems.add_invalid(f"{path}.values[{index}]", value, _VALUE_FORM)
    if operator in {Operator.IN, Operator.NOT_IN} and not values:
        problems.add_invalid(f"{path}.values", expression.values, f"at least one value for operator {operator}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and values:
        problems.add_invalid(f"{path}.values", values, f"left out for operator {operator}")


def parse_shape(
    topology: schemas.ReplicaTopology | schemas.Topology | None, path: str, problems: Problems
) -> Shape | None:
    """Returns the declared shape; None if there is none, or if it has problems."""
    at = f"{path}.parallelism"
    fields = (f"{path}.nodes", f"{path}.gpusPerNode", at)
    if topology is None or topology.gpus_per_node < 1 or any(problems.find_within(field) for field in fields):
        return None
    nodes, gpus, block = topology.nodes, topology.gpus_per_node, topology.parallelism or schemas.Parallelism()
    parse_mode = _parse_pipeline_mode if block.data is None and block.data_local is None else _parse_data_mode
    parallelism = parse_mode(block, nodes, gpus, at, problems)
    if parallelism is None or problems.find_within(at):
        return None
    return Shape(nodes=nodes, gpus_per_node=gpus, parallelism=replace(parallelism, expert=block.expert == "enabled"))


def _parse_pipeline_mode(
    block: schemas.Parallelism, nodes: int, gpus: int, path: str, problems: Problems
) -> Parallelism | None:
    splits = [Parallelism(tensor=gpus, pipeline=nodes), Parallelism(tensor=nodes * gpus, pipeline=1)]
    with_tensor = [split for split in splits if block.tensor in {None, split.tensor}]
    fitting = [split for split in with_tensor if block.pipeline in {None, split.pipeline}]
    if not with_tensor:
        over_all = f", or {nodes * gpus}, that of all nodes" if nodes > 1 else ""
        problems.add_invalid(f"{path}.tensor", block.tensor, f"{gpus}, the gpusPerNode{over_all}")
    elif not fitting:
        stages = " or ".join(str(number) for number in sorted({split.pipeline for split in with_tensor}))
        allowed = f"{stages}, as tensor times pipeline is the number of GPUs"
        problems.add_invalid(f"{path}.pipeline", block.pipeline, allowed)
    return fitting[0] if fitting else None


def _parse_data_mode(
    block: schemas.Parallelism, nodes: int, gpus: int, path: str, problems: Problems
) -> Parallelism | None:
    data, local = block.data, block.data_local
    if data is None or local is None:
        missing = "dataLocal" if local is None else "data"
        problems.add_required(f"{path}.{missing}", "as data and dataLocal go together")
        return None
    if block.pipeline is not None and block.pipeline > 1:
        problems.add_invalid(f"{path}.pipeline", block.pipeline, "1 together with data")
    if data != local * nodes:
        problems.add_invalid(f"{path}.data", data, f"{local * nodes}, dataLocal times nodes")
    if gpus % local:
        problems.add_invalid(f"{path}.dataLocal", local, f"a divisor of {gpus}, the gpusPerNode")
    elif block.tensor not in {None, gpus // local}:
        problems.add_invalid(f"{path}.tensor", block.tensor, f"{gpus // local}, gpusPerNode by dataLocal")
    return Parallelism(tensor=gpus // local, data=data, data_local=local)
