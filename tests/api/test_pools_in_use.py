"""Pools whose labels or names change while placements serve on them (decision 41)."""

from dataclasses import dataclass, field

import pytest

from function.api.inference_environment import parse_environment
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api import manifests
from tests.api.manifests import pool

X: Manifest = {"type": "x"}
Y: Manifest = {"type": "y"}
Z: Manifest = {"type": "z"}
XZ: Manifest = {"type": "x", "zone": "z"}
MIG = "nvidia.com/mig-1g.10gb"
GPUS = "nvidia.com/gpu"


def row(name: str, selector: Manifest | None) -> Manifest:
    """Returns a pool in status, with one free node."""
    published: Manifest = {"name": name, "free": [{"gpus": 8, "nodes": 1}], "placements": 1, "gpuResource": GPUS}
    return published if selector is None else {**published, "nodeSelector": selector}


def admitted(pool: str, name: str = "chat") -> Manifest:
    return {"uid": name, "namespace": "team", "name": name, "pool": pool, "nodes": 1, "gpusPerNode": 8, "replicas": 1}


@dataclass(frozen=True, kw_only=True)
class Case:
    reason: str
    rows: tuple[Manifest, ...] = (row("a", X), row("b", Y))
    admitted: tuple[Manifest, ...] = (admitted("a"),)
    pools: tuple[JSON, ...]
    conflicts: dict[str, str] = field(default_factory=dict)  # by the path of the problem below the list
    other_problems: frozenset[str] = frozenset()  # their paths
    movable: frozenset[str] = frozenset()
    valid: list[str]
    broken: list[str] = field(default_factory=list)


