"""What an engine would refuse once its weights are there, found before anything is fetched.

`model_faults` looks at what a model says of an engine, `shape_faults` at an engine in the shape of one replica, which
may be recorded or computed for a pool.
"""

from dataclasses import replace
from functools import lru_cache

from function.domain.engine_args import disagreements
from function.domain.engine_versions import SPANS, Ability, can, named
from function.domain.executor import executor_faults
from function.domain.model import GGUF, Engine, HuggingFaceSource, Shape, Source, parts_of, single_file
from function.domain.problem import Problem
from function.domain.settled_flags import settled_faults


def model_faults(engine: Engine, source: Source, served_name: str, path: str) -> tuple[Problem, ...]:
    """Return what contradicts the model; `path` is that of the engine."""
    found = settled_faults(engine.name, engine.args, source, served_name, f"{path}.args")
    until = SPANS[engine.name][Ability.GGUF].until
    if until and single_file(source).lower().endswith(GGUF) and not can(engine, Ability.GGUF):
        why = f"{engine.image!r} reads no GGUF, which left the stock images with {named(until)}"
        return (*found, Problem(f"{path}.image", f"{why}; must be an earlier one, or one's own with vllm-gguf-plugin"))
    first, parts = parts_of(source.file if isinstance(source, HuggingFaceSource) else "")  # an address has no others
    if first == 1 < parts and not can(engine, Ability.GGUF_PARTS):
        why = f"{engine.image!r} reads the first of {parts} parts alone"
        since = named(SPANS[engine.name][Ability.GGUF_PARTS].since)
        return (*found, Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later, or the parts merged"))
    return found


def tls_faults(engine: Engine, path: str = "engine") -> tuple[Problem, ...]:
    """Return what keeps an engine from serving HTTPS, where a cluster asks for that; `path` is that of the engine."""
    if can(engine, Ability.TLS):
        return ()
    why = f"{engine.image!r} serves no HTTPS, and kserve.tls of the environment asks for it"
    since = named(SPANS[engine.name][Ability.TLS].since)
    return (Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later"),)


def shape_faults(engine: Engine, shape: Shape, path: str = "engine.args") -> tuple[Problem, ...]:
    """Return what contradicts the shape of a replica; `path` is that of the arguments."""
    if not engine.args:
        return ()
    return _shape_faults(replace(engine, env=()), shape, path)


# Several hundred pools of one kind ask the same; without variables, which count for nothing here, an engine is a key.
@lru_cache(maxsize=256)
def _shape_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    return disagreements(engine.name, engine.args, shape, path) + executor_faults(engine, shape, path)
