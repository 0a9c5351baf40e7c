"""Parses platform-wide settings: the function's input, overridden by EnvironmentConfigs from the context.

A setting with a problem is reported and left out, so that the weaker level applies. If the setting decides what runs,
the settings are not valid, and composers change nothing until it is corrected (decision 36). Durations are Go's. The
blocks `download` and `kserve` also exist on environments, and are merged field by field over the weaker level.
"""

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from function import schemas
from function.api.problems import DURATION_FORM, PATTERN_FORMS, Parsed, Problems, find_unknown_fields, validate
from function.api.scaling import parse_autoscaling
from function.api.values import (
    check_env,
    dump,
    parse_duration,
    parse_image,
    parse_quantity,
    parse_url,
    refuse_templates,
)
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

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
OUR_KEY = "modelplane"

_META = ("apiVersion", "kind", "metadata")
_MAX_ID = 2**31 - 1
# As spec.priority and spec.priorityName of ModelDeployments allow.
_NAME, _MAX_NAME, _MAX_PRIORITY = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", 63, 1000
# Fields of the schema that `Settings` has, too.
_SAME_NAMES = {"secret_namespace", "object_watch", "remote_namespace_prefix"}
_GUARANTEES = ("guaranteedGpusPerNamespace", "guaranteedGpus")
# Settings that do not decide what runs. Without a valid Gateway, ModelServices stay as observed.
_HARMLESS = ("gates", "gateway", "limits", "objectWatch", "ttl")


def parse_settings(function_input: Manifest, context: Manifest) -> Parsed[Settings]:
    """Returns the settings, completed by the built-in defaults, and the problems of both levels."""
    environment = context.get(ENVIRONMENT_KEY)
    config = environment.get(OUR_KEY) if isinstance(environment, dict) else None
    fields: Manifest = {key: value for key, value in function_input.items() if key not in _META}
    weaker = _parse_level(fields, "input", BUILT_IN)
    merged = _parse_level({} if config is None else config, OUR_KEY, weaker.value)
    return Parsed(merged.value, weaker.problems + merged.problems)


def parse_download(block: schemas.Download | None, weaker: Download, problems: Problems) -> Download:
    if block is None:
        return weaker
    resources = block.resources
    security = block.security_context
    for side, amounts in (("requests", resources and resources.requests), ("limits", resources and resources.limits)):
        for name, amount in (amounts or {}).items():
            parse_quantity(amount, problems["resources"][side][name])
    check_env(block.env, problems["env"])
    for index, variable in enumerate(block.env or ()):
        if variable.name in (BACKOFF_LIMIT, JOB_NAME):
            allowed = "another name, because the download sets this variable itself"
            problems["env"][index]["name"].add_invalid(variable.name, allowed)
    for index, group in enumerate((security and security.supplemental_groups) or ()):
        if not 0 <= group <= _MAX_ID:
            problems["securityContext.supplementalGroups"][index].add_invalid(group, f"between 0 and {_MAX_ID}")
    refuse_templates(block, problems)
    parse_image(block.image, problems["image"])

    names = {field.alias or name: name for name, field in schemas.Download.model_fields.items()}
    chosen: dict[str, Any] = {}  # by the names of the schema, which `Download` has, too
    for key, value in dump(block).items():
        if value is not None and not problems[key].list():
            chosen[names[key]] = tuple(value) if isinstance(value, list) else value
    secrets = chosen.pop("image_pull_secrets", None)
    pull_secrets = weaker.image_pull_secrets if secrets is None else tuple(secret["name"] for secret in secrets)
    chosen["prepare"] = Prepare(block.prepare or weaker.prepare)
    return replace(weaker, **chosen, image_pull_secrets=pull_secrets)


def parse_kserve(block: schemas.Kserve | None, weaker: Kserve, problems: Problems) -> Kserve:
    refuse_templates(block, problems)
    return replace(weaker, **block.model_dump(exclude_none=True)) if block else weaker


