"""ModelService: one URL for deployments on many clusters.

It requires the placements of its backends by label; their statuses say how to reach them. A placement that the status
lists but the label does not find is required by name, since it may only have lost the label. It also requires its own
composed resources, because Crossplane may not observe them any more (remote/adoption.py). Its composed resources stay
as observed while a requirement is unanswered, while the spec is invalid, or while the platform names no Gateway.
"""

from collections.abc import Iterable
from typing import Any

from function.api.model_service import parse_model_service
from function.api.problems import Parsed
from function.contract import Call, Outcome, Requirement
from function.domain.model_service import ModelService
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.parts import requirements
from function.parts.outcome import keep_observed, unready_if_incomplete
from function.parts.part import Part, join_names, run_parts
from function.parts.routing import ENDPOINTS_PART, PER_GATEWAY, ROUTE_PART, ModelServiceContext
from function.reasons import BackendsResolved, ConditionType, Status
from function.remote.composed_kinds import OBJECT, NamePatterns, ResourceKind
from function.remote.object_writer import CLUSTER_SEPARATOR
from function.remote.provider_usage import PROVIDER_USAGE
from function.status import model_service as report
from function.status import references
from function.status.conditions import faulty
from function.traffic import routes
from function.traffic.endpoints import plan_traffic

PARTS: tuple[Part[ModelServiceContext, Any], ...] = (ROUTE_PART, ENDPOINTS_PART)
NAMES = NamePatterns({**join_names(PARTS), requirements.PROVIDER_USAGE: PER_GATEWAY + PROVIDER_USAGE})


def read(call: Call, _: Settings) -> Parsed[ModelService | None]:
    return parse_model_service(call.xr)


def compose(call: Call, parsed: Parsed[ModelService | None], settings: Settings) -> Outcome:
    service = parsed.value
    platform = settings.gateway
    if service is None:
        invalid = faulty(ConditionType.BACKENDS_RESOLVED, BackendsResolved.INVALID_SERVICE, parsed.problems)
        return keep_observed(call, settings, [invalid])
    placements = requirements.collect_placements(call, _require_placements(call, service))
    # Without the answers about its own resources, the route would leave out the orphans among them.
    if placements is None or any(key not in call.answers for key in require(call, parsed, settings)):
        return keep_observed(call, settings, [references.resolving(ConditionType.BACKENDS_RESOLVED)])
    placements = [placement for placement in placements if placement.deployment in service.backends]
    resolved = report.build_backends_resolved(service, placements)
    if platform is None:
        return keep_observed(call, settings, [resolved, report.build_route_ready(None, platform)])

    needs_definition = bool(_require_tls(call, placements))
    version = routes.TLS_KIND[0].rpartition("/")[2]
    serves_tls = not needs_definition or requirements.is_served(
        call.answers.get(requirements.TLS_DEFINITION, ()), version
    )
    traffic = plan_traffic(service, placements, call.observed, platform, call.now, serves_tls=serves_tls)
    context = ModelServiceContext(
        call=call, settings=settings, service=service, platform=platform, placements=placements, traffic=traffic
    )
    joined = run_parts(PARTS, context)
    conditions = (resolved, *joined.conditions)
    serves = all(c.status is Status.TRUE for c in conditions if c.type is not ConditionType.BACKENDS_ALIKE)
    ttl_seconds = settings.ttl_settled if serves else settings.ttl_pending
    return Outcome(
        composed=joined.desired.composed,
        drops=joined.desired.drops,
        status=report.build_status(service, platform, traffic),
        conditions=conditions,
        ready=unready_if_incomplete(joined.desired.composed, works=serves),
        ttl_seconds=min(ttl_seconds, traffic.wake_in or ttl_seconds),
    )


def require(call: Call, parsed: Parsed[ModelService | None], _: Settings) -> dict[str, Requirement]:
    kinds = _list_kinds(call)
    # ProviderConfigUsages follow from the Objects (composers/__init__.py). No decision reads them, so that finding them
    # by their label suffices.
    labelled = requirements.require_labelled_resources(call, (*kinds, requirements.PROVIDER_USAGE))
    required = requirements.require_unobserved_resources(call, kinds) | labelled
    service = parsed.value
    if service is None:
        return required
    placements = _require_placements(call, service)
    return required | placements | _require_tls(call, requirements.collect_placements(call, placements) or ())


def _list_kinds(call: Call) -> list[ResourceKind]:
    """Returns the kinds of which the service may have composed resources that Crossplane does not observe.

    If a kind does not exist, or Crossplane may not list it, requiring the kind would end every reconcile. A kind of
    Gateway API, or a kind whose rights come with those to routes, is required only once such a resource is observed.
    """
    kinds = [OBJECT]
    if routes.ROUTE in call.observed:
        kinds += [routes.SERVICE_KIND, routes.SLICE_KIND]
    if any(key.endswith(CLUSTER_SEPARATOR + routes.TLS) for key in call.observed):
        kinds.append(routes.TLS_KIND)
    return kinds


def _require_tls(call: Call, placements: Iterable[Placement]) -> dict[str, Requirement]:
    """Requires the CRD of BackendTLSPolicies if a gateway needs such a policy and none is observed.

    Composing a kind that the control plane does not serve would cost the ModelService its whole status.
    """
    is_needed = any(p.service.gateway is not None and p.service.gateway.origin.scheme == "https" for p in placements)
    if not is_needed or any(key.endswith(CLUSTER_SEPARATOR + routes.TLS) for key in call.observed):
        return {}
    return {requirements.TLS_DEFINITION: requirements.require_definition(routes.TLS_DEFINITION)}


def _require_placements(call: Call, service: ModelService) -> dict[str, Requirement]:
    """Requires the placements of the backends, by label and by name: a long name is only a hash in the label."""
    namespace = service.namespace
    labelled = {
        f"placements-of-{n}": requirements.require_placements(namespace, deployment=n) for n in service.backends
    }
    listed = [row.placement for entry in service.entries for row in entry.backends]
    return requirements.with_recorded_placements(call, labelled, listed, namespace)
