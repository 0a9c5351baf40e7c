"""The published ledger counts for the nodes for which it was published, also after their pool was renamed."""

from dataclasses import dataclass

import pytest

from function.api.inference_environment import parse_environment
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest
from tests.api import manifests
from tests.api.manifests import pool


def named(uid: str, name: str) -> Manifest:
    """Returns a row of `status.admitted`: one replica on one node of eight GPUs."""
    return {"uid": uid, "namespace": "team", "name": uid, "pool": name, "nodes": 1, "gpusPerNode": 8, "replicas": 1}


def pool_row(name: str, selector: Manifest | None) -> Manifest:
    row: Manifest = {"name": name, "free": [{"gpus": 8, "nodes": 1}], "placements": 1}
    return row if selector is None else {**row, "nodeSelector": selector}


@dataclass(frozen=True)
class RelabelledCase:
    id: str
    reason: str
    published: tuple[tuple[str, Manifest | None], ...]
    pools: tuple[tuple[str, Manifest], ...]
    admitted: list[tuple[str, str]]
    free: set[str]


X: Manifest = {"type": "x"}
Y: Manifest = {"type": "y"}
XZ: Manifest = {"type": "x", "zone": "z"}
RELABELLED = (
    RelabelledCase("same", "The rows are for the nodes that the pools select.", (("a", X), ("b", Y)),
                   (("a", X), ("b", Y)), [("one", "a"), ("two", "b")], {"a", "b"}),
    RelabelledCase("swapped", "Each grant is for the nodes for which it was given.", (("a", X), ("b", Y)),
                   (("a", Y), ("b", X)), [("one", "b"), ("two", "a")], set()),
    RelabelledCase("renamed", "The new name selects the nodes of pool a.", (("a", X), ("b", Y)),
                   (("new", X), ("b", Y)), [("one", "new"), ("two", "b")], {"b"}),
    RelabelledCase("narrower", "No other pool has any of the nodes.", (("a", X), ("b", Y)),
                   (("a", XZ), ("b", Y)), [("one", "a"), ("two", "b")], {"b"}),
    RelabelledCase("merged", "One grant for each placement.", (("a", X), ("b", XZ)),
                   (("b", X),), [("one", "b"), ("two", "b")], set()),
    RelabelledCase("not recorded", "Without recorded labels the names count.", (("a", None), ("b", None)),
                   (("a", Y), ("b", X)), [("one", "a"), ("two", "b")], {"a", "b"}),
)  # fmt: skip


@pytest.mark.parametrize("case", RELABELLED, ids=lambda case: case.id)
def test_published_ledger_counts_for_the_pool_that_selects_its_nodes(case: RelabelledCase) -> None:
    """Two pools that exchanged their names were each taken for the other until the environment published again."""
    there = manifests.environment(*(pool(name, labels=labels) for name, labels in case.pools))
    status: Manifest = {
        "pools": [pool_row(name, selector) for name, selector in case.published],
        "admitted": [named("one", "a"), named("two", "b")],
    }
    parsed = parse_environment({**there, "status": status}, BUILT_IN).value
    assert sorted((grant.uid, grant.share.pool) for grant in parsed.admitted) == case.admitted, case.reason
    assert set(parsed.free) & {name for name, _ in case.pools} == case.free, case.reason


@pytest.mark.parametrize("rows", [(3, 2), (2, 3)], ids=str)
def test_grants_of_one_placement_for_merged_pools_count_once(rows: tuple[int, int]) -> None:
    """While a placement moved from one pool to the other it was granted both, which are one pool now."""
    status: Manifest = {
        "pools": [pool_row("a", X), pool_row("b", XZ)],
        "admitted": [{**named("one", "a"), "replicas": rows[0]}, {**named("one", "b"), "replicas": rows[1]}],
    }
    parsed = parse_environment({**manifests.environment(pool("c", labels=X)), "status": status}, BUILT_IN).value
    assert [(grant.share.pool, grant.share.replicas) for grant in parsed.admitted] == [("c", 3)]
