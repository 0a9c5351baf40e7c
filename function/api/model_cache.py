"""ModelCaches, and the `modelCache` block with which deployments choose how their weights reach the pods.

The block names a ModelCache, or a claim of the user's, or describes a claim that is made; what is said beside
a form that it does not belong to is refused instead of ignored. `preload` and `retry` belong to downloads,
hence to both kinds of claims; a ModelCache has them beside its `storage`.
"""

from collections.abc import Mapping
from dataclasses import replace

from function.api.block import Block
from function.api.common import parse_model_ref, parse_selector
from function.api.problems import Parsed
from function.domain.cache import (
    CacheChoice,
    CacheEntry,
    CacheType,
    Consumer,
    Hydration,
    ManagedCache,
    ModelCache,
    NamedCache,
    UserClaim,
)
from function.kube.manifests import Manifest, flag, get, listing, text
from function.reasons import Phase
from function.schemas import CacheSpec

_OF_MANAGED = ("type", "size", "storageClassName", "accessMode", "retain")
_OF_DOWNLOADS = ("preload", "retry")
# Defaults that the API server writes beside every form.
_DEFAULTS: Mapping[str, bool] = {"retain": False, "preload": True}


def parse_cache_choice(block: Block) -> CacheChoice:
    """Return how the weights reach the pods; without the block the number of nodes decides it."""
    if name := block.text("name"):
        _stand_alone(block, "name", ("claimName", *_OF_MANAGED, *_OF_DOWNLOADS))
        return NamedCache(name=name)
    return _claim(block, block)


def parse_model_cache(manifest: Manifest) -> Parsed[ModelCache | None]:
    """Return the cache, None where it has any fault."""
    spec = Block.checked(CacheSpec, manifest.get("spec"), "spec")
    listed, selected = spec.has("environments"), spec.has("environmentSelector")
    if listed and selected:
        spec.deny("environmentSelector", "left out together with environments")
    if not listed and not selected:
        spec.demand("environments", "unless environmentSelector is set")
    choice = _claim(spec.block("storage"), spec)
    if isinstance(choice, ManagedCache):
        choice = replace(choice, type=CacheType.PVC)
    cache = ModelCache(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        uid=text(manifest, "metadata.uid"),
        model=parse_model_ref(spec),
        environments=tuple(sorted(set(spec.texts("environments")))) if listed else None,
        selector=parse_selector(spec.block("environmentSelector")),
        choice=choice,
        entries=tuple(_entry(entry) for entry in listing(manifest, "status.environments")),
        readers=tuple(_reader(entry) for entry in listing(manifest, "status.readers")),
        deleting=get(manifest, "metadata.deletionTimestamp") is not None,
    )
    problems = spec.problems()
    return Parsed(None if problems else cache, problems)


def _claim(block: Block, download: Block) -> UserClaim | ManagedCache:
    preload, retry = download.flag("preload", default=True), download.text("retry")
    if claim := block.text("claimName"):
        _stand_alone(block, "claimName", _OF_MANAGED)
        return UserClaim(claim=claim, preload=preload, retry=retry)
    type_ = block.text("type")
    return ManagedCache(
        type=CacheType(type_) if type_ else None,
        size=block.amount("size"),
        class_name=block.optional_text("storageClassName"),
        access_mode=block.optional_text("accessMode"),
        preload=preload,
        retain=block.flag("retain", default=False),
        retry=retry,
    )


def _stand_alone(block: Block, form: str, others: tuple[str, ...]) -> None:
    for key in others:
        if block.has(key) and block.fields[key] != _DEFAULTS.get(key):
            block.deny(key, f"left out together with {form}")


def _reader(entry: Manifest) -> Consumer:
    return Consumer(name=text(entry, "name"), environment=text(entry, "environment"), uri=text(entry, "uri"))


def _entry(entry: Manifest) -> CacheEntry:
    phase = text(entry, "phase")
    return CacheEntry(
        environment=text(entry, "name"),
        phase=Phase(phase) if phase in tuple(Phase) else Phase.PENDING,
        unreachable=flag(entry, "unreachable"),
        access_mode=text(entry, "accessMode"),
        message=text(entry, "message"),
        hydration=parse_hydration(entry),
    )


def parse_hydration(status: Manifest) -> Hydration:
    """Return what a status remembers of a download."""
    return Hydration(
        claim=text(status, "claimName"),
        path=text(status, "path"),
        completed_at=text(status, "completedAt"),
        namespace=text(status, "namespace"),
        claim_uid=text(status, "claimUid"),
        retry=text(status, "retry"),
    )
