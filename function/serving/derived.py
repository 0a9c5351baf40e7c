"""What of a service nobody asked for: numbers that we derive, and what is built in where nobody names another.

A service that an earlier release wrote carries no wish. Whether it is what is wished for now is told by writing it
anew and taking all this from the one that runs: if the rest is the same, nothing that its pods must see has changed.
"""

from function.domain.settings import Initializer
from function.kube.manifests import JSON, Manifest, listing, mapping, text

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_PODS = ("template", "worker")
_INITIALIZERS = "spec.template.initContainers"


def as_observed(built: Manifest, observed: Manifest) -> Manifest:
    """Return a service with the probes and the shared memory of the one that is observed."""
    spec = {**mapping(built, "spec")}
    for part in _PODS:
        if part in spec:
            spec[part] = _pod(mapping(spec, part), mapping(observed, f"spec.{part}"))
    return {**built, "spec": spec}


def initializer_as_observed(built: Manifest, observed: Manifest, given: Initializer) -> Manifest:
    """Return a service with the initializer that is observed, where it differs in what is built in alone."""
    ours, theirs = (listing(service, _INITIALIZERS) for service in (built, observed))
    if len(theirs) != 1 or not all(_alike(one, theirs[0], given) for one in ours):
        return built
    template: Manifest = {**mapping(built, "spec.template"), "initContainers": [*theirs]}
    return {**built, "spec": {**mapping(built, "spec"), "template": template}}


def shared_memory_as_built(service: Manifest, built: Manifest) -> Manifest:
    """Return a service with the shared memory of the one that is built: what was asked for, or is no longer."""
    spec = {**mapping(service, "spec")}
    for part in _PODS:
        theirs = _named(listing(built, f"spec.{part}.volumes"))
        volumes = [theirs.get(text(v, "name"), v) if _in_memory(v) else v for v in listing(spec, f"{part}.volumes")]
        if volumes:
            spec[part] = {**mapping(spec, part), "volumes": [*volumes]}
    return {**service, "spec": spec}


def _pod(built: Manifest, observed: Manifest) -> Manifest:
    containers: list[JSON] = [_container(container, observed) for container in listing(built, "containers")]
    volumes: list[JSON] = [_volume(volume, observed) for volume in listing(built, "volumes")]
    return {**built, "containers": containers, **({"volumes": volumes} if volumes else {})}


def _container(built: Manifest, observed: Manifest) -> Manifest:
    found = _named(listing(observed, "containers")).get(text(built, "name"), {})
    probes = {probe: found[probe] for probe in _PROBES if probe in found and probe in built}
    return {**built, **probes}


def _volume(built: Manifest, observed: Manifest) -> Manifest:
    found = _named(listing(observed, "volumes")).get(text(built, "name"), {})
    return found if _in_memory(found) else built


def _in_memory(volume: Manifest) -> bool:
    return text(volume, "emptyDir.medium") == "Memory"


def _named(entries: list[Manifest]) -> dict[str, Manifest]:
    return {text(entry, "name"): entry for entry in entries}


def _alike(ours: Manifest, theirs: Manifest, given: Initializer) -> bool:
    named = given.named
    wanted = listing(named, "env")
    built_in = {text(entry, "name") for entry in listing(ours, "env") if entry not in wanted}
    return (
        # Only another pin of the same image; what a platform named earlier was never built in.
        (
            ours.get("image") == theirs.get("image")
            or ("image" not in named and _repository(ours) == _repository(theirs))
        )
        and ("resources" not in named or ours.get("resources") == theirs.get("resources"))
        and [entry for entry in listing(theirs, "env") if text(entry, "name") not in built_in] == wanted
        and ours.get("envFrom") == theirs.get("envFrom")
    )


def _repository(container: Manifest) -> str:
    return text(container, "image").partition(":")[0]
