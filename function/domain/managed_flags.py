"""What an author may repeat of the flags that this function sets itself (`EngineSpec.managed_flags`).

An engine that listens elsewhere, reads other weights, joins other nodes or answers to another name cannot be reached,
and fails only after its weights were fetched. docs/reference.md repeats the list. Sizes of parallelism are not in it,
they must agree with the replica's shape (engine_args.py), nor is vLLM's `--distributed-executor-backend`, which the
author may choose (engine_faults.py).

Engines accept an unambiguous beginning of a flag for the flag, so that no managed flag may be shortened. One letter is
never unambiguous.
"""

from collections.abc import Iterator

from function.domain.engine_spec import ENGINES, MOUNT, SERVED_NAME, EngineSpec
from function.domain.flags import Flag, parse_flags
from function.domain.model import EngineName, HuggingFaceSource, Source
from function.domain.problem import Problem


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
