"""Every example and every acceptance manifest, asked of the version that its image names, or of the nearest before."""

from collections.abc import Callable

import pytest

from tests.engines.asking import Answers
from tests.engines.checks import check_replica
from tests.engines.replica import Group, Replica
from tests.engines.stories import STORIES, list_all_served
from tools.engines import Release

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("story", STORIES)
def test_every_pod_has_its_place(
    matrix: Callable[[Release], tuple[dict[str, Group], Answers]], story: str, subtests: pytest.Subtests
) -> None:
    services = [served for served in list_all_served() if served.story == story]
    assert services, "it serves something"
    for served in services:
        with subtests.test(served.id):
            group = matrix(served.release)[0][served.id]
            replica = Replica(
                shape=served.shape, version=served.release.number, names=served.names, weights=served.weights
            )
            check_replica(served.engine, group, replica)
