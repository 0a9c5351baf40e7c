"""An edit of what a pool gives its pods reaches the services that run there; another release's preset does not."""

from dataclasses import dataclass, replace

import pytest

from function.api import node_pool
from function.api.pod_additions import get_preset
from function.domain.pods import PodAdditions
from function.kube.manifests import JSON, get
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    composed_service,
    edit_environment,
    load_scene,
    observed_service,
    relabel_idle_pool,
)

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
    Edited("taints", f"{POOL}.taints", [{"key": "t", "effect": "NoSchedule"}], "'key': 't'"),
)


@pytest.mark.parametrize("case", EDITED, ids=lambda case: case.id)
def test_edited_pool_changes_its_services(case: Edited) -> None:
    edited = composed_service(load_scene(SEVERAL_NODES).edited(edit_environment(case.field, case.value)))
    assert [case.shown in str(get(edited, f"spec.{part}")) for part in ("template", "worker")] == [True, True]


def test_relabelled_pool_moves_no_service() -> None:
    rest = load_scene(SEVERAL_NODES)
    assert composed_service(rest.edited(edit_environment(f"{POOL}.labels", {"zone": "b"}))) == observed_service(rest)
    moved = composed_service(rest.edited(relabel_idle_pool({"zone": "b"})))
    assert get(moved, "spec.template.nodeSelector") == {"zone": "b"}, "without a ledger, the declared nodes count"


def test_allowing_fallback_changes_services() -> None:
    assert "NCCL_NET'" in str(observed_service(load_scene(SEVERAL_NODES)))
    opened = load_scene(SEVERAL_NODES).edited(edit_environment(f"{POOL}.interNode.failClosed", value=False))
    assert "NCCL_NET'" not in str(composed_service(opened))


def test_inter_node_edit_keeps_service_on_one_node() -> None:
    rest = load_scene(ONE_NODE)
    edited = rest.edited(edit_environment(f"{POOL}.interNode", {"preset": "coreweave-infiniband"}))
    assert composed_service(edited) == observed_service(rest)


def test_changed_preset_keeps_running_service(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = get_preset("network-operator-shared")
    news = replace(preset, pod=PodAdditions(env=({"name": "NEWS", "value": "1"},)), nccl_net="Other")
    monkeypatch.setattr(node_pool, "get_preset", {preset.name: news}.__getitem__)
    rest = load_scene(SEVERAL_NODES)
    assert composed_service(rest) == observed_service(rest)
    assert "NEWS" in str(composed_service(rest.edited(edit_environment(f"{POOL}.interNode.with.count", 2)))), (
        "the preset of this release applies with the next edit"
    )
