"""How often a function is called in one reconcile: as core does (docs/facts.md, Crossplane)."""

from collections.abc import Callable, Generator, Mapping
from random import Random

import pytest
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse

from bench.simulator.cache import Cache
from bench.simulator.kernel import Kernel, Process, Servers
from bench.simulator.measured import Function
from bench.simulator.objects import Selector, Version
from bench.simulator.rounds import Answered, FailedError, Rounds
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.cli.store import Ref

XR = Version(Ref("Parent", "", "xr"), {"kind": "Parent", "metadata": {"name": "xr"}}, 1)
A, B = Selector("Thing", "", "a"), Selector("Thing", "", "b")


class Asking(Function):
    """Requires what its callback returns for the names that were answered."""

    def __init__(self, ask: Callable[[frozenset[str]], tuple[str, ...]]) -> None:
        super().__init__()
        self.answered: list[dict[str, int]] = []
        self.ask = ask
        self.server: ApiServer | None = None

    def call(self, xr: Ref, request: bytes) -> RunFunctionResponse:
        """Note what was answered, with the number of items."""
        assert xr == XR.ref
        found = RunFunctionRequest.FromString(request).required_resources
        self.answered.append({name: len(found[name].items) for name in sorted(found)})
        response = RunFunctionResponse()
        for name in self.ask(frozenset(found)):
            response.requirements.resources[name].kind = "Thing"
            response.requirements.resources[name].match_name = name
        return response


def _reconcile(function: Asking, known: Mapping[str, Selector]) -> Answered:
    """Run one reconcile in which there is a Thing a and no Thing b."""
    kernel, settings = Kernel(), Settings(lag=0)
    server = ApiServer(kernel, settings)
    cache = Cache(kernel, settings, Random(1), lambda _: None)
    server.watchers.append(cache.receive)
    server.create({"kind": "Thing", "metadata": {"name": "a"}})
    function.server = server
    kernel.run(1)
    ended: list[Answered] = []

    def process() -> "Process[None]":
        rounds: Generator[float | Servers, None, Answered] = Rounds(kernel, settings, cache, function, Servers(1)).run(
            XR, {}, known
        )
        ended.append((yield from rounds))

    kernel.spawn(process())
    kernel.run(10)
    return ended[0]


def test_what_was_known_needs_one_call() -> None:
    function = Asking(lambda _: ("a", "b"))
    asked = _reconcile(function, {"a": A, "b": B}).asked
    assert function.answered == [{"a": 1, "b": 0}]
    assert asked == {"a": A, "b": B}


def test_what_was_not_known_needs_two() -> None:
    function = Asking(lambda _: ("a",))
    _reconcile(function, {})
    assert function.answered == [{}, {"a": 1}]


def test_a_question_that_follows_from_an_answer_needs_three() -> None:
    function = Asking(lambda found: ("a", "b") if "a" in found else ("a",))
    _reconcile(function, {})
    assert function.answered == [{}, {"a": 1}, {"a": 1, "b": 0}]


def test_a_seeded_answer_stays_though_nobody_asks_for_it() -> None:
    function = Asking(lambda found: ("a",) if "a" not in found else ("b",))
    asked = _reconcile(function, {"a": A}).asked
    assert function.answered == [{"a": 1}, {"a": 1, "b": 0}]
    assert asked == {"b": B}


def test_questions_that_never_repeat_fail_the_reconcile() -> None:
    function = Asking(lambda found: tuple(f"n{n}" for n in range(len(found) + 1)))
    with pytest.raises(FailedError, match="requirements do not repeat"):
        _reconcile(function, {})
    assert len(function.answered) == 6


def test_lists_that_change_meanwhile_are_told_from_questions_that_never_repeat() -> None:
    """Placements that appear one by one each raise a question of their own; core begins the reconcile again."""
    function = Asking(lambda _: ())

    def ask(found: frozenset[str]) -> tuple[str, ...]:
        if "n2" in found and len(found) == len({"n0", "n1", "n2"}) and function.server:
            function.server.create({"kind": "Thing", "metadata": {"name": "n2"}})
        return tuple(f"n{n}" for n in range(len(found) + 1))

    function.ask = ask
    with pytest.raises(FailedError, match="lists changed between the calls"):
        _reconcile(function, {})
    assert len(function.answered) == 6
