"""What the provider writes and reports beside what was sent; and what is undeclared, invalid or refused."""

import copy
import time

import pytest

from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, text
from tests.support.gke_scene import A100, CLUSTER, KEEP, SYSTEM, USAGE, Scene, environment, policies, said
from tests.support.plane import reconciled

NETWORK = "projects/my-project/global/networks/default"
SUBNETWORK = "projects/my-project/regions/us-central1/subnetworks/default"
RANGES: Manifest = {
    "clusterIpv4CidrBlock": "10.0.0.0/14",
    "clusterSecondaryRangeName": "gke-us-pods",
    "stackType": "IPV4",
}
REFUSAL = (
    "async update failed: refuse to update the external resource because the following update requires replacing it: "
    "cannot change the value of the argument reservation_affinity"
)


def _sent(outcome: Outcome, key: str, path: str) -> JSON:
    return get(outcome.composed[key].manifest, f"spec.forProvider.{path}")


def _reported(scene: Scene, key: str) -> Manifest:
    return {"id": key, **copy.deepcopy(mapping(scene.observed[key], "spec.forProvider"))}


def _with_input(scene: Scene, settings: Manifest) -> Outcome:
    call = Call(xr=scene.xr, observed=scene.observed, input=settings)
    return reconciled(call, [*scene.definitions, *scene.placements])[1]


def test_what_gke_chose_is_no_change() -> None:
    """The provider writes what GKE chose into the spec (LateInitialize): zones of the system pool, a subnetwork."""
    scene = Scene()
    scene.bring_up()
    scene.place()
    mapping(scene.observed[SYSTEM], "spec.forProvider")["nodeLocations"] = ["us-central1-a", "us-central1-b"]
    mapping(scene.observed[CLUSTER], "spec.forProvider").update(
        {"subnetwork": SUBNETWORK, "ipAllocationPolicy": copy.deepcopy(RANGES)}
    )
    outcome = scene.reconcile()
    assert said(outcome, "PoolsValid")[0] == "True"
    assert "Google Cloud:" not in said(outcome, "ClusterReady")[2]
    assert _sent(outcome, SYSTEM, "nodeLocations") is None
    assert _sent(outcome, CLUSTER, "subnetwork") is None
    assert _sent(outcome, CLUSTER, "ipAllocationPolicy") == {}


@pytest.mark.parametrize("declared", ["default", NETWORK, f"https://www.googleapis.com/compute/v1/{NETWORK}"])
def test_an_adopted_cluster_is_found_as_declared(declared: str) -> None:
    """Google reports the paths of networks, and ranges that nobody declared; only known fields may be sent."""
    scene = Scene(environment(network={"name": declared}))
    scene.place()
    scene.reconcile()
    reported = _reported(scene, CLUSTER)
    reported.update({"network": NETWORK, "subnetwork": SUBNETWORK, "ipAllocationPolicy": copy.deepcopy(RANGES)})
    scene.report(CLUSTER, reported)
    for _ in range(2):
        outcome = scene.reconcile()
        assert policies(outcome)[CLUSTER] == KEEP
        assert "Google Cloud:" not in said(outcome, "ClusterReady")[2]
        assert _sent(outcome, CLUSTER, "network") == declared
        assert _sent(outcome, CLUSTER, "ipAllocationPolicy") == {}


@pytest.mark.parametrize(
    ("network", "sent", "words"),
    [
        (
            {"name": "projects/host/global/networks/default"},
            NETWORK,
            "network is projects/host/global/networks/default",
        ),
        (
            {"name": "default", "podRange": "pods", "serviceRange": "services"},
            NETWORK,
            "network.podRange and network.serviceRange is pods services as declared and gke-us-pods",
        ),
    ],
)
def test_an_adopted_cluster_keeps_its_network(network: Manifest, sent: str, words: str) -> None:
    scene = Scene(environment(network=network))
    scene.place()
    scene.reconcile()
    scene.report(
        CLUSTER, {**_reported(scene, CLUSTER), "network": NETWORK, "ipAllocationPolicy": copy.deepcopy(RANGES)}
    )
    outcome = scene.reconcile()
    assert words in said(outcome, "ClusterReady")[2]
    if words.startswith("network is"):
        assert _sent(outcome, CLUSTER, "network") == sent
    else:
        assert _sent(outcome, CLUSTER, "ipAllocationPolicy") == {"clusterSecondaryRangeName": "gke-us-pods"}