def _parse_level(fields: JSON, path: str, weaker: Settings) -> Parsed[Settings]:
    """Returns the settings of one level merged over a weaker one, and the problems of this level."""
    if fields == {}:
        return Parsed(weaker, ())
    spec, problems = validate(schemas.Defaults, fields, path)
    problems.update(find_unknown_fields(schemas.Defaults, fields, path))
    at = problems["storageInitializerImage"]
    download = weaker.download
    refuse_templates(spec.storage_initializer_image, at)
    image = parse_image(spec.storage_initializer_image, at)
    if image and not at.list():
        download = replace(download, image=image)
    ttl = spec.ttl or schemas.Ttl()
    limits = _parse_limits(spec.limits or schemas.Limits(), weaker.limits, problems["limits"])
    own_limits = (spec.limits and spec.limits.namespaces) or {}
    gateway_refused = problems.refused or problems["gateway"].refused

    settings = replace(
        weaker,
        download=parse_download(spec.download, download, problems["download"]),
        kserve=parse_kserve(spec.kserve, weaker.kserve, problems["kserve"]),
        gateway=None if gateway_refused else _parse_gateway(spec.gateway, weaker.gateway, problems["gateway"]),
        storage_class=weaker.storage_class if spec.storage_class_name is None else spec.storage_class_name,
        ttl_settled=_parse_seconds(ttl.settled, weaker.ttl_settled, problems["ttl.settled"]),
        ttl_pending=_parse_seconds(ttl.pending, weaker.ttl_pending, problems["ttl.pending"]),
        autoscaling=parse_autoscaling(spec.autoscaling, weaker.autoscaling),
        limits=limits,
        namespace_limits=weaker.namespace_limits
        | {
            name: _parse_own_limits(own_limits.get(name), limits, problems["limits.namespaces"][name])
            for name, own in mapping(fields, "limits.namespaces").items()
            if own is not None
        },
        priorities=_parse_priorities(spec.limits, weaker.priorities, problems["limits.priorities"]),
        gates=weaker.gates if spec.gates is None else frozenset((gate.api_version, gate.kind) for gate in spec.gates),
        **spec.model_dump(include=_SAME_NAMES, exclude_none=True),
    )
    harmless = {problem for key in _HARMLESS for problem in problems[key].list()}
    return Parsed(replace(settings, valid=weaker.valid and harmless.issuperset(problems.list())), problems.list())


def _parse_limits(block: schemas.Limits, weaker: Limits, problems: Problems) -> Limits:
    """Returns the limits of each namespace without limits of its own."""
    has_cost = block.cost_per_hour is not None and not problems["costPerHour"].list()
    guarantee = problems["guaranteedGpusPerNamespace"].path
    without_quotas = (f"{problems.path}.namespaces.", problems["priorities"].path, guarantee)
    is_invalid = not all(problem.path.startswith(without_quotas) for problem in problems.list())
    hides_guarantee = _hides_guarantee(schemas.Limits, problems)
    gpus = weaker.gpus if block.gpus_per_namespace is None else block.gpus_per_namespace
    guaranteed = weaker.guaranteed_gpus
    if block.guaranteed_gpus_per_namespace is not None:
        guaranteed = block.guaranteed_gpus_per_namespace
    # The level that lowers the ceiling may leave the guarantee to the weaker one.
    changed = "gpusPerNamespace" if block.guaranteed_gpus_per_namespace is None else "guaranteedGpusPerNamespace"
    has_changed = (block.gpus_per_namespace, block.guaranteed_gpus_per_namespace) != (None, None)
    exceeds = has_changed and _exceeds_ceiling(guaranteed, gpus, problems, changed, "gpusPerNamespace")
    return Limits(
        placements=weaker.placements if block.placements_per_namespace is None else block.placements_per_namespace,
        gpus=gpus,
        guaranteed_gpus=guaranteed,
        guarantee_invalid=weaker.guarantee_invalid or hides_guarantee or exceeds,
        cost=_parse_cost(block.cost_per_hour, problems["costPerHour"]) if has_cost else weaker.cost,
        max_priority=weaker.max_priority if block.max_priority is None else block.max_priority,
        preempts=weaker.preempts if block.preemption is None else block.preemption == "LowerPriority",
        invalid=weaker.invalid or is_invalid,
    )


