"""What a pool has left for one placement: what others were granted or run counts, what they wait for does not."""

from bench.histories.room import room_beside
from bench.simulator.invariants import NODE_LABEL, Held
from bench.simulator.objects import Version
from function.api.inference_environment import name_provider_config
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, listing

POOL = name_provider_config("env"), "large"


def _environment(*admitted: Manifest) -> Version:
    pools: list[JSON] = [
        {"name": "a", "labels": {NODE_LABEL: "large"}, "maxNodeCount": 2, "acceleratorCount": 8},
        {"name": "b", "labels": {NODE_LABEL: "small"}, "maxNodeCount": 1, "acceleratorCount": 8},
    ]
    manifest: Manifest = {
        "metadata": {"name": "env"},
        "spec": {"nodePools": pools},
        "status": {"admitted": [*admitted]},
    }
    return Version(Ref("InferenceEnvironment", "", "env"), manifest, 1)


def _placement(name: str, reason: str = "Resolved") -> Version:
    conditions: list[JSON] = [{"type": "ReferencesResolved", "reason": reason}]
    manifest: Manifest = {"metadata": {"name": name, "uid": name}, "status": {"conditions": conditions}}
    return Version(Ref("ModelPlacement", "team", name), manifest, 1)


def _grant(uid: str, pool: str, gpus: int, replicas: int) -> Manifest:
    return {"uid": uid, "pool": pool, "nodes": 1, "gpusPerNode": gpus, "replicas": replicas}


def _free(environment: Version, *placements: Version, services: dict[str, Held] | None = None, beside: str = "") -> int:
    """Returns how many replicas of one node with 8 GPUs pool a still takes, of the two that it has empty."""
    pool = listing(environment.manifest, "spec.nodePools")[0]
    room = room_beside(environment, pool, {p.uid: p for p in placements}, (services or {}).items(), 0, {beside: 0})
    return room.count_fitting_replicas(1, 8, 2)


def test_counts_what_others_were_granted() -> None:
    assert _free(_environment(_grant("x", "a", 8, 1)), _placement("x")) == 1


def test_leaves_out_what_the_placement_holds_itself() -> None:
    assert _free(_environment(_grant("x", "a", 8, 2)), _placement("x"), beside="x") == 2


def test_leaves_out_grants_of_placements_that_are_gone_and_of_another_pool() -> None:
    environment = _environment(_grant("gone", "a", 8, 1), _grant("x", "b", 8, 1))
    assert _free(environment, _placement("x")) == 2


def test_leaves_out_grants_of_a_placement_that_never_starts() -> None:
    environment = _environment(_grant("x", "a", 8, 1))
    assert _free(environment, _placement("x", "ModelNotFound")) == 2
    service = {"x": Held(POOL, 1, 8, 1)}
    assert _free(environment, _placement("x", "ModelNotFound"), services=service) == 1


def test_counts_a_service_by_the_labels_of_its_nodes_and_a_grant_of_an_unknown_name_everywhere() -> None:
    service = {"x": Held(POOL, 1, 8, 1)}
    assert _free(_environment(_grant("x", "b", 8, 1)), _placement("x"), services=service) == 1
    assert _free(_environment(_grant("x", "former", 8, 1)), _placement("x")) == 1


def test_counts_a_grant_and_its_service_once_and_two_shapes_each() -> None:
    environment = _environment(_grant("x", "a", 8, 1))
    assert _free(environment, _placement("x"), services={"x": Held(POOL, 1, 8, 1)}) == 1
    assert _free(environment, _placement("x"), services={"x": Held(POOL, 1, 4, 1)}) == 0


def test_has_nothing_left_where_more_is_held_than_there_is() -> None:
    assert _free(_environment(_grant("x", "a", 8, 3)), _placement("x")) == 0
