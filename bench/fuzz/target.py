"""What libFuzzer calls: one request, judged as all others; arguments are libFuzzer's."""

import sys

import atheris
import structlog

from bench.fuzz.guided import Chosen

# Instrumented as it is imported.
with atheris.instrument_imports(include=["function"]):
    from bench.fuzz.requests import Counts, ask, chosen
    from function.runner import Runner

_RUNNER = Runner()


def one(data: bytes) -> None:
    """Ask, and fail with the line that asks so again."""
    counts = Counts()
    ask(counts, _RUNNER, None, 0, chosen(Chosen(data)))
    if counts.wrong:
        raise AssertionError(f"{[*counts.wrong]} by {data.hex()}")


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    structlog.configure(processors=[_drop])
    # As a shell would call it again: a merge does.
    atheris.Setup([f"{sys.executable} -m bench.fuzz.target", *sys.argv[1:]], one)
    atheris.Fuzz()
