"""An edit of what a pool gives its pods reaches the services that run there; another release's preset does not."""

from dataclasses import dataclass, replace

import pytest

from function.api import node_pool
from function.api.pods import get_preset
from function.domain.pods import PodAdditions
from function.kube.manifests import JSON, get
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, environment, only, running, scene

POOL = "nodePools.0"


@dataclass(frozen=True)
class Edited:
    id: str
    field: str
    value: JSON
    shown: str


EDITED = (
    Edited("pod", f"{POOL}.pod", {"priorityClassName": "high"}, "'priorityClassName': 'high'"),
    Edited("between", f"{POOL}.interNode.pod", {"resources": {"example.com/nic": 1}}, "'example.com/nic': '1'"),
    Edited("input", f"{POOL}.interNode.with.count", 2, "'rdma/rdma_shared_device_a': '2'"),
    Edited("labels", f"{POOL}.labels", {"zone": "b"}, "'nodeSelector': {'zone': 'b'}"),
    Edited("taints", f"{POOL}.taints", [{"key": "t", "effect": "NoSchedule"}], "'key': 't'"),
)


@pytest.mark.parametrize("case", EDITED, ids=lambda case: case.id)
def test_an_edit_of_a_pool_reaches_its_services_at_once(case: Edited) -> None:
    edited = only(scene(SEVERAL_NODES).edited(environment(case.field, case.value)))
    assert [case.shown in str(get(edited, f"spec.{part}")) for part in ("template", "worker")] == [True, True]


def test_who_may_fall_back_to_sockets_is_let_at_once() -> None:
    assert "NCCL_NET'" in str(running(scene(SEVERAL_NODES)))
    opened = scene(SEVERAL_NODES).edited(environment(f"{POOL}.interNode.failClosed", value=False))
    assert "NCCL_NET'" not in str(only(opened))


def test_between_nodes_is_nothing_to_a_service_of_one() -> None:
    rest = scene(ONE_NODE)
    edited = rest.edited(environment(f"{POOL}.interNode", {"preset": "coreweave-infiniband"}))
    assert only(edited) == running(rest)


def test_another_releases_preset_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = get_preset("network-operator-shared")
    news = replace(preset, pod=PodAdditions(env=({"name": "NEWS", "value": "1"},)), nccl_net="Other")
    monkeypatch.setattr(node_pool, "get_preset", {preset.name: news}.__getitem__)
    rest = scene(SEVERAL_NODES)
    assert only(rest) == running(rest)
    assert "NEWS" in str(only(rest.edited(environment(f"{POOL}.interNode.with.count", 2)))), "it comes with an edit"
