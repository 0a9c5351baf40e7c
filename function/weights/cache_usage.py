"""What protects a ModelCache from being deleted for as long as a placement reads from it."""

from collections.abc import Mapping
from dataclasses import replace

from function.contract import Composed
from function.domain.placement import Placement
from function.kube.manifests import Manifest, text
from function.kube.names import MANAGED_BY, VERSION, build_name
from function.remote.carry_over import reapply_observed

KEY = "cache-usage"
API_VERSION = "protection.crossplane.io/v1beta1"
KIND = "Usage"
_CACHE = "spec.of.resourceRef.name"


def usage_name(placement: Placement, cache: str) -> str:
    """Return the name of the Usage of a ModelCache by a placement."""
    return build_name(placement.name, placement.name, cache)


def usage(placement: Placement, cache: str) -> dict[str, Composed]:
    """Return the Usage of a ModelCache by a placement, under its key."""
    spec: Manifest = {
        "of": {"apiVersion": VERSION, "kind": "ModelCache", "resourceRef": {"name": cache}},
        "by": {"apiVersion": VERSION, "kind": "ModelPlacement", "resourceRef": {"name": placement.name}},
        "reason": f"ModelPlacement {placement.name} serves from it",
    }
    manifest: Manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": usage_name(placement, cache),
            "namespace": placement.namespace,
            "labels": {**MANAGED_BY},
        },
        "spec": spec,
    }
    # Where Usages are not enforced their controller never makes them Ready; a model that serves is not held up by it.
    return {KEY: Composed(manifest=manifest, ready=True)}


def until_moved(observed: Mapping[str, Manifest], wanted: Mapping[str, Composed]) -> dict[str, Composed]:
    """Return the Usage of another ModelCache than the one that is wanted, which is read until the service has moved."""
    there = observed.get(KEY)
    if there is None or (KEY in wanted and text(wanted[KEY].manifest, _CACHE) == text(there, _CACHE)):
        return {}
    return {KEY: replace(reapply_observed(there), ready=True)}