@pytest.mark.parametrize(
    ("edit", "path", "words"),
    [
        ({"compactPlacement": True}, "placementPolicy", "compactPlacement is COMPACT as declared and unset"),
        ({"reservation": "block"}, "nodeConfig.reservationAffinity", "reservations/block as declared and unset"),
        ({"spot": True}, "nodeConfig.spot", "spot is True as declared and unset"),
    ],
)
def test_an_adopted_pool_gets_nothing_that_it_was_created_without(edit: Manifest, path: str, words: str) -> None:
    """The provider would refuse this for ever, and every other change of the pool with it."""
    scene = Scene()
    scene.place()
    mapping(scene.pool(), "gke").pop("reservation")
    mapping(scene.pool(), "gke").update(edit)
    scene.reconcile()
    scene.report(CLUSTER)
    scene.reconcile()
    reported = _reported(scene, A100)
    mapping(reported, "nodeConfig").update({"reservationAffinity": {"consumeReservationType": "ANY"}, "spot": False})
    reported.pop("placementPolicy", None)
    scene.report(A100, reported)
    outcome = scene.reconcile()
    assert policies(outcome)[A100] == KEEP
    assert _sent(outcome, A100, path) is None
    assert words in said(outcome, "PoolsValid")[2]


def test_a_missing_file_of_the_provider_is_not_a_missing_cluster() -> None:
    """Otherwise, the provider would change nodes that serve once its credentials are there again."""
    scene = Scene()
    scene.place()
    scene.reconcile()
    scene.report(CLUSTER, {}, Ready="False", Synced="connect failed: cannot get credentials: file does not exist")
    outcome = scene.reconcile()
    assert policies(outcome) == {CLUSTER: ["Observe"]}
    assert said(outcome, "ClusterReady")[1] == "ProvisioningFailed"


def test_a_refused_change_is_taken_back() -> None:
    """A pool that was removed, stayed in Google Cloud, and is added again with another reservation."""
    scene = Scene()
    scene.bring_up()
    before = _reported(scene, A100)
    pools = scene.xr["spec"]
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": []}
    scene.reconcile()
    assert A100 not in scene.observed
    scene.xr["spec"] = pools
    mapping(scene.pool(), "gke")["reservation"] = "other"
    outcome = scene.reconcile()
    assert _sent(outcome, A100, "nodeConfig.reservationAffinity.values") == ["projects/my-project/reservations/other"]
    scene.report(A100, before, LastAsyncOperation=REFUSAL)
    for _ in range(2):
        outcome = scene.reconcile()
        values = _sent(outcome, A100, "nodeConfig.reservationAffinity.values")
        assert values == ["projects/my-project/reservations/block"]
        assert said(outcome, "PoolsValid")[1] == "PoolInUse"
        assert "reservations/other as declared" in said(outcome, "PoolsValid")[2]


def test_what_google_has_can_always_be_declared_again() -> None:
    """A change was sent while the status was lost; undoing it must not count as a change."""
    scene = Scene()
    scene.bring_up()
    status = scene.observed[A100].pop("status")
    mapping(scene.pool(), "gke")["reservation"] = "other"
    scene.reconcile()
    scene.observed[A100]["status"] = status
    mapping(scene.pool(), "gke")["reservation"] = "block"
    outcome = scene.reconcile()
    values = _sent(outcome, A100, "nodeConfig.reservationAffinity.values")
    assert values == ["projects/my-project/reservations/block"]
    assert said(outcome, "PoolsValid")[0] == "True"


@pytest.mark.parametrize("edit", ["removed", "invalid"])
def test_a_pool_that_is_only_observed_changes_nothing_once_it_is_not_declared(edit: str) -> None:
    """The environment was created again with another machine type, and then its pool was removed or became invalid."""
    scene = Scene()
    scene.place()
    scene.reconcile()
    scene.report(CLUSTER)
    scene.reconcile()
    assert policies(scene.reconcile())[A100] == ["Observe"]
    reported = _reported(scene, A100)
    mapping(reported, "nodeConfig")["machineType"] = "a2-other-4g"
    if edit == "invalid":
        scene.pool()["capabilities"] = {"memoryPerGpu": "much"}
    else:
        scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": []}
    assert policies(scene.reconcile())[A100] == ["Observe"]
    scene.report(A100, reported)
    assert policies(scene.reconcile())[A100] == ["Observe"]
    scene.placements, scene.xr["status"] = [], {}
    outcome = scene.reconcile()
    assert [drop.key for drop in outcome.drops] == ([A100] if edit == "removed" else [])


