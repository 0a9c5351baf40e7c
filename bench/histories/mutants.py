"""Defects that were there once, brought back while histories are played: each must be found.

A mutant replaces a line of one function, in place: whoever has imported the function runs the mutant. `aim` names what
users do, in this order, in the histories that look for it.
"""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A defect: in `function` of `module`, `line` becomes `broken`. `issue` says where it was reported."""

    name: str
    issue: str
    module: str
    function: str
    line: str
    broken: str = ""
    aim: tuple[str, ...]


_SERVE = ("create_deployment", "create_deployment")
_CACHE = ("create_cache", "create_reader", "edit_cache")

MUTANTS = (
    Mutant(
        name="edit-before-bytes",
        issue="10: a model's edit reaches the service before its weights are there",
        module="function.lifecycle.services",
        function="write",
        line="    if not stored.open and text(observed, _URI) != stored.plan.uri:\n        return earlier\n",
        aim=(*_SERVE, "edit_model", "edit_model"),
    ),
    Mutant(
        name="another-models-cache",
        issue="10: a ModelCache of another model is served under this name",
        module="function.storage.checks",
        function="named_cache",
        line="named.path == directory(found)",
        broken="named.path",
        aim=("create_cache", "create_cache", "create_reader", "name_anothers_cache", "name_anothers_cache"),
    ),
    Mutant(
        name="derived-restarts",
        issue="10: a number that is derived restarts pods",
        module="function.lifecycle.services",
        function="_kept",
        line="        return observed\n",
        broken="        return built\n",
        aim=(*_SERVE, "resize_model", "resize_model"),
    ),
    Mutant(
        name="cache-drops-what-is-read",
        issue="10, data loss: a ModelCache drops a claim under a running service",
        module="function.lifecycle.readers",
        function="is_read",
        line="any(not r.uri or (r.uri != wanted and claim_of(r.uri) in claims) for r in known)",
        broken="False",
        aim=_CACHE,
    ),
    Mutant(
        name="quantity-without-bound",
        issue="10: `vram: 1e999` ends in an internal error",
        module="function.parse.block",
        function="Block._quantity",
        line="parsed > quantity.MOST",
        broken="False",
        aim=(*_SERVE, "break_model"),
    ),
    Mutant(
        name="composite-without-its-placements",
        issue="10 and decision 9: a stale read of a deployment loses its placements",
        module="function.lifecycle.orphans",
        function="orphans",
        line="    found: dict[str, Manifest] = {}\n",
        broken="    return {}\n    found: dict[str, Manifest] = {}\n",
        aim=(*_SERVE, "wipe_references", "edit_deployment"),
    ),
    Mutant(
        name="composite-without-its-objects",
        issue="13: a placement that is read without its references loses its service's Object",
        module="function.composers.placement",
        function="_orphans",
        line="    return asked\n",
        broken="    return {}\n",
        aim=(*_SERVE, "wipe_references", "wipe_references", "edit_model"),
    ),
    Mutant(
        name="served-unadmitted",
        issue="13: a placement written by hand that does not fit is served",
        module="function.scheduling.ledger",
        function="settle",
        line="full or not _fits(_charged(pool, others) if mine else room, asks)",
        broken="full",
        aim=("create_deployment", "place_by_hand", "hoard"),
    ),
    Mutant(
        name="forged-owner",
        issue="13: a placement of another namespace with a forged owner is composed",
        module="function.lifecycle.orphans",
        function="orphans",
        line="        and placement.namespace == namespace\n",
        aim=(*_SERVE, "forge_owner"),
    ),
    Mutant(
        name="freed-before-it-is-let-go",
        issue="13: what is not admitted is executed: GPUs are granted while a service still has them",
        module="function.scheduling.ledger",
        function="_kept",
        line="(placement.claims, placement.takes)",
        broken="(placement.claims,)",
        aim=("create_deployment", "create_deployment", "edit_deployment", "place_by_hand", "edit_model"),
    ),
    Mutant(
        name="messages-without-bound",
        issue="13: messages without bound",
        module="function.report.conditions",
        function="complete",
        line="clip(c.message)",
        broken="c.message",
        aim=(*_SERVE, "lose_or_find_cluster"),
    ),
    Mutant(
        name="secret-written-back",
        issue="13: nobody's credentials get out",
        module="function.lifecycle.carry_over",
        function="_spec",
        line='if key not in {"data", "stringData"}',
        broken="",
        aim=(*_SERVE, "break_model", "break_model", "delete_environment"),
    ),
    Mutant(
        name="users-claim-is-owned",
        issue="13: a user's claims are observed only",
        module="function.lifecycle.object_writer",
        function="ObjectWriter.compose",
        line="list(lifetime.value)",
        broken='["*"]',
        aim=_SERVE,
    ),
    Mutant(
        name="order-of-a-list",
        issue="13: same state, same bytes",
        module="function.scheduling.schedule",
        function="_scene",
        line="sorted((e for e in environments if not e.deleting), key=lambda e: e.name)",
        broken="[e for e in environments if not e.deleting]",
        aim=_SERVE,
    ),
)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Let a defect be there.

    Raises:
        LookupError: The line that it replaces is not there, or not once.
    """
    function = _function(mutant)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(mutant.line) != 1:
        raise LookupError(
            f"{mutant.name}: {mutant.line!r} stands {source.count(mutant.line)} times in {mutant.function}"
        )
    lines = source.replace(mutant.line, mutant.broken).splitlines(keepends=True)
    while lines[0].startswith("@"):
        lines.pop(0)
    names = dict(function.__globals__)
    exec(compile("".join(lines), mutant.module, "exec"), names)  # noqa: S102  # our own source, but for a line
    made = names[function.__name__]
    before: CodeType = function.__code__
    function.__code__ = made.__code__
    try:
        yield
    finally:
        function.__code__ = before


def _function(mutant: Mutant) -> FunctionType:
    found: object = importlib.import_module(mutant.module)
    for name in mutant.function.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType)
    return found


def named(name: str) -> Mutant:
    """Return a mutant by its name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
