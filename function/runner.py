"""One call of Crossplane: read the request, let the composer of its kind decide, write the response.

A bug must cost nobody what runs. Should composing fail, the answer is what `recover` makes of the same call
(everything observed, and conditions that say so); should that fail too, a fatal result makes Crossplane keep
all as it is. A call that takes too long, or whose response is larger than Crossplane reads, is answered in the same
way. One line is logged for each call. It never holds a manifest, nor the message or the locals of an exception, since
both may quote one: observed resources may hold the copy of a Secret. Bytes that are no request are the caller's fault
and are told so: INVALID_ARGUMENT, at once or when the item is read that holds them.
"""

import time
import traceback
from collections.abc import Callable
from functools import partial

import grpc
from crossplane.function import logging
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionResponse

from function import composers
from function.contract import Call, Outcome, Pause, noop
from function.kube.manifests import text
from function.metrics import Answered, Metrics
from function.reasons import Unfinished
from function.turns import MOST_SECONDS, TooLongError, Turns
from function.wire import requests, responses
from function.wire.items import Identify, by_content
from function.wire.responses import TooLargeError
from function.wire.split import MalformedError, split


class Runner:
    """Answers RunFunction with what `compose` makes of a call; `identify` names the items that were required.

    With `turns` calls are computed in threads that take turns, without at once and to the end.
    """

    def __init__(
        self,
        compose: Callable[[Call], Outcome] = composers.compose,
        recover: Callable[[Call, Unfinished, str], Outcome] = composers.recover,
        identify: Identify = by_content,
        metrics: Metrics | None = None,
        turns: Turns[RunFunctionResponse] | None = None,
    ) -> None:
        self._compose, self._recover = compose, recover
        self._identify, self._turns = identify, turns
        self._metrics = metrics or Metrics()
        self._log = logging.get_logger()

    async def RunFunction(  # noqa: N802  # gRPC's name
        self, request: bytes, context: grpc.aio.ServicerContext[bytes, RunFunctionResponse]
    ) -> RunFunctionResponse:
        """Answer one call, given as it came from the wire."""
        started = time.perf_counter()
        try:
            if self._turns is None:
                return self._answer(request)
            return await self._turns.run(partial(self._answer, request))
        except MalformedError as error:
            self._metrics.count("", Answered.MALFORMED, time.perf_counter() - started, len(request), 0)
            self._log.warning("malformed", error=str(error), bytes=len(request))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # never: aborting raises

    def _answer(self, request: bytes, pause: Pause = noop) -> RunFunctionResponse:
        """Only a bug in both composing and recovering makes the result fatal."""
        started = time.perf_counter()
        received = split(request)
        call = requests.read(received, self._identify, pause)
        kind = text(call.xr, "kind")
        log = self._log.bind(
            kind=kind,
            namespace=text(call.xr, "metadata.namespace"),
            name=text(call.xr, "metadata.name"),
        )
        unfinished, detail = Unfinished.INTERNAL_ERROR, ""
        for answered in (Answered.COMPOSED, Answered.KEPT):
            try:
                composes = answered is Answered.COMPOSED
                outcome = self._compose(call) if composes else self._recover(call, unfinished, detail)
                response = responses.write(received.rest, outcome)
            except MalformedError:
                raise
            except TooLongError:
                log.warning("took too long", seconds=MOST_SECONDS)
                unfinished = Unfinished.TOO_LONG
                continue
            except TooLargeError as error:
                log.warning("response too large", bytes=error.size)
                unfinished, detail = Unfinished.TOO_LARGE, str(error)
                continue
            except Exception as error:  # noqa: BLE001  # a bug anywhere must not reach Crossplane
                frames = traceback.extract_tb(error.__traceback__)
                log.error(  # noqa: TRY400  # the SDK prints the locals with an exception
                    "cannot compose",
                    error=type(error).__name__,
                    at=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
                )
                continue
            seconds = time.perf_counter() - started
            log.info(
                "composed",
                composed=len(outcome.composed),
                ready=sum(composed.ready for composed in outcome.composed.values()),
                milliseconds=round(1000 * seconds, 1),
            )
            self._metrics.count(kind, answered, seconds, len(request), response.ByteSize())
            self._metrics.judge(kind, call, outcome)
            return response
        said = f"{unfinished}: {detail}" if detail else "Internal error, see the function's log"
        response = responses.refuse(received.rest, said)
        self._metrics.count(kind, Answered.FATAL, time.perf_counter() - started, len(request), response.ByteSize())
        return response
