"""Pools whose labels or names change while placements serve on them (decision 41)."""

from dataclasses import dataclass

import pytest

from function.api.inference_environment import parse_environment
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api import manifests
from tests.api.manifests import pool

X: Manifest = {"type": "x"}
Y: Manifest = {"type": "y"}
XZ: Manifest = {"type": "x", "zone": "z"}
SERVING: Manifest = {"count": 1, "placements": ["team/chat"]}


def row(name: str, selector: Manifest | None, serving: Manifest | None = None) -> Manifest:
    """Returns a pool in status, with one free node."""
    published: Manifest = {"name": name, "free": [{"gpus": 8, "nodes": 1}], "placements": 1}
    published |= {} if selector is None else {"nodeSelector": selector}
    return published if serving is None else {**published, "serving": serving}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    rows: tuple[Manifest, ...]
    pools: tuple[tuple[str, Manifest], ...]
    problems: dict[str, str]  # by the number of the pool
    valid: list[str]
    broken: list[str]
    free: set[str]


RESTORE_X = "cannot change while team/chat serves there: restore type=x, and add other nodes as another pool"
TAKES_A = "select nodes of pool a, where team/chat serves: restore pool a, or add this pool once they have moved"
A_SERVES = (row("a", X, SERVING), row("b", Y))
CASES = (
    Case("same", "nothing has changed", A_SERVES, (("a", X), ("b", Y)), {}, ["a", "b"], [], {"a", "b"}),
    Case("relabelled", "the pods of pool a are on other nodes than it selects now", A_SERVES, (("a", XZ), ("b", Y)),
         {"0": RESTORE_X}, ["b"], ["a"], {"b"}),
    Case("idle", "nothing serves on pool b; its published row is about other nodes", A_SERVES,
         (("a", X), ("b", {"type": "z"})), {}, ["a", "b"], [], {"a"}),
    Case("renamed", "pool new would have the nodes of pool a", A_SERVES, (("new", X), ("b", Y)),
         {"0": TAKES_A}, ["b"], ["new", "a"], {"b"}),
    Case("narrower", "pool new would have some nodes of pool a", A_SERVES, (("new", XZ), ("b", Y)),
         {"0": TAKES_A}, ["b"], ["new", "a"], {"b"}),
    Case("wider", "pool new would have all nodes, also those of pool a", A_SERVES, (("b", Y), ("new", {})),
         {"1": TAKES_A}, ["b"], ["new", "a"], {"b"}),
    Case("moved here", "pool b would have the nodes of pool a", A_SERVES, (("b", X),),
         {"0": TAKES_A}, [], ["b", "a"], set()),
    Case("exchanged", "each pool would have the nodes of the other",
         (row("a", X, SERVING), row("b", Y, {"count": 5, "placements": ["team/d", "team/e", "team/f"]})),
         (("a", Y), ("b", X)),
         {"0": RESTORE_X, "1": "cannot change while team/d, team/e, team/f and 2 more serve there: restore type=y, and "
                               "add other nodes as another pool"}, [], ["a", "b"], set()),
    Case("removed", "pool a is removed, and no other pool gets its nodes: its placements move", A_SERVES,
         (("b", Y), ("new", {"type": "z"})), {}, ["b", "new"], [], {"b"}),
    Case("beside", "pool wide had nodes of pool a before, with other GPUs", (row("a", X, SERVING), row("wide", {})),
         (("wide", {}),), {}, ["wide"], [], {"wide"}),
    Case("without labels", "a pool without labels is in use as well", (row("a", {}, SERVING),), (("a", X),),
         {"0": RESTORE_X.replace("type=x", "no labels")}, [], ["a"], set()),
    Case("not recorded", "an earlier release did not record the labels", (row("a", None, SERVING),), (("a", Y),),
         {}, ["a"], [], {"a"}),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nodes_of_a_pool_in_use_stay_its_nodes(case: Case) -> None:
    declared = manifests.environment(*(pool(name, labels=labels) for name, labels in case.pools))
    rows: list[JSON] = [*case.rows]
    parsed = parse_environment({**declared, "status": {"pools": rows}}, BUILT_IN)
    problems = {Problem(f"spec.nodePools[{number}].labels", message) for number, message in case.problems.items()}
    assert set(parsed.problems) == problems, case.reason
    assert parsed.pools.conflicts == problems
    assert not parsed.value.broken, "the other pools still count"
    assert [p.name for p in parsed.value.pools] == case.valid
    assert [*parsed.value.broken_pools] == case.broken
    assert set(parsed.value.free) & {*case.valid} == case.free & {*case.valid}
