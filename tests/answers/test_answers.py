"""A real answer: from `kubectl apply` of a deployment to the tokens that transformers computes from the same weights.

Crossplane, KServe, LeaderWorkerSet, the initializer and vLLM are real; `tools/stack/kubelet` runs the pods.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from function.kube.manifests import Manifest
from tests.answers import scene
from tests.answers.model import REPOSITORY, TinyModel
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
    claim: bool = False  # also where one node could do without


CASES = (
    Case(id="claim", nodes=1, split="", claim=True),
    Case(id="empty-dir", nodes=1, split=""),
    Case(id="tensor", nodes=2, split="tp2", parallelism={"tensor": 2}),
    Case(id="pipeline", nodes=2, split="pp2", parallelism={"tensor": 1, "pipeline": 2}, start=scene.TRACED),
    Case(id="data", nodes=2, split="dp2", parallelism={"tensor": 1, "data": 2, "dataLocal": 1}),
)


@pytest.fixture(autouse=True)
def free_nodes(world: World) -> Iterator[None]:
    """After each case the nodes are free for the next."""
    yield
    world.clear_services()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_answers_as_transformers_do(
    world: World, model: TinyModel, case: Case, record_property: Callable[[str, object], None]
) -> None:
    world.team(TEAM)
    world.apply(scene.build_model(case.id, case.nodes, start=case.start, split=case.parallelism))
    stages = Stages(world, TEAM, case.id)
    world.stack.kubectl.apply([scene.build_deployment(TEAM, case.id, claim=case.claim)])
    answer = stages.wait()
    record_property("stages", str(stages))
    record_property("tokens", f"{[*answer.tokens]} by {answer.fingerprint}, {[*model.tokens]} by transformers")
    assert answer.tokens == model.tokens
    assert case.split in answer.fingerprint
    assert stages.ask(model=f"publishers/{TEAM}/models/{REPOSITORY}").tokens == model.tokens
