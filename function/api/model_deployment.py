"""Parses ModelDeployments, and ModelPlacements for the ledger and for the composer that executes them.

The ledger must not lose a placement, so a placement has no value only if it names no environment. A topology
with problems leaves `shape` None, and any other field with problems counts as absent. A placement with problems is not
executed.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from function import schemas
from function.api.adapters import parse_adapters
from function.api.cluster_model import parse_shape
from function.api.model_cache import parse_cache_choice
from function.api.model_service import check_routing
from function.api.parse_cache import ParseCache
from function.api.problems import Parsed, Problems, find_nearest, format_value, validate
from function.api.scaling import parse_load
from function.api.values import parse_selector, sort_entries
from function.domain.allocation import Price
from function.domain.model import ModelRef, Problem
from function.domain.placement import Deployment, Gate, Placement, Preference, Rollout
from function.domain.records.admission import parse_admission
from function.domain.records.restarts import parse_restarts
from function.domain.records.rollout import parse_rollout
from function.domain.records.service import parse_service
from function.domain.records.weights import parse_download, parse_weights
from function.kube import names, quantity
from function.kube.manifests import (
    Manifest,
    condition,
    find_controller,
    flag,
    integer,
    is_condition_current,
    is_deleting,
    is_ready,
    listing,
    mapping,
    parse_time,
    strings,
    text,
)
from function.kube.selectors import Toleration
from function.reasons import OWNED, ConditionType, Phase, ServiceReady, Status

MAX_ENVIRONMENTS = 100  # of a deployment (apis/modeldeployments/definition.yaml)

_BEFORE_SERVING = [type_ for type_ in OWNED["ModelPlacement"] if type_ is not ConditionType.SERVICE_READY]
_PRICE = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,16})?) ([A-Z]{3})", re.ASCII)
_UNREACHABLE_REASONS = {ServiceReady.UNREACHABLE, ServiceReady.SYNC_FAILED}


def parse_deployment(manifest: Manifest) -> Parsed[Deployment | None]:
    """Returns the deployment; None if it has any problem."""
    spec, problems = validate(schemas.DeploymentSpec, manifest.get("spec"), "spec")
    load = parse_load(spec.scaling, problems["scaling"])
    divides_replicas = spec.scaling.replica_scheduling == "Divided"
    deployment = Deployment(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=ModelRef(kind=spec.model_ref.kind, name=spec.model_ref.name),
        environments=spec.environments or (MAX_ENVIRONMENTS if divides_replicas else 1),
        replicas=load.limit(spec.scaling.fixed.replicas) if load else spec.scaling.fixed.replicas,
        load=load,
        fixed_guaranteed=spec.scaling.fixed.guaranteed,
        priority=spec.priority,
        divides_replicas=divides_replicas,
        selector=parse_selector(spec.environment_selector, problems["environmentSelector"]),
        tolerations=_parse_tolerations(spec.tolerations or (), problems["tolerations"]),
        storage_choice=parse_cache_choice(spec.model_cache, problems["modelCache"]),
        adapters=parse_adapters(spec.adapters, text(manifest, "metadata.namespace"), problems["adapters"]),
        prefer=Preference(spec.placement.prefer) if spec.placement else Preference.DECLARED,
        rollout=_parse_rollout(spec.rollout),
        replaces_when_full=spec.rollout is not None and spec.rollout.when_full == "Replace",
        composes_model_service=spec.service is not None,
        priority_name=spec.priority_name or "",
    )
    if spec.priority_name and spec.priority:
        # Not 0: the API server sets the default.
        problems["priorityName"].add_invalid(spec.priority_name, "left out together with priority")
    if spec.service:
        check_routing(spec.service, problems["service"])
    all_problems = problems.list()
    return Parsed(None if all_problems else deployment, all_problems)


def resolve_priority(deployment: Deployment, priorities: Mapping[str, int]) -> Parsed[int | None]:
    """Returns the priority that a deployment requests, as a number or by name; None if its name is not known.

    `priorities`: those of the platform settings, by name.
    """
    name = deployment.priority_name
    if not name or name in priorities:
        return Parsed(priorities[name] if name else deployment.priority)
    known = sorted(priorities)
    close = find_nearest(name, known)
    hint = f" (did you mean {close}?)" if close else ""
    allowed = f"must be one of {', '.join(known)}{hint}" if known else "there are no names, so set priority"
    message = f"{format_value(name)} is not a name of limits.priorities in the platform settings; {allowed}"
    return Parsed(None, (Problem("spec.priorityName", message),))


def _parse_rollout(block: schemas.Rollout | None) -> Rollout | None:
    if block is None or block.environments != "OneByOne":
        return None
    gate = Gate(**block.gate.model_dump()) if block.gate else None
    return Rollout(order=tuple(block.order or ()), paused=block.paused, gate=gate)


def _parse_tolerations(blocks: Sequence[schemas.DeploymentToleration], problems: Problems) -> tuple[Toleration, ...]:
    """Returns the tolerations; a toleration that Kubernetes would refuse is a problem."""
    for index, block in enumerate(blocks):
        exists = block.operator == "Exists"
        if not exists and not block.key:
            problems[index]["key"].add_required("unless operator is Exists")
        if exists and block.value:
            problems[index]["value"].add_invalid(block.value, "left out for operator Exists")
    return tuple(
        Toleration(
            key=block.key or "",
            any_value=block.operator == "Exists",
            value=block.value or "",
            effect=block.effect or "",
        )
        for block in blocks
    )


def parse_placement(manifest: Manifest) -> Parsed[Placement | None]:
    """Returns the placement as far as it can be parsed; None if it names no environment."""
    spec, problems = validate(schemas.PlacementSpec, manifest.get("spec"), "spec")
    shape = parse_shape(spec.topology, problems["topology"])
    cache = parse_cache_choice(spec.model_cache, problems["modelCache"])
    adapters = parse_adapters(spec.adapters, text(manifest, "metadata.namespace"), problems["adapters"])
    environment = spec.inference_environment_ref.name
    if not environment:
        return Parsed(None, problems.list())
    annotations = strings(manifest, "metadata.annotations")
    is_exclusive = annotations.get(names.ANNOTATION_EXCLUSIVE_NODES) == "true"
    price = _PRICE.fullmatch(annotations.get(names.ANNOTATION_PRICE, ""))
    deployment_created = annotations.get(names.ANNOTATION_DEPLOYMENT_CREATED, "")
    phase = text(manifest, "status.phase")
    service_ready = condition(manifest, ConditionType.SERVICE_READY)
    is_current = is_condition_current(manifest, ConditionType.SERVICE_READY)
    is_service_ready = service_ready.get("status") == Status.TRUE and is_current
    # Crossplane's Ready is False while a serving placement waits for new weights.
    is_serving = is_service_ready or is_ready(manifest)
    if phase == Phase.READY and not is_serving:
        phase = Phase.STARTING
    placement = Placement(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        deployment=spec.deployment_ref.name if spec.deployment_ref else "",
        model=ModelRef(kind=spec.model_ref.kind, name=spec.model_ref.name),
        environment=environment,
        profile=spec.profile,
        pool=spec.pool,
        shape=shape,
        replicas=spec.replicas,
        guaranteed=spec.guaranteed_replicas,
        preemptible=bool(spec.preemptible),
        priority=spec.priority or 0,
        storage_choice=cache,
        adapters=adapters,
        uid=text(manifest, "metadata.uid"),
        generation=integer(manifest, "metadata.generation"),
        version=text(manifest, "metadata.resourceVersion"),
        created=text(manifest, "metadata.creationTimestamp"),
        deployment_created=deployment_created if parse_time(deployment_created) is not None else "",
        vram=quantity.parse_or_none(annotations.get(names.ANNOTATION_VRAM)),
        exclusive_replica_nodes=is_exclusive,
        price=Price(per_gpu_hour=Decimal(price[1]), currency=price[2]) if price else None,
        has_served=flag(manifest, "status.served"),
        ready=is_serving,
        unready_since=None if is_service_ready else parse_time(text(service_ready, "lastTransitionTime")),
        unreachable=service_ready.get("status") == Status.UNKNOWN
        and text(service_ready, "reason") in _UNREACHABLE_REASONS,
        deleting=is_deleting(manifest),
        phase=Phase(phase) if phase in set(Phase) else Phase.PENDING,
        obstacle=_describe_obstacle(manifest),
        lists_objects=any(text(ref, "kind") == "Object" for ref in listing(manifest, "spec.crossplane.resourceRefs")),
        owner=find_controller(manifest, names.GROUP, "ModelDeployment"),
        labels=sort_entries(strings(manifest, "metadata.labels")),
        status_is_current=bool(mapping(manifest, "status")) and is_condition_current(manifest),
        allowed_digest=spec.rollout.digest if spec.rollout else None,
        replaces_when_full=spec.rollout is not None and spec.rollout.when_full == "Replace",
        draining=bool(spec.draining),
        admission=parse_admission(manifest),
        weights=parse_weights(mapping(manifest, "status.storage")),
        adapter_downloads=tuple(
            (text(row, "name"), parse_download(row)) for row in listing(manifest, "status.adapters")
        ),
        service=parse_service(mapping(manifest, "status"), exclusive_replica_nodes=is_exclusive),
        rollout=parse_rollout(mapping(manifest, "status.rollout")),
        restarts=parse_restarts(mapping(manifest, "status.restarts")),
        retry=spec.retry or "",
    )
    return Parsed(placement, problems.list())


PLACEMENT_CACHE: ParseCache[Placement | None] = ParseCache(lambda manifest: parse_placement(manifest).value)


def _describe_obstacle(manifest: Manifest) -> str:
    """Returns the first condition before ServiceReady that is not True, in the order of the steps."""
    for type_ in _BEFORE_SERVING:
        step = condition(manifest, type_)
        if step and step.get("status") != Status.TRUE:
            obstacle = f"{type_} is {text(step, 'status')} ({text(step, 'reason')})"
            names = (text(row, "name") for row in listing(manifest, "status.adapters"))
            # Names of the adapters that the message is about; otherwise, it is about the model.
            of_adapter = [
                f" for adapter {name}" for name in names if text(step, "message").startswith(f"Adapter {name}:")
            ]
            return "".join((obstacle, *of_adapter[:1]))
    return ""
