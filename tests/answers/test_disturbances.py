"""What becomes of requests and of a group when a pod ends, a worker dies, or a model is edited."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, integer, is_deleting, listing, text
from tests.answers import scene
from tests.answers.model import TinyModel
from tests.answers.stages import SECONDS, Stages
from tests.e2e.world import World, main_container, running
from tools.stack.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("environment")]
TEAM = "disturbed"
_PAUSE = 15  # seconds between the deletion of a pod and its SIGTERM
_LONG = 30  # seconds that a request takes which is still computed then
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def one_node(world: World) -> Iterator[Stages]:
    """A replica on one node, which reads its weights from a claim."""
    yield from _serve(world, "single", 1)


@pytest.fixture(scope="module")
def two_nodes(world: World) -> Iterator[Stages]:
    """A replica on two nodes."""
    yield from _serve(world, "group", 2)


def _serve(world: World, name: str, nodes: int) -> Iterator[Stages]:
    world.team(TEAM)
    model = scene.build_model(name, nodes, **({"tensor": 2} if nodes > 1 else {}))
    world.apply(model, scene.build_deployment(TEAM, name, claim=True))
    stages = Stages(world, TEAM, name)
    stages.wait()
    yield stages
    world.remove(TEAM, name)


def _pods(world: World, name: str) -> list[Manifest]:
    return world.pods(world.service(world.placement(TEAM, name)))


def _uids(world: World, name: str) -> set[str]:
    return {text(pod, "metadata.uid") for pod in _pods(world, name)}


def _serves(world: World, name: str, earlier: set[str]) -> bool:
    """Tells whether only pods that are none of the earlier ones are there, and all of them are ready."""
    pods = _pods(world, name)
    uids = {text(pod, "metadata.uid") for pod in pods}
    return bool(pods) and not uids & earlier and all(map(running, pods))


def test_a_request_is_answered_although_its_pod_ends(world: World, one_node: Stages, record_property: Record) -> None:
    began = time.monotonic()
    one_node.ask(tokens=200, whole=True)
    tokens = int(200 / (time.monotonic() - began) * _LONG)
    (pod,) = _pods(world, "single")
    with ThreadPoolExecutor() as threads:
        asked = time.monotonic()
        request = threads.submit(partial(one_node.ask, tokens=tokens, whole=True))
        time.sleep(2)
        world.stack.remote.delete("Pod", text(pod, "metadata.name"), TEAM)
        deleted = time.monotonic()
        answer = request.result(SECONDS)
    took = time.monotonic() - deleted
    record_property("request", f"{tokens} tokens in {time.monotonic() - asked:.1f} s, {took:.1f} s after the deletion")
    assert len(answer.tokens) == tokens
    assert took > _PAUSE, "it was still computed when the engine got SIGTERM"
    until("another pod", lambda: _serves(world, "single", {text(pod, "metadata.uid")}), seconds=SECONDS)


def test_an_edit_of_the_arguments_replaces_the_pod_once(
    world: World, one_node: Stages, model: TinyModel, record_property: Record
) -> None:
    before = _uids(world, "single")
    seen, failures, stop = set(before), list[str](), threading.Event()

    def keep_asking() -> int:
        count = 0
        while not stop.is_set():
            try:
                assert one_node.ask().tokens == model.tokens
            except (OSError, AssertionError) as error:
                failures.append(f"{type(error).__name__}: {error}")
            count += 1
            stop.wait(0.5)
        return count

    def is_replaced() -> bool:
        seen.update(_uids(world, "single"))
        return _serves(world, "single", before)

    began = time.monotonic()
    world.apply(scene.build_model("single", 1, "--max-num-batched-tokens=1024"))
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(keep_asking)
        try:
            until("the new pod", is_replaced, seconds=SECONDS)
        finally:
            stop.set()
    record_property(
        "edit", f"{asking.result()} requests during {time.monotonic() - began:.1f} s, {len(failures)} failed"
    )
    assert not failures
    assert len(seen) == len(before) + 1
    (pod,) = _pods(world, "single")
    assert "--max-num-batched-tokens=1024" in str(main_container(pod)["args"])


def test_a_dead_worker_restarts_its_group(
    world: World, two_nodes: Stages, model: TinyModel, record_property: Record
) -> None:
    leader, worker = _pods(world, "group")
    before = {text(pod, "metadata.uid") for pod in (leader, worker)}
    began = time.monotonic()
    os.kill(_first_process(world, worker), signal.SIGKILL)
    said: list[str] = []

    def is_replaced() -> bool:
        for pod in _pods(world, "group"):
            (main,) = listing(pod, "status.containerStatuses")
            ready, restarts = text(condition(pod, "Ready"), "status"), integer(main, "restartCount")
            which = "earlier" if text(pod, "metadata.uid") in before else "new"
            line = f"{which} {text(pod, 'metadata.name')} Ready={ready} restarts={restarts}"
            if is_deleting(pod):
                line += " ends"
            if not said or all(not each.endswith(line) for each in said):
                said.append(f"{time.monotonic() - began:.1f} s: {line}")
        return _serves(world, "group", before)

    until("a new group", is_replaced, seconds=SECONDS)
    assert until("an answer", two_nodes.ask, seconds=SECONDS).tokens == model.tokens
    record_property("worker", "; ".join([*said, f"{time.monotonic() - began:.1f} s: answered"]))


def _first_process(world: World, pod: Manifest) -> int:
    folder: Path = world.stack.home.root / "kubelet" / "pods" / text(pod, "metadata.uid")
    return int((folder / "main" / "pid").read_text())
