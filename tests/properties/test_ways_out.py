"""Following a way out makes a deployment fit, whatever the world is, and takes GPUs from no placement without a place.

Worlds are drawn from seeds: deployments are placed one after the other by the scheduler itself, until one is refused.
Its advice is carried out on the world, whose ledgers are computed again, and it is decided again.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from function.capacity.ledger import admit_placements
from function.capacity.quota import namespace_usage
from function.domain.allocation import Free, Limits, Price
from function.domain.environment import Environment, PoolFacts
from function.domain.model import BandwidthRequirement, Profile
from function.domain.placement import Placement
from function.kube.names import LABEL_ENVIRONMENT
from function.kube.selectors import NO_SCHEDULE, Selector, Taint, Toleration
from function.reasons import Refused
from function.scheduling.limits import limit_decision
from function.scheduling.refusals import Field
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, Decision, SchedulingRequest
from function.scheduling.ways_out import Snapshot, Way, WayOut, find_ways_out
from tests.support.builders import (
    deployment,
    environment,
    model,
    planner,
    pool,
    profile,
    requires,
    selector,
    shape,
    with_service,
)

WORLDS = 60
FIELDS = {
    Field.MEMORY_PER_GPU: "memory_per_gpu",
    Field.NVLINK_DOMAIN: "nvlink_domain",
    Field.INTERCONNECT: "interconnect",
    Field.ACCELERATOR_TYPE: "accelerator_type",
    Field.BANDWIDTH: "bandwidth",
    Field.PRECISION: "precision",
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """Environments, what is placed on them, and the requests of all deployments by name."""

    environments: dict[str, Environment]
    placements: tuple[Placement, ...]
    requests: dict[str, SchedulingRequest]
    limits: Limits

    def publish(self) -> "Fleet":
        """Return the fleet with new ledgers; environments from files have none."""
        published = {}
        for name, each in self.environments.items():
            published[name] = each
            if each.uid:
                ledger = admit_placements(each, self.placements)
                free = {
                    p: Free(placements=held.capacity.placements, nodes=tuple(sorted(held.capacity.free.items())))
                    for p, held in ledger.pools.items()
                }
                published[name] = replace(each, free=free, admitted=ledger.grants, rejected=frozenset(ledger.rejected))
        return replace(self, environments=published)

    def decide(self, name: str, *only: str) -> Decision:
        """Return the decision on a deployment, within the quota."""
        request = self.requests[name]
        environments = [e for e in self.environments.values() if not only or e.name in only]
        usage = namespace_usage("team", self.placements, self.limits)
        decision = schedule(request, environments, self.placements, usage=usage)
        return limit_decision(decision, request.to_placement, self.placements, self.limits)

    def place(self, name: str, assignment: Assignment, created: str) -> "Fleet":
        """Return the fleet with a placement of a deployment, where it was decided."""
        planned = self.requests[name].to_placement(assignment)
        uid = f"{name}-{assignment.environment}"
        planned = replace(
            planned, uid=uid, name=uid, created=created, owner="owner",
            labels=((LABEL_ENVIRONMENT, assignment.environment),),
        )  # fmt: skip
        others = tuple(p for p in self.placements if p.uid != uid)
        return replace(self, placements=(*others, planned)).publish()

    def change(self, changed: Environment) -> "Fleet":
        """Return the fleet with another state of an environment."""
        return replace(self, environments={**self.environments, changed.name: changed}).publish()

    def ways_out(self, name: str, decision: Decision) -> tuple[WayOut, ...]:
        """Return the advice for a deployment."""
        usage = namespace_usage("team", self.placements, self.limits)

        def find_request(placement: Placement) -> SchedulingRequest | None:
            return replace(self.requests[placement.deployment], quota_usage=usage)

        others: dict[str, list[Placement]] = {}
        for placement in self.placements:
            if placement.deployment != name:
                others.setdefault(placement.environment, []).append(placement)
        world = Snapshot(
            request=replace(self.requests[name], quota_usage=usage),
            environments=self.environments,
            own=[p for p in self.placements if p.deployment == name],
            others=others,
            find_request=find_request,
        )
        return find_ways_out(world, decision)


def draw_environment(draw: random.Random, name: str, *, from_file: bool, alike: bool) -> Environment:
    pools = []
    for number in range(draw.randint(1, 2)):
        nodes = draw.randint(1, 3)
        drawn = pool(f"p{number}", gpus=draw.choice((4, 8)), nodes=nodes, memory="141Gi")
        if not alike:
            drawn = pool(
                f"p{number}",
                gpus=draw.choice((4, 8)),
                nodes=nodes,
                memory=draw.choice(("40Gi", "80Gi", "141Gi")),
                multi_node=draw.random() < 0.8,
                interconnect=draw.choice(("pcie", "nvlink", "nvlink", None)),
                bandwidth=draw.choice(("ib-200g", "ib-400g", None)),
                precision=draw.choice((("bf16", "fp8"), ("bf16",), None)),
                nvlink_domain=draw.choice((4, 8, None)),
                accelerator_type=draw.choice(("h100", "a100")),
            )
        facts = PoolFacts(nodes=nodes, usable=draw.randint(0, nodes)) if draw.random() < 0.2 else None
        price = Price(per_gpu_hour=Decimal(draw.choice((1, 2))), currency="USD") if draw.random() < 0.5 else None
        missing = "no quota" if draw.random() < 0.05 else ""
        closed = draw.random() < 0.05
        pools.append(replace(drawn, facts=facts, price=price, unschedulable=closed, not_created=missing))
    taints = (Taint(key="drain", effect=NO_SCHEDULE),) if draw.random() < 0.1 else ()
    labels = {"tier": draw.choice("xxy")}
    ready = draw.random() < 0.9
    return environment(name, *pools, labels=labels, taints=taints, uid="" if from_file else name, ready=ready)


def draw_request(draw: random.Random, name: str, *, alike: bool) -> SchedulingRequest:
    profiles = []
    for number in range(draw.randint(1, 2)):
        needs = requires()
        if not alike:
            needs = requires(
                memory=draw.choice((None, None, "80Gi", "141Gi")),
                interconnect=draw.choice((None, None, "nvlink")),
                bandwidth=draw.choice((None, None, "ib-400g", "ib-400g-or-better")),
                precision=draw.choice(((), (), ("fp8",), ("bf16", "fp8"))),
                nvlink_domain=draw.choice((None, None, 8)),
                accelerator_type=draw.choice((None, None, "h100")),
            )
        size = draw.choice((shape(1, 1), shape(1, 2), shape(1, 4), shape(1, 4), shape(2, 4), shape(2, 8), None))
        profiles.append(profile(f"profile-{number}", size, requires=needs))
    of_model, of_deployment = (selector(tier="x") if draw.random() < 0.2 else Selector() for _ in range(2))
    wanted = model(*profiles, vram=draw.choice(("60Gi", "300Gi")), selector=of_model)
    number_of_environments, replicas = draw.choice((1, 1, 1, 2)), draw.randint(1, 3)
    return SchedulingRequest(
        deployment=deployment(name, environments=number_of_environments, replicas=replicas, selector=of_deployment),
        model=wanted,
        storage_request=planner(wanted),
    )


def draw_fleet(seed: int) -> Fleet:
    """Return a fleet on which some deployments have room, and others had it."""
    draw = random.Random(seed)  # the same worlds in every run
    from_file, alike = draw.random() < 0.5, draw.random() < 0.6
    names = "abcde"[: draw.randint(1, 5)]
    environments = {name: draw_environment(draw, name, from_file=from_file, alike=alike) for name in names}
    requests = {f"d{number}": draw_request(draw, f"d{number}", alike=alike) for number in range(draw.randint(3, 9))}
    limits = Limits(gpus=draw.choice((12, 24))) if draw.random() < 0.2 else Limits()
    fleet = Fleet(environments, (), requests, limits).publish()
    for number, name in enumerate(requests):
        if number == len(requests) - 1:
            break
        for assignment in fleet.decide(name).assignments:
            fleet = fleet.place(name, assignment, f"2026-01-0{number + 1}")
    placements = []
    for placement in fleet.placements:
        is_leaving = draw.random() < 0.15
        placements.append(
            replace(
                with_service(placement, allocated=placement.requested),
                has_served=True,
                ready=True,
                deleting=is_leaving,
                draining=draw.random() < 0.05,
            )
        )
    # One of them wants more replicas than it has.
    grown = draw.choice(list(requests))
    more = requests[grown]
    more = replace(more, deployment=replace(more.deployment, replicas=more.deployment.replicas + draw.randint(0, 2)))
    return replace(fleet, placements=tuple(placements), requests={**requests, grown: more}).publish()


OPENED: dict[Refused, dict[str, Any]] = {
    Refused.POOL_UNSCHEDULABLE: {"unschedulable": False},
    Refused.POOL_NOT_CREATED: {"not_created": ""},
}


def follow(fleet: Fleet, name: str, way: WayOut) -> Fleet:
    """Return the fleet once advice was carried out; the placements that have to move have their place."""
    refusal = way.refusal
    where = fleet.environments[refusal.environment]
    if way.leaving:
        gone = {p.uid for p in way.leaving}
        assert all(p.deleting or p.draining for p in way.leaving)
        return replace(fleet, placements=tuple(p for p in fleet.placements if p.uid not in gone)).publish()
    if way.moves:
        gone = {move.placement.uid for move in way.moves}
        moved = replace(fleet, placements=tuple(p for p in fleet.placements if p.uid not in gone)).publish()
        for move in way.moves:
            mover, to = move.placement, move.to
            assert (mover.deleting, mover.draining) == (False, False)
            # As its deployment is decided with a selector for the other environment; the old placement stays meanwhile.
            (chosen,) = (
                replace(moved, placements=(*moved.placements, *(m.placement for m in way.moves if m is not move)))
                .decide(mover.deployment, to.environment)
                .assignments
            )
            assert (chosen.environment, chosen.placement) == (to.environment, None), "it has a place"
            moved = moved.place(mover.deployment, chosen, mover.created)
            assert not moved.environments[to.environment].rejected
        return moved
    if way.way is Way.RELAX and refusal.field is not Field.MULTI_NODE:
        request = relax(fleet, name, way)
        return replace(fleet, requests={**fleet.requests, name: request})
    pools = []
    for each in where.pools:
        changed = each
        if each.name == refusal.pool and way.way is Way.ADD_NODES:
            facts = each.facts and replace(
                each.facts, nodes=each.facts.nodes + way.nodes, usable=each.facts.usable + way.nodes
            )
            changed = replace(each, max_nodes=each.max_nodes + way.nodes, facts=facts)
        elif each.name == refusal.pool and way.way is Way.WAIT and refusal.use:
            changed = replace(each, facts=None)
        elif each.name == refusal.pool and refusal.field is Field.MULTI_NODE:
            changed = replace(each, multi_node=True)
        elif each.name == refusal.pool and refusal.reason in OPENED:
            changed = replace(each, **OPENED[refusal.reason])
        pools.append(changed)
    ready = where.ready or refusal.reason is Refused.ENVIRONMENT_NOT_READY
    return fleet.change(replace(where, pools=tuple(pools), ready=ready))


def relax(fleet: Fleet, name: str, way: WayOut) -> SchedulingRequest:
    """Return the request with the value that the advice names."""
    refusal, request = way.refusal, fleet.requests[name]
    wanted, served = request.deployment, request.model
    profiles = {p.name: p for p in served.profiles}

    def without(chosen: Selector) -> Selector:
        return Selector(tuple(r for r in chosen.requirements if r not in [r for r, _ in refusal.unmet]))

    if refusal.field is Field.DEPLOYMENT_SELECTOR:
        wanted = replace(wanted, selector=without(wanted.selector))
    elif refusal.field is Field.MODEL_SELECTOR:
        served = replace(served, selector=without(served.selector))
    elif refusal.field is Field.TAINTS:
        wanted = replace(wanted, tolerations=(Toleration(any_value=True),))
    elif refusal.field in (Field.REPLICAS, Field.QUOTA):
        number = int(way.message.split(" to ")[1].partition(",")[0])
        running = [p.replicas for p in fleet.placements if p.deployment == name]
        assert max(running, default=1) <= number < wanted.replicas
        wanted = replace(wanted, replicas=number)
    else:
        found: Any = refusal.actual
        if refusal.field is Field.BANDWIDTH and found:
            found = BandwidthRequirement(rung=found, or_better=f"{found}-or-better" in way.message)
        if refusal.field is Field.PRECISION:
            found = tuple(set(found or ()) & set(profiles[refusal.profile].requires.precision))
        own: Profile = profiles[refusal.profile]
        needs: Any = {FIELDS[refusal.field]: found}
        profiles[own.name] = replace(own, requires=replace(own.requires, **needs))
        served = replace(served, profiles=tuple(profiles.values()))
    return replace(request, deployment=wanted, model=served, storage_request=planner(served))


def check(seed: int, counted: Counter[str]) -> None:
    """Follow every way out of every refusal of one world."""
    fleet = draw_fleet(seed)
    for name in fleet.requests:
        decision = fleet.decide(name)
        unresolved = decision.unresolved
        ways = fleet.ways_out(name, decision) if unresolved else ()
        counted["refused"] += bool(unresolved)
        counted["with a way"] += bool(ways)
        ranks = [[*Way].index(way.way) for way in ways]
        assert ranks == sorted(ranks), "cheapest first"
        not_scaled = {i.environment for i in unresolved if i.granted_replicas is not None}
        for way in ways:
            counted[way.way.name] += 1
            followed = follow(fleet, name, way).decide(name)
            if way.refusal.environment in not_scaled:
                still = [i for i in followed.refusals if i.environment == way.refusal.environment]
                assert not still, (seed, name, way.message)
            else:
                assert followed.placed > decision.placed, (seed, name, way.message)


def test_following_a_way_out_makes_it_fit() -> None:
    counted = Counter[str]()
    for seed in range(WORLDS):
        check(seed, counted)
    assert all(counted[way.name] for way in Way), counted
    assert counted["with a way"] > counted["refused"] / 2, counted
