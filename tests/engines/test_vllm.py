"""vLLM's own parser and configuration, asked about every command line of the matrix.

Whatever this function refuses for a version is not asked; test_abilities.py checks that it refuses with reason.
"""

from collections.abc import Callable

import pytest

from function.domain.model import EngineName
from tests.engines.asking import Answers
from tests.engines.checks import Group, Replica, check_replica
from tests.engines.shapes import CASES, FILE, NAMES, Case, build
from tools.engines import Release, list_releases

pytestmark = pytest.mark.engines
ROWS = [
    pytest.param(release, case, id=f"{release.version}-{case.id}")
    for release in list_releases("vllm")
    for case in CASES
    if build(case, EngineName.VLLM, release.version)
]


@pytest.mark.parametrize(("release", "case"), ROWS)
def test_every_pod_has_its_place(
    matrix: Callable[[Release], tuple[dict[str, Group], Answers]], release: Release, case: Case
) -> None:
    weights = f"/mnt/models/{FILE}" if case.gguf else "/mnt/models"
    replica = Replica(shape=case.shape, version=release.number, names=NAMES, weights=weights, tls=case.tls)
    check_replica(matrix(release)[0][case.id], replica)
