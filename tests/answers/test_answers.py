"""A real answer: from `kubectl apply` of a deployment to the tokens that transformers computes from the same weights.

Crossplane, KServe, LeaderWorkerSet, the initializer and vLLM are real; `tools/stack/kubelet` runs the pods. Since each
start takes minutes, one node that reads a claim and two nodes with tensor parallelism are tested where their pods are
then disturbed (test_replaced_pods.py, test_dead_worker.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from function.kube.manifests import Manifest
from tests.answers import scene
from tests.answers.model import TinyModel
from tests.answers.serving import Record, check_answer
from tests.answers.stages import Stages
from tests.e2e.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("environment")]
TEAM = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to spread a replica over pods."""

    id: str
    nodes: int
    split: str  # as vLLM's fingerprint says it
    parallelism: Manifest = field(default_factory=dict)
    start: str = scene.EAGER


CASES = (
    Case(id="empty-dir", nodes=1, split=""),
    Case(id="pipeline", nodes=2, split="pp2", parallelism={"tensor": 1, "pipeline": 2}, start=scene.TRACED),
    Case(id="data", nodes=2, split="dp2", parallelism={"tensor": 1, "data": 2, "dataLocal": 1}),
)


@pytest.fixture(autouse=True)
def free_nodes(world: World) -> Iterator[None]:
    """After each case the nodes are free for the next."""
    yield
    world.clear_services()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_answers_as_transformers_do(world: World, model: TinyModel, case: Case, record_property: Record) -> None:
    world.team(TEAM)
    world.apply(scene.build_model(case.id, case.nodes, start=case.start, split=case.parallelism))
    stages = Stages(world, TEAM, case.id)
    world.stack.kubectl.apply([scene.build_deployment(TEAM, case.id)])
    check_answer(stages, model, case.split, record_property)
