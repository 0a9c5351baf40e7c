"""Placements of a deployment that it does not observe: which are its own, and under which names they are composed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from function.contract import Composed, RequiredResource
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, text
from function.remote.adoption import adopt, find_orphan_placements
from tests.support import builders

XR: Manifest = {"metadata": {"name": "chat", "namespace": "team", "uid": "me"}}
KEY = "crossplane.io/composition-resource-name"
OBSERVED: Mapping[str, Manifest] = {"placement-seen": {"metadata": {"name": "chat-seen"}}}


def listed(name: str, *, uid: str = "1", key: str = "", **fields: object) -> tuple[RequiredResource, Placement]:
    """Return a placement of this deployment on `env`, as it is listed; `key`: its composition-resource-name."""
    made = replace(builders.placement(name=name, namespace="team", uid=uid), owner="me")
    annotations: JSON = {KEY: key} if key else {}
    manifest: Manifest = {"metadata": {"name": name, "annotations": annotations}}
    return RequiredResource(b"", partial(dict, manifest)), replace(made, **fields)  # type: ignore[arg-type]  # as named


@pytest.mark.parametrize(
    ("found", "want", "reason"),
    [
        ([listed("a", key="placement-env")], {"placement-env": "a"}, "it has the name under which it was composed"),
        ([listed("a")], {"placement-env": "a"}, "without one it has that of its environment"),
        ([listed("a", key="placement-seen")], {"placement-a": "a"}, "what is observed keeps its own"),
        (
            [listed("a", uid="2"), listed("b", uid="1"), listed("c", uid="3")],
            {"placement-env": "b", "placement-a": "a", "placement-c": "c"},
            "of several the oldest uid has it",
        ),
        ([listed("b"), listed("a")], {"placement-env": "a", "placement-b": "b"}, "then the first by name"),
        ([listed("a", owner="another")], {}, "of another composite"),
        ([listed("a", owner="")], {}, "of nobody"),
        ([listed("a", namespace="other")], {}, "anybody can write an owner elsewhere"),
        ([listed("a", deleting=True)], {}, "it goes"),
        ([listed("chat-seen")], {}, "it is observed"),
        ([(listed("a")[0], None)], {}, "it cannot be read"),
    ],
)
def test_finds_orphan_placements_and_their_names(
    found: list[tuple[RequiredResource, Placement | None]], want: dict[str, str], reason: str
) -> None:
    lost = find_orphan_placements(XR, OBSERVED, found)
    assert {key: text(manifest, "metadata.name") for key, manifest in lost.items()} == want, reason


def test_composite_without_uid_has_no_orphans() -> None:
    assert find_orphan_placements({"metadata": {"namespace": "team"}}, {}, [listed("a", owner="")]) == {}


def test_applies_only_orphans_over_seen_version() -> None:
    item = Composed(manifest={"metadata": {"name": "a"}, "spec": {}})
    over = Composed(manifest={"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}})
    lost: dict[str, Manifest] = {"lost": {"metadata": {"resourceVersion": "7"}}, "gone": {"metadata": {}}}
    composed = {"lost": item, "kept": item, "gone": item}
    assert adopt(composed, lost) == {**composed, "lost": over}
