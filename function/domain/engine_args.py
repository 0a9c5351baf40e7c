"""The arguments of an engine: how they are read, and what contradicts the model or the shape of a replica.

As in the engines' own parsers `--flag=v` and `--flag v` are equal, underscores equal dashes in flags of two dashes, a
letter and its number may be written together (`-n2`), and of two equal flags the last one counts.

Sizes of parallelism are declared in the profile's `parallelism` block. Flags that repeat them must agree with it, and
missing ones are added where the command is written. Expert parallelism is on or off (1 or 0), whether an engine takes a
switch or a width. The data size is left out where data ranks share the GPUs of the tensor ranks.

An engine that listens elsewhere, reads other weights, joins other nodes or answers to another name cannot be reached,
and fails only after its weights were fetched. Such flags are managed (`EngineSpec.managed_flags`, also listed in
docs/reference.md) and may only be repeated. Engines accept an unambiguous beginning of a flag for the flag, so that no
managed flag may be shortened; one letter is never unambiguous.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from function.domain.engine_spec import (
    BACKEND,
    DATA,
    DATA_LOCAL,
    ENGINES,
    EXPERT,
    MOUNT,
    PIPELINE,
    SERVED_NAME,
    TENSOR,
    Ability,
    EngineSpec,
    get_end_version,
    get_first_version,
    has_ability,
)
from function.domain.model import (
    GGUF,
    Engine,
    EngineName,
    HuggingFaceSource,
    Problem,
    Shape,
    Source,
    find_single_file,
    parse_part,
)

_TOGETHER = re.compile(r"(-[a-z])([0-9]+)", re.ASCII)
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag: its name with dashes, where it stands, and all arguments that may be its values."""

    name: str
    index: int
    values: tuple[str, ...]
    attached: bool

    @property
    def value(self) -> str:
        """Its first value; empty where there is none."""
        return self.values[0] if self.values else ""

    @property
    def text(self) -> str:
        """The flag as somebody would write it; of what follows it, the first only, and no more than a line of it."""
        value = self.value if len(self.value) <= _LONGEST else f"{self.value[:_LONGEST]}…"
        return f"{self.name}={value}" if self.values else self.name


def parse_flags(args: tuple[str, ...]) -> Iterator[Flag]:
    """Yields every flag in order; a flag without `=` may have every argument up to the next flag for a value."""
    starts = [index for index, arg in enumerate(args) if arg.startswith("-")]
    for index, end in pairwise([*starts, len(args)]):
        name, equals, value = args[index].partition("=")
        together = _TOGETHER.fullmatch(name)
        if together:
            name, value = together.groups()
        values = (value,) if equals or together else args[index + 1 : end]
        name = name.replace("_", "-") if name.startswith("--") else name
        yield Flag(name=name, index=index, values=values, attached=bool(equals or together))


def get_last_value(args: tuple[str, ...], name: str) -> str | None:
    """Returns the value that counts for a flag, the last; None where it is not given."""
    return next((flag.value for flag in reversed(tuple(parse_flags(args))) if flag.name == name), None)


