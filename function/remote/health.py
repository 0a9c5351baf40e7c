"""Whether a remote object has come up: one function for each kind, in one table.

Health is a status with a message, never a bool: a Job that failed and a Job that runs are both not ready, and differ.
Kinds that are not in the table are judged by their Ready condition, and only where it is about the current generation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, get, integer, listing, text


class Level(Enum):
    """How an object is."""

    UP = "up"
    PROGRESSING = "progressing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Health:
    """How an object is, and the sentence that says why."""

    level: Level
    message: str = ""

    @property
    def up(self) -> bool:
        """Whether it has come up."""
        return self.level is Level.UP


_UP = Health(Level.UP)


def assess(manifest: Manifest) -> Health:
    """Return the health of a manifest as read from its cluster; an empty one is progressing."""
    if not manifest:
        return Health(Level.PROGRESSING, "not created yet")
    kind = f"{text(manifest, 'apiVersion').rpartition('/')[0]}/{text(manifest, 'kind')}"
    return HEALTH.get(kind, _by_ready)(manifest)


def _exists(_manifest: Manifest) -> Health:
    return _UP


def _namespace(manifest: Manifest) -> Health:
    phase = text(manifest, "status.phase")
    if phase == "Terminating":
        return Health(Level.FAILED, "the namespace is being deleted")
    return _UP


def _claim(manifest: Manifest) -> Health:
    phase = text(manifest, "status.phase")
    if phase == "Bound":
        return _UP
    if phase == "Lost":
        return Health(Level.FAILED, "the claim has lost its volume")
    return Health(Level.PROGRESSING, "the claim is not bound yet")


def _job(manifest: Manifest) -> Health:
    if condition(manifest, "Complete").get("status") == "True":
        return _UP
    failed = condition(manifest, "Failed")
    if failed.get("status") == "True":
        return Health(Level.FAILED, f"{text(failed, 'reason')}: {text(failed, 'message')}")
    if integer(manifest, "status.failed"):
        return Health(Level.PROGRESSING, f"{integer(manifest, 'status.failed')} attempts have failed so far")
    if condition(manifest, "Suspended").get("status") == "True":
        return Health(Level.PROGRESSING, "suspended on the cluster: it goes on once it is resumed there")
    if not integer(manifest, "status.active"):
        return Health(Level.PROGRESSING, "not started yet")
    if get(manifest, "status.ready") == 0:
        return Health(Level.PROGRESSING, "its pod does not run yet; if that lasts, its events on the cluster say why")
    return Health(Level.PROGRESSING, "running")


def _by_ready(manifest: Manifest) -> Health:
    if not is_current(manifest):
        return Health(Level.PROGRESSING, "its controller has not seen the latest change yet")
    ready = condition(manifest, "Ready")
    if ready.get("status") == "True":
        return _UP
    return Health(Level.PROGRESSING, text(ready, "message") or text(ready, "reason"))


def _service(manifest: Manifest) -> Health:
    # observedGeneration is current while a preset is missing, so Ready alone proves nothing (docs/facts.md, KServe).
    combined = condition(manifest, "PresetsCombined")
    if is_current(manifest) and combined.get("status") == "False":
        return Health(Level.FAILED, _sentence(combined))
    health = _by_ready(manifest)
    if health.up and combined.get("status") != "True":
        return Health(Level.PROGRESSING, "its presets are not combined yet")
    if not health.up:
        down = [c for c in listing(manifest, "status.conditions") if c.get("status") == "False"]
        named = sorted(down, key=lambda c: (c.get("type") == "Ready", text(c, "type")))
        return Health(health.level, _sentence(named[0]) if named else health.message)
    return health


def _sentence(found: Manifest) -> str:
    # The reason is left out on purpose: KServe says AllGroupsReady while pods are not ready (docs/facts.md, KServe).
    return ": ".join(part for part in (text(found, "type"), text(found, "message")) if part)


def is_current(manifest: Manifest) -> bool:
    """Tell whether the status is about the current generation; where either does not say, it is believed.

    A status that is ahead comes from a restored backup: the API server counts generations from 1 again.
    """
    generation = get(manifest, "metadata.generation")
    return generation is None or get(manifest, "status.observedGeneration") in (None, generation)


HEALTH: Mapping[str, Callable[[Manifest], Health]] = {
    "/Namespace": _namespace,
    "/ConfigMap": _exists,
    "/Secret": _exists,
    "/PersistentVolumeClaim": _claim,
    "batch/Job": _job,
    "storage.k8s.io/StorageClass": _exists,
    "serving.kserve.io/LLMInferenceServiceConfig": _exists,
    "serving.kserve.io/LLMInferenceService": _service,
}

# The same questions for provider-kubernetes, which polls every 30 s only while an Object is not Ready. An error in a
# query counts as not ready, hence the guards.
READINESS: Mapping[str, str] = {
    "/PersistentVolumeClaim": "has(object.status) && has(object.status.phase) && object.status.phase == 'Bound'",
    "batch/Job": (
        "has(object.status) && has(object.status.conditions) && "
        "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')"
    ),
    "serving.kserve.io/LLMInferenceService": (
        "has(object.status) && has(object.status.conditions) && has(object.status.observedGeneration) && "
        "object.status.observedGeneration == object.metadata.generation && "
        "['Ready', 'PresetsCombined'].all(t, "
        "object.status.conditions.exists(c, c.type == t && c.status == 'True'))"
    ),
}
