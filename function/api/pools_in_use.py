"""Pools in use: the nodes of a pool with placements stay the nodes of this pool (decision 41).

The ledger charges placements to a pool by its name, and pods select nodes by the labels of the pool. If a pool with
placements got other labels, or its nodes another name, GPUs that are in use would be given away. Such an entry is
therefore refused like an invalid pool: nothing new is placed on it, and its placements stay as they are. The
environment accepts other labels if no placement serves on the pool and no other pool would get its nodes, and
publishes them; only then do others use them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from function.api.values import sort_entries
from function.domain.environment import Pool
from function.kube.manifests import Manifest, listing, strings, text
from function.kube.messages import join_with_more

_NAMED = 3  # placements in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInUse:
    """A pool with grants, as published with the ledger."""

    name: str
    labels: tuple[tuple[str, str], ...]
    gpu_resource: str  # empty: not recorded
    holders: tuple[str, ...]  # namespaces and names of the placements with grants

    @property
    def holders_text(self) -> str:
        """Its placements, for a message."""
        return f"{join_with_more(self.holders, _NAMED)} {'has' if len(self.holders) == 1 else 'have'} GPUs"

    @property
    def labels_text(self) -> str:
        """Its labels, for a message."""
        return ", ".join(f"{key}={value}" for key, value in self.labels) or "no labels"

    def is_declared_as(self, pool: Pool | None) -> bool:
        return pool is not None and pool.labels == self.labels

    def may_share_gpus(self, pool: Pool) -> bool:
        """Tells whether a pool may have GPUs of this one: one of them selects all nodes of the other."""
        if self.gpu_resource not in {"", pool.gpu_resource}:
            return False
        return set(pool.labels) <= set(self.labels) or set(self.labels) <= set(pool.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A declared pool that would change the nodes of a pool in use."""

    pool: str  # in use
    message: str
    is_relabelled: bool = False  # the pool in use itself has other labels


def parse_pools_in_use(status: Manifest) -> tuple[PoolInUse, ...]:
    holders: dict[str, set[str]] = {}
    for row in listing(status, "admitted"):
        holders.setdefault(text(row, "pool"), set()).add(f"{text(row, 'namespace')}/{text(row, 'name')}")
    return tuple(
        PoolInUse(
            name=text(row, "name"),
            labels=sort_entries(strings(row, "nodeSelector")),
            gpu_resource=text(row, "gpuResource"),
            holders=tuple(sorted(holders[text(row, "name")])),
        )
        for row in listing(status, "pools")
        # An earlier release did not record the labels.
        if text(row, "name") in holders and isinstance(row.get("nodeSelector"), dict)
    )


def find_changed(pools: Iterable[Pool], status: Manifest) -> list[Pool]:
    """Returns the pools that are new, or that have other labels than were published."""
    published = {text(row, "name"): sort_entries(strings(row, "nodeSelector")) for row in listing(status, "pools")}
    return [pool for pool in pools if published.get(pool.name) != pool.labels]


def find_conflict(
    pool: Pool,
    in_use: Iterable[PoolInUse],
    valid: Mapping[str, Pool],
    changed: Iterable[Pool],
    movable: Collection[str],
) -> Conflict | None:
    """Returns why a declared pool cannot have its nodes now.

    `valid` has the pools that are valid without regard to those in use, by name, and `changed` those of them with
    other nodes than before. A pool in use that is not among the valid ones with its own labels keeps its nodes
    nevertheless. The labels of `movable` pools may change while no changed pool would get their nodes: a placement may
    have started to serve there a moment ago.
    """
    by_name = {used.name: used for used in in_use}
    named = by_name.get(pool.name)
    if named and named.is_declared_as(pool):
        return None
    is_taken = named and any(other.name != pool.name and named.may_share_gpus(other) for other in changed)
    if named and (is_taken or pool.name not in movable):
        way = f"restore {named.labels_text}, and add nodes with other labels as another pool"
        message = f"cannot change while {named.holders_text} of this pool: {way}"
        return Conflict(pool=pool.name, message=message, is_relabelled=True)
    for used in by_name.values():
        if used.name == pool.name or used.is_declared_as(valid.get(used.name)) or not used.may_share_gpus(pool):
            continue
        way = f"declare pool {used.name} with {used.labels_text} again, or leave this pool out until they have moved"
        return Conflict(pool=used.name, message=f"select nodes of pool {used.name}, where {used.holders_text}: {way}")
    return None