_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelFlag:
    """One flag that was found: which field of `Parallelism` it sets, to what, and where it stands."""

    field: str
    value: int
    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelFlags:
    """All parallelism flags in their order, and the faults of those whose value cannot be read."""

    found: tuple[ParallelFlag, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def values(self) -> dict[str, int]:
        """What counts for each field of `Parallelism`; `expert` is 1 or 0."""
        return {flag.field: flag.value for flag in self.found}


def parse_parallel_flags(engine: EngineName, args: tuple[str, ...], path: str = "engine.args") -> ParallelFlags:
    """Return the parallelism flags among the arguments of this engine."""
    read = tuple(_read(engine, args, path))
    return ParallelFlags(
        found=tuple(r for r in read if isinstance(r, ParallelFlag)),
        problems=tuple(r for r in read if isinstance(r, Problem)),
    )


def find_parallelism_faults(
    engine: EngineName, args: tuple[str, ...], shape: Shape, path: str = "engine.args"
) -> tuple[Problem, ...]:
    """Returns a problem for each size that is not the shape's, and for each that cannot be read."""
    flags = parse_parallel_flags(engine, args, path)
    wanted = {
        TENSOR: shape.parallelism.tensor,
        PIPELINE: shape.parallelism.pipeline,
        DATA: shape.parallelism.data or 1,
        DATA_LOCAL: shape.parallelism.data_local or 1,
    }
    last = {flag.field: flag for flag in flags.found if flag.field in wanted}
    differing = (flag for flag in last.values() if flag.value != wanted[flag.field])
    return flags.problems + tuple(
        Problem(
            f"{path}[{flag.index}]",
            f"{flag.text} disagrees with the shape of the replica; must be {wanted[flag.field]}",
        )
        for flag in differing
    )


def _read(engine: EngineName, args: tuple[str, ...], path: str) -> Iterator[ParallelFlag | Problem]:
    spec = ENGINES[engine]
    sizes, switches = spec.size_flags, spec.switch_flags
    names = [_name(arg) for arg in args]
    shared_ranks = spec.shared_ranks_flag in names
    for index, (arg, name) in enumerate(zip(args, names, strict=True)):
        where = f"{path}[{index}]"
        if name in switches:
            yield _switch(arg, switches[name], index, where)
        elif name in sizes and not (shared_ranks and sizes[name] == DATA):
            following = args[index + 1] if index + 1 < len(args) else ""
            yield _size(arg, following, sizes[name], index, where)


def _name(arg: str) -> str:
    flag = re.split(r"[=\s]", arg, maxsplit=1)[0]
    return flag.replace("_", "-")


def _switch(arg: str, value: int, index: int, where: str) -> ParallelFlag | Problem:
    if re.search(r"[=\s]", arg):
        return Problem(where, f"{arg!r} must be given without a value")
    return ParallelFlag(field=EXPERT, value=value, index=index, text=arg)


def _size(arg: str, following: str, field: str, index: int, where: str) -> ParallelFlag | Problem:
    flag, equals, value = arg.partition("=")
    if re.search(r"\s", flag):
        return Problem(where, f"{arg!r} is one argument; must be {flag.split()[0]}=N, or flag and number apart")
    if not equals:
        value = following
    if not _NUMBER.fullmatch(value):
        return Problem(where, f"{flag} has {value!r}; must be a whole number")
    number = int(value)
    return ParallelFlag(
        field=field, value=int(number > 1) if field == EXPERT else number, index=index, text=f"{flag}={value}"
    )


def find_managed_flag_faults(
    engine: EngineName, args: tuple[str, ...], source: Source, served_name: str, path: str
) -> tuple[Problem, ...]:
    """Returns a problem for each argument that contradicts a managed flag, with the value that may be repeated."""
    spec = ENGINES[engine]
    faults = [*_find_positional_fault(spec, args, source, path)]
    for flag in parse_flags(args):
        message = _describe_fault(spec, flag, source, served_name)
        if message:
            faults.append(Problem(f"{path}[{flag.index}]", message))
    return tuple(faults)


def drop_repeated_flags(engine: EngineName, args: tuple[str, ...], source: Source) -> tuple[str, ...]:
    """Returns the arguments without the weights and the served name, which would override those of the command."""
    dropped = {0} if args and _names_weights(args[0], source) else set()
    for flag in parse_flags(args):
        if flag.name in ENGINES[engine].weights_flags or flag.name == SERVED_NAME:
            dropped.update(range(flag.index, flag.index + 1 + (0 if flag.attached else len(flag.values))))
    return tuple(arg for index, arg in enumerate(args) if index not in dropped)


def _find_positional_fault(spec: EngineSpec, args: tuple[str, ...], source: Source, path: str) -> Iterator[Problem]:
    # Only the first argument is certain not to be the value of a flag.
    if args and not args[0].startswith("-") and not (spec.positional_weights and _names_weights(args[0], source)):
        yield Problem(f"{path}[0]", f"{args[0]!r} is no flag; must be left out, the model's source has the weights")


def _describe_fault(spec: EngineSpec, flag: Flag, source: Source, served_name: str) -> str:
    name, *rest = flag.name.split(maxsplit=1)
    if name in spec.weights_flags:
        if not rest and flag.values and _names_weights(flag.value, source):
            return ""
        return f"{flag.text} names other weights; must be left out, the model's source has them, at {MOUNT}"
    if name == SERVED_NAME:
        if not rest and flag.values == (served_name,):
            return ""
        return f"{name} has {' '.join(flag.values)!r}; must be left out or {served_name}, spec.model.name"
    managed = next((row for row in spec.managed_flags if row.covers(name) and name not in spec.size_flags), None)
    if managed is None:
        return _describe_shortened(spec, name)
    if managed.value and not rest and flag.values == (managed.value,):
        return ""
    allowed = f" or set it to {managed.value}" if managed.value else ""
    return f"{flag.text} is managed by modelplane ({managed.reason}); remove it{allowed}"


def _describe_shortened(spec: EngineSpec, name: str) -> str:
    known = [*spec.size_flags, *spec.switch_flags, *spec.weights_flags, SERVED_NAME, *spec.author_flags]
    known += [n.rstrip("*-") for row in spec.managed_flags for n in row.names]
    if not name.startswith("--") or len(name) <= len("--x") or name in known:
        return ""
    full = next((flag for flag in known if flag.startswith(name)), "")
    return f"{name} may stand for {full}; must be written in full" if full else ""


def _names_weights(value: str, source: Source) -> bool:
    return value == MOUNT or (isinstance(source, HuggingFaceSource) and value == source.repo)


RAY, MULTIPROCESSING = "ray", "mp"  # vLLM's executors that can span nodes: Ray, and vLLM itself


def find_model_faults(engine: Engine, source: Source, served_name: str, path: str) -> tuple[Problem, ...]:
    """Returns what contradicts the model; `path` is that of the engine."""
    found = find_managed_flag_faults(engine.name, engine.args, source, served_name, f"{path}.args")
    if find_single_file(source).lower().endswith(GGUF) and not has_ability(engine, Ability.GGUF):
        until = get_end_version(engine, Ability.GGUF)
        why = f"{engine.image!r} reads no GGUF, which left the stock images with {until}"
        remedy = "use an earlier image, or a custom image with vllm-gguf-plugin"
        return (*found, Problem(f"{path}.image", f"{why}; {remedy}"))
    first, parts = parse_part(source.file if isinstance(source, HuggingFaceSource) else "")  # an address has no others
    if first == 1 < parts and not has_ability(engine, Ability.GGUF_PARTS):
        why = f"{engine.image!r} reads the first of {parts} parts alone"
        since = get_first_version(engine, Ability.GGUF_PARTS)
        return (*found, Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later, or the parts merged"))
    return found


def find_tls_faults(engine: Engine, path: str = "engine") -> tuple[Problem, ...]:
    """Returns what keeps an engine from serving HTTPS, for a cluster that requires it; `path` is that of the engine."""
    if has_ability(engine, Ability.TLS):
        return ()
    why = f"{engine.image!r} serves no HTTPS, and kserve.tls of the environment asks for it"
    since = get_first_version(engine, Ability.TLS)
    return (Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later"),)


def find_shape_faults(engine: Engine, shape: Shape, path: str = "engine.args") -> tuple[Problem, ...]:
    """Returns what contradicts the shape of a replica; `path` is that of the arguments."""
    if not engine.args:
        return ()
    return _find_cached_shape_faults(replace(engine, env=()), shape, path)


def uses_ray(engine: Engine) -> bool:
    """Tells whether vLLM spans nodes by Ray: the author's choice, else where vLLM cannot do it itself."""
    backend = get_last_value(engine.args, BACKEND)
    return backend == RAY if backend else not has_ability(engine, Ability.NODES)


# Several hundred pools of one kind ask the same. Variables have no effect here, and are not hashable.
@lru_cache(maxsize=256)
def _find_cached_shape_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
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
    if backend != RAY or has_ability(engine, Ability.RAY):
        return ""
    return (
        f", but {engine.image} has no Ray, which left the stock images with {get_end_version(engine, Ability.RAY)}; "
        f"must be left out or {MULTIPROCESSING}, or the image one's own (engine.version says the version of a digest)"
    )


def _describe_span_fault(engine: Engine, backend: str) -> str:
    if backend not in {RAY, MULTIPROCESSING}:
        return f" cannot span nodes; must be left out, {RAY} or {MULTIPROCESSING}"
    if backend == MULTIPROCESSING and not has_ability(engine, Ability.NODES):
        since = get_first_version(engine, Ability.NODES)
        return f" spans nodes from vLLM {since} on; must be left out or {RAY}, or the image a later one"
    return ""
