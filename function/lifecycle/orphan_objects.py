"""Objects that a ModelPlacement composed and Crossplane does not observe.

Crossplane knows what it composed from the composite's own list, which it may have read from before its last write, and
reads each Object from a cache of its own. What it does not see it neither shows nor deletes: composed no more, an
Object runs on with nobody to delete it. So as long as no service is observed, and for whatever the list names beside
what is observed, the Objects are asked for by name: names of Objects follow from what a placement is and says. One that
is found counts as observed, and leaves in no call but one in which it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from function.domain.placement import Placement
from function.exchange import Answered, Call, Composed
from function.kube.manifests import Manifest, flag, get, listing, strings, text
from function.kube.names import COMPOSITION_KEY
from function.lifecycle.carry_over import carry_over
from function.lifecycle.object_writer import API_VERSION, NAMESPACE, object_name
from function.lifecycle.orphans import adopted
from function.lifecycle.ownership import is_ours
from function.lifecycle.services import SERVICE, service_name
from function.lifecycle.weights import CLAIM, JOB


def expected(call: Call, placement: Placement) -> list[str]:
    """Return the names of the Objects that may be there and are not observed."""
    seen = {text(manifest, "metadata.name") for manifest in call.observed.values()}
    listed = (ref for ref in listing(call.xr, "spec.crossplane.resourceRefs") if text(ref, "kind") == "Object")
    names = {text(ref, "name") for ref in listed if text(ref, "apiVersion") == API_VERSION}
    if not any(key.startswith(SERVICE) for key in call.observed):
        names |= {object_name(placement.name, key) for key in _keys(call.xr, placement)}
    return sorted(names - seen - {""})


def _keys(xr: Manifest, placement: Placement) -> set[str]:
    """Return the names of the composed resources that a placement says it has, and of the service it shall have."""
    said = {
        SERVICE: text(xr, "status.service.name"),
        CLAIM: text(xr, "status.storage.claimName"),
        JOB: text(xr, "status.storage.job"),
    }
    keys = {prefix + name for prefix, name in said.items() if name}
    wanted = {SERVICE + service_name(placement, placement.shape)} if placement.shape else set[str]()
    return {NAMESPACE, *keys, *wanted}


def found(call: Call, answers: Iterable[Answered]) -> dict[str, Manifest]:
    """Return those of the Objects that this composite composed, by composition-resource-name."""
    me, namespace = text(call.xr, "metadata.uid"), text(call.xr, "metadata.namespace")
    lost: dict[str, Manifest] = {}
    for manifest in (item.load() for answer in answers for item in answer):
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY, "")
        mine = me and _owner(manifest) == me and text(manifest, "metadata.namespace") == namespace
        gone = get(manifest, "metadata.deletionTimestamp") is not None
        if (
            mine
            and key
            and key not in call.observed
            and not gone
            and is_ours(text(call.xr, "metadata.name"), key, manifest)
        ):
            lost.setdefault(key, manifest)
    return lost


def kept(composed: Mapping[str, Composed], call: Call, lost: Mapping[str, Manifest]) -> Mapping[str, Composed]:
    """Return what is composed; where an orphan would leave, everything as it is, until Crossplane observes it."""
    return adopted(composed if lost.keys() <= composed.keys() else carry_over(call.observed), lost)


def with_orphans(call: Call, lost: Mapping[str, Manifest]) -> Call:
    """Return the call as Crossplane would have made it, had it seen everything."""
    return replace(call, observed={**call.observed, **lost})


def _owner(manifest: Manifest) -> str:
    owners = listing(manifest, "metadata.ownerReferences")
    return next((text(owner, "uid") for owner in owners if flag(owner, "controller")), "")
