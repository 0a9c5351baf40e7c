"""A download that could not write is tried once more with a directory that root prepares, on any kind of claim."""

import copy
from dataclasses import dataclass, field

import pytest

from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, text
from function.weights.job import with_pod_start_deadline
from tests.support.plane import manifests, only, plane, remote, said
from tests.support.remote_scene import set_field
from tools.control_plane import ControlPlane
from tools.world import World

STORY = "kimi-k2-two-nodes"
COMPLETE: Manifest = {"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}}


def ended(container: str, code: int) -> Manifest:
    """Return a Job's status as podFailurePolicy writes it."""
    message = f"Container {container} for pod team/x failed with exit code {code} matching FailJob rule at index 0"
    failed: Manifest = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": message}
    return {"status": {"failed": 1, "conditions": [failed]}}


NO_POD: Manifest = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}}


@dataclass(frozen=True, kw_only=True)
class Owned(World):
    """A world whose file systems belong to root; `prepared` is how a Job ends whose directory root makes first."""

    prepared: Manifest = field(default_factory=lambda: COMPLETE)

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; the Job in it cannot write unless it was prepared."""
        observed = World.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and step:
            job.update(copy.deepcopy(self.prepared if is_prepared(job) else ended("download", 44)))
        return observed


def is_prepared(job: Manifest) -> bool:
    return bool(listing(job, "spec.template.spec.initContainers"))


CACHES: dict[str, Manifest] = {
    "managed": {"type": "PVC"},
    "retained": {"type": "PVC", "retain": True},
    "own": {"claimName": "mine"},
    "shared": {},
}


def settled(kind: str, world: World, **download: object) -> ControlPlane:
    """Return a plane with one deployment on a claim of this kind."""
    control, found = ControlPlane(renderer=plane(STORY).renderer, world=world), manifests(STORY)
    for manifest in found:
        if manifest["kind"] == "ModelDeployment":
            set_field(manifest, "spec.modelCache", CACHES[kind])
        if manifest["kind"] == "InferenceEnvironment":
            set_field(manifest, "spec.storage.download", {**download})  # type: ignore[dict-item]  # JSON
            set_field(manifest, "spec.storage.mode", "Shared" if kind == "shared" else "PerModel")
            set_field(manifest, "spec.storage.sharedClaim", {"size": "2Ti"})
    control.apply(found)
    control.settle()
    return control


def history(control: ControlPlane) -> list[tuple[int, int]]:
    """Return how many Jobs there were, plain and prepared, each time that it changed."""
    placement = only(control, "ModelPlacement")
    seen: list[tuple[int, int]] = []
    for latest in control.rounds:
        if placement in latest.rendered:
            jobs = [m for k, m in latest.rendered[placement].remote.items() if k.startswith("job-")]
            count = sum(not is_prepared(job) for job in jobs), sum(map(is_prepared, jobs))
            seen += [count] if not seen or seen[-1] != count else []
    return seen


@pytest.mark.parametrize("kind", CACHES)
def test_one_failure_one_prepared_job_hydrated(kind: str) -> None:
    control = settled(kind, Owned())
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("True", "Hydrated")
    assert said(control, placement, "ServiceReady") == ("True", "Serving")
    moments = [count for count in history(control) if count != (0, 0)]
    assert moments == [(1, 0), (1, 1), (0, 1)], (
        "the first Job stays until the second one exists, and is never composed again"
    )


def test_a_cache_is_prepared_as_well() -> None:
    control, found = ControlPlane(renderer=plane("model-cache").renderer, world=Owned()), manifests("model-cache")
    control.apply(found)
    control.settle()
    assert said(control, only(control, "ModelCache"), "Hydrated") == ("True", "Hydrated")


def test_reports_refused_root_and_stops() -> None:
    control = settled("managed", Owned(prepared=ended("prepare", 46)))
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("False", "DownloadFailed")
    message = text(condition(control.composites[placement], "StorageReady"), "message")
    assert "NotWritable" in message
    assert "root_squash" in message
    before = history(control)
    control.settle()
    assert history(control) == before


def test_another_retry_stays_prepared() -> None:
    control = settled("managed", Owned(prepared=ended("prepare", 46)))
    deployment = copy.deepcopy(control.composites[only(control, "ModelDeployment")])
    set_field(deployment, "spec.modelCache.retry", "1")
    control.apply([deployment])
    control.world = Owned()
    control.settle()
    placement = only(control, "ModelPlacement")
    (job,) = remote(control, placement, "job-").values()
    assert is_prepared(job)
    assert get(job, "metadata.annotations")
    assert said(control, placement, "StorageReady") == ("True", "Hydrated")
    assert history(control).count((1, 0)) == 1, "the next download is prepared from the start"


@pytest.mark.parametrize(("prepare", "want"), [("Never", [(1, 0)]), ("Always", [(0, 1)])])
def test_follows_platforms_prepare_setting(prepare: str, want: list[tuple[int, int]]) -> None:
    control = settled("managed", Owned(), prepare=prepare)
    assert [count for count in history(control) if count != (0, 0)] == want


def test_reports_namespace_that_refuses_prepared_pods() -> None:
    control = settled("managed", Owned(prepared=NO_POD))
    placement = only(control, "ModelPlacement")
    (job,) = remote(control, placement, "job-").values()
    assert integer(job, "spec.activeDeadlineSeconds") == 600
    message = text(condition(control.composites[placement], "StorageReady"), "message")
    assert "NoPod" in message
    assert "Pod Security restricted" in message


@pytest.mark.parametrize("kind", ["managed", "retained"])
def test_a_prepared_job_that_runs_has_all_its_time(kind: str) -> None:
    control = settled(kind, Owned(prepared={"status": {"active": 1}}))
    (job,) = remote(control, only(control, "ModelPlacement"), "job-").values()
    assert integer(job, "spec.activeDeadlineSeconds") == 86400


@pytest.mark.parametrize(("written", "want"), [(600, 600), (86400, 86400)])
def test_keeps_full_deadline_of_unobserved_job(written: int, want: int) -> None:
    """A Job whose pod was observed once keeps its full deadline while the cluster does not answer."""

    def job(seconds: int) -> Manifest:
        pod: Manifest = {"initContainers": [{"name": "prepare"}]}
        return {"kind": "Job", "spec": {"activeDeadlineSeconds": seconds, "template": {"spec": pod}}}

    made = with_pod_start_deadline(job(86400), job(written), {})
    assert integer(made, "spec.activeDeadlineSeconds") == want


def test_only_observes_shared_job_until_its_existence_is_known() -> None:
    control = settled("retained", Owned(prepared={"status": {"active": 1}}))
    placement = only(control, "ModelPlacement")
    policies = [
        get(item, "spec.managementPolicies")
        for latest in control.rounds
        if placement in latest.rendered
        for item in latest.rendered[placement].composed.values()
        if is_prepared(mapping(item, "spec.forProvider.manifest"))
    ]
    assert policies[0] == ["Observe"]
    assert policies[-1] == ["Observe", "Create", "Update", "LateInitialize"]
