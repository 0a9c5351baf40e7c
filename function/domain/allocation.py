"""What an environment allocates of its pools, what is left, what it costs, and how much of it one namespace may have.

Amounts in different currencies are never added.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from function.domain.model import Shape
from function.kube.manifests import format_time
from function.kube.messages import format_count, join_with_more


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """An amount of money per hour. Sorts by currency first, because amounts in different currencies do not compare."""

    currency: str
    amount: Decimal

    def __str__(self) -> str:
        return f"{self.amount:.2f} {self.currency} per hour"


NO_COST = Cost("", Decimal(0))


def add_up(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """Returns the sum for each currency, by its name."""
    sums: dict[str, Decimal] = {}
    for cost in costs:
        sums[cost.currency] = sums.get(cost.currency, Decimal(0)) + cost.amount
    return tuple(sorted(Cost(currency, amount) for currency, amount in sums.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    per_gpu_hour: Decimal
    currency: str
    price_class: str = "OnDemand"  # or Reserved or Spot

    def __str__(self) -> str:
        return f"{self.per_gpu_hour:.2f} {self.currency} {self.price_class}"

    def cost(self, gpus: int) -> Cost:
        return Cost(self.currency, self.per_gpu_hour * gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Replicas of one size on one pool."""

    pool: str
    nodes: int  # of one replica, all different
    gpus_per_node: int
    replicas: int
    exclusive_replica_nodes: bool = False  # no two replicas share a node

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node * self.replicas

    def has_same_pool_and_size(self, other: "Share") -> bool:
        """Tells whether both are of the same pool and replica size, whatever the number of replicas."""
        return (self.pool, self.nodes, self.gpus_per_node) == (other.pool, other.nodes, other.gpus_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a placement claims of a pool: any number of replicas from `minimum` to those of the requested share."""

    requested: Share
    minimum: int

    def limit(self, fitting: int) -> Share | None:
        """Returns what the placement takes where that many replicas fit; None if these are too few for it."""
        replicas = min(fitting, self.requested.replicas)
        return replace(self.requested, replicas=replicas) if replicas >= self.minimum else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """Lent replicas that a placement has to give back, and who needs them."""

    keep: int  # replicas that the placement keeps
    uid: str  # of the placement that needs the GPUs
    namespace: str
    name: str  # of its deployment
    priority: int
    gpus: int  # that it needs
    since: int | None = None  # seconds since 1970; None: not published yet

    def __str__(self) -> str:
        gpus = format_count(self.gpus, "GPU")
        who = f"{self.namespace}/{self.name} (priority {self.priority})"
        if self.since is None:
            return f"{who}, which needs {gpus}"
        return f"{who}, which has needed {gpus} since {format_time(self.since)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an environment has admitted a placement for."""

    uid: str
    namespace: str
    name: str
    share: Share
    generation: int = 0  # of the placement's spec for which the grant was made; 0: not known
    # The version of the placement for which the environment revokes the grant; empty: it is not revoked. The grant
    # counts until the placement has repeated this version.
    revoked: str = ""
    yields: Yield | None = None  # the replicas count until the service has ended them


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The last spec of a placement that requested less than was granted; it limits what earlier grants count for."""

    generation: int  # of that spec
    request: Share

    def limit(self, share: Share, generation: int) -> int:
        """Returns how many replicas of a share count that was granted for this generation of the spec."""
        if generation > self.generation:
            return share.replicas
        return min(share.replicas, self.request.replicas) if share.has_same_pool_and_size(self.request) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """What an environment publishes as free in a pool."""

    placements: int  # number of placements that hold the other GPUs
    nodes: tuple[tuple[int, int], ...]  # (free GPUs, number of such nodes)
    # The same after lent replicas were taken back, by the priority that a request needs for this; ascending.
    reclaimable: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()

    def find_reclaimable(self, priority: int) -> tuple[tuple[int, int], ...]:
        """Returns the free nodes after lent replicas were taken back for a request; none if it can take nothing."""
        return next((nodes for needed, nodes in reversed(self.reclaimable) if needed <= priority), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a platform allows each namespace; 0 is no limit."""

    placements: int = 0
    gpus: int = 0
    guaranteed_gpus: int | None = None  # that can be guaranteed; None: all that is used
    guarantee_invalid: bool = False  # `guaranteed_gpus` cannot be read: what is guaranteed stays as it is
    cost: Cost | None = None
    max_priority: int = 0
    preempts: bool = False  # guaranteed replicas can be taken back for a higher priority
    invalid: bool = False  # a limit cannot be read: nothing more is allowed

    @property
    def has_limits(self) -> bool:
        return bool(self.placements or self.gpus or self.cost or self.invalid)

    def charge(self, price: Price | None, gpus: int) -> Decimal:
        """Returns what GPUs take of the cost limit; 0 if they have no price in its currency."""
        is_charged = self.cost and price and price.currency == self.cost.currency
        return price.per_gpu_hour * gpus if is_charged and price else Decimal(0)

    def allow_cost(self, spent: Decimal, more: Decimal) -> bool:
        return self.cost is None or not more or spent + more <= self.cost.amount

    def allow(self, placements: int, gpus: int, *, is_new: bool, more_gpus: int) -> bool:
        """Tells whether a namespace that has this much may have more GPUs, for a new or an existing placement."""
        if (self.invalid and (is_new or more_gpus)) or (is_new and self.placements and placements >= self.placements):
            return False
        return not (self.gpus and more_gpus and gpus + more_gpus > self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    """What a namespace has of its quota, and the request that may exceed it."""

    namespace: str
    limits: Limits
    placements: int
    gpus: int
    requested: int  # GPUs beyond the GPUs that the placement has
    holders: tuple[tuple[str, int], ...]  # (placement, GPUs), most first
    spent: Decimal = Decimal(0)  # per hour, in the currency of the limit
    requested_cost: Decimal = Decimal(0)  # likewise, of the requested GPUs

    @property
    def exceeds_limit(self) -> bool:
        """Tells whether more is requested than the namespace may ever have."""
        exceeds_gpus = self.limits.gpus and self.requested > self.limits.gpus
        return bool(exceeds_gpus) or not self.limits.allow_cost(Decimal(0), self.requested_cost)

    @property
    def exceeds_budget(self) -> bool:
        """Tells whether the request costs more than the namespace may still spend."""
        return not self.limits.allow_cost(self.spent, self.requested_cost)

    @property
    def numbers(self) -> str:
        """What is in use of each limit: `3 of 4 placements and 20 of 24 GPUs`."""
        if self.limits.invalid:
            return "a limit is invalid"
        allowed = [(self.placements, self.limits.placements, "placements"), (self.gpus, self.limits.gpus, "GPUs")]
        parts = [f"{used} of {limit} {what}" for used, limit, what in allowed if limit]
        return " and ".join([*parts, f"{self.spent:.2f} of {self.limits.cost}"] if self.limits.cost else parts)

    @property
    def request(self) -> str:
        """What is requested: `8 GPUs for 20.00 USD per hour`."""
        cost = Cost(self.limits.cost.currency, self.requested_cost) if self.limits.cost else None
        return f"{format_count(self.requested, 'GPU')}{f' for {cost}' if self.requested_cost else ''}"

    @property
    def message(self) -> str:
        if self.limits.invalid:
            fault = f"the platform settings have an invalid limit for namespace {self.namespace}"
            return f"{fault}, so it gets nothing more"
        holders = join_with_more([f"{name} ({format_count(gpus, 'GPU')})" for name, gpus in self.holders])
        held_by = f", held by {holders}" if holders else ""
        return f"namespace {self.namespace} has {self.numbers} that the platform allows it{held_by}"

    def find_excess(self, gpus: int, price: Price | None = None, *, is_new: bool = True) -> "QuotaUsage | None":
        """Returns why the namespace may not have that many more GPUs, for a new or an existing placement; else None."""
        requesting = replace(self, requested=gpus, requested_cost=self.limits.charge(price, gpus))
        is_allowed = self.limits.allow(self.placements, self.gpus, is_new=is_new, more_gpus=gpus)
        return None if is_allowed and not requesting.exceeds_budget else requesting

    def with_more(self, name: str, gpus: int, price: Price | None = None, *, is_new: bool = True) -> "QuotaUsage":
        """Returns the usage with more GPUs, of a new placement or of one that counts already."""
        holders = tuple(sorted((*self.holders, (name, gpus)), key=lambda holder: (-holder[1], holder[0])))
        spent = self.spent + self.limits.charge(price, gpus)
        return replace(self, placements=self.placements + is_new, gpus=self.gpus + gpus, spent=spent, holders=holders)


def format_replica(nodes: int, gpus: int) -> str:
    return f"{format_count(nodes, 'node')} x {format_count(gpus, 'GPU')}"


def format_replicas(replicas: int, size: Shape | Share, *, exclusive_node: bool = False) -> str:
    """Returns the number of replicas and their size, and whether each pod needs a node to itself."""
    alone = (
        ", each pod with a node to itself (it uses the node's network ports, or all of its devices),"
        if exclusive_node
        else ""
    )
    return f"{format_count(replicas, 'replica')} of {format_replica(size.nodes, size.gpus_per_node)}{alone}"
