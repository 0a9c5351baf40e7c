"""What of a service nobody asked for: numbers that we derive, and what is built in where nobody names another.

A service that an earlier release wrote carries no wish. Whether it is what is wished for now is told by writing it
anew and taking all this from the one that runs: if the rest is the same, nothing that its pods must see has changed.
"""

from dataclasses import replace

from function.domain.model import Spread
from function.domain.settings import Initializer
from function.kube.manifests import JSON, Manifest, integer, listing, mapping, prune, text
from function.serving.engines import DRAINING
from function.serving.pods import CERTIFICATES
from function.serving.probes import PERIOD
from function.serving.request import ServingRequest
from function.serving.runtime import CACHE, READY_TIMEOUT, VARIABLES
from function.serving.spread import affinity, keeps_pods_apart
from function.storage.initializer import pinned_alike

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_PODS = ("template", "worker")
_OF_PODS = ("enableServiceLinks", "terminationGracePeriodSeconds")
_OF_CONTAINERS = ("lifecycle",)
_SHELL: list[JSON] = ["/bin/bash", "-c"]
_INITIALIZERS = "spec.template.initContainers"


def as_observed(built: Manifest, observed: Manifest, request: ServingRequest) -> Manifest:
    """Return a service with everything derived as in the one that is observed; `built` was made of this request."""
    spec = {**mapping(built, "spec")}
    said = frozenset(text(entry, "name") for entry in request.profile.engine.env)
    for part in _PODS:
        if part in spec:
            spec[part] = _pod(mapping(spec, part), mapping(observed, f"spec.{part}"), said)
    return {**built, "spec": spec}


def spread_as_observed(built: Manifest, observed: Manifest, request: ServingRequest) -> Manifest:
    """Return a service whose pods may share nodes, where nobody said that they may not and those observed may."""
    profile, spec = request.profile, {**mapping(built, "spec")}
    if profile.pods_across_nodes is not None or keeps_pods_apart(mapping(observed, "spec.worker")):
        return built
    anywhere = affinity(replace(profile, pods_across_nodes=Spread.NONE), request.name, request.shape.nodes)
    for part in _PODS:
        if part in spec:
            spec[part] = prune({**mapping(spec, part), "affinity": anywhere})
    return {**built, "spec": spec}


def initializer_as_observed(built: Manifest, observed: Manifest, given: Initializer) -> Manifest:
    """Return a service with the initializer that is observed, where it differs in what is built in alone."""
    ours, theirs = (listing(service, _INITIALIZERS) for service in (built, observed))
    if len(theirs) != 1 or not all(_alike(one, theirs[0], given) for one in ours):
        return built
    template: Manifest = {**mapping(built, "spec.template"), "initContainers": [*theirs]}
    there = _named(listing(observed, "spec.template.volumes"))
    volumes = [v for v in listing(template, "volumes") if v["name"] != CERTIFICATES or CERTIFICATES in there]
    # An earlier release pulled no initializer with anything of its own.
    others = [s for s in listing(template, "imagePullSecrets") if text(s, "name") not in given.pull_secrets]
    if listing(observed, "spec.template.imagePullSecrets") == others:
        template["imagePullSecrets"] = [*others]
    kept = _taken({**template, "volumes": [*volumes]}, {}, ())
    return {**built, "spec": {**mapping(built, "spec"), "template": kept}}


def shared_memory_as_built(service: Manifest, built: Manifest) -> Manifest:
    """Return a service with the shared memory of the one that is built: what was asked for, or is no longer."""
    spec = {**mapping(service, "spec")}
    for part in _PODS:
        theirs = _named(listing(built, f"spec.{part}.volumes"))
        volumes = [theirs.get(text(v, "name"), v) if _in_memory(v) else v for v in listing(spec, f"{part}.volumes")]
        if volumes:
            spec[part] = {**mapping(spec, part), "volumes": [*volumes]}
    return {**service, "spec": spec}


def _pod(built: Manifest, observed: Manifest, said: frozenset[str]) -> Manifest:
    containers: list[JSON] = [_container(container, observed, said) for container in listing(built, "containers")]
    found = _named(listing(observed, "volumes"))
    volumes = [_volume(v, observed) for v in listing(built, "volumes") if v["name"] != CACHE or CACHE in found]
    return _taken({**built, "containers": containers, "volumes": [*volumes]}, observed, _OF_PODS)


def _container(built: Manifest, observed: Manifest, said: frozenset[str]) -> Manifest:
    found = _named(listing(observed, "containers")).get(text(built, "name"), {})
    mounts = listing(found, "volumeMounts")
    lists: Manifest = {
        "command": _script(_items(built, "command"), _items(found, "command")),
        "args": [arg for arg in _items(built, "args") if arg != DRAINING or arg in _items(found, "args")],
        "env": _variables(listing(built, "env"), found, said),
        "volumeMounts": [m for m in listing(built, "volumeMounts") if m["name"] != CACHE or m in mounts],
    }
    probes = {probe: found[probe] for probe in _PROBES if probe in found and probe in built}
    return _taken({**built, **probes, **lists}, found, _OF_CONTAINERS)


def _taken(built: Manifest, observed: Manifest, keys: tuple[str, ...]) -> Manifest:
    """Return a part of a pod with these fields as observed, or without; lists of nothing are left out."""
    kept: Manifest = {key: value for key, value in built.items() if key not in keys and value != []}
    return kept | {key: observed[key] for key in keys if key in observed}


def _items(container: Manifest, key: str) -> list[JSON]:
    found = container.get(key)
    return found if isinstance(found, list) else []


def _script(built: list[JSON], observed: list[JSON]) -> list[JSON]:
    """Return a command with the script that runs, where both are a script of ours."""
    ours = built[:2] == observed[:2] == _SHELL
    return [*_SHELL, observed[2], *built[3:]] if ours and len(observed) > len(_SHELL) else built


def _variables(built: list[Manifest], found: Manifest, said: frozenset[str]) -> list[JSON]:
    """Return variables without those of ours that are not there; of ours a number counts as it is there."""
    there = _named(listing(found, "env"))
    kept: list[JSON] = []
    for entry in built:
        name = text(entry, "name")
        if name not in VARIABLES or name in said:
            kept.append(entry)
        elif name in there:
            derived = name == READY_TIMEOUT and text(there[name], "value") == _seconds(found)
            kept.append(there[name] if derived else entry)
    return kept


def _seconds(container: Manifest) -> str:
    return str(integer(container, "startupProbe.failureThreshold") * PERIOD)


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
        pinned_alike(text(ours, "image"), text(theirs, "image"))
        and ("resources" not in named or ours.get("resources") == theirs.get("resources"))
        and [entry for entry in listing(theirs, "env") if text(entry, "name") not in built_in] == wanted
        and ours.get("envFrom") == theirs.get("envFrom")
    )
