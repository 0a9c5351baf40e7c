"""ModelPlacements, for two readers: the ledger, which must not lose one, and the composer that executes it.

The ledger charges what a placement's spec says, so there is none only where no environment is named. A topology
that cannot be read leaves `shape` None, and any other field that cannot be read counts as absent; what is wrong
with them stands beside the placement, and keeps it from being executed.
"""

from dataclasses import replace

from function import schemas
from function.api.common import is_current, is_ready, parse_model_ref, parse_shape, parse_share
from function.api.model_cache import parse_cache_choice, parse_hydration
from function.api.parse_cache import ParseCache
from function.api.problems import Parsed, validate
from function.domain.allocation import Share
from function.domain.placement import Placement
from function.kube import names, quantity
from function.kube.manifests import Manifest, condition, flag, get, listing, mapping, strings, text
from function.reasons import Admitted, ConditionType, Phase, ServiceReady, Status

_BEFORE_SERVING = (
    ConditionType.REFERENCES_RESOLVED,
    ConditionType.ADMITTED,
    ConditionType.STORAGE_READY,
    ConditionType.SERVICE_ACCEPTED,
)
_NOT_KNOWN = {ServiceReady.UNREACHABLE, ServiceReady.SYNC_FAILED}


def parse_placement(manifest: Manifest) -> Parsed[Placement | None]:
    """Returns the placement as far as it can be parsed; None if it names no environment."""
    spec, problems = validate(schemas.PlacementSpec, manifest.get("spec"), "spec")
    shape = parse_shape(spec.topology, "spec.topology", problems)
    cache = parse_cache_choice(spec.model_cache, "spec.modelCache", problems)
    environment = spec.inference_environment_ref.name
    if not environment:
        return Parsed(None, problems.within("spec"))
    admitted = condition(manifest, ConditionType.ADMITTED).get("reason")
    placement = Placement(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        deployment=spec.deployment_ref.name if spec.deployment_ref else "",
        model=parse_model_ref(spec.model_ref),
        environment=environment,
        profile=spec.profile,
        pool=spec.pool,
        shape=shape,
        replicas=spec.replicas,
        cache=cache,
        uid=text(manifest, "metadata.uid"),
        created=text(manifest, "metadata.creationTimestamp"),
        vram=quantity.parse_or_none(strings(manifest, "metadata.annotations").get(names.ANNOTATION_VRAM)),
        exclusive_replica_nodes=strings(manifest, "metadata.annotations").get(names.ANNOTATION_EXCLUSIVE_NODES)
        == "true",
        was_ready=flag(manifest, "status.served"),
        ready=_answers(manifest),
        unreachable=_unreachable(manifest),
        deleting=get(manifest, "metadata.deletionTimestamp") is not None,
        phase=_phase(manifest),
        obstacle=_obstacle(manifest),
        url=text(manifest, "status.service.url"),
        planned_uri=text(manifest, "status.storage.uri"),
        serving_uri=text(manifest, "status.service.uri"),
        applied_uri=text(manifest, "status.service.appliedUri"),
        claim_mode=text(manifest, "status.storage.accessMode"),
        hydration=parse_hydration(mapping(manifest, "status.storage")),
        owner=_owner(manifest),
        labels=tuple(sorted(strings(manifest, "metadata.labels").items())),
        over_quota=admitted == Admitted.QUOTA_EXCEEDED,
        cannot_start=admitted == Admitted.CANNOT_START,
        acknowledged=is_current(manifest),
    )
    takes = _takes(manifest, placement)
    placement = replace(
        placement, allocated=takes and replace(takes, exclusive_replica_nodes=placement.exclusive_replica_nodes)
    )
    return Parsed(placement, problems.within("spec"))


# Of all placements, whichever composer is sent them.
PLACEMENTS: ParseCache[Placement | None] = ParseCache(lambda manifest: parse_placement(manifest).value)


def _takes(manifest: Manifest, placement: Placement) -> Share | None:
    """Return what its service takes; of one that an earlier release wrote, what its spec asks for."""
    service = mapping(manifest, "status.service")
    if text(service, "pool"):
        return parse_share(service)
    return placement.requested if placement.ever_ready or placement.serving_uri else None


def _owner(manifest: Manifest) -> str:
    owners = listing(manifest, "metadata.ownerReferences")
    return next((text(owner, "uid") for owner in owners if flag(owner, "controller")), "")


def _unreachable(manifest: Manifest) -> bool:
    service = condition(manifest, ConditionType.SERVICE_READY)
    return service.get("status") == Status.UNKNOWN and service.get("reason") in _NOT_KNOWN


def _answers(manifest: Manifest) -> bool:
    """Tell whether it serves: core's Ready waits for its next weights as well."""
    serves = condition(manifest, ConditionType.SERVICE_READY).get("status") == Status.TRUE
    return (serves and is_current(manifest, ConditionType.SERVICE_READY)) or is_ready(manifest)


def _obstacle(manifest: Manifest) -> str:
    """Return the first condition before its service's that is not True, in the order of what is carried out."""
    for type_ in _BEFORE_SERVING:
        found = condition(manifest, type_)
        if found and found.get("status") != Status.TRUE:
            return f"{type_} is {text(found, 'status')} ({text(found, 'reason')})"
    return ""


def _phase(manifest: Manifest) -> Phase:
    """Return what it says of itself, where it serves the present spec."""
    phase = text(manifest, "status.phase")
    if phase == Phase.READY and not _answers(manifest):
        return Phase.STARTING
    return Phase(phase) if phase in tuple(Phase) else Phase.PENDING
