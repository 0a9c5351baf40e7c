"""What was downloaded once stays downloaded: through outages, cleaned up Jobs and environments that vanish."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from function.cli.store import Ref
from function.kube.manifests import Manifest, listing, mapping, text
from tests.support.plane import change, manifests, only, plane, remote, said
from tools.control_plane import ControlPlane
from tools.world import World

SILENT = "observe failed: cannot get object: Get https://east/api: dial tcp 10.0.0.1:443: i/o timeout"
Touch = Callable[[Manifest], None]


@dataclass(frozen=True, kw_only=True)
class Touched(World):
    """A world in which something happens to the remote objects of a kind."""

    touches: dict[str, Touch] = field(default_factory=dict)

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object after what happened."""
        observed = World.advance(self, resource, step)
        kind = text(observed, "spec.forProvider.manifest.kind")
        for touched, touch in self.touches.items():
            if touched in (kind, "*") and step and kind:
                touch(observed)
        return observed


def _absent(observed: Manifest) -> None:
    mapping(observed, "status")["conditions"] = [
        {"type": "Synced", "status": "False", "message": "observe failed: external resource does not exist"}
    ]


def _silent(observed: Manifest) -> None:
    mapping(observed, "status")["conditions"] = [
        {"type": "Synced", "status": "False", "message": SILENT},
        {"type": "Ready", "status": "True"},
    ]


def _again(observed: Manifest) -> None:
    mapping(observed, "status.atProvider.manifest")["status"] = {"active": 1}


def _replaced(observed: Manifest) -> None:
    mapping(observed, "status.atProvider.manifest.metadata")["uid"] = "another"


def _plane(kind: str, world: World) -> tuple[ControlPlane, Ref]:
    control = plane("model-cache" if kind == "ModelCache" else "kimi-k2-two-nodes")
    control.world = world  # no event has happened yet
    return control, only(control, kind)


KINDS = {"ModelCache": "Hydrated", "ModelPlacement": "StorageReady"}


def _jobs(control: ControlPlane, ref: Ref) -> set[str]:
    return {key for key in remote(control, ref, "") if "job-" in key}


@pytest.mark.parametrize("kind", KINDS)
def test_does_not_repeat_download_whose_job_is_cleaned_up(kind: str) -> None:
    world = Touched()
    control, ref = _plane(kind, world)
    assert said(control, ref, KINDS[kind]) == ("True", "Hydrated")
    for key in _jobs(control, ref):
        policies = mapping(control.rounds[-1].rendered[ref].composed[key], "spec")["managementPolicies"]
        assert "Create" not in str(policies), "the provider would run the Job again"
        assert "*" not in str(policies), "the provider would run the Job again"
    world.touches["Job"] = _absent
    control.settle()
    assert said(control, ref, KINDS[kind]) == ("True", "Hydrated")
    assert not _jobs(control, ref)
    world.touches.clear()
    control.settle()
    assert not _jobs(control, ref)
    assert said(control, ref, "Ready")[0] == "True"


@pytest.mark.parametrize("kind", KINDS)
def test_stays_hydrated_while_job_runs_again(kind: str) -> None:
    world = Touched()
    control, ref = _plane(kind, world)
    world.touches["Job"] = _again
    control.settle()
    assert said(control, ref, KINDS[kind]) == ("True", "Hydrated")
    assert said(control, ref, "Ready")[0] == "True"


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_that_was_replaced_is_filled_again(kind: str) -> None:
    world = Touched()
    control, ref = _plane(kind, world)
    jobs = _jobs(control, ref)
    assert jobs
    world.touches["PersistentVolumeClaim"] = _replaced
    seen = []
    for _ in range(3):
        control.advance()
        seen.append((said(control, ref, KINDS[kind]), _jobs(control, ref)))
    gone = [found for state, found in seen if state == ("False", "Downloading")]
    assert gone[:1] == [set()], "the Job that filled the earlier claim is deleted"
    assert jobs in gone, "the Job runs again"


def test_downloads_again_for_another_cache_key() -> None:
    control, ref = _plane("ModelPlacement", Touched())
    change(control, only(control, "ClusterModel"), "spec.huggingFace.revision", "v2")
    control.advance()
    assert said(control, ref, "StorageReady") == ("False", "Downloading")


def test_another_retry_is_a_new_download() -> None:
    control, ref = _plane("ModelPlacement", Touched())
    jobs = _jobs(control, ref)
    change(control, only(control, "ModelDeployment"), "spec.modelCache", {"type": "PVC", "retry": "2"})
    control.advance()
    control.advance()
    assert _jobs(control, ref).isdisjoint(jobs)
    assert said(control, ref, "StorageReady") == ("False", "Downloading")


