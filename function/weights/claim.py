"""Builds claims, and finds what cannot be changed on a claim that exists.

Only the size may change on a claim that exists. Class and access mode are written as observed: a changed setting then
shows in a condition, and never as an error that the API server repeats for ever. An empty class name is the cluster's
default class, for which the field is left out: in a claim `""` would mean no class at all.
"""

from dataclasses import dataclass

from function.domain.model import Problem
from function.kube import manifests, names
from function.kube.manifests import JSON, Manifest
from function.remote.object_writer import ManagementPolicy
from function.weights.sizing import format_request, parse_observed

READ_WRITE_MANY = "ReadWriteMany"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A claim to compose or to observe; size and class do not matter where it is only observed."""

    name: str
    namespace: str
    policy: ManagementPolicy
    size: int = 0  # bytes
    class_name: str | None = ""  # None: not set any more, so that an existing claim keeps its class
    access_mode: str = READ_WRITE_MANY


def build_claim(plan: ClaimPlan, observed: Manifest) -> Manifest:
    """Builds the claim, with what cannot change as observed; `observed` is empty while it does not exist."""
    metadata: Manifest = {"name": plan.name, "namespace": plan.namespace}
    manifest: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    if plan.policy is ManagementPolicy.OBSERVE_ONLY:
        return manifest
    modes: list[JSON] = [*_access_modes(observed)] or [plan.access_mode]
    keeps_class = observed and plan.class_name != ""
    class_name = manifests.text(observed, "spec.storageClassName") if keeps_class else plan.class_name
    metadata["labels"] = {**names.MANAGED_BY}
    manifest["spec"] = manifests.prune(
        {
            "accessModes": modes,
            "storageClassName": class_name or None,
            "resources": {"requests": {"storage": format_request(plan.size, observed)}},
        }
    )
    return manifest


def find_immutable_changes(plan: ClaimPlan, observed: Manifest) -> tuple[Problem, ...]:
    """Finds settings that only a new claim can have."""
    if not observed or plan.policy is ManagementPolicy.OBSERVE_ONLY:
        return ()
    problems = []
    observed_class, modes = manifests.text(observed, "spec.storageClassName"), _access_modes(observed)
    if plan.class_name and observed_class and observed_class != plan.class_name:
        message = (
            f"claim {plan.name} is of class {observed_class} and cannot become {plan.class_name}; delete it to move"
        )
        problems.append(Problem("spec.storageClassName", message))
    if modes and plan.access_mode not in modes:
        message = f"claim {plan.name} is {', '.join(modes)} and cannot become {plan.access_mode}; delete it to move"
        problems.append(Problem("spec.accessModes", message))
    return tuple(problems)


def can_be_mounted_by(observed: Manifest, pods: int) -> bool:
    """Tells whether this many pods can mount an observed claim, each on a node of its own."""
    return pods <= 1 or READ_WRITE_MANY in _access_modes(observed)


def get_access_mode(observed: Manifest) -> str:
    """Returns the widest access mode of an observed claim; empty where none is known."""
    modes = _access_modes(observed)
    return READ_WRITE_MANY if READ_WRITE_MANY in modes else next(iter(modes), "")


def get_capacity(observed: Manifest) -> int | None:
    """Returns the bytes of an observed claim's volume, or before it has one of its request; None where unknown."""
    capacity = manifests.text(observed, "status.capacity.storage")
    return parse_observed(capacity or manifests.text(observed, "spec.resources.requests.storage")) or None


def _access_modes(observed: Manifest) -> tuple[str, ...]:
    modes = manifests.get(observed, "spec.accessModes")
    return tuple(sorted(m for m in modes if isinstance(m, str))) if isinstance(modes, list) else ()
