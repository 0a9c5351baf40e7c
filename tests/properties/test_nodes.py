"""Whatever nodes there are: their order changes nothing, no pool has more than it declares, and no heartbeat counts."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from function.domain.environment import Pool
from function.kube.manifests import Manifest
from function.remote.nodes import parse_node, summarize_pools
from function.status.inference_environment import build_node_facts
from tests.support.nodes import H100, POOL, environment, node, pool, taint

NODES = st.builds(
    node,
    st.uuids().map(str),
    st.sampled_from([{POOL: "h100"}, {POOL: "h100", **H100}, {POOL: "h200"}, {POOL: "h100", "tier": "gold"}, {}]),
    gpus=st.sampled_from(["8", "7", 8, None, "many"]),
    taints=st.sampled_from([(), (taint("dedicated", "ml"),), (taint("nvidia.com/gpu", "present"),)]),
    ready=st.sampled_from(["True", "False", "Unknown"]),
    cordoned=st.booleans(),
    deleting=st.booleans(),
)
POOLS = st.builds(
    pool,
    st.sampled_from(["h100", "h200"]),
    max_nodes=st.integers(0, 6),
    gpus_per_node=st.sampled_from([4, 8]),
    autoscaled=st.booleans(),
    memory_per_gpu=st.sampled_from([None, 80 * 2**30, 141 * 2**30]),
)
BEAT, NEXT_BEAT = "2026-01-01T00:00:00Z", "2026-06-06T06:06:06Z"
GOLD = Pool(name="gold", gpus_per_node=8, max_nodes=2, labels=(("tier", "gold"),))


@settings(max_examples=100, deadline=None)
@given(nodes=st.lists(NODES, max_size=8), declared=POOLS, seed=st.integers(0, 99))
def test_order_and_heartbeats_change_nothing(nodes: list[Manifest], declared: Pool, seed: int) -> None:
    where = environment(declared, GOLD)
    facts = summarize_pools(where, map(parse_node, nodes))
    later = [beaten(each) for each in random.Random(seed).sample(nodes, len(nodes))]  # an order
    assert summarize_pools(where, map(parse_node, later)) == facts
    said = str({name: build_node_facts(found) for name, found in facts.items()})
    assert BEAT not in said
    assert NEXT_BEAT not in said


def beaten(manifest: Manifest) -> Manifest:
    """Return a node after its next heartbeat."""
    later: Manifest = json.loads(json.dumps(manifest).replace(BEAT, NEXT_BEAT))
    return later


@settings(max_examples=100, deadline=None)
@given(nodes=st.lists(NODES, max_size=8), declared=POOLS)
def test_no_more_is_usable_than_is_declared(nodes: list[Manifest], declared: Pool) -> None:
    where = environment(declared, GOLD)
    for found in where.pools:
        facts = summarize_pools(where, map(parse_node, nodes))[found.name]
        seen = pool(found.name, max_nodes=found.max_nodes, autoscaled=found.autoscaled, facts=facts)
        assert 0 <= facts.usable <= facts.nodes
        assert facts.nodes - facts.usable == sum(row.count for row in facts.unusable)
        assert 0 <= seen.usable_nodes <= found.max_nodes
