"""The engines' own parsers and vLLM's configuration, asked about every command line of the matrix.

Whatever this function refuses for a version is not asked; test_abilities.py checks that it refuses with reason.
"""

from collections.abc import Callable

import pytest

from function.domain.model import EngineName
from tests.engines.asking import Answers
from tests.engines.checks import check_replica
from tests.engines.replica import Group, Replica
from tests.engines.shapes import CASES, FILE, NAMES, Case, build, name_engine
from tools.engines import Release, list_releases

pytestmark = pytest.mark.engines
ROWS = [
    pytest.param(release, case, id=f"{release.package}-{release.version}-{case.id}")
    for name in EngineName
    for release in list_releases(name.lower())
    for case in CASES
    if build(case, name, release.version)
]


@pytest.mark.parametrize(("release", "case"), ROWS)
def test_every_pod_has_its_place(
    matrix: Callable[[Release], tuple[dict[str, Group], Answers]],
    release: Release,
    case: Case,
    record_property: Callable[[str, object], None],
) -> None:
    record_property(f"{release.package} {release.version}", case.id)
    weights = f"/mnt/models/{FILE}" if case.gguf else "/mnt/models"
    replica = Replica(shape=case.shape, version=release.number, names=NAMES, weights=weights, tls=case.tls)
    check_replica(name_engine(release), matrix(release)[0][case.id], replica)
