"""Divides large downloads into parts, and follows how many of them are complete.

The Job controller counts the completed parts in the Job's status, which the provider mirrors. All figures follow from
this count, from the declared size, and from the times at which a reconcile first observed a count. A download has at
most eight parts, and its progress changes only with their number: a status that changed all the time would start a
reconcile of everything that reads it.
"""

from dataclasses import replace

from function.domain.model import HuggingFaceSource, Model
from function.domain.records.weights import DownloadProgress
from function.kube.manifests import Manifest, format_time, integer, parse_time, text
from function.kube.quantity import GIB

# A part has at least 32 GiB, so that the start of a pod takes little of its time. There are few numbers to choose from,
# because the Jobs of all composites that share a download must be equal, also if their models declare other margins.
NUMBERS_OF_PARTS = (8, 4, 2)
PART_BYTES = 32 * GIB


def count_parts(model: Model) -> int:
    """Returns how many parts the download of a model has; only the hub lists files with their sizes.

    The number follows from the model alone, whatever the environment and the claim are.
    """
    if not isinstance(model.source, HuggingFaceSource):
        return 1
    size = model.disk or model.vram or 0
    return next((parts for parts in NUMBERS_OF_PARTS if parts * PART_BYTES <= size), 1)


def follow_progress(
    recorded: DownloadProgress | None, job: Manifest, bytes_total: int, now: float
) -> DownloadProgress | None:
    """Returns the progress of an observed Job; None if its download is not divided, or has not started.

    `recorded` is the progress that status has. It stays exactly as it is until another part is complete.
    """
    parts = integer(job, "spec.completions")
    started_at = text(job, "status.startTime")
    start = parse_time(started_at)
    if parts <= 1 or start is None:
        return None
    done = min(integer(job, "status.succeeded"), parts)
    first = DownloadProgress(parts=parts, bytes_total=bytes_total, changed_at=started_at)
    last = recorded or first
    changed = parse_time(last.changed_at) or 0
    if last.parts != parts or changed < start:  # of an earlier Job
        last, changed = first, start
    if last.parts_done >= done:  # fewer parts than before are those of an older view
        return last
    at = max(int(now), start)
    seconds = at - changed
    progress = replace(first, parts_done=done, changed_at=format_time(at))
    if seconds <= 0 or done == parts:
        return progress
    new_parts = done - last.parts_done
    return replace(
        progress,
        bytes_per_second=bytes_total * new_parts // (parts * seconds),
        expected_at=format_time(at + seconds * (parts - done) // new_parts),
    )
