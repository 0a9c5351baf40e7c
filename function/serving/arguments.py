"""What an author may say among the engine's arguments that is settled elsewhere.

Weights come from the model's source and are always mounted at one path. An argument that merely repeats
where they come from is dropped, as it would send the engine to the hub; one that names other weights is
refused. Both spellings count, `--flag=value` and `--flag value`, and underscores equal dashes, as in the
engines' parsers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from function.domain.model import EngineName, HuggingFaceSource, Source
from function.domain.problem import Problem

MOUNT = "/mnt/models"  # where KServe mounts every model, whatever its source
_WEIGHTS: Mapping[EngineName, tuple[str, ...]] = {
    EngineName.VLLM: ("--model",),
    EngineName.SGLANG: ("--model-path", "--model"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    index: int
    width: int
    value: str


def last_value(args: tuple[str, ...], name: str) -> str | None:
    """Return what counts for a flag, which is its last value; None where it is not given."""
    return next((flag.value for flag in reversed(tuple(_find(args, (name,))))), None)


def without_weights(engine: EngineName, source: Source, args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments without those that repeat where the weights come from."""
    dropped = {0} if args and _repeats(args[0], source) else set()
    for flag in _find(args, _WEIGHTS[engine]):
        dropped.update(range(flag.index, flag.index + flag.width))
    return tuple(arg for index, arg in enumerate(args) if index not in dropped)


def foreign_weights(engine: EngineName, source: Source, args: tuple[str, ...], path: str) -> tuple[Problem, ...]:
    """Return a problem for each argument that names other weights than the model's source."""
    return tuple(
        Problem(
            f"{path}[{flag.index}]",
            f"{args[flag.index]} names {flag.value!r}; must be left out, the model's source has the weights",
        )
        for flag in _find(args, _WEIGHTS[engine])
        if not _repeats(flag.value, source)
    )


def _find(args: tuple[str, ...], names: tuple[str, ...]) -> Iterator[_Flag]:
    for index, arg in enumerate(args):
        flag, equals, value = arg.partition("=")
        if flag.replace("_", "-") not in names:
            continue
        following = args[index + 1 : index + 2]
        if equals:
            yield _Flag(index=index, width=1, value=value)
        else:
            yield _Flag(index=index, width=1 + len(following), value="".join(following))


def _repeats(value: str, source: Source) -> bool:
    return value == MOUNT or (isinstance(source, HuggingFaceSource) and value == source.repo)
