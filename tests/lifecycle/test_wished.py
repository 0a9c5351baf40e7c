"""What a service would be asked for, told before it is written: name and wish are those of the one that runs."""

import pytest

from function.adapter import requests
from function.adapter.split import split
from function.composers.placement import service
from function.domain.settings import BUILT_IN
from function.kube.manifests import strings, text
from function.kube.names import ANNOTATION_WISH
from tests.lifecycle.scene import ONE_NODE, SEVERAL_NODES, environment, placement, running, scene


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
def test_what_is_wished_is_what_runs(story: str) -> None:
    rest = scene(story)
    there = running(rest)
    wish = strings(there, "metadata.annotations")[ANNOTATION_WISH]
    call = requests.read(split(rest.request().SerializeToString()))
    assert service(call, BUILT_IN) == (text(there, "metadata.name"), wish)


def test_where_nothing_can_be_planned_nothing_is_wished() -> None:
    without = scene(SEVERAL_NODES).edited(placement("modelCache", {"type": "EmptyDir"}))
    call = requests.read(split(without.request().SerializeToString()))
    assert service(call, BUILT_IN) is None


def test_what_can_be_planned_on_the_claim_that_is_there_is_wished() -> None:
    """Whatever the environment says of new ones."""
    rest = scene(SEVERAL_NODES)
    without = rest.edited(environment("storage", None))
    calls = [requests.read(split(found.request().SerializeToString())) for found in (rest, without)]
    wished = [service(call, BUILT_IN) for call in calls]
    assert wished[1] == wished[0] is not None
