"""What an engine would refuse once its weights are there, found before anything is fetched.

`model_faults` compares an engine with its model, `shape_faults` with the shape of one replica, which may be recorded or
computed for a pool.
"""

from dataclasses import replace
from functools import lru_cache

from function.domain.engine_args import find_parallelism_faults
from function.domain.engine_spec import BACKEND, ENGINES, Ability
from function.domain.engine_versions import can, get_end_version, get_first_version
from function.domain.flags import last_value, parse_flags
from function.domain.managed_flags import find_managed_flag_faults
from function.domain.model import GGUF, Engine, HuggingFaceSource, Shape, Source, parts_of, single_file
from function.domain.problem import Problem

RAY, MULTIPROCESSING = "ray", "mp"  # vLLM's executors that can span nodes: Ray, and vLLM itself


def model_faults(engine: Engine, source: Source, served_name: str, path: str) -> tuple[Problem, ...]:
    """Returns what contradicts the model; `path` is that of the engine."""
    found = find_managed_flag_faults(engine.name, engine.args, source, served_name, f"{path}.args")
    if single_file(source).lower().endswith(GGUF) and not can(engine, Ability.GGUF):
        until = get_end_version(engine, Ability.GGUF)
        why = f"{engine.image!r} reads no GGUF, which left the stock images with {until}"
        remedy = "use an earlier image, or a custom image with vllm-gguf-plugin"
        return (*found, Problem(f"{path}.image", f"{why}; {remedy}"))
    first, parts = parts_of(source.file if isinstance(source, HuggingFaceSource) else "")  # an address has no others
    if first == 1 < parts and not can(engine, Ability.GGUF_PARTS):
        why = f"{engine.image!r} reads the first of {parts} parts alone"
        since = get_first_version(engine, Ability.GGUF_PARTS)
        return (*found, Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later, or the parts merged"))
    return found


def tls_faults(engine: Engine, path: str = "engine") -> tuple[Problem, ...]:
    """Returns what keeps an engine from serving HTTPS, for a cluster that requires it; `path` is that of the engine."""
    if can(engine, Ability.TLS):
        return ()
    why = f"{engine.image!r} serves no HTTPS, and kserve.tls of the environment asks for it"
    since = get_first_version(engine, Ability.TLS)
    return (Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later"),)


def shape_faults(engine: Engine, shape: Shape, path: str = "engine.args") -> tuple[Problem, ...]:
    """Returns what contradicts the shape of a replica; `path` is that of the arguments."""
    if not engine.args:
        return ()
    return _find_shape_faults(replace(engine, env=()), shape, path)


def uses_ray(engine: Engine) -> bool:
    """Tells whether vLLM spans nodes by Ray: the author's choice, else where vLLM cannot do it itself."""
    backend = last_value(engine.args, BACKEND)
    return backend == RAY if backend else not can(engine, Ability.NODES)


# Several hundred pools of one kind ask the same. Variables have no effect here, and are not hashable.
@lru_cache(maxsize=256)
def _find_shape_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    parallelism = find_parallelism_faults(engine.name, engine.args, shape, path)
    return parallelism + _find_executor_faults(engine, shape, path)


def _find_executor_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    flag = next((flag for flag in reversed(tuple(parse_flags(engine.args))) if flag.name == BACKEND), None)
    if flag is None or BACKEND not in ENGINES[engine.name].author_flags:
        return ()
    spans = shape.nodes > 1 and shape.parallelism.data is None
    faults = (_describe_missing_ray(engine, flag.value), _describe_span_fault(engine, flag.value) if spans else "")
    return tuple(Problem(f"{path}[{flag.index}]", f"{flag.text}{why}") for why in faults if why)


def _describe_missing_ray(engine: Engine, backend: str) -> str:
    if backend != RAY or can(engine, Ability.RAY):
        return ""
    return (
        f", but {engine.image} has no Ray, which left the stock images with {get_end_version(engine, Ability.RAY)}; "
        f"must be left out or {MULTIPROCESSING}, or the image one's own (engine.version says the version of a digest)"
    )


def _describe_span_fault(engine: Engine, backend: str) -> str:
    if backend not in {RAY, MULTIPROCESSING}:
        return f" cannot span nodes; must be left out, {RAY} or {MULTIPROCESSING}"
    if backend == MULTIPROCESSING and not can(engine, Ability.NODES):
        since = get_first_version(engine, Ability.NODES)
        return f" spans nodes from vLLM {since} on; must be left out or {RAY}, or the image a later one"
    return ""
