"""The calls of one reconcile: with the answers of the last, and again until what is asked for repeats.

Core (docs/facts.md, Crossplane) sends what was asked for last time with the first call and keeps it among the answers
of the later ones. Where the first call asks for just that, with the versions that were sent, there is no second.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crossplane.function.proto.v1.run_function_pb2 import (
    SEVERITY_FATAL,
    RequestMeta,
    RunFunctionRequest,
    RunFunctionResponse,
)

from bench import wire
from bench.simulator.cache import Cache, Found
from bench.simulator.kernel import Kernel, Process, Servers
from bench.simulator.measured import Function
from bench.simulator.objects import Selector, Version
from bench.simulator.settings import Settings

MOST_CALLS = 6
LISTS_CHANGED = "lists changed between the calls"  # core reports an error and begins again
# As long as core's own: a hash of the request.
_META = RunFunctionRequest(meta=RequestMeta(tag="0" * 64)).SerializeToString()


class FailedError(Exception):
    """A reconcile that core ends as an error; the message says why, without values."""


class Answered(NamedTuple):
    """The last response of a reconcile, and what it asked for."""

    response: RunFunctionResponse
    asked: Mapping[str, Selector]


class Rounds:
    """Calls the function for core."""

    def __init__(
        self, kernel: Kernel, settings: Settings, cache: Cache, function: Function, processors: Servers
    ) -> None:
        self._kernel, self._settings, self._cache = kernel, settings, cache
        self._function, self._core = function, processors
        self._servers = Servers(settings.function_processors)

    def run(self, xr: Version, observed: Mapping[str, Version], known: Mapping[str, Selector]) -> "Process[Answered]":
        """Call until what is asked for repeats.

        Raises:
            FailedError: A result is fatal, or the requirements do not repeat, also where lists changed meanwhile.
        """
        head = _META + self._function.input + _state(xr, observed)
        seeded = {name: self._cache.find(selector) for name, selector in known.items()}
        answers, asked, context, changed = seeded, None, b"", False
        for number in range(MOST_CALLS):
            request = head + context + _required(answers)
            items = 1 + len(observed) + sum(len(found.numbers) for found in answers.values())
            response = yield from self._call(xr, request, items)
            before, asked = asked, {n: Selector.of(s) for n, s in response.requirements.resources.items()}
            if asked == before:
                break
            following = seeded | {name: self._cache.find(selector) for name, selector in asked.items()}
            if number == 0 and _versions(following) == _versions(seeded):
                break
            changed = changed or any(answers[n].numbers != following[n].numbers for n in answers.keys() & following)
            answers = following
            context = wire.field(wire.CONTEXT, response.context.SerializeToString())
        else:
            raise FailedError(LISTS_CHANGED if changed else "requirements do not repeat")
        self._function.meter.rounds[number + 1] += 1
        self._function.meter.quiet_rounds[number + 1] += not changed
        return Answered(response, asked)

    def _call(self, xr: Version, request: bytes, items: int) -> "Process[RunFunctionResponse]":
        settings = self._settings
        yield from self._kernel.busy(self._core, settings.core_item_seconds * items)
        response = self._function.call(xr.ref, request)
        seconds = settings.function_seconds + settings.function_item_seconds * items
        yield from self._kernel.busy(self._servers, seconds)
        if any(result.severity == SEVERITY_FATAL for result in response.results):
            raise FailedError("fatal result")
        return response


def _state(xr: Version, observed: Mapping[str, Version]) -> bytes:
    resources = [wire.entry(wire.RESOURCES, name, version.wire) for name, version in observed.items()]
    return wire.field(wire.OBSERVED, wire.field(wire.COMPOSITE, xr.wire) + b"".join(resources))


def _required(answers: Mapping[str, Found]) -> bytes:
    return b"".join(wire.entry(wire.REQUIRED, name, found.wire) for name, found in answers.items())


def _versions(answers: Mapping[str, Found]) -> Mapping[str, Sequence[int]]:
    return {name: found.numbers for name, found in answers.items()}
