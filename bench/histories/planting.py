"""Plants defects: replaces a line of a function, in place, so that modules that have imported it run the mutant."""

import builtins
import dis
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True)
class Change:
    """In `function` of `module`, `line` becomes `broken`."""

    module: str
    function: str
    line: str
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect, in as many changes as there are guards against it. `issue` says where it was reported."""

    name: str
    issue: str
    aim: tuple[str, ...]
    changes: tuple[Change, ...]
    tight: bool = False  # whether the histories that look for it play in a tight world
    routed: bool = False  # whether there are ModelServices and gateways in them
    created: bool = False  # whether environments create their clusters in them
    crashes: bool = False  # whether an internal error is how it shows


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Let a defect be there.

    Raises:
        LookupError: A line that it replaces is not there, or not once, or the new one has a name that is not there.
    """
    with ExitStack() as stack:
        for change in mutant.changes:
            stack.enter_context(_changed(change))
        yield


@contextmanager
def _changed(change: Change) -> Iterator[None]:
    function = _function(change)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(change.line) != 1:
        raise LookupError(f"{change.line!r} stands {source.count(change.line)} times in {change.function}")
    lines = source.replace(change.line, change.broken).splitlines(keepends=True)
    while lines[0].startswith("@"):
        lines.pop(0)
    names = dict(function.__globals__)
    exec(compile("".join(lines), change.module, "exec"), names)  # noqa: S102  # our own source, but for a line
    made = names[function.__name__]
    if unknown := sorted(_list_globals(made.__code__) - names.keys() - vars(builtins).keys()):
        raise LookupError(f"{change.broken!r} names {', '.join(unknown)}, which {change.module} does not know")
    before: CodeType = function.__code__
    function.__code__ = made.__code__
    try:
        yield
    finally:
        function.__code__ = before


def _list_globals(code: CodeType) -> set[str]:
    """Return the global names that a function uses, and the functions in it."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    return found.union(*(_list_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _function(change: Change) -> FunctionType:
    found: object = importlib.import_module(change.module)
    for name in change.function.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType)
    return found
