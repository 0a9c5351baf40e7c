"""What a service would be asked for, told before it is written: name and wish are those of the one that runs."""

import pytest

from function.adapter import requests
from function.adapter.split import split
from function.composers.placement import service
from function.domain.settings import BUILT_IN
from function.kube.manifests import strings, text
from function.kube.names import ANNOTATION_WISH
from tests.lifecycle.scene import ONE_NODE, SEVERAL_NODES, environment, running, scene


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
def test_what_is_wished_is_what_runs(story: str) -> None:
    rest = scene(story)
    there = running(rest)
    wish = strings(there, "metadata.annotations")[ANNOTATION_WISH]
    call = requests.read(split(rest.request().SerializeToString()))
    assert service(call, BUILT_IN) == (text(there, "metadata.name"), wish)


def test_where_nothing_can_be_planned_nothing_is_wished() -> None:
    without = scene(SEVERAL_NODES).edited(environment("storage", None))
    call = requests.read(split(without.request().SerializeToString()))
    assert service(call, BUILT_IN) is None
