"""Which nodes are looked at, and what provider-kubernetes says of them; its words are those of version 1.2.1."""

from dataclasses import dataclass

import pytest

from function.domain.environment import Environment, Hardware, Observe
from function.kube.manifests import Manifest
from function.reasons import HardwareAsDeclared
from function.remote.node_facts import NodeSelection, Unobserved, observe_nodes, parse_member, select_nodes
from tests.support.nodes import POOL, collection, environment, member, node, pool

WIDE = pool("wide", max_nodes=64)
CHOSEN: Manifest = {"matchLabels": {"gpu": "yes"}}


def hardware(observe: Observe, selector: Manifest | None = None) -> Hardware:
    return Hardware(observe=observe, selector=selector)


@dataclass(frozen=True)
class Selected:
    id: str
    reason: str
    environment: Environment
    want: Manifest | Unobserved


SELECTED = (
    Selected("one-pool", "all labels of the only pool", environment(pool()), {"matchLabels": {POOL: "h100"}}),
    Selected("shared", "what all pools share",
             environment(pool(labels=(("gpu", "yes"), ("x", "1"))), pool("b", labels=(("gpu", "yes"), ("x", "2")))),
             {"matchLabels": {"gpu": "yes"}}),
    Selected("key", "else a label that all have",
             environment(pool("b"), pool("a")),
             {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["a", "b"]}]}),
    Selected("nothing-in-common", "no label is every pool's", environment(pool(), pool("b", labels=(("x", "1"),))),
             Unobserved.NO_LABELS),
    Selected("no-labels", "a pool without labels has none in common", environment(pool(labels=())),
             Unobserved.NO_LABELS),
    Selected("given", "what is said counts",
             environment(pool(labels=()), hardware=hardware(Observe.AUTO, CHOSEN)), CHOSEN),
    Selected("never", "nobody is to look", environment(hardware=hardware(Observe.NEVER, CHOSEN)), Unobserved.NEVER),
    Selected("file", "who stands in a file has no cluster to ask", environment(uid=""), Unobserved.IN_FILE),
    Selected("no-pools", "there is nothing to compare", Environment(name="east", uid="1"), Unobserved.NO_POOLS),
    Selected("no-pools-always", "who has no pool yet may look what there is",
             Environment(name="east", uid="1", hardware=hardware(Observe.ALWAYS)), {}),
    Selected("64", "Auto looks at 64", environment(WIDE), {"matchLabels": {POOL: "wide"}}),
    Selected("65", "and not at 65", environment(WIDE, pool(max_nodes=1)), Unobserved.TOO_MANY),
    Selected("always", "unless it is told to", environment(WIDE, WIDE, hardware=hardware(Observe.ALWAYS)),
             {"matchLabels": {POOL: "wide"}}),
    Selected("always-all", "then also at every node", environment(pool(labels=()), hardware=hardware(Observe.ALWAYS)),
             {}),
)  # fmt: skip


@pytest.mark.parametrize("case", SELECTED, ids=lambda c: c.id)
def test_selection(case: Selected) -> None:
    want = {"unobserved": case.want} if isinstance(case.want, Unobserved) else {"selector": case.want}
    assert select_nodes(case.environment) == NodeSelection(**want), case.reason


FORBIDDEN_LIST = (
    "error fetching objects for GVK /v1, Kind=NodeList and options {modelplane.ai/pool=h100    0  <nil> <nil>}: nodes "
    'is forbidden: User "modelplane" cannot list resource "nodes" in API group "" at the cluster scope'
)
FORBIDDEN_PATCH = (
    'observe failed: cannot get desired state: cannot dry run SSA: nodes "gpu-1" is forbidden: User "modelplane" '
    'cannot patch resource "nodes" in API group "" at the cluster scope'
)
AWAY = 'observe failed: cannot get object: Get "https://10.0.0.1:6443": dial tcp 10.0.0.1:6443: i/o timeout'
GONE = "observe failed: external resource does not exist"


@dataclass(frozen=True)
class Seen:
    id: str
    reason: str
    collection: Manifest | None
    members: tuple[Manifest, ...] | None
    want: HardwareAsDeclared | None
    nodes: tuple[str, ...] = ()


SEEN = (
    Seen("not-composed", "nobody looks yet", None, None, HardwareAsDeclared.OBSERVING),
    Seen("not-listed", "never reconciled is not empty", collection(listed=False), (), HardwareAsDeclared.OBSERVING),
    Seen("not-answered", "Crossplane has not fetched them", collection(), None, HardwareAsDeclared.OBSERVING),
    Seen("none", "listed, and there is none", collection(), (), None),
    Seen("one", "", collection(), (member(node()),), None, ("gpu-1",)),
    Seen("unseen-member", "a node that was not read is not absent", collection(),
         (member(node()), member(node("gpu-2"), seen=False)), HardwareAsDeclared.OBSERVING),
    Seen("two-of-one-name", "two nodes whose Objects have one name: it shows another than it is for",
         collection(), (member(node(), meant="gpu-7"),), HardwareAsDeclared.OBSERVING),
    Seen("gone", "deleted since the list", collection(), (member(node()), member(node("gpu-2"), synced=GONE)), None,
         ("gpu-1",)),
    Seen("leaving", "the list no longer has it", collection(), (member(node(), leaving=True),), None),
    Seen("somebody-elses", "another collection of that name had it", collection(), (member(node(), owner="other"),),
         None),
    Seen("forbidden", "the kubeconfig may not list", collection(synced=FORBIDDEN_LIST), (member(node()),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-at-first", "nor could it ever", collection(listed=False, synced=FORBIDDEN_LIST), (),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-patch", "it may list and not patch", collection(), (member(node(), synced=FORBIDDEN_PATCH),),
         HardwareAsDeclared.FORBIDDEN),
    Seen("forbidden-first", "what somebody can mend is said first", collection(),
         (member(node("a"), synced=AWAY), member(node("b"), synced=FORBIDDEN_PATCH)), HardwareAsDeclared.FORBIDDEN),
    Seen("away", "the past is no present", collection(synced=AWAY), (member(node()),), HardwareAsDeclared.UNREACHABLE),
    Seen("member-away", "nor is one member's", collection(), (member(node(), synced=AWAY), member(node("gpu-2"))),
         HardwareAsDeclared.UNREACHABLE),
)  # fmt: skip


@pytest.mark.parametrize("case", SEEN, ids=lambda c: c.id)
def test_sight(case: Seen) -> None:
    found = observe_nodes(case.collection, None if case.members is None else map(parse_member, case.members))
    assert (found.reason, tuple(n.name for n in found.nodes)) == (case.want, case.nodes), case.reason


@pytest.mark.parametrize("said", [FORBIDDEN_LIST, FORBIDDEN_PATCH])
def test_the_providers_words_are_kept(said: str) -> None:
    assert observe_nodes(collection(synced=said), ()).message == said
