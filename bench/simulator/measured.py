"""The function in this process, and what its calls cost: numbers, processor time, bytes."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from crossplane.function import resource
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse

from function.cli.store import Ref
from function.domain.allocation import Limits
from function.kube.manifests import Manifest
from function.runner import Runner


@dataclass(slots=True)
class Meter:
    """What was counted since it was made. `made` are objects that core created, `tokens` what each XR's circuit breaker
    would count, `failed` reconciles that ended early, by cause, `quiet_rounds` the rounds of those under which no
    answer changed.
    """

    calls: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    received: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    largest: int = 0
    rounds: Counter[int] = field(default_factory=Counter)
    quiet_rounds: Counter[int] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    tokens: Counter[Ref] = field(default_factory=Counter)
    called: Counter[Ref] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


class Function:
    """Answers as the server does once bytes have arrived, knowing items by version as it does for Crossplane."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.time
        self._runner = Runner(clock=self._read_clock, trust_versions=True)
        self.input = b""  # of the pipeline step, for reconciles that begin now
        self.meter = Meter()

    def _read_clock(self) -> float:
        return self.clock()

    def limit(self, limits: Limits) -> None:
        """Call the function with these limits for each namespace, as the input of the pipeline step has them."""
        self.configure({"limits": {"placementsPerNamespace": limits.placements, "gpusPerNamespace": limits.gpus}})

    def configure(self, settings: Manifest) -> None:
        """Call the function with these platform settings, as the input of the pipeline step has them."""
        self.input = RunFunctionRequest(input=resource.dict_to_struct(settings)).SerializeToString()

    def call(self, xr: Ref, request: bytes) -> RunFunctionResponse:
        """Return the response; from the bytes of the request to those of the response it is measured."""
        begun = time.process_time()
        response = self._answer(request)
        sent = response.SerializeToString()
        spent = time.process_time() - begun
        meter, kind = self.meter, xr.kind
        meter.calls[kind] += 1
        meter.called[xr] += 1
        meter.seconds[kind] += spent
        meter.received[kind] += len(request)
        meter.sent[kind] += len(sent)
        meter.largest = max(meter.largest, len(request))
        return response

    def _answer(self, request: bytes) -> RunFunctionResponse:
        """Run the coroutine, which awaits nothing unless the request is malformed."""
        answering = self._runner.RunFunction(request, None)
        try:
            answering.send(None)
        except StopIteration as answered:
            response: RunFunctionResponse = answered.value
            return response
        raise AssertionError("the function awaits something")


class Remembering(Function):
    """Answers what was asked within the same minute, byte for byte, as it was answered then.

    No answer follows from anything else than the request and the minute, except those of ModelServices.
    """

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[tuple[bytes, float], RunFunctionResponse] = {}

    def _answer(self, request: bytes) -> RunFunctionResponse:
        key = self._key(request)
        if key not in self._answers:
            self._answers[key] = super()._answer(request)
        return self._answers[key]

    def _key(self, request: bytes) -> tuple[bytes, float]:
        return request, self.clock() // 60
