"""A deployment that serves for the scenarios of one file, and its pods."""

from collections.abc import Iterator

from function.kube.manifests import Manifest, text
from tests.answers import scene
from tests.answers.stages import Stages
from tests.e2e.world import World, running

TEAM = "disturbed"


def serve(world: World, name: str, nodes: int) -> Iterator[Stages]:
    """Yields a deployment of one replica once it answers, and removes it afterwards."""
    world.team(TEAM)
    model = scene.build_model(name, nodes, split={"tensor": nodes} if nodes > 1 else None)
    world.apply(model, scene.build_deployment(TEAM, name, claim=True))
    stages = Stages(world, TEAM, name)
    stages.wait()
    yield stages
    world.remove(TEAM, name)


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
