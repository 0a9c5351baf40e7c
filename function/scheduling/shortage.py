"""Whether a pool has room for a demand: never (not even were it empty) and not now are told apart.

What a pool can ever hold is a matter of what is declared; nodes that cannot be used are missing now.
"""

from dataclasses import replace

from function.domain.environment import Pool
from function.domain.model import Spread
from function.reasons import Refused
from function.scheduling.checks import Candidate
from function.scheduling.ledger import Ledger, pool_use
from function.scheduling.pool_capacity import Demand, PoolCapacity, empty_holds
from function.scheduling.request import SchedulingRequest
from function.scheduling.verdicts import Field, Refusal


def check_capacity(request: SchedulingRequest, candidate: Candidate, ledger: Ledger) -> Refusal | None:
    """Refuse where the pool has no room for every replica; what no node can hold was refused before."""
    shape = candidate.shape
    if shape is None or shape.gpus_per_node > candidate.pool.gpus_per_node:
        return None
    environment, profile, pool = candidate.environment, candidate.profile, candidate.pool
    demand = Demand(shape, request.deployment.replicas, profile.replicas_across_nodes is Spread.REQUIRED)
    found = find_shortage(ledger.room(environment, pool), demand, environment.name, profile.name, pool)
    if found is None or found.reason is Refused.POOL_TOO_SMALL or ledger.has_capacity_of(environment, pool):
        return found
    return replace(found, field=Field.LEDGER)


def find_shortage(room: PoolCapacity, demand: Demand, environment: str, profile: str, pool: Pool) -> Refusal | None:
    """Return what is missing for a demand, in replicas."""
    fit = room.holds(demand)
    if fit >= demand.replicas:
        return None
    ever = empty_holds(room.nodes, room.gpus_per_node, demand, room.exclusive_nodes)
    never = ever < demand.replicas
    return Refusal(
        reason=Refused.POOL_TOO_SMALL if never else Refused.INSUFFICIENT_CAPACITY,
        field=Field.REPLICAS,
        environment=environment,
        profile=profile,
        pool=pool.name,
        wanted=demand.replicas,
        found=ever if never else fit,
        shape=demand.shape,
        use=pool_use(room, pool),
        exclusive_node=pool.needs_exclusive_node(demand.shape.nodes, demand.shape.gpus_per_node),
    )
