"""GPUs of environments: the users and free GPUs of each pool by the ledger, and what the nodes contradict."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from function.api.inference_environment import parse_environment
from function.capacity.ledger import admit_placements
from function.capacity.pools import PoolCapacity
from function.cli.store import Store, find_invalid_pools, read_environments, read_placements
from function.cli.suggested_pools import format_pools, suggest_pools
from function.domain.allocation import Share, format_replica
from function.domain.environment import Environment, Pool, format_unusable
from function.domain.model import BrokenEntry, Problem
from function.domain.placement import Placement
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, prune, strings
from function.kube.selectors import find_untolerated
from function.remote.node_collection import MEMBERSHIP, name_collection, parse_member
from function.remote.nodes import Node, summarize_pools
from function.status.inference_environment import build_node_facts, describe_drift


class Holding(NamedTuple):
    """The GPUs of a pool that the ledger grants a placement."""

    placement: Placement
    share: Share

    @property
    def user(self) -> str:
        """The deployment as NAMESPACE/NAME, or the placement if it has no deployment."""
        return f"{self.placement.namespace}/{self.placement.deployment or self.placement.name}"

    @property
    def lent(self) -> int:
        """GPUs of replicas that are taken back when another deployment needs them for guaranteed replicas."""
        guaranteed = self.share.replicas if self.placement.guaranteed is None else self.placement.guaranteed
        return self.share.nodes * self.share.gpus_per_node * max(0, self.share.replicas - guaranteed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One pool with the charged placements; without a pool it is `invalid`, or the environment has no pools."""

    environment: Environment
    pool: Pool | None = None
    invalid: BrokenEntry | None = None
    capacity: PoolCapacity | None = None
    holdings: tuple[Holding, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all declared nodes."""
        return self.pool.max_nodes * self.pool.gpus_per_node if self.pool else 0

    @property
    def used(self) -> int:
        """GPUs that are charged."""
        lost = self.capacity.unusable_nodes * self.capacity.gpus_per_node if self.capacity else 0
        return self.gpus - self.free - lost

    @property
    def free(self) -> int:
        """GPUs that are not charged, on usable nodes."""
        return sum(level * nodes for level, nodes in self.capacity.free.items()) if self.capacity else 0

    @property
    def lent(self) -> int:
        """GPUs that are charged for lent replicas."""
        return sum(holding.lent for holding in self.holdings)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why nothing new is placed here now. A deployment may tolerate a taint."""
        environment, pool = self.environment, self.pool
        pool_reason = f" ({pool.unschedulable_reason})" if pool and pool.unschedulable_reason else ""
        possible = (
            "being deleted" if environment.deleting else "",
            "" if environment.ready else f"not Ready: {environment.ready_message or 'no reason is known'}",
            *(f"taint {taint.describe()}" for taint in find_untolerated(environment.taints, ())),
            f"unschedulable{pool_reason}" if pool and pool.unschedulable else "",
            f"not created yet: {pool.not_created}" if pool and pool.not_created else "",
        )
        return tuple(filter(None, possible))

    @property
    def largest(self) -> str:
        """The size of the largest replica that could be placed now, in a deployment without tolerations."""
        free = self.capacity.free if self.capacity and not self.obstacles else {}
        shapes = []
        for level in (level for level, nodes in free.items() if level and nodes):
            spans_nodes = self.pool and self.pool.multi_node and not self.pool.needs_exclusive_node(2, level)
            shapes.append((sum(n for at, n in free.items() if at >= level) if spans_nodes else 1, level))
        return format_replica(*max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]))) if shapes else "none"


def list_usages(store: Store) -> list[Usage]:
    """Returns every pool with the charged placements, as its environment publishes them."""
    usages: list[Usage] = []
    placements = {(placement.namespace, placement.name): placement for placement in read_placements(store)}
    for environment in read_environments(store):
        ledger = admit_placements(environment, placements.values())
        for pool in environment.pools:
            held = ledger.pools[pool.name]
            grants = (grant for grant in held.grants if grant.share.replicas)
            holdings = tuple(Holding(placements[grant.namespace, grant.name], grant.share) for grant in grants)
            usages.append(Usage(environment=environment, pool=pool, capacity=held.capacity, holdings=holdings))
        others = [Usage(environment=environment, invalid=p) for p in find_invalid_pools(store, environment)]
        usages += others if others or environment.pools else [Usage(environment=environment)]
    return usages


