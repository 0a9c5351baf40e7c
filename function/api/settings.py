"""Parses platform-wide settings: the function's input, overridden by EnvironmentConfigs from the context.

A setting with a problem is reported and left out, so that the weaker level applies. Where it decides what runs, the
settings are not valid, and composers change nothing until it is corrected (decision 36). Durations are Go's. The blocks
`download` and `kserve` also exist on environments, and are merged field by field over the weaker level.
"""

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

from function import schemas
from function.api.problems import DURATION_FORM, Parsed, Problems, find_unknown_fields, validate
from function.api.values import check_env, dump, parse_image, parse_quantity, parse_url, refuse_templates
from function.domain.allocation import Cost, Limits
from function.domain.settings import (
    BACKOFF_LIMIT,
    BUILT_IN,
    JOB_NAME,
    SETTLE_SECONDS,
    Download,
    Kserve,
    PlatformGateway,
    Prepare,
    Settings,
)
from function.kube.manifests import JSON, Manifest, mapping

T = TypeVar("T")

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
OUR_KEY = "modelplane"

_META = ("apiVersion", "kind", "metadata")
_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", re.ASCII)
_MAX_ID = 2**31 - 1
# Settings that decide nothing about what runs. Without a valid Gateway, ModelServices stay as observed.
_HARMLESS = ("gates", "gateway", "limits", "objectWatch", "ttl")


def parse_settings(function_input: Manifest, context: Manifest) -> Parsed[Settings]:
    """Returns the settings, completed by the built-in defaults, and the problems of both levels."""
    environment = context.get(ENVIRONMENT_KEY)
    config = environment.get(OUR_KEY) if isinstance(environment, dict) else None
    fields: Manifest = {key: value for key, value in function_input.items() if key not in _META}
    weaker = _parse_level(fields, "input", BUILT_IN)
    merged = _parse_level({} if config is None else config, OUR_KEY, weaker.value)
    return Parsed(merged.value, weaker.problems + merged.problems)


def parse_download(block: schemas.Download | None, weaker: Download, path: str, problems: Problems) -> Download:
    """Returns the settings of downloads, merged over weaker ones."""
    if block is None:
        return weaker
    resources, security = block.resources, block.security_context
    for side, amounts in (("requests", resources and resources.requests), ("limits", resources and resources.limits)):
        for name, amount in (amounts or {}).items():
            parse_quantity(amount, f"{path}.resources.{side}.{name}", problems)
    check_env(block.env, f"{path}.env", problems)
    for index, variable in enumerate(block.env or ()):
        if variable.name in (BACKOFF_LIMIT, JOB_NAME):
            allowed = "another name, because the download sets this variable itself"
            problems.add_invalid(f"{path}.env[{index}].name", variable.name, allowed)
    for index, group in enumerate((security and security.supplemental_groups) or ()):
        if not 0 <= group <= _MAX_ID:
            at = f"{path}.securityContext.supplementalGroups[{index}]"
            problems.add_invalid(at, group, f"between 0 and {_MAX_ID}")
    refuse_templates(block, path, problems)
    parse_image(block.image, f"{path}.image", problems)

    names = {field.alias or name: name for name, field in schemas.Download.model_fields.items()}
    chosen: dict[str, Any] = {}  # by the names of the schema, which `Download` has, too
    for key, value in dump(block).items():
        if value is not None and not problems.find_within(f"{path}.{key}"):
            chosen[names[key]] = tuple(value) if isinstance(value, list) else value
    secrets = chosen.pop("image_pull_secrets", None)
    pull_secrets = weaker.image_pull_secrets if secrets is None else tuple(secret["name"] for secret in secrets)
    chosen["prepare"] = Prepare(block.prepare or weaker.prepare)
    return replace(weaker, **chosen, image_pull_secrets=pull_secrets)


def parse_kserve(block: schemas.Kserve | None, weaker: Kserve, path: str, problems: Problems) -> Kserve:
    """Returns the settings of KServe's installation, merged over weaker ones."""
    refuse_templates(block, path, problems)
    return replace(weaker, **block.model_dump(exclude_none=True)) if block else weaker


