"""Edits and removals of a cluster that was created on GKE: what is never sent, and never deleted."""

import copy

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping
from tests.support.gke import build_definitions
from tests.support.gke_scene import A100, CLUSTER, KEEP, SYSTEM, Scene, environment, policies, said


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("machineType", "a2-newer-4g", "machineType is a2-newer-4g as declared and a2-ultragpu-4g in Google Cloud"),
        ("diskSizeGb", 200, "diskSizeGb is 200 as declared and 100 in Google Cloud"),
        (
            "zones",
            ["us-central1-a", "us-central1-b"],
            "zones is us-central1-a,us-central1-b as declared and us-central1-a in Google Cloud",
        ),
    ],
)
def test_an_edit_that_rolls_nodes_is_not_sent_while_the_pool_is_used(field: str, value: JSON, words: str) -> None:
    """Removing a pool and adding it again evades every rule of the schema."""
    scene = Scene()
    scene.bring_up()
    before = mapping(scene.observed[A100], "spec.forProvider")
    scene.place()
    mapping(scene.pool(), "gke")[field] = value
    outcome = scene.reconcile()
    assert mapping(outcome.composed[A100].manifest, "spec.forProvider") == before
    assert said(outcome, "PoolsValid")[:2] == ("False", "PoolInUse")
    assert said(outcome, "PoolsValid")[2].startswith(
        f"node pool a100: {words}. GKE would replace, restart or remove nodes"
    )
    scene.placements = []
    scene.xr["status"] = {}
    outcome = scene.reconcile()
    assert mapping(outcome.composed[A100].manifest, "spec.forProvider") != before, "nothing is placed any more"


def test_an_edit_is_not_sent_while_the_placements_are_unknown() -> None:
    scene = Scene()
    scene.bring_up()
    before = mapping(scene.observed[A100], "spec.forProvider")
    mapping(scene.pool(), "gke")["machineType"] = "a2-newer-4g"
    outcome = scene.reconcile(unanswered="placements")
    assert mapping(outcome.composed[A100].manifest, "spec.forProvider") == before


def test_an_edit_that_the_provider_refuses_is_never_sent() -> None:
    """A pending replacement blocks every other change of the pool, and upjet may create the pool again at deletion."""
    scene = Scene()
    scene.bring_up()
    before = mapping(scene.observed[A100], "spec.forProvider")
    mapping(scene.pool(), "gke").update({"reservation": "other", "compactPlacement": True})
    outcome = scene.reconcile()
    assert mapping(outcome.composed[A100].manifest, "spec.forProvider") == before
    assert said(outcome, "PoolsValid")[:2] == ("False", "PoolInUse")
    scene.observed[A100]["status"] = {}
    outcome = scene.reconcile()
    sent = mapping(outcome.composed[A100].manifest, "spec.forProvider")
    assert sent["placementPolicy"] == {"type": "COMPACT"}, "nothing exists yet"


def test_nodes_that_another_person_changed_are_not_rolled_back_under_load() -> None:
    scene = Scene()
    scene.bring_up()
    scene.place()
    reported = {"id": "a100", **copy.deepcopy(mapping(scene.observed[A100], "spec.forProvider"))}
    mapping(reported, "nodeConfig")["machineType"] = "a2-other-4g"
    scene.report(A100, reported)
    outcome = scene.reconcile()
    assert get(outcome.composed[A100].manifest, "spec.forProvider.nodeConfig.machineType") == "a2-other-4g"
    assert said(outcome, "PoolsValid")[:2] == ("False", "PoolInUse")


@pytest.mark.parametrize(("count", "sent"), [(2, 4), (6, 6)], ids=["fewer", "more"])
def test_a_pool_in_use_only_grows(count: int, sent: int) -> None:
    scene = Scene()
    scene.bring_up()
    scene.place()
    scene.pool()["nodeCount"] = count
    outcome = scene.reconcile()
    assert get(outcome.composed[A100].manifest, "spec.forProvider.nodeCount") == sent
    assert said(outcome, "PoolsValid")[0] == ("True" if count == sent else "False")


@pytest.mark.parametrize(("most", "sent"), [(6, 9), (12, 12)], ids=["less", "more"])
def test_the_limits_of_an_autoscaled_pool_in_use_only_grow(most: int, sent: int) -> None:
    scene = Scene()
    scene.pool()["maxNodeCount"] = 9
    scene.bring_up()
    scene.place()
    scene.pool()["maxNodeCount"] = most
    outcome = scene.reconcile()
    assert get(outcome.composed[A100].manifest, "spec.forProvider.autoscaling.totalMaxNodeCount") == sent
    assert said(outcome, "PoolsValid")[0] == ("True" if most == sent else "False")


