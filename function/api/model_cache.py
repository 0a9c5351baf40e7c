"""Parses ModelCaches, and the `modelCache` block of deployments and placements.

The block names a ModelCache, names an existing claim, or describes a claim to create. Fields that belong to another
form are refused and not ignored. `preload` and `retry` are settings of downloads and belong to both kinds of claims; a
ModelCache has them beside its `storage`.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from function import schemas
from function.api.problems import Parsed, Problems, validate
from function.api.values import check_alternatives, dump, parse_amount, parse_selector
from function.domain.cache import (
    CacheEntry,
    CacheType,
    Consumer,
    CreatedStorage,
    ModelCache,
    ModelCacheChoice,
    StorageChoice,
    UserClaim,
)
from function.domain.model import ModelRef
from function.domain.records.weights import parse_download
from function.kube.manifests import Manifest, flag, listing, text
from function.reasons import Phase

_CLAIM_FIELDS = ("type", "size", "storageClassName", "accessMode", "retain")
_DOWNLOAD_FIELDS = ("preload", "retry")
_DEFAULTS: Mapping[str, bool] = {"retain": False, "preload": True}  # the API server sets them with every form


def parse_cache_choice(block: schemas.ModelCache | None, problems: Problems) -> StorageChoice:
    block = block or schemas.ModelCache()
    if block.name:
        _refuse_fields(block, "name", ("claimName", *_CLAIM_FIELDS, *_DOWNLOAD_FIELDS), problems)
        return ModelCacheChoice(name=block.name)
    return _parse_claim(block, block, problems)


def parse_model_cache(manifest: Manifest) -> Parsed[ModelCache | None]:
    """Returns the cache; None if it has any problem."""
    spec, problems = validate(schemas.CacheSpec, manifest.get("spec"), "spec")
    check_alternatives(spec, ("environments", "environmentSelector"), problems, required=True)
    cache = ModelCache(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=ModelRef(kind=spec.model_ref.kind, name=spec.model_ref.name),
        environments=None if spec.environments is None else tuple(sorted(set(spec.environments))),
        selector=parse_selector(spec.environment_selector, problems["environmentSelector"]),
        choice=_parse_claim(spec.storage or schemas.CacheStorage(), spec, problems["storage"]),
        entries=tuple(_parse_entry(row) for row in listing(manifest, "status.environments")),
        consumers=tuple(
            Consumer(name=text(row, "name"), environment=text(row, "environment"), uri=text(row, "uri"))
            for row in listing(manifest, "status.readers")
        ),
    )
    all_problems = problems.list()
    return Parsed(None if all_problems else cache, all_problems)


def _parse_claim(
    block: schemas.ModelCache | schemas.CacheStorage,
    download: schemas.ModelCache | schemas.CacheSpec,
    problems: Problems,
) -> UserClaim | CreatedStorage:
    """Returns the claim of a block; a ModelCache, whose settings of downloads are in another block, has type PVC."""
    default_type = None if block is download else CacheType.PVC
    if block.claim_name:
        _refuse_fields(block, "claimName", _CLAIM_FIELDS, problems)
        return UserClaim(claim=block.claim_name, preload=download.preload, retry=download.retry or "")
    return CreatedStorage(
        type=_parse_type(block.type) if block.type else default_type,
        size=parse_amount(block.size, problems["size"]),
        class_name=block.storage_class_name,
        access_mode=block.access_mode,
        preload=download.preload,
        retain=block.retain,
        retry=download.retry or "",
    )


def _parse_type(value: str) -> CacheType:
    """Returns the type in its documented spelling; the schema has refused other words."""
    return next(type_ for type_ in CacheType if type_.lower() == value.lower())


def _refuse_fields(block: BaseModel, form: str, others: tuple[str, ...], problems: Problems) -> None:
    fields = dump(block)
    for key in others:
        if fields.get(key) is not None and fields[key] != _DEFAULTS.get(key):
            problems[key].add_invalid(fields[key], f"left out together with {form}")


def _parse_entry(row: Manifest) -> CacheEntry:
    phase = text(row, "phase")
    return CacheEntry(
        environment=text(row, "name"),
        phase=Phase(phase) if phase in set(Phase) else Phase.PENDING,
        unreachable=flag(row, "unreachable"),
        access_mode=text(row, "accessMode"),
        message=text(row, "message"),
        download=parse_download(row),
    )
