"""What the platform set once for all: the function's input, and above it EnvironmentConfigs from context.

A fault is reported and what it concerns is left out, so that the weaker level shows through: a slip in a
setting must not stop every object at once. Durations are Go's.
"""

import math
import re
from dataclasses import replace
from decimal import Decimal

from function.api.block import Block
from function.api.downloads import read_download, read_kserve
from function.api.fields import unknown_fields
from function.api.parsed import Parsed
from function.api.templates import refuse_templates
from function.domain.quota import Limits
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import JSON, Manifest, prune
from function.schemas import Defaults

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
OUR_KEY = "modelplane"
_IMAGE = "storageInitializerImage"

_META = ("apiVersion", "kind", "metadata")
_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def read_settings(function_input: Manifest, context: Manifest) -> Parsed[Settings]:
    """Return the settings, completed by what is built in, and what was wrong with them."""
    environment = context.get(ENVIRONMENT_KEY)
    ours = environment.get(OUR_KEY) if isinstance(environment, dict) else None
    said = {key: value for key, value in function_input.items() if key not in _META}
    weaker = _level(said, "input", BUILT_IN)
    merged = _level({} if ours is None else ours, OUR_KEY, weaker.value)
    return Parsed(merged.value, weaker.problems + merged.problems)


def _level(fields: JSON, path: str, weaker: Settings) -> Parsed[Settings]:
    """Return the settings of one level over those of a weaker one, and the faults of this level."""
    if isinstance(fields, dict):
        fields = prune(fields)
    block = Block.checked(Defaults, fields, path)
    refuse_templates(block, _IMAGE)
    image = block.image(_IMAGE)
    download = replace(weaker.download, image=image if block.sound(_IMAGE) else weaker.download.image)
    ttl = block.block("ttl")
    settings = Settings(
        download=read_download(block.block("download"), download),
        kserve=read_kserve(block.block("kserve"), weaker.kserve),
        storage_class=block.optional_text("storageClassName", weaker.storage_class),
        ttl_settled=_seconds(ttl, "settled", weaker.ttl_settled),
        ttl_pending=_seconds(ttl, "pending", weaker.ttl_pending),
        secret_namespace=block.text("secretNamespace", weaker.secret_namespace),
        limits=_limits(block.block("limits"), weaker.limits),
        object_watch=block.flag("objectWatch", weaker.object_watch),
        remote_namespace_prefix=block.text("remoteNamespacePrefix", weaker.remote_namespace_prefix),
    )
    return Parsed(settings, tuple(sorted({*block.problems(), *unknown_fields(Defaults, fields, path)})))


def _limits(block: Block, weaker: Limits) -> Limits:
    return Limits(
        placements=block.integer("placementsPerNamespace", weaker.placements),
        gpus=block.integer("gpusPerNamespace", weaker.gpus),
    )


def _seconds(block: Block, key: str, weaker: int) -> int:
    """Return a duration in whole seconds, rounded up; none at all would switch the wake-up off."""
    found = block.fields.get(key)
    if not isinstance(found, str):
        return weaker
    parts = _PART.findall(found) if len(found) <= 32 and _DURATION.fullmatch(found) else ()
    seconds = math.ceil(sum(Decimal(number) * _SECONDS[unit] for number, unit in parts))
    if seconds < 1:
        block.deny(key, "a duration like 30s, 10m or 1h30m")
        return weaker
    return seconds