def test_an_autoscaled_pool_in_use_does_not_become_fixed() -> None:
    """It may have more nodes than are declared, and GKE would choose those that it removes."""
    scene = Scene()
    scene.pool()["maxNodeCount"] = 9
    scene.bring_up()
    scene.place()
    del scene.pool()["maxNodeCount"]
    outcome = scene.reconcile()
    sent = mapping(outcome.composed[A100].manifest, "spec.forProvider")
    assert "nodeCount" not in sent
    assert get(sent, "autoscaling.totalMaxNodeCount") == 9
    assert "the size is fixed as declared and autoscaled in Google Cloud" in said(outcome, "PoolsValid")[2]
    scene.placements, scene.xr["status"] = [], {}
    assert get(scene.reconcile().composed[A100].manifest, "spec.forProvider.nodeCount") == 4


def test_a_removed_pool_stays_as_it_is_while_it_is_used() -> None:
    scene = Scene(environment(onRemoval="Delete"))
    scene.bring_up()
    scene.place()
    scene.reconcile()
    before = mapping(scene.observed[A100], "spec.forProvider")
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": []}
    for unanswered in ("", "placements"):
        outcome = scene.reconcile(unanswered=unanswered)
        assert mapping(outcome.composed[A100].manifest, "spec.forProvider") == before
        assert policies(outcome) == {CLUSTER: KEEP, SYSTEM: KEEP, A100: KEEP}
        assert not outcome.drops
        assert said(outcome, "PoolsValid")[1:] == (
            "NoGpuPools",
            (
                "spec.nodePools: no pool has GPUs; nothing can be placed here. Note: node pool a100 is not declared "
                "any more, and stays while it is used"
            ),
        )


def test_a_removed_pool_is_deleted_only_where_that_was_asked_for() -> None:
    scene = Scene()
    scene.bring_up()
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": []}
    outcome = scene.reconcile()
    assert [drop.key for drop in outcome.drops if drop.key.startswith("gke-")] == [A100]
    assert get(scene.observed.get(A100), "spec") is None

    scene = Scene(environment(onRemoval="Keep"))
    scene.bring_up()
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": []}
    mapping(scene.xr, "spec.cluster.gke.provision")["onRemoval"] = "Delete"
    outcome = scene.reconcile()
    assert (policies(outcome)[A100], outcome.drops) == (["*"], ()), "first the policy, then the deletion"
    outcome = scene.reconcile()
    assert [drop.key for drop in outcome.drops] == [A100]


def test_an_invalid_pool_is_not_removed() -> None:
    scene = Scene(environment(onRemoval="Delete"))
    scene.bring_up()
    scene.pool()["capabilities"] = {"memoryPerGpu": "much"}
    outcome = scene.reconcile()
    assert policies(outcome)[A100] == ["*"]
    assert not outcome.drops
    assert said(outcome, "PoolsValid")[1] == "InvalidPool"
    mapping(scene.xr, "spec.cluster.gke.provision")["onRemoval"] = "Keep"
    assert policies(scene.reconcile())[A100] == KEEP


def test_delete_takes_effect_only_while_nothing_is_placed() -> None:
    scene = Scene(environment(onRemoval="Delete"))
    assert set(map(str, policies(scene.bring_up()).values())) == {"['*']"}
    scene.place()
    scene.pool()  # the placement is on another pool than `other`
    other = {**copy.deepcopy(scene.pool()), "name": "other"}
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": [scene.pool(), other]}
    found = policies(scene.reconcile())
    assert found == {CLUSTER: KEEP, SYSTEM: KEEP, A100: KEEP, "gke-pool-other": ["*"]}
    assert set(map(str, policies(scene.reconcile(unanswered="placements")).values())) == {str(KEEP)}