def build_usage_data(usage: Usage) -> dict[str, object]:
    """Returns what `capacity -o json` prints of a pool."""
    environment, pool, capacity = usage.environment, usage.pool, usage.capacity
    nodes: Manifest = {"total": capacity.nodes, "inUse": capacity.nodes_in_use} if capacity else {}
    if pool and pool.facts:
        nodes |= {"usable": pool.usable_nodes, "observed": build_node_facts(pool.facts)}
    users: list[JSON] = [
        prune(
            {
                "namespace": each.placement.namespace,
                "deployment": each.placement.deployment,
                "placement": each.placement.name,
                "gpus": each.share.gpus,
                "lent": each.lent or None,
            }
        )
        for each in usage.holdings
    ]
    return {
        "environment": environment.name,
        "ready": environment.ready,
        "pool": pool.name if pool else usage.invalid.name if usage.invalid else None,
        "faults": [str(fault) for fault in usage.invalid.problems] if usage.invalid else [],
        "acceleratorType": pool.accelerator_type if pool else None,
        "pricePerGpuHour": pool.price.cost(1) if pool and pool.price else None,
        "nodes": nodes or None,
        "gpus": {"total": usage.gpus, "inUse": usage.used, "free": usage.free}
        | ({"lent": usage.lent} if usage.lent else {}),
        **({"localQueue": pool.pod.queue} if pool and pool.pod.queue else {}),
        "notSchedulable": [*usage.obstacles],
        "largestReplica": usage.largest,
        "usedBy": users,
    }


def format_users(users: Mapping[str, int], limit: int | None = None) -> str:
    """Returns deployments with the GPUs of each, `limit` of them at most."""
    names = [f"{user} ({gpus})" for user, gpus in users.items()]
    more = f" +{len(names) - limit} more" if limit and len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def add_up_users(holdings: Iterable[Holding]) -> Counter[str]:
    users = Counter[str]()
    for holding in holdings:
        users[holding.user] += holding.share.gpus
    return users


def _list_observed_nodes(store: Store, environment: Environment) -> list[Node]:
    name = name_collection(environment.name)
    members = (m for m in store.all("Object") if strings(m, "metadata.labels").get(MEMBERSHIP) == name)
    return [member.node for member in map(parse_member, members) if member.node is not None]


def find_contradictions(store: Store, manifest: Manifest) -> list[Problem]:
    """Returns where nodes contradict an environment as it is written, and which cannot be used."""
    environment = parse_environment(manifest, BUILT_IN).value
    nodes = _list_observed_nodes(store, environment)
    problems: list[Problem] = []
    for name, facts in summarize_pools(environment, nodes).items() if nodes else ():
        messages = [describe_drift(name, row) for row in facts.drift]
        messages += [f"pool {name}: {format_unusable(facts.unusable)}"] if facts.unusable else []
        problems += [Problem(f"spec.nodePools[{name}]", message) for message in messages]
    return problems


def format_suggestions(store: Store, environments: Iterable[Environment]) -> str:
    """Returns the pools that the nodes of each environment would be declared as, ready to paste."""
    blocks = []
    for environment in environments:
        nodes = _list_observed_nodes(store, environment)
        if nodes:
            head = f"# spec of InferenceEnvironment {environment.name}, of {len(nodes)} nodes"
            pools = format_pools(suggest_pools(nodes))
            blocks.append(f"{head}\nnodePools:\n{pools}" if pools else f"{head}\nnodePools: []\n")
        else:
            blocks.append(f"# InferenceEnvironment {environment.name} shows no nodes: see its HardwareAsDeclared\n")
    return "".join(blocks)
