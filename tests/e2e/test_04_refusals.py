"""Scenario 4: every refusal of the reference: reason, message, columns; nothing on the remote cluster."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest, condition, text
from tests.e2e.objects import cache, deployment, environment, model, pool, spanning
from tests.e2e.world import World

pytestmark = pytest.mark.e2e
TEAM = "refused"

ENVIRONMENTS = (
    environment("refusing", pool("small", maxNodeCount=1), pool("one", maxNodeCount=1)),
    environment("no-storage", storage=None),
    environment("no-kubeconfig", secret="missing"),
    environment("full", pool("gpus", maxNodeCount=1)),
)
MODELS = (
    model("small", profile=spanning(1, 8)),
    model("wide", profile=spanning(2, 8)),
    model("sixteen", profile=spanning(1, 16)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    reason: str
    model: str = "small"
    on: str
    replicas: int = 1
    cache: JSON = None
    want: str
    says: str = ""

    @property
    def manifest(self) -> Manifest:
        """The deployment that is refused."""
        more: dict[str, JSON] = {"modelCache": self.cache} if self.cache else {}
        return deployment(TEAM, self.id, self.model, on=self.on, replicas=self.replicas, **more)


CASES = (
    Case(
        id="no-environment-matches",
        reason="no environment has the label asked for",
        on="nowhere",
        want="NoEnvironmentMatches",
        says="the deployment's environmentSelector requires e2e=nowhere (found full)",
    ),
    Case(
        id="no-pool-satisfies",
        reason="no node has 16 GPUs",
        model="sixteen",
        on="refusing",
        want="NoPoolSatisfiesRequirements",
        says="16",
    ),
    Case(
        id="shared-storage-missing",
        reason="two nodes, and the environment names no class",
        model="wide",
        on="no-storage",
        want="SharedStorageMissing",
        says="multi-node model requires shared storage on the inference environment.",
    ),
    Case(
        id="pool-too-small",
        reason="would not fit were the pool empty",
        model="wide",
        on="refusing",
        want="PoolTooSmall",
    ),
    Case(
        id="insufficient-capacity", reason="another placement has the only node", on="full", want="InsufficientCapacity"
    ),
    Case(
        id="environment-not-ready", reason="its kubeconfig is missing", on="no-kubeconfig", want="EnvironmentNotReady"
    ),
    Case(
        id="cache-not-on-environment",
        reason="the cache is on another environment",
        on="refusing",
        cache={"name": "elsewhere"},
        want="CacheNotOnEnvironment",
    ),
    Case(
        id="invalid-deployment",
        reason="a claim for one node cannot hold weights for two",
        model="wide",
        on="refusing",
        cache={"type": "PVC", "accessMode": "ReadWriteOnce"},
        want="InvalidDeployment",
    ),
)


@pytest.fixture(scope="module")
def refused(world: World) -> None:
    world.team(TEAM)
    world.team("first-come")
    world.apply(*ENVIRONMENTS, *MODELS, deployment("first-come", "holder", "small", on="full"))
    world.wait("InferenceEnvironment", "full", "Ready", "True")
    world.ready("first-come", "holder")
    world.apply(cache(TEAM, "elsewhere", "small", ["full"]), *(case.manifest for case in CASES))


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_refusal_is_told_and_nothing_happens(case: Case, world: World) -> None:
    found = world.wait("ModelDeployment", case.id, "Scheduled", f"False/{case.want}", TEAM)
    assert case.says in text(condition(found, "Scheduled"), "message"), case.reason
    assert condition(found, "Ready")["status"] == "False", case.reason
    assert condition(found, "PlacementsReady")["reason"] == "NothingPlaced", case.reason
    assert not world.placements(TEAM, case.id), case.reason
    columns = world.stack.kubectl("get", "mdldep", case.id, "-n", TEAM).splitlines()
    assert dict(zip(columns[0].split(), columns[1].split(), strict=False))["PLACED"] == "0", case.reason


@pytest.mark.usefixtures("refused")
def test_nothing_of_the_refused_is_on_the_remote_cluster(world: World) -> None:
    assert not {key for key in world.remote_uids(TEAM) if "modelplane" not in key and "e2e" in key}
    world.remove(TEAM, *(case.id for case in CASES))
    world.remove("first-come", "holder")
