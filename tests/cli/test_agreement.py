"""What is planned and rendered is what the controller does: on every example, and on generated fleets."""

import random

import pytest

from function.cli.inputs import Inventory, load_inventory
from function.cli.options import Sources
from function.cli.planning import Plan, compose_files, plan_deployments
from function.cli.render import list_composed
from function.cli.store import Store
from function.composers import compose
from function.contract import Call
from function.kube.manifests import JSON, Manifest, condition, text
from function.kube.names import VERSION
from tests.cli.conftest import controlled
from tests.cli.process import EXAMPLES
from tests.support.plane import APPLIED, composed_placements, fetched, plane
from tools.demo import REQUESTED

STORIES = APPLIED


@pytest.mark.parametrize("story", STORIES)
def test_plan_decides_as_the_controller(story: str) -> None:
    reported = plane(story).store
    world = load_inventory(Sources(files=(str(EXAMPLES / story),)))
    for plan in plan_deployments(world, world.list_deployments()).values():
        scheduled = condition(reported.get(plan.ref), "Scheduled")
        decided = plan.condition
        assert (decided.reason, decided.message) == (text(scheduled, "reason"), text(scheduled, "message"))
        wanted = [m["spec"] for m in reported.owned(plan.ref).values() if m["kind"] == "ModelPlacement"]
        assert [m["spec"] for m in plan.placements] == wanted


@pytest.mark.parametrize("story", STORIES)
def test_render_writes_what_the_controller_composes(story: str) -> None:
    controller = plane(story).store
    wanted = list_composed(controller, controller.refs(*REQUESTED))
    world = load_inventory(Sources(files=(str(EXAMPLES / story),)))
    compose_files(world)
    found = list_composed(world.store, world.store.refs(*REQUESTED))
    assert found.keys() == wanted.keys()
    assert {str(place): found[place] for place in found if found[place] != wanted[place]} == {}


PRECISIONS: tuple[JSON, ...] = (["bf16"], ["bf16", "fp8"], None)
GIBS, COUNTS, RUNGS = ("40Gi", "80Gi", "141Gi", None), (1, 2, 4, 8), ("eth-100g", "roce-400g", "ib-400g", None)


def fleet(seed: int) -> list[Manifest]:
    """Return some environments, a model and some deployments, different for each seed."""
    dice = random.Random(seed)
    environments = [_environment(dice, f"e{number}") for number in range(dice.randint(0, 6))]
    deployments = [_deployment(dice, f"d{number}") for number in range(dice.randint(1, 4))]
    return [_model(dice), *environments, *deployments]


def _environment(dice: random.Random, name: str) -> Manifest:
    pools: list[JSON] = [_pool(dice, f"p{number}") for number in range(dice.randint(0, 3))]
    spec: Manifest = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}, "nodePools": pools}
    if dice.random() < 0.6:
        spec["storage"] = {"storageClassName": "shared"}
    labels: Manifest = {"tier": dice.choice(("production", "test"))}
    manifest: Manifest = {
        "apiVersion": VERSION,
        "kind": "InferenceEnvironment",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    if dice.random() < 0.3:
        manifest["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": "Creating"}]}
    return manifest


def _pool(dice: random.Random, name: str) -> Manifest:
    capabilities: Manifest = {
        "memoryPerGpu": dice.choice(GIBS),
        "interNodeBandwidth": dice.choice(RUNGS),
        "multiNodeCapable": dice.random() < 0.6,
        "precisionSupport": dice.choice(PRECISIONS),
    }
    return {
        "name": name,
        "acceleratorType": "gpu",
        "acceleratorCount": dice.choice(COUNTS),
        "maxNodeCount": dice.randint(1, 6),
        "capabilities": {key: value for key, value in capabilities.items() if value is not None},
    }


def _model(dice: random.Random) -> Manifest:
    profiles: list[JSON] = [_profile(dice, f"s{number}") for number in range(dice.randint(1, 3))]
    spec: Manifest = {
        "model": {"name": "org/model"},
        "huggingFace": {"repo": "org/model"},
        "resources": {"vram": dice.choice(("100Gi", "300Gi", "900Gi"))},
        "serving": profiles,
    }
    if dice.random() < 0.4:
        spec["environmentSelector"] = {"matchLabels": {"tier": "production"}}
    return {"apiVersion": VERSION, "kind": "ClusterModel", "metadata": {"name": "model"}, "spec": spec}


def _profile(dice: random.Random, name: str) -> Manifest:
    profile: Manifest = {"name": name, "engine": {"name": "vLLM", "image": "engine:1"}}
    if dice.random() < 0.7:
        requires: Manifest = {
            "memoryPerGpu": dice.choice(GIBS),
            "multiNodeBandwidth": dice.choice((None, "eth-100g-or-better", "ib-400g")),
            "precisionSupport": dice.choice(PRECISIONS),
        }
        profile["replicaTopology"] = {
            "nodes": dice.choice((1, 1, 2)),
            "gpusPerNode": dice.choice(COUNTS),
            "requires": {key: value for key, value in requires.items() if value is not None},
        }
    return profile


def _deployment(dice: random.Random, name: str) -> Manifest:
    return {
        "apiVersion": VERSION,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "modelRef": {"name": "model"},
            "environments": dice.randint(1, 3),
            "scaling": {"fixed": {"replicas": dice.randint(1, 3)}},
        },
    }


def planned(manifests: list[Manifest]) -> list[Plan]:
    """Plan every deployment among manifests, as they are."""
    world = Inventory(Store(manifests), "")
    return [*plan_deployments(world, world.list_deployments()).values()]


@pytest.mark.parametrize("seed", range(60))
def test_plan_decides_one_deployment_as_the_composer(seed: int) -> None:
    manifests = fleet(seed)
    for deployment in [m for m in manifests if m["kind"] == "ModelDeployment"]:
        others = [m for m in manifests if m["kind"] != "ModelDeployment"]
        (plan,) = planned([*others, deployment])
        outcome = compose(fetched(Call(xr=deployment), others))
        assert {str(c.type): c for c in outcome.conditions}["Scheduled"] == plan.condition
        wanted = [manifest["spec"] for _, manifest in sorted(composed_placements(outcome).items())]
        assert [m["spec"] for m in plan.placements] == wanted


@pytest.mark.parametrize("seed", range(60))
def test_rows_agree_with_the_decision(seed: int) -> None:
    for plan in planned(fleet(seed)):
        if plan.scheduling is None:
            continue
        decision = plan.scheduling.decision
        chosen = {(a.environment, a.profile, a.pool) for a in decision.assignments}
        assert {(r.environment, r.profile, r.pool) for r in plan.rows if r.serves} == chosen
        for miss in decision.refusals:
            rows = [r for r in plan.rows if r.environment == miss.environment]
            assert miss.granted_replicas is not None or miss.refusals in [r.refusals for r in rows]


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_plan_decides_several_deployments_as_a_control_plane(seed: int) -> None:
    manifests = fleet(seed)
    ready: Manifest = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
    everywhere = [m if m["kind"] != "InferenceEnvironment" else {**m, "status": ready} for m in manifests]
    control = controlled([m for m in everywhere if m["kind"] != "ModelDeployment"])
    for deployment in [m for m in everywhere if m["kind"] == "ModelDeployment"]:
        # Of two that come at the same moment the one with the lower uid wins, and a file has none: one after the other.
        control.apply([deployment])
        control.settle()
    reported = control.store
    for plan in planned(everywhere):
        assert plan.condition.reason == text(condition(reported.get(plan.ref), "Scheduled"), "reason")
