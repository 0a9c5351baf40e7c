"""The function's own server around a composer that obeys the composite's name.

`slow` takes its time and says when it begins, `broken` fails and quotes what it saw, `hopeless` cannot even
be recovered; anything else is answered with the observed resources.
"""

import asyncio
import time

from crossplane.function import logging

from function.contract import Call, Composed, Outcome
from function.executor import FairExecutor
from function.kube.manifests import text
from function.main import serve
from function.reasons import CallFailure
from function.runner import Runner


def compose(call: Call) -> Outcome:
    """Do what the name says."""
    name = text(call.xr, "metadata.name")
    if name == "slow":
        logging.get_logger().info("composing")
        time.sleep(0.2)
    if name in {"broken", "hopeless"}:
        raise ValueError(f"cannot make sense of {call.observed}")
    return Outcome(status={"name": name})


def recover(call: Call, _: CallFailure, __: str) -> Outcome:
    """Keep what is observed."""
    if text(call.xr, "metadata.name") == "hopeless":
        raise ValueError(f"cannot keep {call.observed}")
    return Outcome(composed={name: Composed(manifest=manifest) for name, manifest in call.observed.items()})


logging.configure()
asyncio.run(serve(Runner(compose, recover, executor=FairExecutor()).RunFunction, "127.0.0.1:0", None))
