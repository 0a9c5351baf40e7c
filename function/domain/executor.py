"""How the pods of one replica of vLLM find each other: by Ray or by vLLM itself, and whether the image can."""

from function.domain.engine_versions import SPANS, Ability, can, named
from function.domain.flags import last_value, read
from function.domain.model import Engine, EngineName, Shape
from function.domain.problem import Problem

BACKEND = "--distributed-executor-backend"
RAY, ITSELF = "ray", "mp"


def by_ray(engine: Engine) -> bool:
    """Tell whether several nodes are spanned by Ray: the author's word, else where vLLM cannot do it itself."""
    backend = last_value(engine.args, BACKEND)
    return backend == RAY if backend else not can(engine, Ability.NODES)


def executor_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    """Return a problem where the author's choice is none, or the image cannot run it; `path` is that of the args."""
    flag = next((flag for flag in reversed(tuple(read(engine.args))) if flag.name == BACKEND), None)
    if flag is None or engine.name is not EngineName.VLLM:
        return ()
    spans = shape.nodes > 1 and shape.parallelism.data is None
    return tuple(
        Problem(f"{path}[{flag.index}]", f"{flag.text}{why}")
        for why in (_ray(engine, flag.value), _itself(engine, flag.value, spans=spans))
        if why
    )


def _ray(engine: Engine, backend: str) -> str:
    if backend != RAY or can(engine, Ability.RAY):
        return ""
    until = SPANS[engine.name][Ability.RAY].until or (0, 0, 0)
    return (
        f", but {engine.image} has no Ray, which left the stock images with {named(until)}; "
        f"must be left out or {ITSELF}, or the image one's own (engine.version says the version of a digest)"
    )


def _itself(engine: Engine, backend: str, *, spans: bool) -> str:
    if not spans:
        return ""
    if backend not in {RAY, ITSELF}:
        return f" cannot span nodes; must be left out, {RAY} or {ITSELF}"
    if backend == ITSELF and not can(engine, Ability.NODES):
        since = SPANS[engine.name][Ability.NODES].since
        return f" spans nodes from vLLM {named(since)} on; must be left out or {RAY}, or the image a later one"
    return ""
