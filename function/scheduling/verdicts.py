"""The request of a deployment, the verdict on each environment, and the decision that is made from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from function.domain.allocation import NO_COST, Cost, Price, QuotaUsage, Yield
from function.domain.environment import Environment, Pool
from function.domain.model import Model, Problem, Profile, Shape, Spread
from function.domain.placement import Deployment, Placement
from function.kube.manifests import format_time
from function.kube.messages import format_count
from function.kube.names import build_name
from function.reasons import Outlook, Refused
from function.scheduling.refusals import Refusal, join_messages
from function.weights.faults import StorageFault, find_faults
from function.weights.request import StorageType, WeightsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    deployment: Deployment
    model: Model
    storage_request: WeightsRequest | None = None  # finds why pools have no storage; None: storage is not checked
    # Returns why a profile cannot run with the settings that a pool adds to its pods.
    serving_check: Callable[[Profile, Shape, Pool], tuple[Problem, ...]] = lambda *_: ()
    # What the namespace has of its quota, once the quota has refused the first choice.
    quota_usage: QuotaUsage | None = None
    takes_back: bool = False  # lent replicas of others count as free, as far as they can be taken back
    # GPUs that can still be guaranteed to the deployment, as the guarantee of its namespace allows; None: no limit.
    guaranteed_gpus: int | None = None
    # Replicas that are guaranteed to its placements from now on, by environment; only if any gives some back.
    guarantees: tuple[tuple[str, int], ...] = ()

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that an environment must have for this request: the equalities of all selectors."""
        profiles = [profile.selector.equalities for profile in self.model.profiles]
        shared = {pair for pair in profiles[0].items() if all(pair in p.items() for p in profiles)} if profiles else ()
        return {**dict(shared), **self.model.selector.equalities, **self.deployment.selector.equalities}

    def find_storage_faults(self, environment: Environment, pool: Pool, shape: Shape) -> tuple[StorageFault, ...]:
        """Returns why the replicas of a shape cannot have their weights on a pool."""
        if self.storage_request is None:
            return ()
        return find_faults(self.storage_request.with_pool(environment, pool, shape, self.deployment.replicas))

    def is_on_claim(self, environment: Environment, pool: Pool, shape: Shape) -> bool:
        """Tells whether the replicas of a shape read their weights from a claim; true if storage is not checked."""
        if self.storage_request is None:
            return True
        on_pool = self.storage_request.with_pool(environment, pool, shape, self.deployment.replicas)
        return on_pool.storage_type not in (StorageType.EMPTY_DIR, StorageType.OCI)

    def with_replicas(self, replicas: int) -> "SchedulingRequest":
        """Returns the request for another number of replicas."""
        return replace(self, deployment=replace(self.deployment, replicas=replicas))

    def find_guarantee(self, placement: Placement) -> int:
        """Returns how many replicas are guaranteed to a placement from now on; 0 unless it may give some back."""
        return dict(self.guarantees).get(placement.environment, 0)

    def count_guaranteed(self, replicas: int, shape: Shape) -> int:
        """Returns how many of so many replicas of a placement can be guaranteed."""
        requested = min(replicas, self.deployment.guaranteed_replicas)
        return requested if self.guaranteed_gpus is None else min(requested, self.guaranteed_gpus // shape.gpus)

    def charge_guaranteed(self, assignments: "Iterable[Assignment]") -> "SchedulingRequest":
        """Returns the request with what is guaranteed to assignments charged to the guarantee of the namespace."""
        request = self
        for each in assignments:
            if request.guaranteed_gpus is not None:
                used = request.count_guaranteed(each.replicas, each.shape) * each.shape.gpus
                request = replace(request, guaranteed_gpus=request.guaranteed_gpus - used)
        return request

    def find_profile(self, name: str) -> Profile | None:
        return next((profile for profile in self.model.profiles if profile.name == name), None)

    def to_placement(self, assignment: "Assignment") -> Placement:
        """Returns an assignment as a placement, based on the existing one where there is one."""
        deployment = self.deployment
        existing = assignment.placement or Placement(
            namespace=deployment.namespace,
            name=build_name(deployment.name, deployment.namespace, deployment.name, assignment.environment),
            deployment=deployment.name,
            model=deployment.model,
            environment=assignment.environment,
            profile=assignment.profile,
            pool=assignment.pool,
            shape=assignment.shape,
        )
        profile = self.find_profile(assignment.profile)
        exclusive = existing.exclusive_replica_nodes
        return replace(
            existing,
            profile=assignment.profile,
            pool=assignment.pool,
            shape=assignment.shape,
            replicas=assignment.replicas,
            vram=assignment.vram,
            price=assignment.price,
            guaranteed=deployment.guaranteed,
            priority=deployment.priority,
            preemptible=deployment.preemptible,
            exclusive_replica_nodes=profile.replicas_across_nodes is Spread.REQUIRED if profile else exclusive,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """How a feasible pool compares with others if the cheapest or the smallest is preferred: less is better."""

    profile: int  # position among the declared profiles
    # Bytes of GPU memory of one replica beyond what is required, negative where it is less; None: not declared.
    spare: int | None
    free_on_fullest_node: int  # free GPUs on the fullest node that would be used
    cost: Cost | None = None  # of all replicas, if the cheapest is preferred; None: the pool has no price

    @property
    def sort_key(self) -> tuple[int, bool, Cost, bool, bool, int]:
        """The sort key: by profile and cost, then by spare memory (sufficient, insufficient, not declared)."""
        spare = self.spare or 0
        cost = (self.cost is None, self.cost or NO_COST)
        return self.profile, *cost, self.spare is None, spare < 0, abs(spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A pool that satisfies every requirement: the verdict on an environment and, once chosen, where it serves."""

    environment: str
    profile: str
    pool: str
    shape: Shape
    replicas: int
    vram: int | None = None  # bytes, where the shape was computed from it
    placement: Placement | None = None  # the existing one, kept or updated in place
    rank: Rank | None = None  # where the cheapest or the smallest pool is preferred
    price: Price | None = None  # of the pool
    takes_back: bool = False  # its GPUs have to be taken back from lent replicas
    held: "Held | None" = None  # further replicas of the placement, which stay for now

    @property
    def preference(self) -> tuple[int, bool, Cost, bool, bool, int, int, str, str]:
        """The sort key: by rank where a pool is preferred, then by the GPUs that are left, then by name."""
        assert self.rank is not None
        return *self.rank.sort_key, self.rank.free_on_fullest_node, self.environment, self.pool

    @property
    def preference_after_eviction(self) -> tuple[int, bool, Cost, bool, bool, int]:
        """The sort key: by rank alone. Equals stay in the order of their hash: two deployments try different ones."""
        assert self.rank is not None
        return self.rank.sort_key

    @property
    def gpus(self) -> int:
        return self.shape.gpus * self.replicas

    @property
    def cost(self) -> Cost | None:
        """What all replicas cost; None where the pool has no price."""
        return self.price.cost(self.gpus) if self.price else None

    @property
    def is_rescheduled(self) -> bool:
        """Tells whether an existing placement gets another profile, pool or shape than it was observed to have."""
        placement = self.placement
        chosen = (self.profile, self.pool, self.shape)
        return placement is not None and (placement.profile, placement.pool, placement.shape) != chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Lent replicas that are given back once others serve in their place, but at the latest after a time."""

    replicas: int
    until: int  # seconds since 1970
    yields: Yield

    @property
    def message(self) -> str:
        stay = f"{format_count(self.replicas, 'lent replica')} may stay until as many serve on other environments"
        return f"{stay}, until {format_time(self.until)} at the latest; their GPUs then go to {self.yields}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Every refusal of the nearest pool of one environment, in the order of the filters."""

    refusals: tuple[Refusal, ...]
    failed_step: int = 0  # index of the first failing step; refines the order of `Refused`
    # The replicas that a placement has there all the same, fewer than requested; None: nothing is placed there.
    granted_replicas: int | None = None

    @property
    def environment(self) -> str:
        return self.refusals[0].environment

    @property
    def reason(self) -> Refused:
        return self.refusals[0].reason

    @property
    def remedy(self) -> str:
        """The change that clears the refusal, if it is known without the snapshot; empty if several are needed."""
        return self.refusals[0].remedy if len(self.refusals) == 1 else ""

    @property
    def outlook(self) -> Outlook:
        """Tells whether waiting can help: as the reason says, but never if a limit is less than the request."""
        usage = self.refusals[0].quota_usage
        return Outlook.NEVER if usage is not None and usage.exceeds_limit else self.reason.outlook

    @property
    def message(self) -> str:
        """Every refusal, after the replicas that have a place and the name of the profile."""
        profile = self.refusals[0].profile
        messages = join_messages(refusal.message for refusal in self.refusals)
        message = f"profile {profile}: {messages}" if profile else messages
        granted = self.granted_replicas
        return message if granted is None else f"has {format_count(granted, 'replica')}; {message}"


Verdict: TypeAlias = Assignment | Infeasible


class RemovalCause(StrEnum):
    SCALED_DOWN = "ScaledDown"
    REPLACED = "Replaced"
    EVICTED = "Evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    placement: Placement
    cause: RemovalCause
    held_by: tuple[str, ...] = ()  # ModelServices that may send it requests, while it drains; empty: not known yet


@dataclass(frozen=True, kw_only=True)
class Decision:
    assignments: tuple[Assignment, ...] = ()  # desired, and counted as placed
    carried: tuple[Placement, ...] = ()  # carried over as observed; only placements on `unreadable` count as placed
    dropped: tuple[Removal, ...] = ()
    draining: tuple[Removal, ...] = ()  # deleted once no ModelService sends requests to them
    # Every environment that was tried and refused, and the environments where a placement cannot be scaled up. No
    # environment is tried after enough are placed.
    refusals: tuple[Infeasible, ...] = ()
    general_refusal: Refusal | None = None  # of every environment
    unreadable: frozenset[str] = frozenset()  # environments of placements whose recorded topology cannot be read
    candidates: int = 0  # number of environments
    desired: int = 1
    # The replicas of all environments together that were requested, if they are divided over the environments.
    divided_replicas: int | None = None

    @property
    def placed(self) -> int:
        return len(self.assignments) + len(self.unreadable)

    @property
    def is_divided(self) -> bool:
        return self.divided_replicas is not None

    @property
    def missing_replicas(self) -> int:
        """The replicas that have no place; 0 if each environment has its own number of replicas."""
        if self.divided_replicas is None:
            return 0
        placed = sum(assignment.replicas for assignment in self.assignments)
        unreadable = sum(p.replicas for p in self.carried if p.environment in self.unreadable)
        return max(0, self.divided_replicas - placed - unreadable)

    @property
    def is_satisfied(self) -> bool:
        """Tells whether everything that is requested has a place."""
        has_all_replicas = all(infeasible.granted_replicas is None for infeasible in self.refusals)
        return self.placed >= self.desired and not self.missing_replicas and has_all_replicas

    @cached_property
    def unresolved(self) -> list[Infeasible]:
        """The refusals that matter, nearest first: once enough is placed, only placements that cannot be scaled up."""
        needs_more = self.placed < self.desired or self.missing_replicas
        unresolved = (each for each in self.refusals if needs_more or each.granted_replicas is not None)
        return sorted(unresolved, key=lambda infeasible: (-infeasible.failed_step, infeasible.environment))
