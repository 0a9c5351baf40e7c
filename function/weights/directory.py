"""What observed Jobs say of the next one: whether root must give it its directory, and how long it waits for a pod.

A Job that could not write is followed by one that is prepared, once: its evidence stays until that one is observed, and
from then on the prepared one is the evidence, whatever `retry` asks for. Several placements may describe one Job. Who
comes later must not shorten the time of one that runs, so it only looks until it knows whether there is one.
"""

from collections.abc import Iterable

from function.contract import Composed
from function.kube.manifests import Manifest, mapping
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import State
from function.weights.failures import Failure, failure
from function.weights.preparation import impatient, is_prepared, may_be_refused

_MANIFEST = "spec.forProvider.manifest"


def evidence(writer: ObjectWriter, jobs: Iterable[str]) -> tuple[str, ...]:
    """Return those of the Jobs for the same bytes that could not write, or were prepared because one could not."""
    return tuple(key for key in jobs if _could_not_write(writer, key))


def _could_not_write(writer: ObjectWriter, key: str) -> bool:
    described = mapping(writer.observed[key], _MANIFEST)
    return is_prepared(described) or failure(writer.read(key).manifest) is Failure.NOT_WRITABLE


def composed(writer: ObjectWriter, key: str, job: Manifest, lifetime: ManagementPolicy) -> Composed:
    """Return the Object for a Job that shall run."""
    remote = writer.read(key)
    unknown = not remote.seen and remote.state is not State.ABSENT
    if lifetime is ManagementPolicy.RETAIN and may_be_refused(job) and unknown:
        return writer.compose(key, job, ManagementPolicy.OBSERVE_ONLY)
    written = mapping(writer.observed.get(key), _MANIFEST)
    return writer.compose(key, impatient(job, written, remote.manifest), lifetime)
