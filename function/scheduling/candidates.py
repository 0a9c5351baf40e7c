"""The inputs of a decision, and its environments in the order in which they are tried."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from function.capacity.ledger import CapacityView
from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment
from function.domain.placement import Preference
from function.kube.names import hash_parts
from function.scheduling.filters import FilterFunc
from function.scheduling.verdicts import Assignment, Infeasible, SchedulingRequest, Verdict

FilterFactory: TypeAlias = Callable[[SchedulingRequest], FilterFunc]


@dataclass(frozen=True, slots=True)
class SchedulingInputs:
    request: SchedulingRequest
    environments: Mapping[str, Environment]  # by name, in this order; none is being deleted
    ledger: CapacityView  # what others have
    make_filter: FilterFactory
    usage: QuotaUsage | None
    now: float = 0  # seconds since 1970


def filter_in_order(inputs: SchedulingInputs, used: frozenset[str], *, after_eviction: bool) -> Iterator[Verdict]:
    """Returns verdicts in the order in which environments are chosen, by name.

    If the deployment prefers the cheapest or the smallest pool, the refusals come first, then the feasible environments
    by rank.
    """
    deployment = inputs.request.deployment
    names = [name for name in inputs.environments if name not in used]
    if after_eviction:
        # Deployments that competed for one environment spread out, because each sorts by its own hash.
        names.sort(key=lambda name: hash_parts(deployment.namespace, deployment.name, name))
    filter_ = inputs.make_filter(inputs.request)
    verdicts = (filter_(inputs.environments[name], inputs.ledger) for name in names)
    if deployment.prefer is Preference.DECLARED:
        yield from verdicts
        return
    feasible: list[Assignment] = []
    for verdict in verdicts:
        if isinstance(verdict, Infeasible):
            yield verdict
        else:
            feasible.append(verdict)
    yield from sorted(feasible, key=lambda a: a.preference_after_eviction if after_eviction else a.preference)
