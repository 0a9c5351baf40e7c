"""What a ModelService has: a route on the control plane, and for each gateway resources there and on the GPU cluster.

The names of all resources for a gateway start with the key of this gateway.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from function.contract import Call, Composed, Desired, Drop
from function.domain.model_service import ModelService
from function.domain.placement import Placement
from function.domain.settings import PlatformGateway, Settings
from function.parts.outcome import build_writer
from function.parts.part import Decisions, Part, PartOutcome
from function.remote.composed_kinds import OBJECT, assess
from function.remote.object_writer import CLUSTER_SEPARATOR, ManagementPolicy, carry_over, with_resource_version
from function.status import model_service as report
from function.traffic import routes
from function.traffic.endpoints import Endpoint, Traffic

PER_GATEWAY = rf"gateway-[0-9a-f]{{8}}{CLUSTER_SEPARATOR}"  # `Site.key`


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServiceContext:
    """What the parts of a ModelService read."""

    call: Call
    settings: Settings
    service: ModelService
    platform: PlatformGateway
    placements: Sequence[Placement]  # of its backends
    traffic: Traffic


def _compose_route(context: ModelServiceContext, _: Decisions) -> PartOutcome[None]:
    """Composes the control plane's route over the observed version: a route from fewer inputs must not replace it."""
    observed = context.call.observed.get(routes.ROUTE)
    manifest = routes.build_route(context.service, context.platform, context.traffic.weights)
    route = with_resource_version(Composed(manifest=manifest, ready=assess(observed or {}).up), observed or {})
    return PartOutcome(
        decision=None,
        desired=Desired({routes.ROUTE: route}),
        conditions=(report.build_route_ready(observed, context.platform),),
    )


def _compose_endpoints(context: ModelServiceContext, _: Decisions) -> PartOutcome[None]:
    desired = Desired()
    for endpoint in context.traffic.endpoints:
        desired |= _compose_endpoint(context, endpoint)
    return PartOutcome(
        decision=None,
        desired=desired,
        conditions=(
            report.build_endpoints_ready(context.traffic),
            report.build_backends_alike(context.service, context.placements),
        ),
    )


ROUTE_PART = Part(run=_compose_route, names={routes.ROUTE_KIND: routes.ROUTE})
ENDPOINTS_PART = Part(
    run=_compose_endpoints,
    names={
        OBJECT: PER_GATEWAY + routes.REMOTE_ROUTE,
        routes.SERVICE_KIND: PER_GATEWAY + routes.GATEWAY_SERVICE,
        routes.SLICE_KIND: PER_GATEWAY + routes.SLICE,
        routes.TLS_KIND: PER_GATEWAY + routes.TLS,
    },
)


def _compose_endpoint(context: ModelServiceContext, endpoint: Endpoint) -> Desired:
    site = endpoint.site
    if site is None:
        return Desired()
    prefix = site.key + CLUSTER_SEPARATOR
    if endpoint.leaving:
        return Desired(carry_over(site.observed)).with_prefix(prefix)
    if not endpoint.service_weights or site.gateway is None:
        why = "nothing serves behind its gateway, and no request can reach it any more"
        return Desired(drops=tuple(Drop(prefix + key, why) for key in site.observed))
    gateway = site.gateway
    writer = build_writer(context.call, context.settings, gateway.provider_config, site.observed, scope=site.key)
    route = routes.build_remote_route(
        context.service, gateway, site.remote_namespace, endpoint.service_weights, endpoint.pools
    )
    composed = {routes.REMOTE_ROUTE: writer.compose(routes.REMOTE_ROUTE, route, ManagementPolicy.FULL)}
    for key, manifest in routes.build_local_resources(context.service, gateway).items():
        composed[key] = Composed(manifest=manifest, ready=key in site.observed)
    return Desired(composed).with_prefix(prefix)
