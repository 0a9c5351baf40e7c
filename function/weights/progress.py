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

# How many parts a download has from which size on. A part has at least 8 GiB, 90 seconds at 100 MB/s, so that the start
# of its pod takes little of its time. Few edits of a declared size change the number of parts.
PARTS_BY_SIZE = ((256 * GIB, 8), (32 * GIB, 4))
_LONGEST_SECONDS = 365 * 24 * 3600  # between two parts; more comes from a clock that is wrong


def count_parts(model: Model) -> int:
    """Returns how many parts the download of a model has; only the hub lists files with their sizes.

    This is for the Job of one composite. A Job that several composites may describe has one part: it must be the same
    Job for all of them, and their models may declare other sizes for the same files.
    """
    if not isinstance(model.source, HuggingFaceSource):
        return 1
    size = model.disk or model.vram or 0
    return next((parts for smallest, parts in PARTS_BY_SIZE if size >= smallest), 1)


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
    # A Job that was suspended begins again, with the parts that it has: nobody knows how long these took.
    is_resumed = last.parts == parts and last.parts_done > 0 and 0 < changed < start
    if last.parts != parts or changed < start:  # of an earlier Job, or of this one before it was suspended
        last, changed = first, start
    if last.parts_done >= done:  # fewer parts than before are those of an older view
        return last
    at = max(int(now), start)
    seconds = at - changed
    progress = replace(first, parts_done=done, changed_at=format_time(at))
    if is_resumed or done == parts or not 0 < seconds < _LONGEST_SECONDS:
        return progress
    new_parts = done - last.parts_done
    return replace(
        progress,
        bytes_per_second=bytes_total * new_parts // (parts * seconds),
        expected_at=format_time(at + seconds * (parts - done) // new_parts),
    )