def _parse_priorities(block: schemas.Limits | None, weaker: dict[str, int], problems: Problems) -> dict[str, int]:
    """Returns the priorities by name, merged over a weaker level; those with a problem are left out."""
    accepted = dict(weaker)
    for name, priority in ((block and block.priorities) or {}).items():
        if len(name) > _MAX_NAME or not re.fullmatch(_NAME, name, re.ASCII):
            problems.add_invalid(name, f"{PATTERN_FORMS[_NAME]}, at most {_MAX_NAME} characters long")
        elif abs(priority) > _MAX_PRIORITY:
            problems[name].add_invalid(priority, f"between -{_MAX_PRIORITY} and {_MAX_PRIORITY}")
        else:
            accepted[name] = priority
    return accepted


def _parse_own_limits(block: schemas.Namespaces | None, general: Limits, problems: Problems) -> Limits:
    """Returns the limits of one namespace; the general limits replace invalid limits."""
    own = block or schemas.Namespaces()
    fallback = Limits()
    if any(problem.path != problems["guaranteedGpus"].path for problem in problems.list()):
        fallback = general if general.has_limits else Limits(invalid=True)
    hides_guarantee = _hides_guarantee(schemas.Namespaces, problems)
    gpus = own.gpus or fallback.gpus
    guaranteed = fallback.guaranteed_gpus if own.guaranteed_gpus is None else own.guaranteed_gpus
    exceeds = _exceeds_ceiling(guaranteed, gpus, problems, "guaranteedGpus", "gpus")
    return Limits(
        placements=own.placements or fallback.placements,
        gpus=gpus,
        guaranteed_gpus=guaranteed,
        guarantee_invalid=hides_guarantee or exceeds or fallback.guarantee_invalid,
        cost=_parse_cost(own.cost_per_hour, problems["costPerHour"]) or fallback.cost,
        max_priority=general.max_priority if own.max_priority is None else own.max_priority,
        preempts=general.preempts,
        invalid=fallback.invalid,
    )


def _hides_guarantee(schema: type[BaseModel], problems: Problems) -> bool:
    """Tells whether a block may have a guarantee that cannot be read: its other fields say nothing about it."""
    names = {field.alias or name for name, field in schema.model_fields.items()} - {*_GUARANTEES, "namespaces"}
    harmless = {problem for name in names for problem in problems[name].list()}
    below = f"{problems.path}.namespaces."
    return any(p not in harmless and not p.path.startswith(below) for p in problems.list())


def _exceeds_ceiling(guaranteed: int | None, gpus: int, problems: Problems, changed: str, ceiling: str) -> bool:
    """Adds a problem of the field that was changed if more is guaranteed than may be used."""
    if not gpus or guaranteed is None or guaranteed <= gpus or problems[ceiling].list():
        return False
    which = f"at least {guaranteed}, which are guaranteed" if changed == ceiling else f"at most {ceiling} ({gpus})"
    problems[changed].add_invalid(gpus if changed == ceiling else guaranteed, which)
    return True


def _parse_cost(block: schemas.CostPerHour | None, problems: Problems) -> Cost | None:
    """Returns a cost limit; None if it has problems or is 0."""
    if block is None or problems.list() or not Decimal(block.amount):
        return None
    return Cost(block.currency, Decimal(block.amount))


def _parse_gateway(
    block: schemas.DefaultsGateway | None, weaker: PlatformGateway | None, problems: Problems
) -> PlatformGateway | None:
    """Returns the Gateway of the control plane, which one level sets as a whole; None if it has problems."""
    if block is None:
        return weaker
    origin = parse_url(block.url, problems["url"])
    settle = _parse_seconds(block.settle, SETTLE_SECONDS, problems["settle"])
    if origin is None or problems.list():
        return None
    return PlatformGateway(
        name=block.name,
        namespace=block.namespace or BUILT_IN.secret_namespace,
        origin=origin,
        section_name=block.section_name or "",
        settle=settle,
    )


def _parse_seconds(duration: str | None, weaker: int, problems: Problems) -> int:
    """Returns a duration in seconds, rounded up. 0 is refused: no object would be reconciled again."""
    exact = parse_duration(duration)
    if exact is None:
        return weaker
    seconds = math.ceil(exact)
    if seconds < 1:
        problems.add_invalid(duration, DURATION_FORM)
        return weaker
    return seconds
