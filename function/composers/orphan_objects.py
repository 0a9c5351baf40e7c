"""Objects that a ModelPlacement or a ModelCache composed and Crossplane does not observe.

Crossplane knows what it composed from the composite's own list, which it may have read from before its last write, and
reads each Object from a cache of its own. What it does not see it neither shows nor deletes: composed no more, an
Object runs on with nobody to delete it. So all Objects are asked for by their label in every call, whatever the list
names beside what is observed by its name too, and so is, as long as none is observed, a service, which an earlier
release did not label, and the one Usage of a placement. One that is found counts as observed, and leaves in no call
but one in which it is: until then nothing is made by it, since it may be gone by now, and composing it makes the Object
anew.
"""

from collections.abc import Iterable, Mapping

from function.contract import Answer, Answered, Call, Composed, Requirement
from function.domain.placement import Placement
from function.kube.manifests import Manifest, flag, get, listing, strings, text
from function.kube.names import COMPOSITION_KEY
from function.remote.carry_over import carry_over, finished
from function.remote.object_writer import API_VERSION, object_name
from function.remote.orphans import adopted, with_orphans
from function.remote.ownership import is_ours
from function.serving.reconcile import SERVICE, service_name
from function.weights import cache_usage


def expected(call: Call, placement: Placement | None) -> list[str]:
    """Return the names of the Objects that may be there and are not observed, whatever their labels."""
    seen = {text(manifest, "metadata.name") for manifest in call.observed.values()}
    listed = (ref for ref in listing(call.xr, "spec.crossplane.resourceRefs") if text(ref, "kind") == "Object")
    names = {text(ref, "name") for ref in listed if text(ref, "apiVersion") == API_VERSION}
    if not any(key.startswith(SERVICE) for key in call.observed):
        owner = text(call.xr, "metadata.name")
        names |= {object_name(owner, SERVICE + name) for name in _services(call.xr, placement)}
    return sorted(names - seen - {""})


def _services(xr: Manifest, placement: Placement | None) -> set[str]:
    """Return the names of the services that a placement says it has, and of the one it shall have."""
    wanted = {service_name(placement, placement.shape)} if placement and placement.shape else set[str]()
    return {text(xr, "status.service.name"), *wanted} - {""}


def found(call: Call, answers: Iterable[Answered]) -> dict[str, Manifest]:
    """Return those of the Objects that this composite composed, by composition-resource-name."""
    return {key: m for key, m in _unlisted(call, answers).items() if not _is_deleting(m)}


def find_ending(call: Call, answers: Iterable[Answered]) -> dict[str, Manifest]:
    """Returns the Objects of this composite that are being deleted, by composition-resource-name.

    What they describe is on the cluster until they are gone.
    """
    return {key: m for key, m in _unlisted(call, answers).items() if _is_deleting(m)}


def _is_deleting(manifest: Manifest) -> bool:
    return get(manifest, "metadata.deletionTimestamp") is not None


def _unlisted(call: Call, answers: Iterable[Answered]) -> dict[str, Manifest]:
    """Returns the Objects that this composite composed and Crossplane does not observe; one that stays comes first."""
    me, namespace = text(call.xr, "metadata.uid"), text(call.xr, "metadata.namespace")
    seen = {text(manifest, "metadata.name") for manifest in call.observed.values()}
    uids = {text(manifest, "metadata.uid") for manifest in call.observed.values()} - {""}
    lost: dict[str, Manifest] = {}
    for manifest in (item.load() for answer in answers for item in answer if item.uid not in uids):
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY, "")
        mine = me and _owner(manifest) == me and text(manifest, "metadata.namespace") == namespace
        stays = key not in lost or (_is_deleting(lost[key]) and not _is_deleting(manifest))
        if (
            mine
            and key
            and key not in call.observed
            and text(manifest, "metadata.name") not in seen
            and is_ours(text(call.xr, "metadata.name"), key, manifest)
            and stays
        ):
            lost[key] = manifest
    return lost


def kept(composed: Mapping[str, Composed], call: Call, lost: Mapping[str, Manifest]) -> Mapping[str, Composed]:
    """Return what is composed, and what would leave of the orphans until Crossplane observes it.

    As long as one is a service everything stays as it is: it may have pods where another would get its own.
    """
    leaving = {key: finished(lost[key]) for key in lost.keys() - composed.keys()}
    held = any(key.startswith(SERVICE) for key in leaving)
    return adopted({**(carry_over(call.observed) if held else composed), **leaving}, lost)


def everything_as_it_is(call: Call, asked: Mapping[str, Requirement]) -> Mapping[str, Composed]:
    """Return everything as it is: what is observed, and what was found of the Objects that were asked for."""
    answers = [call.answer(name) for name, wanted in asked.items() if wanted.kind in {"Object", cache_usage.KIND}]
    lost = found(call, [answer for answer in answers if answer is not Answer.PENDING])
    return adopted(carry_over(with_orphans(call, lost).observed), lost)


def _owner(manifest: Manifest) -> str:
    owners = listing(manifest, "metadata.ownerReferences")
    return next((text(owner, "uid") for owner in owners if flag(owner, "controller")), "")
