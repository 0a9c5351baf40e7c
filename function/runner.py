"""Answers one RunFunction call: decode, compose, recover if that fails, encode, log.

An internal error must never remove running workloads. If composing fails, the response is what `recover` makes of the
same call: everything observed, and conditions that name the failure. If `recover` fails too, a fatal result makes
Crossplane keep everything as it is. A call that takes too long, or whose response is larger than Crossplane reads,
counts as a failure. Bytes that are not a request are answered with INVALID_ARGUMENT, at once or when the malformed item
is parsed.

One line is logged for each call. It never contains a manifest, because observed resources may hold the copy of a
Secret. It also never contains the message or the locals of an exception, because they may quote a manifest.
"""

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
from crossplane.function import logging
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionResponse

from function import composers
from function.contract import Call, Outcome, Pause, noop
from function.executor import MAX_CALL_SECONDS, FairExecutor, TooLongError
from function.kube.manifests import mapping, text
from function.metrics import CallResult, Metrics
from function.reasons import CallFailure
from function.wire import MalformedError, TooLargeError, read_call, refuse_request, split_request, write_response


class Runner:
    """Answers RunFunction with what `compose` makes of a call.

    `trust_versions`: all callers get their items from an API server. `executor`: computes calls in threads that share
    the processor; without an executor, calls are computed in the calling thread.
    """

    def __init__(
        self,
        compose: Callable[[Call], Outcome] = composers.compose,
        recover: Callable[[Call, CallFailure, str], Outcome] = composers.recover,
        metrics: Metrics | None = None,
        executor: FairExecutor[RunFunctionResponse] | None = None,
        *,
        clock: Callable[[], float] = time.time,
        trust_versions: bool = False,
    ) -> None:
        self._compose, self._recover, self._clock = compose, recover, clock
        self._trust_versions, self._executor = trust_versions, executor
        self._metrics = metrics or Metrics()
        self._log = logging.get_logger()

    async def RunFunction(  # noqa: N802  # gRPC's name
        self, request: bytes, context: grpc.aio.ServicerContext[bytes, RunFunctionResponse]
    ) -> RunFunctionResponse:
        started = time.perf_counter()
        try:
            if self._executor is None:
                return self._answer(request)
            return await self._executor.run(partial(self._answer, request))
        except MalformedError as error:
            self._metrics.count_call("", CallResult.MALFORMED, time.perf_counter() - started, len(request), 0)
            self._log.warning("malformed", error=str(error), bytes=len(request))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # aborting raises before this

    def _answer(self, request: bytes, pause: Pause = noop) -> RunFunctionResponse:
        started = time.perf_counter()
        received = split_request(request)
        call = read_call(received, pause, now=self._clock(), trust_versions=self._trust_versions)
        kind = text(call.xr, "kind")
        metadata = mapping(call.xr, "metadata")
        log = self._log.bind(kind=kind, namespace=text(metadata, "namespace"), name=text(metadata, "name"))
        failure = (CallFailure.INTERNAL_ERROR, "")
        for result in (CallResult.COMPOSED, CallResult.KEPT):
            try:
                outcome = self._compose(call) if result is CallResult.COMPOSED else self._recover(call, *failure)
                response = write_response(received.rest, outcome)
            except MalformedError:
                raise
            except Exception as error:  # noqa: BLE001  # a bug anywhere must not reach Crossplane
                # An internal error (None) does not replace a cause that is known already.
                failure = _log_failure(log, error) or failure
                continue
            seconds = time.perf_counter() - started
            log.info(
                "composed",
                composed=len(outcome.composed),
                ready=sum(composed.ready for composed in outcome.composed.values()),
                milliseconds=round(1000 * seconds, 1),
            )
            for key, why in outcome.drops:
                log.info("dropped", resource=key, why=why)
            self._metrics.count_call(kind, result, seconds, len(request), response.ByteSize())
            self._metrics.count_conditions(kind, call, outcome)
            return response
        reason, detail = failure
        message = f"{reason}: {detail}" if detail else "Internal error, see the function's log"
        response = refuse_request(received.rest, message)
        seconds = time.perf_counter() - started
        self._metrics.count_call(kind, CallResult.FATAL, seconds, len(request), response.ByteSize())
        return response


def _log_failure(log: Any, error: Exception) -> tuple[CallFailure, str] | None:
    """Logs why a call failed; returns the reason and the detail for its conditions, None for an internal error."""
    match error:
        case TooLongError():
            log.warning("took too long", seconds=MAX_CALL_SECONDS)
            return CallFailure.TOO_LONG, ""
        case TooLargeError():
            log.warning("response too large", bytes=error.size)
            return CallFailure.TOO_LARGE, str(error)
        case _:
            frames = traceback.extract_tb(error.__traceback__)
            log.error(
                "cannot compose",
                error=type(error).__name__,
                at=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
            )
            return None
