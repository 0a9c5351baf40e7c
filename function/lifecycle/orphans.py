"""Placements that this composite composed and Crossplane does not observe.

Crossplane knows what it composed from the composite's own list, and may read that list from before its last write. A
placement that it composed then appears among those with its label, with this composite as its controller, and is not
observed. Left out, it would run on with nobody to delete it, and take the room of its own deployment. So it counts as
ours, and is composed at least once more, so that Crossplane adopts it again; what shall go goes when it is observed.

Only what lives in the composite's namespace can be one: an owner's uid can be written by anybody elsewhere. What is
observed keeps its composition-resource-name; of several orphans that claim one, the oldest uid gets it, and the others
one of their own.

What is listed may be gone by now. It is composed with the uid that was seen, so that the API server refuses to make it
anew (409: no object of that uid) and Crossplane looks again; without it a list that is late for long keeps bringing
back what was deleted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.domain.placement import Placement
from function.exchange import Composed, RequiredResource
from function.kube.manifests import Manifest, mapping, strings, text
from function.kube.names import COMPOSITION_KEY


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
    """Return what is composed; of the orphans among it exactly those that were seen, and none made anew."""
    return {
        key: _exactly(item, text(lost[key], "metadata.uid")) if key in lost else item for key, item in composed.items()
    }


def _exactly(item: Composed, uid: str) -> Composed:
    """Return an item that only an object of this uid can become."""
    metadata: Manifest = {**mapping(item.manifest, "metadata"), **({"uid": uid} if uid else {})}
    return replace(item, manifest={**item.manifest, "metadata": metadata})
