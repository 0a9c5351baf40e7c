"""Placements that this composite composed and Crossplane does not observe.

Crossplane knows what it composed from the composite's own list, and may read that list from before its last write. A
placement that it composed then appears among those with its label, with this composite as its controller, and is not
observed. Left out, it would run on with nobody to delete it, and take the room of its own deployment. So it counts as
ours, and is composed at least once more, so that Crossplane adopts it again; what shall go goes when it is observed.

Only what lives in the composite's namespace can be one: an owner's uid can be written by anybody elsewhere. What is
observed keeps its composition-resource-name; of several orphans that claim one, the oldest uid gets it, and the others
one of their own.

What is listed may have changed by now. It is composed over the version that was seen: over another one the API server
refuses it (409), and Crossplane looks again. What is gone by now is made anew, and goes when it is observed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.contract import Call, Composed, RequiredResource
from function.domain.placement import Placement
from function.kube.manifests import Manifest, strings, text
from function.kube.names import COMPOSITION_KEY
from function.remote.carry_over import over_version


def orphans(
    xr: Manifest, observed: Mapping[str, Manifest], placements: Iterable[tuple[RequiredResource, Placement | None]]
) -> dict[str, Manifest]:
    """Return the orphans of a composite, by the composition-resource-name under which they are composed."""
    me, namespace = text(xr, "metadata.uid"), text(xr, "metadata.namespace")
    seen = {text(manifest, "metadata.name") for manifest in observed.values()}
    lost = [
        (item, placement)
        for item, placement in placements
        if placement is not None
        and me
        and placement.owner == me
        and placement.namespace == namespace
        and placement.name not in seen
        and not placement.deleting
    ]
    found: dict[str, Manifest] = {}
    for item, placement in sorted(lost, key=lambda each: (each[1].uid, each[1].name)):
        manifest = item.load()
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY) or f"placement-{placement.environment}"
        free = key not in observed and key not in found
        found[key if free else f"placement-{placement.name}"] = manifest
    return found


def adopted(composed: Mapping[str, Composed], lost: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Return what is composed; the orphans among it over the versions that were seen."""
    return {key: over_version(item, lost[key]) if key in lost else item for key, item in composed.items()}


def with_orphans(call: Call, lost: Mapping[str, Manifest]) -> Call:
    """Return the call as Crossplane would have made it, had it seen everything."""
    return replace(call, observed={**call.observed, **lost})
