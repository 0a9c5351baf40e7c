"""The one builder of claims, and what an observed claim may be refused for.

Only size may change on a claim that exists. Class and access mode are written as observed, so that a change
of mind is a sentence in a condition and never an error that the API server repeats for ever. An empty class
name is the cluster's default class, for which the field is left out: in a claim `""` would mean no class at
all.
"""

from dataclasses import dataclass
from enum import Enum

from function.domain.model import Problem
from function.kube import manifests, names
from function.kube.manifests import JSON, Manifest
from function.weights import sizing

READ_WRITE_MANY = "ReadWriteMany"


class Ownership(Enum):
    """Who creates and removes an object of the remote cluster."""

    OBSERVED = "the user's: never created, changed or deleted"
    MANAGED = "goes with the placement or cache that composed it"
    RETAINED = "created if absent, never deleted, described by several at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A claim to compose or to observe; bytes and class are of no matter where it is only observed.

    No class: nobody names one any more, so that it has the one that it has.
    """

    name: str
    namespace: str
    ownership: Ownership
    size: int = 0
    class_name: str | None = ""
    access_mode: str = READ_WRITE_MANY


def build(plan: ClaimPlan, observed: Manifest) -> Manifest:
    """Return the claim, true to what is observed of it (empty = it does not exist yet)."""
    metadata: Manifest = {"name": plan.name, "namespace": plan.namespace}
    manifest: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    if plan.ownership is Ownership.OBSERVED:
        return manifest
    modes: list[JSON] = [*_modes(observed)] or [plan.access_mode]
    stays = observed and plan.class_name != ""
    class_name = manifests.text(observed, "spec.storageClassName") if stays else plan.class_name
    metadata["labels"] = {**names.MANAGED_BY}
    manifest["spec"] = manifests.prune(
        {
            "accessModes": modes,
            "storageClassName": class_name or None,
            "resources": {"requests": {"storage": sizing.request(plan.size, observed)}},
        }
    )
    return manifest


def changed(plan: ClaimPlan, observed: Manifest) -> tuple[Problem, ...]:
    """Return what is asked for of an existing claim of ours and can only be had with a new one."""
    if not observed or plan.ownership is Ownership.OBSERVED:
        return ()
    problems = []
    live, modes = manifests.text(observed, "spec.storageClassName"), _modes(observed)
    if plan.class_name and live and live != plan.class_name:
        message = f"claim {plan.name} is of class {live} and cannot become {plan.class_name}; delete it to move"
        problems.append(Problem("spec.storageClassName", message))
    if modes and plan.access_mode not in modes:
        message = f"claim {plan.name} is {', '.join(modes)} and cannot become {plan.access_mode}; delete it to move"
        problems.append(Problem("spec.accessModes", message))
    return tuple(problems)


def shared(observed: Manifest, pods: int) -> bool:
    """Tell whether so many pods can use a user's claim, each on a node of its own."""
    return pods <= 1 or READ_WRITE_MANY in _modes(observed)


def mode(observed: Manifest) -> str:
    """Return the widest access mode of an observed claim, empty where none is known."""
    modes = _modes(observed)
    return READ_WRITE_MANY if READ_WRITE_MANY in modes else next(iter(modes), "")


def holds(observed: Manifest) -> int | None:
    """Return how much an observed claim holds, in bytes: what it was given, before that what it asks for."""
    given = manifests.text(observed, "status.capacity.storage")
    return sizing.amount(given or manifests.text(observed, "spec.resources.requests.storage")) or None


def _modes(observed: Manifest) -> tuple[str, ...]:
    modes = manifests.get(observed, "spec.accessModes")
    return tuple(sorted(m for m in modes if isinstance(m, str))) if isinstance(modes, list) else ()
