"""Which resources this function composed for a composite, including resources that Crossplane does not observe.

Crossplane observes the resources that all steps of a pipeline composed for a composite, and no resource that another
controller owns. A resource that an earlier step desires in this call belongs to that step. Among the other resources,
the function recognises its own by kind and composition-resource-name. Labels are no proof, because any user who may
edit a resource may remove or change them. A resource that another step no longer desires is left to Crossplane.

Crossplane neither shows nor deletes an orphan, which is a resource that it does not observe. If the function stopped
composing an orphan, the orphan would run on, and nothing would ever delete it. The function finds orphans by their
label, and by their name in Crossplane's list. The controller of an orphan is this composite, and both are in the same
namespace (in any other namespace, the uid of an owner can be forged). An orphan counts as observed, and is composed
once more over the observed resourceVersion, so that Crossplane adopts it. An orphan that should be deleted is deleted
on the reconcile that observes it (decisions 9 and 14).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.contract import Answer, Call, Composed, RequiredResource
from function.domain.placement import Placement
from function.kube.manifests import Manifest, find_controller, get, is_deleting, parse_time, strings, text
from function.kube.names import COMPOSITION_KEY, MANAGED_BY
from function.remote.composed_kinds import NamePatterns, find_control_plane_kind
from function.remote.object_writer import (
    SERVICE_PREFIX,
    carry_over,
    reapply_observed,
    stop_managing,
    with_resource_version,
)

((_LABEL, _MANAGER),) = MANAGED_BY.items()
_MOST_LATE_SECONDS = 60


def select_own(call: Call, names: NamePatterns) -> Call:
    """Returns the call with only those observed resources that this function composed under these names."""
    observed = {
        name: manifest
        for name, manifest in call.observed.items()
        if name not in call.desired_by_earlier_steps and is_own(name, manifest, names)
    }
    return replace(call, observed=observed)


def is_own(name: str, manifest: Manifest, names: NamePatterns) -> bool:
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

    An observed placement keeps its name. If several orphans have the same name, the orphan with the lowest uid keeps
    it, and each other orphan gets a name of its own.
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


def find_orphans(call: Call, listed: Answer, names: NamePatterns, *, deleting: bool = False) -> dict[str, Manifest]:
    """Returns the orphans under some names by composition-resource-name; placements have `find_orphan_placements`.

    `listed` are the resources that have the label of the composite or that the composite lists. If two have the same
    name, the one that is not being deleted counts. With `deleting`, returns the orphans that are being deleted, whose
    remote objects exist until the deletion is complete; otherwise returns the other orphans.
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
    """Returns the composed resources; the orphans among them are applied only over their observed versions."""
    return {
        key: with_resource_version(item, orphans[key]) if key in orphans else item for key, item in composed.items()
    }


def adopt_all(composed: Mapping[str, Composed], call: Call, orphans: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Returns the composed resources and every orphan: none is dropped before Crossplane observes it.

    Until then, an orphan that should be deleted creates nothing. While such an orphan is a service, everything else
    stays as observed, because this service may have pods on the GPUs that another service would get.
    """
    leaving = {
        key: stop_managing(orphans[key]) if text(orphans[key], "kind") == "Object" else reapply_observed(orphans[key])
        for key in orphans.keys() - composed.keys()
    }
    service_leaves = any(key.startswith(SERVICE_PREFIX) for key in leaving)
    desired = {**(carry_over(call.observed) if service_leaves else composed), **leaving}
    left_alone = {key for key in leaving if _may_be_gone(orphans[key], call.now)}
    return adopt({key: item for key, item in desired.items() if key not in left_alone}, orphans)


def _may_be_gone(orphan: Manifest, now: float) -> bool:
    """Tells whether an orphan that should be deleted may be gone already: it is new, and no finalizer holds it.

    Applying a deleted orphan would create it again, and a later call would drop it once it is observed. Crossplane sees
    each kind with a delay of its own, so this cycle might never end (tests/simulator/test_races.py). An orphan that is
    older than a minute was not created just now, and is adopted.
    """
    created = parse_time(text(orphan, "metadata.creationTimestamp"))
    is_new = created is not None and abs(now - created) < _MOST_LATE_SECONDS
    return is_new and not get(orphan, "metadata.finalizers")
