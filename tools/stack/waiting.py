"""Bounded waiting: every poll times out with a message that names what it waited for."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
# In seconds. No promise of ours: two busy processors take long, and provider-kubernetes looks at what it deletes
# after 1, 2, 4, ... seconds and then only once a minute. It ends waiting for what will never be.
PATIENCE = 300.0


def until(what: str, probe: Callable[[], Found | None], *, seconds: float = PATIENCE, every: float = 0.3) -> Found:
    """Call the probe until it returns something true, and return that; an error counts as nothing."""
    end = time.monotonic() + seconds
    trouble: object = ""
    while True:
        try:
            if found := probe():
                return found
            trouble = found
        except (OSError, LookupError) as error:
            trouble = error
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}: {trouble!r}")
        time.sleep(every)


def listens(port: int, address: str = "127.0.0.1") -> bool:
    """Return whether something accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def steady(what: str, probe: Callable[[], bool], *, seconds: float, every: float = 0.5) -> None:
    """Require that the probe holds from now on for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not probe():
            raise AssertionError(f"{what} changed")
        time.sleep(every)