def _parse_level(fields: JSON, path: str, weaker: Settings) -> Parsed[Settings]:
    """Returns the settings of one level merged over a weaker one, and the problems of this level."""
    if fields == {}:
        return Parsed(weaker, ())
    spec, problems = validate(schemas.Defaults, fields, path)
    problems.update(find_unknown_fields(schemas.Defaults, fields, path))
    image_path, download = f"{path}.storageInitializerImage", weaker.download
    refuse_templates(spec.storage_initializer_image, image_path, problems)
    image = parse_image(spec.storage_initializer_image, image_path, problems)
    if image and not problems.find_within(image_path):
        download = replace(download, image=image)
    ttl = spec.ttl or schemas.Ttl()
    limits = _parse_limits(spec.limits or schemas.Limits(), weaker.limits, f"{path}.limits", problems)
    own_limits = (spec.limits and spec.limits.namespaces) or {}
    gateway_path = f"{path}.gateway"
    refused = problems.refuses(path) or problems.refuses(gateway_path)

    def choose(value: T | None, default: T) -> T:
        return default if value is None else value

    settings = Settings(
        download=parse_download(spec.download, download, f"{path}.download", problems),
        kserve=parse_kserve(spec.kserve, weaker.kserve, f"{path}.kserve", problems),
        gateway=None if refused else _parse_gateway(spec.gateway, weaker.gateway, gateway_path, problems),
        storage_class=choose(spec.storage_class_name, weaker.storage_class),
        ttl_settled=_parse_seconds(ttl.settled, weaker.ttl_settled, f"{path}.ttl.settled", problems),
        ttl_pending=_parse_seconds(ttl.pending, weaker.ttl_pending, f"{path}.ttl.pending", problems),
        secret_namespace=choose(spec.secret_namespace, weaker.secret_namespace),
        limits=limits,
        namespace_limits=weaker.namespace_limits
        | {
            name: _parse_own_limits(own_limits.get(name), limits, f"{path}.limits.namespaces.{name}", problems)
            for name, own in mapping(fields, "limits.namespaces").items()
            if own is not None
        },
        object_watch=choose(spec.object_watch, weaker.object_watch),
        gates=weaker.gates if spec.gates is None else frozenset((gate.api_version, gate.kind) for gate in spec.gates),
        remote_namespace_prefix=choose(spec.remote_namespace_prefix, weaker.remote_namespace_prefix),
    )
    found = problems.find_within(path)
    harmless = {problem for key in _HARMLESS for problem in problems.find_within(f"{path}.{key}")}
    return Parsed(replace(settings, valid=weaker.valid and harmless.issuperset(found)), found)


def _parse_limits(block: schemas.Limits, weaker: Limits, path: str, problems: Problems) -> Limits:
    """Returns the limits of each namespace that has none of its own."""
    cost = _parse_cost(block.cost_per_hour, f"{path}.costPerHour", problems)
    found = problems.find_within(path)
    return Limits(
        placements=weaker.placements if block.placements_per_namespace is None else block.placements_per_namespace,
        gpus=weaker.gpus if block.gpus_per_namespace is None else block.gpus_per_namespace,
        cost=weaker.cost if cost is None else cost,
        invalid=weaker.invalid or not all(problem.path.startswith(f"{path}.namespaces.") for problem in found),
    )


def _parse_own_limits(block: schemas.Namespaces | None, general: Limits, path: str, problems: Problems) -> Limits:
    """Returns the limits of one namespace; the general ones in place of those that are invalid."""
    own, fallback = block or schemas.Namespaces(), Limits()
    if problems.find_within(path):
        fallback = general if general.any else Limits(invalid=True)
    return Limits(
        placements=own.placements or fallback.placements,
        gpus=own.gpus or fallback.gpus,
        cost=_parse_cost(own.cost_per_hour, f"{path}.costPerHour", problems) or fallback.cost,
        invalid=fallback.invalid,
    )


def _parse_cost(block: schemas.CostPerHour | None, path: str, problems: Problems) -> Cost | None:
    """Returns a limit of costs; None where it has problems or is 0."""
    if block is None or problems.find_within(path) or not Decimal(block.amount):
        return None
    return Cost(block.currency, Decimal(block.amount))


def _parse_gateway(
    block: schemas.DefaultsGateway | None, weaker: PlatformGateway | None, path: str, problems: Problems
) -> PlatformGateway | None:
    """Returns the Gateway of the control plane, which one level sets as a whole; None if it has problems."""
    if block is None:
        return weaker
    origin = parse_url(block.url, f"{path}.url", problems)
    settle = _parse_seconds(block.settle, SETTLE_SECONDS, f"{path}.settle", problems)
    if origin is None or problems.find_within(path):
        return None
    return PlatformGateway(
        name=block.name,
        namespace=block.namespace or BUILT_IN.secret_namespace,
        origin=origin,
        section_name=block.section_name or "",
        settle=settle,
    )


def _parse_seconds(duration: str | None, weaker: int, path: str, problems: Problems) -> int:
    """Returns a duration in seconds, rounded up; without a duration no object would be reconciled again."""
    if duration is None:
        return weaker
    seconds = math.ceil(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(duration)))
    if seconds < 1:
        problems.add_invalid(path, duration, DURATION_FORM)
        return weaker
    return seconds
