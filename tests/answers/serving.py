"""A deployment that serves for the scenarios of one file, and its pods."""

from collections.abc import Callable, Iterator

from function.kube.manifests import Manifest, text
from tests.answers import scene
from tests.answers.model import REPOSITORY, TinyModel
from tests.answers.stages import Stages
from tests.e2e.world import World, running

TEAM = "disturbed"
Record = Callable[[str, object], None]


def serve(world: World, name: str, nodes: int) -> Iterator[Stages]:
    """Yields a deployment of one replica once it answers, and removes it afterwards."""
    world.team(TEAM)
    model = scene.build_model(name, nodes, split={"tensor": nodes} if nodes > 1 else None)
    world.apply(model, scene.build_deployment(TEAM, name, claim=True))
    yield Stages(world, TEAM, name)
    world.remove(TEAM, name)


def check_answer(stages: Stages, model: TinyModel, split: str, record_property: Record) -> None:
    """Compares the first answer with what transformers computes, and asks once more by the name that routes use."""
    answer = stages.wait()
    record_property("stages", str(stages))
    record_property("tokens", f"{[*answer.tokens]} by {answer.fingerprint}, {[*model.tokens]} by transformers")
    assert answer.tokens == model.tokens
    assert split in answer.fingerprint
    assert stages.ask(model=f"publishers/{stages.namespace}/models/{REPOSITORY}").tokens == model.tokens


def find_pods(world: World, name: str) -> list[Manifest]:
    """Returns the pods of the only placement of a deployment."""
    return world.pods(world.service(world.placement(TEAM, name)))


def list_uids(pods: list[Manifest]) -> set[str]:
    """Returns the uids of pods."""
    return {text(pod, "metadata.uid") for pod in pods}


def is_replaced(world: World, name: str, earlier: set[str]) -> bool:
    """Tells whether only pods that are none of the earlier ones are there, and all of them are ready."""
    pods = find_pods(world, name)
    return bool(pods) and not list_uids(pods) & earlier and all(map(running, pods))
