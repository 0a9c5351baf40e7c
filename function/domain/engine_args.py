"""The parallelism flags that an author may repeat among the engine's arguments.

A replica's shape is declared in one place, the profile's `parallelism` block; engines want the same numbers
as flags. Flags that are given must agree with the block, missing ones are added where the command is written.
As in the engines' own parsers, `--flag=v` and `--flag v` are equal, underscores equal dashes, and of two equal
flags the last one counts.

Expert parallelism is on or off (1 or 0), whether an engine takes a switch or a width. The data size is left out where
data ranks share the GPUs of the tensor ranks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from function.domain.engine_spec import DATA, DATA_LOCAL, ENGINES, EXPERT, PIPELINE, TENSOR
from function.domain.model import EngineName, Shape
from function.domain.problem import Problem

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


def parallel_flags(engine: EngineName, args: tuple[str, ...], path: str = "engine.args") -> ParallelFlags:
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
    flags = parallel_flags(engine, args, path)
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
