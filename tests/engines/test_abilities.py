"""The table of abilities (`function/domain/engine_spec.py`) against the engines, row by row and version by version."""

from collections.abc import Callable

import pytest

from function.domain.engine_spec import Ability, has_ability
from function.domain.model import Engine, EngineName
from tests.engines.asking import Answers
from tests.engines.checks import Group
from tests.engines.shapes import IMAGES
from tools import engines
from tools.engines import Release, list_releases

pytestmark = pytest.mark.engines
Matrix = Callable[[Release], tuple[dict[str, Group], Answers]]
VLLM = list_releases("vllm")
FLAGS = {
    Ability.NODES: ("--nnodes", "--node-rank", "--master-addr"),
    Ability.RANKS_OVER_NODES: (
        "--data-parallel-address",
        "--data-parallel-start-rank",
        "--headless",
        "--api-server-count",
    ),
    Ability.JOIN_TIMEOUT: ("--distributed-timeout-seconds",),
    Ability.DRAIN: ("--shutdown-timeout",),
    Ability.TLS: ("--ssl-certfile", "--ssl-keyfile", "--enable-ssl-refresh"),
}


def believes(release: Release, ability: Ability) -> bool:
    """Tells whether this function believes that the stock image of a version has an ability."""
    engine = Engine(name=EngineName.VLLM, image=f"{IMAGES[EngineName.VLLM]}:v{release.version}")
    return has_ability(engine, ability)


@pytest.mark.parametrize("ability", FLAGS, ids=lambda ability: ability.name)
@pytest.mark.parametrize("release", VLLM, ids=lambda release: release.version)
def test_vllm_has_the_flags_of_its_abilities(matrix: Matrix, release: Release, ability: Ability) -> None:
    options = matrix(release)[1].options
    assert options.issuperset(FLAGS[ability]) is believes(release, ability)


@pytest.mark.parametrize("release", VLLM, ids=lambda release: release.version)
def test_vllm_brings_what_its_image_has(release: Release) -> None:
    folder = engines.install(release)
    requirements = (folder / "requirements" / "cuda.txt").read_text()
    assert ("\nray" in requirements) is believes(release, Ability.RAY)
    quantization = folder / "vllm" / "model_executor" / "layers" / "quantization"
    assert (quantization / "gguf.py").exists() is believes(release, Ability.GGUF)
