"""Pools in use: while placements serve on a pool, its nodes stay the nodes of this pool (decision 41).

The ledger charges placements to a pool by its name, and pods select nodes by the labels of the pool. If the pool got
other labels, or its nodes another name, GPUs that are in use would be given away. Such an entry is therefore refused
like an invalid pool: nothing new is placed on it, and its placements stay as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.api.values import sort_entries
from function.domain.environment import Pool
from function.kube.manifests import Manifest, integer, list_texts, listing, mapping, strings, text
from function.kube.messages import join_with_more

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInUse:
    name: str
    labels: Labels  # as published with the ledger
    count: int  # of the placements that serve there
    placements: tuple[str, ...]  # namespaces and names of the first of them

    @property
    def use(self) -> str:
        more = self.count - len(self.placements)
        others = f" and {more} more" if more > 0 else ""
        return f"{join_with_more(self.placements)}{others} {'serves' if self.count == 1 else 'serve'}"

    def may_share_nodes(self, labels: Labels) -> bool:
        """Tells whether one of two pools with these labels selects all nodes of the other."""
        return set(labels) <= set(self.labels) or set(self.labels) <= set(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A declared pool whose nodes belong to a pool in use."""

    pool: str  # in use
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPools:
    """The pools in the status of an environment."""

    labels: Mapping[str, Labels]  # by name, as far as recorded
    in_use: tuple[PoolInUse, ...]

    def find_conflict(self, pool: Pool, declared: Mapping[str, Labels]) -> Conflict | None:
        """Returns why a pool cannot have its labels now; `declared` has the labels of all pools by name."""
        if self.labels.get(pool.name) == pool.labels:
            return None
        named = next((used for used in self.in_use if used.name == pool.name), None)
        if named:
            before = ", ".join(f"{key}={value}" for key, value in named.labels) or "no labels"
            way = f"restore {before}, and add other nodes as another pool"
            return Conflict(pool=pool.name, message=f"cannot change while {named.use} there: {way}")
        changed = (used for used in self.in_use if declared.get(used.name) != used.labels)
        taken = next((used for used in changed if used.may_share_nodes(pool.labels)), None)
        if taken:
            way = f"restore pool {taken.name}, or add this pool once they have moved"
            return Conflict(pool=taken.name, message=f"select nodes of pool {taken.name}, where {taken.use}: {way}")
        return None


def parse_published_pools(status: Manifest) -> PublishedPools:
    labels: dict[str, Labels] = {}
    in_use: list[PoolInUse] = []
    for row in listing(status, "pools"):
        if not isinstance(row.get("nodeSelector"), dict):
            continue
        name, serving = text(row, "name"), mapping(row, "serving")
        labels[name] = sort_entries(strings(row, "nodeSelector"))
        if count := integer(serving, "count"):
            names = list_texts(serving, "placements")
            in_use.append(PoolInUse(name=name, labels=labels[name], count=count, placements=names))
    return PublishedPools(labels=labels, in_use=tuple(in_use))
