"""Advice on deployments: ways out of a refusal, and what moving placements to cheaper pools would save.

Both are decided from all that is known, which the controller does not read for one deployment. Nothing is carried out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from function.api.settings import parse_settings
from function.cli.composing import build_first_call, reconcile
from function.cli.store import Ref, Store, read_placements
from function.composers.model_deployment import Considered, decide
from function.domain.allocation import Cost
from function.domain.environment import Environment
from function.domain.placement import Placement, Preference
from function.scheduling import ways_out
from function.scheduling.quota import namespace_usage
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from function.scheduling.ways_out import WayOut


class Saving(NamedTuple):
    """What moving a placement that runs to a cheaper pool would save."""

    cost: Cost
    message: str


def find_savings(
    considered: Considered, environments: Iterable[Environment], placements: Iterable[Placement]
) -> Iterator[Saving]:
    """Finds for each kept placement of a deployment a cheaper pool of an environment that it does not use yet."""
    request, decision = considered.request, considered.decision
    kept = [(a.cost, a.environment) for a in decision.assignments if a.placement and a.cost and not a.is_rescheduled]
    own = (request.deployment.namespace, request.deployment.name)
    used = {a.environment for a in decision.assignments} | {p.environment for p in considered.scope.own}
    others = [p for p in placements if kept and (p.namespace, p.deployment) != own]
    cheapest = replace(request, deployment=replace(request.deployment, environments=1, prefer=Preference.CHEAPEST))
    unused = [environment for environment in environments if kept and environment.name not in used]
    for cost, environment in sorted(kept, reverse=True):
        comparable = [
            replace(e, pools=tuple(p for p in e.pools if p.price and p.price.currency == cost.currency)) for e in unused
        ]
        for to in schedule(cheapest, comparable, others).assignments:
            if to.cost and to.cost < cost:
                unused = [e for e in unused if e.name != to.environment]
                saved = Cost(cost.currency, cost.amount - to.cost.amount)
                where = f"{environment}: costs {cost}, on {to.environment}/{to.pool} {to.cost}"
                yield Saving(saved, f"{where}: moving it would save {saved}; what runs does not move for money")


def find_ways_out(store: Store, ref: Ref, considered: Considered) -> tuple[WayOut, ...]:
    """Finds the ways out of the refusals of a deployment, given the placements of all others."""
    call = build_first_call(store, store[ref])
    settings = parse_settings(call.input, call.context).value
    placements, requests = read_placements(store), dict[Ref, SchedulingRequest | None]()

    def find_request(placement: Placement) -> SchedulingRequest | None:
        owner = Ref("ModelDeployment", placement.namespace, placement.deployment)
        if owner not in requests:
            usage = namespace_usage(owner.namespace, placements, settings.limits_of(owner.namespace))
            other = _decide(store, owner) if owner in store else None
            requests[owner] = replace(other.request, quota_usage=usage) if other else None
        return requests[owner]

    others = [p for p in placements if (p.namespace, p.deployment) != (ref.namespace, ref.name)]
    return ways_out.find_ways_out(considered.build_world(others, find_request), considered.decision)


def _decide(store: Store, ref: Ref) -> Considered | None:
    """Decides a deployment; None where something that it needs is missing or invalid."""
    call, _ = reconcile(store, store[ref])
    considered = decide(call, parse_settings(call.input, call.context).value)
    return considered if isinstance(considered, Considered) else None
