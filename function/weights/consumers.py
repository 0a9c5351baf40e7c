"""Who reads which bytes: nothing that somebody reads is deleted.

A service reads what it was Ready on until it is Ready on something else, whatever is planned for it meanwhile, and from
when it is told to it may read something else. A placement says so in its status, and a ModelCache remembers by name who
reads from it: bytes go when every reader it knows is answered to be gone or to read something else, never because a
list does not show them.
"""

from collections.abc import Collection, Iterable, Mapping

from function.domain.cache import ModelCache, NamedCache, Reader
from function.domain.placement import Placement
from function.kube.manifests import Manifest, mapping, text
from function.remote.health import assess
from function.remote.object_writer import deletes
from function.remote.observed_object import ObservedObject, read

_URI = "spec.model.uri"
_CLAIM = "PersistentVolumeClaim"


def served_uri(wanted: ObservedObject, services: Iterable[Manifest], earlier: str) -> str:
    """Return where a placement's service reads: the wanted one where it is ready, else what was read before.

    `services` are all that are observed, for one that was never ready; `earlier` is what was found in an earlier call.
    """
    if wanted.present and assess(wanted.manifest).up:
        return text(wanted.manifest, _URI)
    seen = (text(read(service).manifest, _URI) for service in services)
    return earlier or text(wanted.manifest, _URI) or next(filter(None, seen), "")


def next_uri(services: Iterable[Manifest], served: str) -> str:
    """Return where a service is told to read other than what is served; empty where none is.

    It may do so at any moment, and be seen to do so much later.
    """
    told = (text(service, f"spec.forProvider.manifest.{_URI}") for service in services)
    return next((uri for uri in told if uri and uri != served), "")


def readers(cache: ModelCache, placements: Iterable[Placement], owned: Mapping[str, Collection[str]]) -> list[Reader]:
    """Return who reads from a cache: who names it, and whose service is still on a claim of its own.

    `owned` has the claims that would be deleted with their Objects, by environment.
    """
    found = []
    for placement in placements:
        if placement.namespace != cache.namespace:
            continue
        named = placement.cache == NamedCache(name=cache.name)
        ours = owned.get(placement.environment, ())
        if named or claim_of(placement.serving_uri) in ours or claim_of(placement.applied_uri) in ours:
            found.append(Reader(name=placement.name, environment=placement.environment, uri=_uri(placement)))
    return sorted(found, key=lambda reader: reader.name)


def _uri(placement: Placement) -> str:
    """Return what a placement reads, or will read once it has a service; empty where that is not known.

    Nor is it while its service is on the way from one to the other.
    """
    if placement.applied_uri:
        return ""
    return placement.serving_uri or ("" if placement.was_ready else placement.planned_uri)


def is_read(claims: Collection[str], known: Iterable[Reader], wanted: str = "") -> bool:
    """Tell whether a reader may be on one of these claims, other than where everybody shall be in the end."""
    return any(not r.uri or (r.uri != wanted and claim_of(r.uri) in claims) for r in known)


def may_be_read(claims: Collection[str], known: Iterable[Reader], users: Collection[Placement]) -> bool:
    """Tell whether anybody may be on one of these claims, where none is wanted any more.

    `users` name the cache there, and may be about to read it: a service says what it reads once it is up on that.
    """
    return bool(users) or is_read(claims, known)


def claim_of(uri: str) -> str:
    """Return the claim that a URI reads from, empty where it reads from none."""
    return uri.removeprefix("pvc://").partition("/")[0] if uri.startswith("pvc://") else ""


def claims(observed: Iterable[Manifest], *, owned: bool = False) -> frozenset[str]:
    """Return the names of the claims that Objects describe; `owned`: only those that would go with their Object."""
    manifests = ((composed, mapping(composed, "spec.forProvider.manifest")) for composed in observed)
    return frozenset(
        text(remote, "metadata.name")
        for composed, remote in manifests
        if text(remote, "kind") == _CLAIM and (not owned or deletes(composed))
    )
