"""Which resources this function composed for a composite, also those that Crossplane does not observe.

Crossplane observes what all steps of a pipeline composed for a composite, and nothing that another controller owns.
Resources that an earlier step desires in this call belong to that step. Of the rest, the kind and the
composition-resource-name identify those of this function. Labels do not: any user who may edit a resource may remove or
change them. What another step composed and does not desire any more is left to Crossplane.

Crossplane neither shows nor deletes a resource that it does not observe: if it is no longer composed, it runs on and
nothing ever deletes it. Such an orphan is found by its label, and by its name in Crossplane's list. Its controller is
this composite, and it is in its namespace (an owner's uid can be forged in any other). It counts as observed and is
composed once more over the resourceVersion that was seen, so that Crossplane adopts it; what should be deleted is
deleted on the reconcile that observes it (decisions 9 and 14).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.contract import Answered, Call, Composed, RequiredResource
from function.domain.placement import Placement
from function.kube.manifests import Manifest, find_controller, get, is_deleting, parse_time, strings, text
from function.kube.names import COMPOSITION_KEY, MANAGED_BY
from function.remote.composed_kinds import Names, find_control_plane_kind
from function.remote.object_writer import SERVICE, carry_over, reapply_observed, stop_managing, with_resource_version

((_LABEL, _MANAGER),) = MANAGED_BY.items()
_MOST_LATE_SECONDS = 60


def select_own(call: Call, names: Names) -> Call:
    """Returns the call with only those observed resources that this function composed under these names."""
    observed = {
        name: manifest
        for name, manifest in call.observed.items()
        if name not in call.desired_by_earlier_steps and is_own(name, manifest, names)
    }
    return replace(call, observed=observed)


def is_own(name: str, manifest: Manifest, names: Names) -> bool:
    """Tells whether this function composed a resource that no earlier step desires.

    A resource under a name that only another release gives is recognised by its label.
    """
    if names.include(name, manifest):
        return True
    return (
        find_control_plane_kind(manifest) is not None and strings(manifest, "metadata.labels").get(_LABEL) == _MANAGER
    )


def find_orphan_placements(
    xr: Manifest, observed: Mapping[str, Manifest], placements: Iterable[tuple[RequiredResource, Placement | None]]
) -> dict[str, Manifest]:
    """Returns the orphans of a ModelDeployment by composition-resource-name.

    An observed placement keeps its name. Of several orphans with one name the one with the lowest uid has it, and each
    of the others gets a name of its own.
    """
    uid = text(xr, "metadata.uid")
    namespace = text(xr, "metadata.namespace")
    observed_names = {text(manifest, "metadata.name") for manifest in observed.values()}
    unobserved = [
        (item, placement)
        for item, placement in placements
        if placement is not None
        and uid
        and placement.owner == uid
        and placement.namespace == namespace
        and placement.name not in observed_names
        and not placement.deleting
    ]
    orphans: dict[str, Manifest] = {}
    for item, placement in sorted(unobserved, key=lambda pair: (pair[1].uid, pair[1].name)):
        manifest = item.load()
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY) or f"placement-{placement.environment}"
        is_free = key not in observed and key not in orphans
        orphans[key if is_free else f"placement-{placement.name}"] = manifest
    return orphans


def find_orphans(call: Call, listed: Answered, names: Names, *, deleting: bool = False) -> dict[str, Manifest]:
    """Returns the orphans under some names by composition-resource-name; placements have `find_orphan_placements`.

    `listed` are the resources with the label of the composite, and those that it lists; of two with one name the one
    that is not being deleted counts. With `deleting`, those that are being deleted are returned (their remote objects
    exist until the deletion is complete), otherwise the others.
    """
    uid = text(call.xr, "metadata.uid")
    if not uid or not listed:
        return {}
    namespace = text(call.xr, "metadata.namespace")
    observed = {(text(manifest, "kind"), text(manifest, "metadata.name")) for manifest in call.observed.values()}
    observed_uids = {text(manifest, "metadata.uid") for manifest in call.observed.values()} - {""}
    orphans: dict[str, Manifest] = {}
    for manifest in sorted((item.load() for item in listed if item.uid not in observed_uids), key=is_deleting):
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY, "")
        if (
            find_controller(manifest) == uid
            and text(manifest, "metadata.namespace") == namespace
            and key
            and key not in call.observed
            and (text(manifest, "kind"), text(manifest, "metadata.name")) not in observed
            and is_own(key, manifest, names)
        ):
            orphans.setdefault(key, manifest)
    return {key: manifest for key, manifest in orphans.items() if is_deleting(manifest) is deleting}


def observe_orphans(call: Call, orphans: Mapping[str, Manifest]) -> Call:
    """Returns the call as Crossplane would have made it if it had observed the orphans."""
    return replace(call, observed={**call.observed, **orphans}) if orphans else call


def adopt(composed: Mapping[str, Composed], orphans: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Returns the composed resources, the orphans among them applied only over the versions that were seen."""
    return {
        key: with_resource_version(item, orphans[key]) if key in orphans else item for key, item in composed.items()
    }


def adopt_all(composed: Mapping[str, Composed], call: Call, orphans: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Returns the composed resources and every orphan: none is dropped before Crossplane observes it.

    An orphan that should be deleted creates nothing meanwhile. While a service is among those, everything else stays as
    observed, because the service may have pods on the GPUs that another one would get.
    """
    leaving = {
        key: stop_managing(orphans[key]) if text(orphans[key], "kind") == "Object" else reapply_observed(orphans[key])
        for key in orphans.keys() - composed.keys()
    }
    service_leaves = any(key.startswith(SERVICE) for key in leaving)
    desired = {**(carry_over(call.observed) if service_leaves else composed), **leaving}
    left_alone = {key for key in leaving if _may_be_gone(orphans[key], call.now)}
    return adopt({key: item for key, item in desired.items() if key not in left_alone}, orphans)


def _may_be_gone(orphan: Manifest, now: float) -> bool:
    """Tells whether an orphan that should be deleted may have been deleted already, since nothing would hold it.

    Applied once more, it would be created, and dropped again once it is observed. Crossplane sees each kind with a
    delay of its own, so that this might never end (tests/simulator/test_races.py). An orphan older than a minute was
    not created just now, and is adopted.
    """
    created = parse_time(text(orphan, "metadata.creationTimestamp"))
    is_new = created is not None and abs(now - created) < _MOST_LATE_SECONDS
    return is_new and not get(orphan, "metadata.finalizers")
