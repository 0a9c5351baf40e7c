"""A worker of a group on two nodes dies: what its probes say meanwhile, and how the group comes back."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, integer, is_deleting, listing, text
from tests.answers.model import TinyModel
from tests.answers.serving import Record, check_answer, find_pods, is_replaced, list_uids, serve
from tests.answers.stages import SECONDS, Stages
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("environment")]
NAME = "group"


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Stages]:
    """A replica on two nodes, by tensor parallelism."""
    yield from serve(world, NAME, 2)


def test_two_nodes_answer_as_transformers_does(served: Stages, model: TinyModel, record_property: Record) -> None:
    check_answer(served, model, "tp2", record_property)


def test_its_group_restarts_as_a_whole(world: World, served: Stages, model: TinyModel, record_property: Record) -> None:
    pods = find_pods(world, NAME)
    before, worker = list_uids(pods), pods[1]
    began = time.monotonic()
    os.kill(_find_first_process(world, worker), signal.SIGKILL)
    seen: dict[str, str] = {}

    def is_back() -> bool:
        for pod in find_pods(world, NAME):
            seen.setdefault(_describe(pod, before), f"{time.monotonic() - began:.1f} s")
        return is_replaced(world, NAME, before)

    until("a new group", is_back, seconds=SECONDS)
    assert until("an answer", served.ask, seconds=SECONDS).tokens == model.tokens
    record_property("answered", f"{time.monotonic() - began:.1f} s")
    record_property("pods", "; ".join(f"{when}: {what}" for what, when in seen.items()))


def _describe(pod: Manifest, before: set[str]) -> str:
    (main,) = listing(pod, "status.containerStatuses") or [{}]
    age = "earlier" if text(pod, "metadata.uid") in before else "new"
    part = "worker" if text(pod, "metadata.name").endswith("-1") else "leader"
    ready = text(condition(pod, "Ready"), "status") or "Unknown"
    ending = ", ends" if is_deleting(pod) else ""
    return f"{age} {part} Ready={ready}, {integer(main, 'restartCount')} restarts{ending}"


def _find_first_process(world: World, pod: Manifest) -> int:
    folder: Path = world.stack.home.root / "kubelet" / "pods" / text(pod, "metadata.uid")
    return int((folder / "main" / "pid").read_text())