@pytest.mark.parametrize("invalid", ["settings", "identity", "source"])
def test_nothing_may_be_deleted_while_it_is_not_known_what_is_declared(invalid: str) -> None:
    """Something is placed on an environment that is invalid, or that declares no cluster to create any more."""
    scene = Scene(environment(onRemoval="Delete"))
    scene.bring_up()
    full = policies(scene.reconcile())
    gke = mapping(scene.xr, "spec.cluster.gke")
    if invalid == "identity":
        del gke["identitySecretRef"]
    if invalid == "source":
        pool = {key: value for key, value in scene.pool().items() if key != "gke"}
        existing: Manifest = {"source": "Existing", "existing": {"secretRef": {"name": "gke-us-kubeconfig"}}}
        scene.xr["spec"] = {"cluster": existing, "nodePools": [pool]}
    settings: Manifest = {"unknown": True} if invalid == "settings" else {}
    assert policies(_with_input(scene, settings)) == full == {CLUSTER: ["*"], SYSTEM: ["*"], A100: ["*"]}
    scene.place()
    assert policies(_with_input(scene, settings)) == {CLUSTER: KEEP, SYSTEM: KEEP, A100: KEEP}


def test_the_kubeconfig_stays_beside_the_cluster() -> None:
    """The provider writes it there, whatever the platform's namespace of Secrets is now."""
    scene = Scene()
    scene.bring_up()
    del scene.observed[USAGE]
    scene.xr["spec"] = {**mapping(scene.xr, "spec"), "nodePools": [scene.pool(), {**scene.pool(), "name": "other"}]}
    outcome = _with_input(scene, {"secretNamespace": "other"})
    credentials = get(outcome.composed["provider-config"].manifest, "spec.credentials.secretRef")
    assert credentials == {"name": "gke-us-kubeconfig", "namespace": "modelplane-system", "key": "kubeconfig"}
    for key in (CLUSTER, USAGE, "gke-pool-other"):
        assert text(outcome.composed[key].manifest, "metadata.namespace") == "modelplane-system", key


def test_a_declared_label_wins_over_our_own() -> None:
    """Pods are scheduled by the declared labels."""
    scene = Scene()
    scene.pool()["labels"] = {"modelplane.ai/pool": "mine"}
    outcome = scene.bring_up()
    assert _sent(outcome, A100, "nodeConfig.labels") == {"modelplane.ai/pool": "mine"}


def test_a_held_change_is_described_in_the_words_of_the_environment() -> None:
    scene = Scene()
    scene.bring_up()
    scene.place()
    mapping(scene.xr, "spec.cluster.gke.provision")["systemPool"] = {"machineType": "n2-standard-8", "maxNodes": 1}
    assert said(scene.reconcile(), "PoolsValid")[2] == (
        "node pool system: machineType is n2-standard-8 as declared and e2-standard-8 in Google Cloud; "
        "node pool system: maximum number of nodes is 1 as declared and 3 in Google Cloud. "
        "GKE would replace, restart or remove nodes for this, or refuse it, so it is not sent; "
        "undo it, or drain the environment"
    )
    mapping(scene.xr, "spec.cluster.gke")["provision"] = {}
    mapping(scene.pool(), "gke")["reservation"] = "other"
    assert said(scene.reconcile(), "PoolsValid")[2] == (
        "node pool a100: reservation is projects/my-project/reservations/other as declared and "
        "projects/my-project/reservations/block in Google Cloud. "
        "GKE would replace, restart or remove nodes for this, or refuse it, so it is not sent; "
        "undo it, or add a pool with another name, then drain and remove this one"
    )


def test_long_errors_are_read_fast() -> None:
    scene = Scene()
    scene.bring_up()
    scene.report(A100, {}, Ready="False", Synced="[{0 " * 500 + " " * 2000)
    start = time.monotonic()
    scene.reconcile()
    assert time.monotonic() - start < 1
