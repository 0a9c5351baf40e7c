"""Scenario 4, what stands in the way after a decision: every fault of clusters, models, weights and services that
the reference names, with what to do about it. Then each is corrected, and what waited for it continues.
"""

from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, listing, text
from function.weights.scripts.download_script import Exit
from tests.e2e.objects import VLLM, deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import inventory
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, QUOTA = "faulty", "without-services"
CLAIM = "one-node"
_HELD: Manifest = {"nodeSelector": {"e2e-hold": "never"}}

ENVIRONMENTS = (
    environment("no-secret", secret="nowhere"),
    environment("no-kserve", kserve={"namespace": "not-there"}),
    environment("no-class", storage="no-such-class"),
    environment("no-storage", storage=None),
    environment("no-pools", nodePools=[]),
    environment("sound", pool("gpus", maxNodeCount=6)),
    environment("held", storage={"storageClassName": "shared-vast", "download": _HELD}),
)
_FOUR: Manifest = {"engine": {"name": "vLLM", "image": VLLM, "args": ["--tensor-parallel-size=4"]}}
_PRIVATE: Manifest = {"repo": "example/private", "secretRef": {"name": "not-there", "namespace": "modelplane-system"}}
MODELS = (
    model("one"),
    model("wide", profile=spanning(2, 8)),
    model("private", huggingFace=_PRIVATE),
    model("contradicts", profile={**spanning(1, 8), **_FOUR}),
    model("another-shape", profile=_FOUR, resources={"vram": "600Gi"}),
)
DEPLOYMENTS = (
    deployment(TEAM, "unknown-model", "absent"),
    deployment(TEAM, "invalid-model", "contradicts"),
    deployment(TEAM, "another-shape", "another-shape", on="sound"),
    deployment(TEAM, "private", "private", on="sound"),
    deployment(TEAM, "narrow", "wide", on="sound", modelCache={"claimName": CLAIM}),
    deployment(TEAM, "failing", "wide", on="held"),
    deployment(QUOTA, "rejected", "one", on="sound"),
)
ON_THE_REMOTE: tuple[Manifest, ...] = (
    *inventory.namespaces(TEAM, QUOTA),
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": TEAM},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Ti"}}},
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-services", "namespace": QUOTA},
        "spec": {"hard": {"count/llminferenceservices.serving.kserve.io": "0"}},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`name` is the deployment's where the condition is its placement's."""

    reason: str
    kind: str
    name: str
    type: str
    want: str
    says: str
    namespace: str = TEAM

    @property
    def id(self) -> str:
        """How a report names the case."""
        return f"{self.kind}-{self.name}-{self.want.rpartition('/')[2]}"


CASES = (
    Case(
        reason="the kubeconfig's Secret does not exist",
        kind="InferenceEnvironment",
        name="no-secret",
        type="ClusterReady",
        want="False/KubeconfigMissing",
        says="Secret modelplane-system/nowhere",
    ),
    Case(
        reason="nothing is installed where KServe should be",
        kind="InferenceEnvironment",
        name="no-kserve",
        type="ClusterReady",
        want="False/KServeMissing",
        says="install KServe",
    ),
    Case(
        reason="the cluster has no such class",
        kind="InferenceEnvironment",
        name="no-class",
        type="StorageReady",
        want="False/StorageClassNotFound",
        says="no-such-class",
    ),
    Case(
        reason="no class at all rules out several nodes only",
        kind="InferenceEnvironment",
        name="no-storage",
        type="StorageReady",
        want="False/NotConfigured",
        says="spec.storage.storageClassName",
    ),
    Case(
        reason="nothing to place on",
        kind="InferenceEnvironment",
        name="no-pools",
        type="PoolsValid",
        want="False/NoGpuPools",
        says="spec.nodePools",
    ),
    Case(
        reason="an argument contradicts the declared shape",
        kind="ClusterModel",
        name="contradicts",
        type="ModelValid",
        want="False/InvalidProfile",
        says="spec.serving[0].engine.args[0]",
    ),
    Case(
        reason="there is no such model",
        kind="ModelDeployment",
        name="unknown-model",
        type="ModelResolved",
        want="False/ModelNotFound",
        says="absent",
    ),
    Case(
        reason="no profile of the model can serve",
        kind="ModelDeployment",
        name="invalid-model",
        type="ModelResolved",
        want="False/ModelInvalid",
        says="spec.serving[0].engine.args[0]",
    ),
    Case(
        reason="600Gi are eight GPUs of this pool, and an argument says four",
        kind="ModelDeployment",
        name="another-shape",
        type="Scheduled",
        want="False/InvalidProfile",
        says="--tensor-parallel-size=4",
    ),
    Case(
        reason="the token's Secret does not exist",
        kind="ModelPlacement",
        name="private",
        type="StorageReady",
        want="False/TokenMissing",
        says="Secret modelplane-system/not-there",
    ),
    Case(
        reason="two nodes cannot share a claim for one",
        kind="ModelPlacement",
        name="narrow",
        type="StorageReady",
        want="False/ClaimNotShared",
        says=CLAIM,
    ),
    Case(
        reason="a quota of the cluster refuses the service",
        kind="ModelPlacement",
        name="rejected",
        type="ServiceAccepted",
        want="False/Rejected",
        says="exceeded quota",
        namespace=QUOTA,
    ),
)


@pytest.fixture(scope="module")
def reported(world: World) -> None:
    for manifest in ON_THE_REMOTE:
        world.stack.remote.apply(manifest)
    for name in (TEAM, QUOTA):
        world.team(name)
    until(
        "the quota to count", lambda: get(world.stack.remote.get("ResourceQuota", "no-services", QUOTA), "status.hard")
    )
    world.apply(*ENVIRONMENTS, *MODELS, *DEPLOYMENTS)


def _quota(world: World) -> Manifest:
    return world.stack.remote.get("ResourceQuota", "no-services", QUOTA) or {}


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_fault_is_told_with_what_to_do(case: Case, world: World) -> None:
    namespaced = case.kind in ("ModelDeployment", "ModelPlacement")
    name = case.name if case.kind != "ModelPlacement" else world.wait_placed(case.namespace, case.name)
    found = world.wait(case.kind, name, case.type, case.want, case.namespace if namespaced else "")
    assert case.says in text(condition(found, case.type), "message"), case.reason
    shown = world.stack.kubectl("get", case.kind.lower(), name, *(("-n", case.namespace) if namespaced else ()))
    assert name in shown, case.reason


@pytest.mark.usefixtures("reported")
def test_storage_holds_no_environment_back(world: World) -> None:
    """Models that need no claim are placed there."""
    for name in ("no-class", "no-storage"):
        world.wait("InferenceEnvironment", name, "Ready", "True")


def _attempt(world: World) -> Manifest:
    """Return the pod of the download that is held up."""
    pods = until("the Job's pod", lambda: world.stack.remote.find("Pod", TEAM, "batch.kubernetes.io/job-name"))
    return next(pod for pod in pods if get(pod, "spec.nodeSelector.e2e-hold"))


@pytest.mark.usefixtures("reported")
def test_a_refused_token_fails_the_download_at_once_and_retry_starts_again(world: World) -> None:
    placed = world.wait_placed(TEAM, "failing")
    world.wait("ModelPlacement", placed, "StorageReady", "False/Downloading", TEAM)
    pod = _attempt(world)
    container = text(listing(pod, "spec.containers")[0], "name")
    ended: Manifest = {"exitCode": int(Exit.UNAUTHORISED), "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    world.stack.remote.patch(
        "Pod",
        text(pod, "metadata.name"),
        {"status": {"phase": "Failed", "containerStatuses": [_status(container, {"terminated": ended})]}},
        TEAM,
        part="status",
    )
    found = world.wait("ModelPlacement", placed, "StorageReady", "False/DownloadFailed", TEAM)
    assert "check the token" in text(condition(found, "StorageReady"), "message")
    assert text(found, "status.phase") == "Failed"
    failed = text(found, "status.storage.job")
    assert condition(world.stack.remote.get("Job", failed, TEAM), "Failed")["reason"] == "PodFailurePolicy"

    world.apply(environment("held"))
    world.apply(deployment(TEAM, "failing", "wide", on="held", modelCache={"type": "PVC", "retry": "now"}))
    world.ready(TEAM, "failing")
    assert text(world.placement(TEAM, "failing"), "status.storage.job") != failed


def _status(container: str, state: Manifest) -> JSON:
    return {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}


@pytest.mark.usefixtures("reported")
def test_mended_faults_let_everything_go_on(world: World) -> None:
    world.secret("not-there", {"HF_TOKEN": "hf_not_a_token"})
    world.stack.remote.delete("ResourceQuota", "no-services", QUOTA)
    world.kubeconfig("nowhere")
    world.apply(environment("no-class"), model("contradicts", profile=spanning(1, 8)))
    for namespace, name in ((TEAM, "private"), (QUOTA, "rejected"), (TEAM, "invalid-model")):
        world.ready(namespace, name)
    for name in ("no-secret", "no-class"):
        world.wait("InferenceEnvironment", name, "Ready", "True")


_WRONG = (
    (model("two-sources", uri={"uri": "s3://bucket/model"}), "spec.uri"),
    (model("no-owner", huggingFace={"repo": "model"}), "spec.huggingFace.repo"),
    (model("two-shapes", profile=spanning(2, 8, pipeline=3)), "spec.serving[0].replicaTopology"),
)


@pytest.mark.parametrize(("wrong", "path"), _WRONG, ids=[path for _, path in _WRONG])
def test_the_api_server_refuses_what_contradicts_itself(wrong: Manifest, path: str, world: World) -> None:
    with pytest.raises(ChildProcessError, match="is invalid") as refused:
        world.apply(wrong)
    assert path in str(refused.value)
    assert world.stack.hub.get("ClusterModel", text(wrong, "metadata.name")) is None