A, B = pool("a", labels=X), pool("b", labels=Y)
RESTORE_X = (
    "cannot change while team/chat has GPUs of this pool: restore type=x, and add nodes with other labels as another "
    "pool"
)
TAKES_A = (
    "select nodes of pool a, where team/chat has GPUs: declare pool a with type=x again, or leave this pool out until "
    "they have moved"
)
CASES = {
    "same": Case(reason="nothing has changed", pools=(A, B), valid=["a", "b"]),
    "relabelled": Case(
        reason="the pods of pool a are on other nodes than it selects now",
        pools=(pool("a", labels=XZ), B), conflicts={"[0].labels": RESTORE_X}, valid=["b"], broken=["a"],
    ),
    "movable": Case(
        reason="nothing serves on pool a, so the environment accepts its new labels",
        pools=(pool("a", labels=XZ), B), movable=frozenset({"a"}), valid=["a", "b"],
    ),
    "movable, nodes taken": Case(
        reason="a placement of pool a may have started to serve a moment ago (histories, seed 400778)",
        pools=(pool("a", labels=Y), pool("b", labels=X)), movable=frozenset({"a"}),
        conflicts={"[0].labels": RESTORE_X, "[1].labels": TAKES_A}, valid=[], broken=["a", "b"],
    ),
    "movable, nodes taken by a new pool": Case(
        reason="the nodes of pool a would have another name",
        pools=(pool("a", labels=Z), B, pool("new", labels=X)), movable=frozenset({"a"}),
        conflicts={"[0].labels": RESTORE_X, "[2].labels": TAKES_A}, valid=["b"], broken=["a", "new"],
    ),
    "movable beside a pool of all nodes": Case(
        reason="pool b had the nodes of pool a before; it counts again once the new labels are published",
        rows=(row("a", X), row("b", {})), pools=(pool("a", labels=XZ), pool("b")), movable=frozenset({"a"}),
        conflicts={"[1].labels": TAKES_A}, valid=["a"], broken=["b"],
    ),
    "idle": Case(reason="no placement has GPUs of pool b", pools=(A, pool("b", labels=Z)), valid=["a", "b"]),
    "renamed": Case(
        reason="pool new would have the nodes of pool a",
        pools=(pool("new", labels=X), B), conflicts={"[0].labels": TAKES_A}, valid=["b"], broken=["new", "a"],
    ),
    "narrower": Case(
        reason="pool new would have some nodes of pool a",
        pools=(pool("new", labels=XZ), B), conflicts={"[0].labels": TAKES_A}, valid=["b"], broken=["new", "a"],
    ),
    "wider": Case(
        reason="pool new would have all nodes, also those of pool a",
        pools=(B, pool("new")), conflicts={"[1].labels": TAKES_A}, valid=["b"], broken=["new", "a"],
    ),
    "moved here": Case(
        reason="pool b would have the nodes of pool a",
        pools=(pool("b", labels=X),), conflicts={"[0].labels": TAKES_A}, valid=[], broken=["b", "a"],
    ),
    "exchanged": Case(
        reason="each pool would have the nodes of the other",
        admitted=(admitted("a"), *(admitted("b", name) for name in "edfgh")),
        pools=(pool("a", labels=Y), pool("b", labels=X)),
        conflicts={
            "[0].labels": RESTORE_X,
            "[1].labels": "cannot change while team/d, team/e, team/f and 2 more have GPUs of this pool: restore "
            "type=y, and add nodes with other labels as another pool",
        },
        valid=[], broken=["a", "b"],
    ),
    "removed": Case(
        reason="pool a is removed, and no other pool gets its nodes: its placements move",
        pools=(B, pool("new", labels=Z)), valid=["b", "new"],
    ),
    "overlap, in use": Case(
        reason="pool wide had nodes of pool a before, and placements of its own",
        rows=(row("a", X), row("wide", {})), admitted=(admitted("a"), admitted("wide", "other")),
        pools=(pool("wide"),), valid=["wide"],
    ),
    "overlap, not in use": Case(
        reason="pool wide would be counted without what runs on the nodes of pool a",
        rows=(row("a", X), row("wide", {})), pools=(pool("wide"),), conflicts={"[0].labels": TAKES_A},
        valid=[], broken=["wide", "a"],
    ),
    "other GPUs": Case(
        reason="pool slices has other GPUs of the same nodes",
        rows=(row("a", X), row("slices", X)), pools=(pool("slices", labels=X, gpuResource=MIG),),
        valid=["slices"],
    ),
    "twin before it": Case(
        reason="of two pools with the same nodes, the one in use counts", pools=(pool("new", labels=X), A),
        other_problems=frozenset({"[0].labels"}), valid=["a"], broken=["new"],
    ),
    "invalid beside": Case(
        reason="pool a keeps its nodes, although another field of it is invalid",
        pools=(pool("a", labels=X, capabilities={"interconnect": "bogus"}), pool("new", labels=X)),
        conflicts={"[1].labels": TAKES_A}, other_problems=frozenset({"[0].capabilities.interconnect"}),
        valid=[], broken=["a", "new"],
    ),
    "duplicate name": Case(
        reason="neither of two pools with the name of pool a is valid",
        pools=(pool("a", labels=Y), A, pool("new", labels=X)),
        conflicts={"[0].labels": RESTORE_X, "[2].labels": TAKES_A}, other_problems=frozenset({"[1].name"}),
        valid=[], broken=["a", "a", "new"],
    ),
    "without GPUs": Case(
        reason="pool a counts no GPUs any more, and its nodes are still in use",
        pools=(pool("a", labels=X, acceleratorCount=0), pool("new", labels=X)), conflicts={"[1].labels": TAKES_A},
        valid=[], broken=["new", "a"],
    ),
    "without labels": Case(
        reason="a pool without labels is in use as well", rows=(row("a", {}),), pools=(A,),
        conflicts={"[0].labels": RESTORE_X.replace("type=x", "no labels")}, valid=[], broken=["a"],
    ),
    "not recorded": Case(
        reason="an earlier release did not record the labels", rows=(row("a", None),), pools=(pool("a", labels=Y),),
        valid=["a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nodes_of_a_pool_in_use_stay_its_nodes(case: Case) -> None:
    rows: list[JSON] = [*case.rows]
    grants: list[JSON] = [*case.admitted]
    declared = manifests.environment(*case.pools)
    parsed = parse_environment({**declared, "status": {"pools": rows, "admitted": grants}}, BUILT_IN, case.movable)
    conflicts = {Problem(f"spec.nodePools{path}", message) for path, message in case.conflicts.items()}
    assert parsed.pools.conflicts == conflicts, case.reason
    others = {problem.path.removeprefix("spec.nodePools") for problem in set(parsed.problems) - conflicts}
    assert others == case.other_problems
    assert not parsed.value.broken, "the other pools still count"
    assert [p.name for p in parsed.value.pools] == case.valid
    assert [*parsed.value.broken_pools] == case.broken


def test_published_free_nodes_count_for_the_labels_for_which_they_were_published() -> None:
    rows: list[JSON] = [row("a", X), row("b", Y), row("c", None)]
    declared = manifests.environment(A, pool("b", labels=Z), pool("c", labels=XZ))
    parsed = parse_environment({**declared, "status": {"pools": rows}}, BUILT_IN)
    assert parsed.value.free.keys() == {"a", "c"}
