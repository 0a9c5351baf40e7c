"""A stack with one pool of two nodes whose pods really run, and a hub that has the model."""

from collections.abc import Iterator

import pytest

from function.kube.manifests import condition
from tests.answers import scene
from tests.answers.model import TinyModel, build_model
from tests.e2e.conftest import empty, in_order, pytest_runtest_makereport, pytest_terminal_summary, world  # noqa: F401  # fixtures and hooks of the stack's scenarios
from tests.e2e.world import World
from tests.hub.hub import Hub, serving
from tools.stack.kubelet import node
from tools.stack.kubelet.sandbox import NODE_ADDRESS
from tools.stack.waiting import until


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """The model that is served."""
    return build_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def hub(nodes: str, model: TinyModel) -> Iterator[Hub]:
    """The hub that the pods reach."""
    with serving(Hub(files=dict(model.files)), nodes) as found:
        yield found


@pytest.fixture(scope="session")
def nodes(world: World) -> str:  # noqa: F811  # the fixture
    """The address of two nodes with one fake GPU each, whose pods the stand-in for the kubelet runs."""
    for manifest in scene.build_nodes():
        world.stack.remote.apply(manifest)
    program = node.program(world.stack.home)
    if program.name not in {record.program.name for record in world.stack.processes.records()}:  # of a kept stack
        world.stack.processes.start(program)

    def are_ready() -> bool:
        found = world.stack.remote.find("Node", labels=node.LABEL)
        return [condition(each, "Ready").get("status") for each in found] == ["True"] * len(found)

    until("the nodes", are_ready)
    return NODE_ADDRESS


@pytest.fixture(scope="module")
def environment(world: World, hub: Hub) -> str:  # noqa: F811  # the fixture
    """The environment on those nodes, which downloads from that hub."""
    world.apply(scene.build_environment(hub.endpoint))
    world.wait("InferenceEnvironment", scene.ENVIRONMENT, "Ready", "True")
    return scene.ENVIRONMENT
