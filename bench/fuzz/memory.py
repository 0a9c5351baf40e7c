"""Memory over many requests: as much at the end as when everything that is remembered had been filled.

The requests are the smaller cases of the tests, each with a number in the composite and in everything that was
required, so that none was ever seen before and all that is remembered turns over again and again.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

from bench.fuzz.encoding import encoded
from bench.fuzz.mutation import cases
from function.kube.manifests import Manifest, listing, mapping
from function.runner import Runner

SMALL = 10_000
_NUMBER = "modelplane.ai/fuzz"
_MARK = "number-0000000000"


def requests() -> Iterator[bytes]:
    """Yield requests without end, each unlike those before it."""
    templates = [data for case in cases() if len(data := encoded(_marked(case.read()))) < SMALL]
    number = 0
    while True:
        for template in templates:
            yield template.replace(_MARK.encode(), f"number-{number:010}".encode())
            number += 1


def _marked(parts: Manifest) -> Manifest:
    required = mapping(parts, "required")
    for manifest in (mapping(parts, "xr"), *(item for name in required for item in listing(required, name))):
        metadata = mapping(manifest, "metadata")
        if metadata:
            metadata["annotations"] = {**mapping(metadata, "annotations"), _NUMBER: _MARK}
    return parts


def measured(count: int, every: int) -> Iterator[float]:
    """Answer so many requests; yield the megabytes that this process holds after each `every`."""
    runner = Runner()
    for number, data in zip(range(1, count + 1), requests(), strict=False):
        runner._answer(data)  # noqa: SLF001  # what the server does with the bytes
        if number % every == 0:
            gc.collect()
            yield resident()


def resident() -> float:
    """Return the megabytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20
