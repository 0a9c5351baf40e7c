"""Two deployments decide at the same moment: exactly one of them keeps its placement, in either order of calls."""

import copy
from dataclasses import dataclass

import pytest

from function.cli.store import Ref
from function.kube.manifests import Manifest, listing, mapping, text
from tests.support.plane import call, manifests, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """The creation times and uids of the two placements, and the winner."""

    id: str
    reason: str
    created: tuple[str, str]
    uids: tuple[str, str]
    winner: str


CASES = (
    Case(
        id="first-is-older",
        reason="the older of two placements that never served keeps its place",
        created=("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        uids=("b", "a"),
        winner="first",
    ),
    Case(
        id="second-is-older",
        reason="names and the order of the calls do not matter",
        created=("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"),
        uids=("a", "b"),
        winner="second",
    ),
    Case(
        id="same-second",
        reason="of placements created in the same second, both deployments choose the lower uid",
        created=("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        uids=("b", "a"),
        winner="second",
    ),
)


def _room_for_one() -> list[Manifest]:
    found = manifests("kimi-k2-two-nodes")
    deployment = next(m for m in found if m["kind"] == "ModelDeployment")
    environment = next(m for m in found if m["kind"] == "InferenceEnvironment")
    for pool in listing(environment, "spec.nodePools"):
        pool["maxNodeCount"] = 2
    others = [m for m in found if m is not deployment]
    named = []
    for name in ("first", "second"):
        copied = copy.deepcopy(deployment)
        mapping(copied, "metadata")["name"] = name
        named.append(copied)
    return [*others, *named]


def _race(case: Case) -> ControlPlane:
    """Lets both deployments decide from the same view, in which neither has a placement."""
    control = ControlPlane(renderer=Engine(call), world=World())
    control.apply(_room_for_one())
    for _ in range(30):
        control.advance()
        if len(control.all("ModelPlacement")) == 2:
            break
    for ref in control.all("ModelPlacement"):
        place = 0 if _owner(control, ref) == "first" else 1
        born: Manifest = {"creationTimestamp": case.created[place], "uid": case.uids[place]}
        manifest = control.composites[ref]
        control.composites[ref] = {**manifest, "metadata": {**mapping(manifest, "metadata"), **born}}
    return control


def _owner(control: ControlPlane, ref: Ref) -> str:
    return text(control.composites[ref], "spec.deploymentRef.name")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_one_of_two_racing_deployments_keeps_its_placement(case: Case) -> None:
    control = _race(case)
    assert len(control.all("ModelPlacement")) == 2, "both deployments must decide from the stale view"
    for _ in range(ROUNDS):
        control.advance()
    (kept,) = control.all("ModelPlacement")
    assert _owner(control, kept) == case.winner, case.reason
    loser = next(ref for ref in control.all("ModelDeployment") if ref.name != case.winner)
    assert said(control, loser, "Scheduled") == ("False", "InsufficientCapacity"), case.reason
    control.settle()
    assert control.all("ModelPlacement") == [kept], "the remaining placement stays in the stable state"
