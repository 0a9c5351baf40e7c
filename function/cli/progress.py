"""Progress of downloads as text: a bar, the bytes, the speed and the time left.

`status.storage.progress` has the time at which a download is expected to be complete, so that the status does not
change all the time. The time left is computed here.
"""

import time
from collections.abc import Sequence

from function.cli.tables import format_seconds
from function.kube.manifests import Manifest, integer, parse_time, text
from function.kube.quantity import gib, mib

_WIDTH = 16


def format_progress(blocks: Sequence[Manifest]) -> str:
    """Formats the progress of one download, or of several together; empty where none is known.

    The sums count only downloads with a known size. The last download decides when all are complete.
    """
    parts, done, total, bytes_done, speed = (
        sum(integer(block, key) for block in blocks)
        for key in ("parts", "partsDone", "bytesTotal", "bytesDone", "bytesPerSecond")
    )
    if not 0 <= done <= parts or not parts:
        return ""
    filled = done * _WIDTH // parts
    shown = [f"[{'#' * filled}{'-' * (_WIDTH - filled)}] {done * 100 // parts}%"]
    if total:
        shown.append(f"{gib(bytes_done)} of {gib(total)}")
    if speed:
        shown.append(f"{mib(speed)}/s")
    ends = [parse_time(text(block, "expectedAt")) for block in blocks]
    known = [end for end in ends if end is not None]
    if known and len(known) == len(ends):
        left = max(known) - int(time.time())
        shown.append(f"about {format_seconds(left)} left" if left > 0 else "later than expected")
    return ", ".join(shown)