def test_a_new_environment_observes_before_it_changes_nodes_that_serve() -> None:
    """An environment that is deleted and created again adopts its cluster, whatever its manifest says now."""
    scene = Scene()
    scene.place()
    mapping(scene.pool(), "gke")["machineType"] = "a2-newer-4g"
    assert policies(scene.reconcile()) == {CLUSTER: ["Observe"]}
    assert policies(scene.reconcile()) == {CLUSTER: ["Observe"]}, "the provider has not reported"
    scene.report(CLUSTER)
    assert policies(scene.reconcile()) == {CLUSTER: KEEP, SYSTEM: ["Observe"], A100: ["Observe"]}
    reported = {"id": "a100", **copy.deepcopy(mapping(scene.observed[A100], "spec.forProvider"))}
    mapping(reported, "nodeConfig")["machineType"] = "a2-ultragpu-4g"
    gpus: Manifest = {"type": "nvidia-a100-80gb", "count": 8, "gpuPartitionSize": "", "gpuSharingConfig": None}
    mapping(reported, "nodeConfig")["guestAccelerator"] = [gpus]
    reported["nodeCount"] = 9
    scene.report(A100, reported)
    outcome = scene.reconcile()
    assert policies(outcome)[A100] == KEEP
    sent = mapping(outcome.composed[A100].manifest, "spec.forProvider")
    assert get(sent, "nodeConfig.machineType") == "a2-ultragpu-4g"
    assert get(sent, "nodeConfig.guestAccelerator") == [{"type": "nvidia-a100-80gb", "count": 8}]
    assert get(sent, "nodeConfig.reservationAffinity.values") == ["projects/my-project/reservations/block"]
    assert sent["nodeCount"] == 9


def test_a_pool_that_does_not_exist_is_created_although_something_is_placed_on_it() -> None:
    scene = Scene()
    scene.place()
    scene.reconcile()
    absent = "observe failed: external resource does not exist"
    scene.report(CLUSTER, {}, Ready="False", Synced=absent)
    outcome = scene.reconcile()
    assert policies(outcome) == {CLUSTER: KEEP}
    assert said(outcome, "ClusterReady")[1] == "Provisioning"


def test_what_is_connected_is_never_taken_away() -> None:
    scene = Scene()
    before = scene.bring_up().composed.keys()
    for key in (CLUSTER, SYSTEM, A100):
        scene.report(key, {}, Ready="False", Synced="provider is down")
    outcome = scene.reconcile()
    assert before <= outcome.composed.keys()
    assert "Google Cloud: provider is down" in said(outcome, "ClusterReady")[2]
    scene.definitions = build_definitions()
    for key in (CLUSTER, SYSTEM, A100):
        del scene.observed[key]
    outcome = scene.reconcile()
    assert before - {CLUSTER, SYSTEM, A100} <= outcome.composed.keys()
    assert not policies(outcome)


def test_a_change_of_the_network_is_not_sent() -> None:
    scene = Scene()
    scene.bring_up()
    mapping(scene.xr, "spec.cluster.gke.provision")["network"] = {"name": "other"}
    outcome = scene.reconcile()
    assert get(outcome.composed[CLUSTER].manifest, "spec.forProvider.network") == "default"
    assert "network is other as declared and default in Google Cloud" in said(outcome, "ClusterReady")[2]


def test_an_environment_that_cannot_be_read_keeps_its_cluster() -> None:
    """Without its name in the cloud, the provider would create the cluster again under the name of the resource."""
    scene = Scene()
    scene.bring_up()
    before = {key: m for key, m in scene.observed.items() if key.startswith("gke-")}
    del mapping(scene.xr, "spec.cluster.gke")["identitySecretRef"]
    outcome = scene.reconcile()
    assert said(outcome, "ClusterReady")[1] == "KubeconfigMissing"
    for key, manifest in before.items():
        sent = outcome.composed[key].manifest
        assert mapping(sent, "spec") == mapping(manifest, "spec"), key
        assert mapping(sent, "metadata.annotations") == mapping(manifest, "metadata.annotations"), key
    assert not outcome.drops


def test_pools_are_protected_while_the_cluster_is_not_ready() -> None:
    scene = Scene(environment(onRemoval="Delete"))
    scene.bring_up()
    scene.place()
    scene.report(CLUSTER, {}, Ready="False")
    assert policies(scene.reconcile()) == {CLUSTER: KEEP, SYSTEM: KEEP, A100: KEEP}


def test_a_placement_without_its_label_protects_a_cluster_whose_status_was_lost() -> None:
    scene = Scene(environment(onRemoval="Delete"))
    scene.bring_up()
    scene.place()
    del mapping(scene.placements[0], "metadata")["labels"]
    scene.xr = {**scene.xr, "spec": {**mapping(scene.xr, "spec"), "nodePools": []}, "status": {}}
    assert policies(scene.reconcile()) == {CLUSTER: KEEP, SYSTEM: KEEP, A100: KEEP}
