"""A placement that has had another service: which one serves, and what stays for as long as it may be read."""

import copy

import pytest

from function.kube.manifests import JSON, get
from tests.lifecycle.scene import SEVERAL_NODES, Edit, Scene, environment, model, put, scene
from tests.lifecycle.test_admitted import LARGER, admitted

REVISION, UNPLANNABLE = model("huggingFace.revision", "v2"), environment("storage", None)
WAITING = pytest.mark.parametrize("edit", [REVISION, UNPLANNABLE, admitted(0)], ids=["bytes", "no-plan", "unadmitted"])


def beside(prefix: str, key: str, *, status: JSON = None) -> Edit:
    """Let another Object be observed, like the one with this prefix, and say this."""

    def edit(found: Scene) -> None:
        (like,) = (m for name, m in found.observed.items() if name.startswith(prefix))
        found.observed[key] = copy.deepcopy(like)
        put(found.observed[key], "metadata.name", key)
        put(found.observed[key], "status", status)

    return edit


def without_service(found: Scene) -> None:
    """Let no service be observed."""
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]


TWO = (beside("service-", "service-a"),)


@WAITING
def test_while_one_waits_another_stays_beside_it(edit: Edit) -> None:
    rest = scene(SEVERAL_NODES).edited(*TWO)
    assert rest.composed().keys() < rest.edited(edit).composed().keys(), "it goes where the wanted one is written"
    assert rest.edited(edit).composed().keys() == {k for k in rest.observed if k.startswith("service-")}
    assert get(rest.edited(edit).outcome().status, "service.replicas") == 1, "it takes the most of them, not all"


@WAITING
def test_of_two_the_wanted_one_is_told_of(edit: Edit) -> None:
    assert scene(SEVERAL_NODES).edited(*TWO, edit).said("ServiceReady").reason == "Serving"


def test_where_the_wanted_one_waits_the_earlier_one_is_told_of() -> None:
    waiting = scene(SEVERAL_NODES).edited(LARGER, REVISION)
    assert waiting.said("ServiceReady").reason == "Serving"
    assert get(waiting.outcome().status, "service.name") == get(waiting.xr, "status.service.name")


@pytest.mark.parametrize("edit", [without_service, LARGER], ids=["first", "another-group"])
def test_other_bytes_stay_until_what_is_written_now_is_up(edit: Edit) -> None:
    earlier = beside("claim-", "claim-earlier", status={"atProvider": {}})
    rest = scene(SEVERAL_NODES).edited(edit, earlier)
    assert len(rest.composed()) == 1
    assert "claim-earlier" in rest.composed("claim-"), "nobody knows of it yet what it reads"
    assert "claim-earlier" not in rest.edited(REVISION, without_service).composed("claim-")
