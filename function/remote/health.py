"""Health of a remote object: one function for each kind, in one table.

Health is a level with a message and not a bool: a failed Job and a running Job are both not ready, and differ. Kinds
that are not in the table have their Ready condition, which counts only if it is about the current generation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, get, integer, listing, text
from function.remote.observed_object import ObservedObject


class Level(Enum):
    """The level of health."""

    UP = "up"
    PROGRESSING = "progressing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an object and why it is not up."""

    level: Level
    message: str = ""

    @property
    def up(self) -> bool:
        """Tells whether the object is up."""
        return self.level is Level.UP


_UP = Health(Level.UP)


def assess(manifest: Manifest) -> Health:
    """Returns the health of a manifest as read from its cluster; an empty one is progressing."""
    if not manifest:
        return Health(Level.PROGRESSING, "not created yet")
    kind = f"{text(manifest, 'apiVersion').rpartition('/')[0]}/{text(manifest, 'kind')}"
    return HEALTH.get(kind, _assess_ready_condition)(manifest)


def is_up(remote: ObservedObject) -> bool:
    """Tells whether a remote object is present and up."""
    return remote.present and assess(remote.manifest).up


def is_current(manifest: Manifest) -> bool:
    """Tells whether the status is about the current generation, or has no generation.

    A status that is ahead comes from a restored backup: the API server counts generations from 1 again.
    """
    generation = get(manifest, "metadata.generation")
    return generation is None or get(manifest, "status.observedGeneration") in (None, generation)


def is_programmed(route: Manifest) -> bool:
    """Tells whether every gateway has seen the current generation of a route; one without gateways is used by none."""
    generation = get(route, "metadata.generation")
    parents = listing(route, "status.parents")
    conditions = [listing({"c": parent.get("conditions")}, "c") for parent in parents]
    return all(any(c.get("observedGeneration") == generation for c in of_parent) for of_parent in conditions)


def _assess_route(manifest: Manifest) -> Health:
    parents = listing(manifest, "status.parents")
    if not parents:
        return Health(
            Level.PROGRESSING, "no Gateway has seen it: its Gateway does not exist, or no controller serves it"
        )
    if not is_programmed(manifest):
        return Health(Level.PROGRESSING, "its Gateway has not observed the latest change yet")
    for parent in parents:
        status: Manifest = {"status": {"conditions": parent.get("conditions")}}
        for type_ in ("Accepted", "ResolvedRefs"):
            found = condition(status, type_)
            if found.get("status") != "True":
                message = text(found, "message") or "without a message"
                return Health(
                    Level.FAILED, f"{type_} is {text(found, 'status') or 'missing'}: {text(found, 'reason')}, {message}"
                )
    return _UP


def _assess_namespace(manifest: Manifest) -> Health:
    if text(manifest, "status.phase") == "Terminating":
        return Health(Level.FAILED, "the namespace is being deleted")
    return _UP


def _assess_claim(manifest: Manifest) -> Health:
    match text(manifest, "status.phase"):
        case "Bound":
            return _UP
        case "Lost":
            return Health(Level.FAILED, "the claim has lost its volume")
        case _:
            return Health(Level.PROGRESSING, "the claim is not bound yet")


def _assess_job(manifest: Manifest) -> Health:
    if condition(manifest, "Complete").get("status") == "True":
        return _UP
    failed = condition(manifest, "Failed")
    if failed.get("status") == "True":
        return Health(Level.FAILED, f"{text(failed, 'reason')}: {text(failed, 'message')}")
    if integer(manifest, "status.failed"):
        return Health(Level.PROGRESSING, f"{integer(manifest, 'status.failed')} attempts have failed so far")
    if condition(manifest, "Suspended").get("status") == "True":
        return Health(Level.PROGRESSING, "suspended on the cluster; it continues once it is resumed there")
    if not integer(manifest, "status.active"):
        return Health(Level.PROGRESSING, "not started yet")
    if get(manifest, "status.ready") == 0:
        return Health(Level.PROGRESSING, "its pod is not running yet; see its events on the cluster")
    return Health(Level.PROGRESSING, "running")


def _assess_ready_condition(manifest: Manifest) -> Health:
    if not is_current(manifest):
        return Health(Level.PROGRESSING, "its controller has not observed the latest change yet")
    ready = condition(manifest, "Ready")
    if ready.get("status") == "True":
        return _UP
    return Health(Level.PROGRESSING, text(ready, "message") or text(ready, "reason"))


def _assess_service(manifest: Manifest) -> Health:
    # observedGeneration is current while a preset is missing, so Ready alone proves nothing (docs/facts.md, KServe).
    combined = condition(manifest, "PresetsCombined")
    if is_current(manifest) and combined.get("status") == "False":
        return Health(Level.FAILED, _describe(combined))
    health = _assess_ready_condition(manifest)
    if health.up and combined.get("status") != "True":
        return Health(Level.PROGRESSING, "its presets are not combined yet")
    false = [c for c in listing(manifest, "status.conditions") if c.get("status") == "False"]
    if health.up or not false:
        return health
    return Health(health.level, _describe(min(false, key=lambda c: (c.get("type") == "Ready", text(c, "type")))))


def _describe(entry: Manifest) -> str:
    # Without the reason: KServe sets AllGroupsReady while pods are not ready (docs/facts.md, KServe).
    return ": ".join(part for part in (text(entry, "type"), text(entry, "message")) if part)


HEALTH: Mapping[str, Callable[[Manifest], Health]] = {
    "/Namespace": _assess_namespace,
    "/ConfigMap": lambda _: _UP,
    "/Secret": lambda _: _UP,
    "/PersistentVolumeClaim": _assess_claim,
    "batch/Job": _assess_job,
    "storage.k8s.io/StorageClass": lambda _: _UP,
    "serving.kserve.io/LLMInferenceServiceConfig": lambda _: _UP,
    "serving.kserve.io/LLMInferenceService": _assess_service,
    "gateway.networking.k8s.io/HTTPRoute": _assess_route,
}

# The same checks in CEL for provider-kubernetes, which polls every 30 s only while an Object is not Ready. An error in
# a query counts as not ready, hence the `has()`.
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
    "gateway.networking.k8s.io/HTTPRoute": (
        "has(object.status) && has(object.status.parents) && size(object.status.parents) > 0 && "
        "object.status.parents.all(p, has(p.conditions) && ['Accepted', 'ResolvedRefs'].all(t, "
        "p.conditions.exists(c, c.type == t && c.status == 'True' && has(c.observedGeneration) && "
        "c.observedGeneration == object.metadata.generation)))"
    ),
}
