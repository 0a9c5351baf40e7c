"""Parses platform-wide settings: the function's input, overridden by EnvironmentConfigs from the context.

A setting with a problem is reported and left out, so that the weaker level applies: one bad setting must not stop every
object at once. Durations are Go's. The blocks `download` and `kserve` also exist on environments, and are
merged field by field over the weaker level.
"""

import math
import re
from dataclasses import replace
from decimal import Decimal

from function.api.block import Block, check_env, refuse_templates
from function.api.problems import Parsed, find_unknown_fields, invalid_value, join_path
from function.domain.allocation import Limits
from function.domain.settings import BACKOFF_LIMIT, BUILT_IN, JOB_NAME, Download, Kserve, Prepare, Settings
from function.kube.manifests import JSON, Manifest, prune
from function.schemas import Defaults

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
OUR_KEY = "modelplane"
_IMAGE = "storageInitializerImage"

_META = ("apiVersion", "kind", "metadata")
_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def parse_settings(function_input: Manifest, context: Manifest) -> Parsed[Settings]:
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
        download=parse_download(block.block("download"), download),
        kserve=parse_kserve(block.block("kserve"), weaker.kserve),
        storage_class=block.optional_text("storageClassName", weaker.storage_class),
        ttl_settled=_seconds(ttl, "settled", weaker.ttl_settled),
        ttl_pending=_seconds(ttl, "pending", weaker.ttl_pending),
        secret_namespace=block.text("secretNamespace", weaker.secret_namespace),
        limits=_limits(block.block("limits"), weaker.limits),
        object_watch=block.flag("objectWatch", weaker.object_watch),
        remote_namespace_prefix=block.text("remoteNamespacePrefix", weaker.remote_namespace_prefix),
    )
    return Parsed(settings, tuple(sorted({*block.problems(), *find_unknown_fields(Defaults, fields, path)})))


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


_LARGEST_ID = 2**31 - 1


def parse_download(block: Block, weaker: Download) -> Download:
    """Return the settings of downloads, completed by weaker ones."""
    if not block.fields:
        return weaker
    for side in ("requests", "limits"):
        amounts = block.block("resources").block(side)
        for name in amounts.fields:
            amounts.quantity(name, "")
    check_env(block)
    for item in block.blocks("env"):
        if item.text("name") in (BACKOFF_LIMIT, JOB_NAME):
            item.deny("name", "another: the download sets this one itself")
    _check_groups(block.block("securityContext"))
    refuse_templates(block)
    pull_secrets = tuple(item.text("name") for item in block.blocks("imagePullSecrets"))
    image = block.image("image")
    return Download(
        image=image if block.sound("image") else weaker.image,
        resources=block.block("resources").fields if block.sound("resources") else weaker.resources,
        env=block.maps("env") if block.sound("env") else weaker.env,
        node_selector=dict(block.strings("nodeSelector")) if block.sound("nodeSelector") else weaker.node_selector,
        tolerations=block.maps("tolerations") if block.sound("tolerations") else weaker.tolerations,
        service_account=block.optional_text("serviceAccountName", weaker.service_account),
        pull_secrets=pull_secrets if block.sound("imagePullSecrets") else weaker.pull_secrets,
        token_secret=block.optional_text("tokenSecretName", weaker.token_secret),
        deadline_seconds=block.integer("activeDeadlineSeconds", weaker.deadline_seconds),
        backoff_limit=block.integer("backoffLimit", weaker.backoff_limit),
        security=block.block("securityContext").fields if block.sound("securityContext") else weaker.security,
        prepare=Prepare(block.text("prepare", weaker.prepare)),
    )


def _check_groups(security: Block) -> None:
    groups = security.fields.get("supplementalGroups")
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(group, int) and not 0 <= group <= _LARGEST_ID:
            path = join_path(security.at("supplementalGroups"), index)
            security.faults.add(invalid_value(path, group, f"between 0 and {_LARGEST_ID}"))


def parse_kserve(block: Block, weaker: Kserve) -> Kserve:
    """Return the settings of KServe's installation, completed by weaker ones."""
    refuse_templates(block)
    return Kserve(
        namespace=block.text("namespace", weaker.namespace),
        config_prefix=block.text("configPrefix", weaker.config_prefix),
        gateway=block.flag("gateway", weaker.gateway),
        tls=block.flag("tls", weaker.tls),
    )
