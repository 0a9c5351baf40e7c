"""What a decision is made from, as a world that can be changed to find out what would happen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.scheduling.filters import filter_candidates, filter_environment
from function.scheduling.ledger import Ledger, publish_free
from function.scheduling.quota import charge_assignments, count_more
from function.scheduling.refusals import Refusal
from function.scheduling.retention import retention_order, scale_existing
from function.scheduling.verdicts import Assignment, Decision, Infeasible, SchedulingRequest

FindRequest: TypeAlias = Callable[[Placement], SchedulingRequest | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A deployment, the environments, and the placements on them."""

    request: SchedulingRequest  # with what the namespace has of its quota, if it has one
    environments: Mapping[str, Environment]
    own: Sequence[Placement] = ()
    others: Mapping[str, Sequence[Placement]] = field(default_factory=dict)  # as far as known, by environment
    # Returns the request of the deployment of a placement; None: it is not known, and the placement cannot be moved.
    find_request: FindRequest = lambda _: None
    growing: Mapping[str, int] = field(default_factory=dict)  # replicas now, by environment, of own that need more
    chosen: frozenset[str] = frozenset()  # environments on which a new placement is decided

    def others_on(self, environment: str, pool: str = "") -> list[Placement]:
        """Returns the known placements of other deployments on an environment, or on one of its pools."""
        return [p for p in self.others.get(environment, ()) if pool in ("", p.pool)]

    def with_decision(self, decision: Decision) -> "World":
        """Returns the world after a decision: what it assigns is charged to the quota."""
        usage = self.request.quota_usage
        return replace(
            self,
            request=replace(self.request, quota_usage=usage and charge_assignments(usage, decision.assignments)),
            growing={i.environment: i.current_replicas for i in decision.refusals if i.current_replicas is not None},
            chosen=frozenset(a.environment for a in decision.assignments if a.placement is None),
        )

    def with_environment(self, environment: Environment) -> "World":
        """Returns the world with another state of an environment, whose ledger follows from its grants."""
        published = replace(environment, free=publish_free(environment)) if environment.uid else environment
        return replace(self, environments={**self.environments, environment.name: published})

    def without(self, environment: Environment, placements: Iterable[Placement]) -> "World":
        """Returns the world without placements of others on an environment."""
        keys = {(p.namespace, p.name) for p in placements}
        remaining = [p for p in self.others_on(environment.name) if (p.namespace, p.name) not in keys]
        admitted = tuple(g for g in environment.admitted if (g.namespace, g.name) not in keys)
        changed = replace(self, others={**self.others, environment.name: remaining})
        return changed.with_environment(replace(environment, admitted=admitted))

    def fits(self, environment: str) -> bool:
        """Tells whether the deployment fits on an environment: as a new placement, or with all replicas of its own."""
        request, where = self.request, self.environments[environment]
        ledger = Ledger(self.others_on(environment), self.own)
        if environment not in self.growing:
            return isinstance(filter_environment(request, where, ledger), Assignment)
        existing = min((p for p in self.own if p.environment == environment), key=retention_order)
        assert existing.shape is not None  # what cannot be read does not grow
        assignment, infeasible = scale_existing(request, where, existing, existing.shape, ledger)
        usage, more = request.quota_usage, count_more(assignment)
        return infeasible is None and not (usage and more and usage.find_excess(more, assignment.price, is_new=False))

    def list_refusals(self, infeasible: Infeasible) -> list[tuple[Refusal, ...]]:
        """Returns the refusals of each profile on each pool of an environment."""
        name = infeasible.environment
        if name in self.growing:
            return [infeasible.refusals]
        ledger = Ledger(self.others_on(name), self.own)
        return [refusals for _, refusals in filter_candidates(self.request, self.environments[name], ledger)]

    def has_queue(self, environment: Environment, pool: str) -> bool:
        """Tells whether others wait for room in a pool: what becomes free is theirs first."""
        if not environment.uid:
            return False  # the ledger is computed from all placements
        own = {placement.uid for placement in self.own}
        staying = (p for p in self.others_on(environment.name) if p.may_run or not p.deleting)
        requests = ((p.uid, p.effective_request) for p in staying)
        return any(name == pool and uid not in own for uid, name in environment.rejected) or any(
            request.pool == pool and (environment.count_admitted(uid, request) or 0) < request.replicas
            for uid, request in requests
            if request
        )


def replace_pool(environment: Environment, pool: Pool) -> Environment:
    """Returns an environment with another state of a pool."""
    return replace(environment, pools=tuple(pool if p.name == pool.name else p for p in environment.pools))