def test_keeps_weights_while_environment_is_missing() -> None:
    control, ref = _plane("ModelCache", Touched())
    before = listing(control.composites[ref], "status.environments")
    gone = control.all("InferenceEnvironment")[0]
    environment = control.composites.pop(gone)
    control.advance()
    rows = listing(control.composites[ref], "status.environments")
    assert [row.get("completedAt") for row in rows] == [row.get("completedAt") for row in before]
    assert all(row.get("completedAt") for row in rows)
    control.composites[gone] = environment
    control.settle()
    assert listing(control.composites[ref], "status.environments") == before


def test_an_outage_under_a_cache_is_unknown_for_it_and_its_users() -> None:
    world = Touched()
    control, ref = _plane("ModelCache", world)
    world.touches["*"] = _silent
    control.settle()
    assert said(control, ref, "Hydrated") == ("Unknown", "Unreachable")
    (row, *_) = listing(control.composites[ref], "status.environments")
    assert (row["phase"], row["unreachable"]) == ("Ready", True)
    assert mapping(control.composites[ref], "status")["ready"] == 0
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("Unknown", "Unreachable")
    assert remote(control, placement, "service-"), "the running service stays"


def test_a_job_that_does_not_answer_is_unknown_too() -> None:
    world = Touched()
    control, ref = _plane("ModelPlacement", world)
    world.touches["Job"] = _silent
    control.settle()
    assert said(control, ref, "StorageReady") == ("Unknown", "Unreachable")
    assert said(control, ref, "Ready")[0] == "False"


@pytest.mark.parametrize(
    ("mode", "replicas", "want"),
    [("ReadWriteOnce", 2, None), ("ReadWriteOnce", 1, "Hydrated"), ("ReadWriteMany", 2, "Hydrated")],
)
def test_a_cache_on_an_exclusive_claim_serves_one_pod(mode: str, replicas: int, want: str | None) -> None:
    found = manifests("model-cache")
    for manifest in found:
        if manifest["kind"] == "ModelCache":
            mapping(manifest, "spec.storage")["accessMode"] = mode
        if manifest["kind"] == "ModelDeployment":
            mapping(manifest, "spec")["scaling"] = {"fixed": {"replicas": replicas}}
    control = ControlPlane(renderer=plane("model-cache").renderer)
    control.apply(found)
    control.settle()
    (row, *_) = listing(control.composites[only(control, "ModelCache")], "status.environments")
    assert row["accessMode"] == mode
    found_states = [said(control, ref, "StorageReady")[1] for ref in control.all("ModelPlacement")]
    assert found_states == ([want] if want else []), "a claim that cannot be mounted gets no placement"


@pytest.mark.parametrize(("stated", "grows"), [({"size": "3Ti"}, True), (None, False)], ids=("size", "memory"))
def test_grows_hydrated_claim_only_for_stated_size(stated: Manifest | None, grows: bool) -> None:
    found = manifests("kimi-k2-two-nodes")
    for manifest in found:
        if manifest["kind"] == "ClusterModel":
            mapping(manifest, "spec").pop("resources", None)
    control = ControlPlane(renderer=plane("kimi-k2-two-nodes").renderer)
    control.apply(found)
    control.settle()
    ref = only(control, "ModelPlacement")
    before = remote(control, ref, "claim-")
    assert before
    if stated:
        change(control, only(control, "ModelDeployment"), "spec.modelCache", {"type": "PVC", **stated})
    for environment in control.all("InferenceEnvironment"):
        for pool in listing(control.composites[environment], "spec.nodePools"):
            mapping(pool, "capabilities")["memoryPerGpu"] = "288Gi"
    control.settle()
    assert text(control.composites[ref], "status.storage.sizeFrom") == ("Explicit" if stated else "GpuMemory")
    assert (remote(control, ref, "claim-") != before) is grows


def test_a_claim_of_the_user_that_is_filled_by_hand_needs_only_to_exist() -> None:
    found = manifests("bring-your-own-claim")
    for manifest in found:
        if manifest["kind"] == "ModelDeployment":
            mapping(manifest, "spec.modelCache")["preload"] = False
    control = ControlPlane(renderer=plane("bring-your-own-claim").renderer)
    control.apply(found)
    control.settle()
    ref = only(control, "ModelPlacement")
    assert said(control, ref, "StorageReady") == ("True", "Prestaged")
    assert not _jobs(control, ref)
    assert remote(control, ref, "service-")
