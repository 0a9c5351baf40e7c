"""Who needs a ModelCache: those that name it, and where its bytes shall go too, those that read the same directory."""

from collections.abc import Iterator

from function.cli.store import Ref, Store
from function.kube.manifests import Manifest, get, listing, text


def users(store: Store, cache: Ref, *, bytes_too: bool) -> list[str]:
    """Return what uses a ModelCache; deployments that are not placed yet count."""
    found = set(_naming(store, cache))
    if bytes_too:
        found |= set(_reading(store, cache))
    return sorted(found)


def _naming(store: Store, cache: Ref) -> Iterator[str]:
    for manifest in (*store.all("ModelDeployment"), *store.all("ModelPlacement")):
        named = text(manifest, "spec.modelCache.name") == cache.name
        if named and text(manifest, "metadata.namespace") == cache.namespace:
            yield _by(manifest, cache)
    used = get(store.get(cache), "status.usedBy")
    yield from (f"ModelDeployment {cache.namespace}/{name}" for name in (used if isinstance(used, list) else []))


def _reading(store: Store, cache: Ref) -> Iterator[str]:
    """Return who else has its weights in a directory that the cache filled."""
    places = set(_places(store.get(cache)))
    for manifest in store.all("ModelPlacement"):
        here = text(manifest, "spec.inferenceEnvironmentRef.name")
        stored = (here, text(manifest, "status.storage.claimName"), text(manifest, "status.storage.path"))
        if stored in places and text(manifest, "metadata.namespace") == cache.namespace:
            yield _by(manifest, cache)
    for manifest in store.all("ModelCache"):
        other = Ref.of(manifest)
        if other != cache and other.namespace == cache.namespace and places.intersection(_places(manifest)):
            yield str(other)


def _places(cache: Manifest | None) -> Iterator[tuple[str, str, str]]:
    for entry in listing(cache, "status.environments"):
        if text(entry, "claimName"):
            yield text(entry, "name"), text(entry, "claimName"), text(entry, "path")


def _by(manifest: Manifest, cache: Ref) -> str:
    deployment = text(manifest, "spec.deploymentRef.name")
    return f"ModelDeployment {cache.namespace}/{deployment}" if deployment else str(Ref.of(manifest))
