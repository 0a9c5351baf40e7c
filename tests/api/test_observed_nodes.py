"""Parsing which nodes are observed, and what status has of them."""

from dataclasses import dataclass

import pytest

from function.api.inference_environment import parse_environment
from function.domain.environment import Observe
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api import manifests
from tests.api.manifests import pool


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    hardware: JSON
    want: Observe = Observe.AUTO
    selector: Manifest | None = None
    at: tuple[str, ...] = ()


ONE: Manifest = {"matchLabels": {"gpu": "yes"}}
SELECTOR = "spec.hardware.selector"
CASES = (
    Case("nothing", "the default is Auto", None),
    Case("auto", "Auto can be set explicitly", {"observe": "Auto"}),
    Case("never", "Never turns the observation off", {"observe": "Never"}, Observe.NEVER),
    Case("selector", "the selector is used as written", {"observe": "Always", "selector": ONE},
         Observe.ALWAYS, ONE),
    Case("sometimes", "only three values are allowed", {"observe": "Sometimes"}, at=("spec.hardware.observe",)),
    Case("empty", "an empty selector would list all nodes", {"selector": {}}, at=(SELECTOR,)),
    Case("empty-labels", "a selector with empty terms would list all nodes",
         {"selector": {"matchLabels": {}, "matchExpressions": []}}, at=(SELECTOR,)),
    Case("no-label", "an invalid label key is refused", {"selector": {"matchLabels": {"a b": "c"}}},
         at=(f"{SELECTOR}.matchLabels.a b",)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_which_nodes_are_observed(case: Case) -> None:
    parsed = parse_environment(manifests.environment(pool(), hardware=case.hardware), BUILT_IN)
    assert tuple(problem.path for problem in parsed.problems) == case.at, case.reason
    assert (parsed.value.observe, parsed.value.node_selector) == (case.want, case.selector), case.reason


@dataclass(frozen=True)
class Grows:
    id: str
    reason: str
    fields: Manifest
    want: bool | None


GROWS = (
    Grows("more", "a pool that may have more nodes is autoscaled", {"nodeCount": 2, "maxNodeCount": 4}, True),
    Grows("from-zero", "a missing nodeCount counts as zero", {"maxNodeCount": 4}, True),
    Grows("same", "a pool that has its maximum of nodes is not autoscaled", {"nodeCount": 4, "maxNodeCount": 4}, False),
    Grows("fixed", "a pool without maxNodeCount is not autoscaled", {"nodeCount": 4}, False),
    Grows("said", "an explicit false takes precedence over the numbers",
          {"maxNodeCount": 4, "autoscaled": False}, False),
    Grows("said-true", "an explicit true takes precedence over the numbers",
          {"nodeCount": 4, "maxNodeCount": 4, "autoscaled": True}, True),
    Grows("to-nowhere", "an autoscaled pool needs maxNodeCount", {"nodeCount": 4, "autoscaled": True}, None),
)  # fmt: skip


@pytest.mark.parametrize("case", GROWS, ids=lambda c: c.id)
def test_parses_whether_a_pool_is_autoscaled(case: Grows) -> None:
    environment = manifests.environment({"name": "h100", **case.fields})
    parsed = parse_environment(environment, BUILT_IN)
    if case.want is None:
        assert [problem.path for problem in parsed.problems] == ["spec.nodePools[0].autoscaled"], case.reason
    else:
        assert [found.autoscaled for found in parsed.value.pools] == [case.want], case.reason


def test_ignores_unknown_words_in_status() -> None:
    """Another release may have written the status: unknown words are ignored."""
    found = manifests.environment({"name": "h100", "nodeCount": 2})
    observed: Manifest = {
        "nodes": 2,
        "usable": 1,
        "memoryPerGpu": "a lot",
        "unusable": [{"reason": "Haunted", "count": 1, "nodes": ["a"]}, {"reason": "Cordoned", "nodes": "none"}],
        "drift": [{"field": "colour", "declared": "red", "observed": "blue"}],
    }
    found["status"] = {"pools": [{"name": "h100", "observed": observed}]}
    (read,) = parse_environment(found, BUILT_IN).value.pools
    assert read.facts is not None
    assert (read.usable_nodes, read.facts.memory_per_gpu, read.facts.drift) == (1, None, ())
    assert [(str(row.reason), row.nodes) for row in read.facts.unusable] == [("Cordoned", ())]
