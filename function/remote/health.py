"""The health of a manifest, as its controller reports it.

Health is a level with a message, not a bool: neither a failed Job nor a running Job is ready, but they differ. A
condition counts only if it is about the current generation.
"""

from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, get, integer, listing, text


class Level(Enum):
    UP = "up"
    PROGRESSING = "progressing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Health:
    level: Level
    message: str = ""

    @property
    def up(self) -> bool:
        return self.level is Level.UP


UP = Health(Level.UP)


def is_current(manifest: Manifest) -> bool:
    """Tells whether the status is about the current generation, or has no generation.

    A status that is ahead comes from a restored backup: the API server counts generations from 1 again.
    """
    generation = get(manifest, "metadata.generation")
    return generation is None or get(manifest, "status.observedGeneration") in (None, generation)


def is_programmed(route: Manifest) -> bool:
    """Tells whether every gateway has seen the current generation of a route; true without gateways."""
    generation = get(route, "metadata.generation")
    conditions = [listing(parent, "conditions") for parent in listing(route, "status.parents")]
    return all(any(c.get("observedGeneration") == generation for c in of_parent) for of_parent in conditions)


def assess_route(manifest: Manifest) -> Health:
    parents = listing(manifest, "status.parents")
    if not parents:
        why = "no Gateway has seen it: its Gateway does not exist, or no controller serves it"
        return Health(Level.PROGRESSING, why)
    if not is_programmed(manifest):
        return Health(Level.PROGRESSING, "its Gateway has not observed the latest change yet")
    for parent in parents:
        for type_ in ("Accepted", "ResolvedRefs"):
            found = condition({"status": parent}, type_)
            status = text(found, "status") or "missing"
            message = text(found, "message") or "without a message"
            if status != "True":
                return Health(Level.FAILED, f"{type_} is {status}: {text(found, 'reason')}, {message}")
    return UP


def assess_namespace(manifest: Manifest) -> Health:
    if text(manifest, "status.phase") == "Terminating":
        return Health(Level.FAILED, "the namespace is being deleted")
    return UP


def assess_claim(manifest: Manifest) -> Health:
    phases = {"Bound": UP, "Lost": Health(Level.FAILED, "the claim has lost its volume")}
    return phases.get(text(manifest, "status.phase"), Health(Level.PROGRESSING, "the claim is not bound yet"))


def assess_job(manifest: Manifest) -> Health:
    if condition(manifest, "Complete").get("status") == "True":
        return UP
    failed = condition(manifest, "Failed")
    if failed.get("status") == "True":
        return Health(Level.FAILED, f"{text(failed, 'reason')}: {text(failed, 'message')}")
    if integer(manifest, "status.failed"):
        return Health(Level.PROGRESSING, f"failed attempts so far: {integer(manifest, 'status.failed')}")
    if condition(manifest, "Suspended").get("status") == "True":
        return Health(Level.PROGRESSING, "suspended on the cluster; it continues once it is resumed there")
    if integer(manifest, "status.succeeded"):
        return Health(Level.PROGRESSING, "running")  # between two completions there is no pod for a moment
    if not integer(manifest, "status.active"):
        return Health(Level.PROGRESSING, "not started yet")
    if get(manifest, "status.ready") == 0:
        return Health(Level.PROGRESSING, "its pod is not running yet; see its events on the cluster")
    return Health(Level.PROGRESSING, "running")


def assess_ready_condition(manifest: Manifest) -> Health:
    if not is_current(manifest):
        return Health(Level.PROGRESSING, "its controller has not observed the latest change yet")
    ready = condition(manifest, "Ready")
    if ready.get("status") == "True":
        return UP
    return Health(Level.PROGRESSING, text(ready, "message") or text(ready, "reason"))


def assess_service(manifest: Manifest) -> Health:
    # observedGeneration is current while a preset is missing, so Ready alone proves nothing (docs/facts.md, KServe).
    combined = condition(manifest, "PresetsCombined")
    if is_current(manifest) and combined.get("status") == "False":
        return Health(Level.FAILED, _describe(combined))
    health = assess_ready_condition(manifest)
    if health.up and combined.get("status") != "True":
        return Health(Level.PROGRESSING, "its presets are not combined yet")
    false = [c for c in listing(manifest, "status.conditions") if c.get("status") == "False"]
    if health.up or not false:
        return health
    return Health(health.level, _describe(min(false, key=lambda c: (c.get("type") == "Ready", text(c, "type")))))


def _describe(entry: Manifest) -> str:
    # The reason is left out: KServe sets AllGroupsReady while pods are not ready (docs/facts.md, KServe).
    return ": ".join(part for part in (text(entry, "type"), text(entry, "message")) if part)
