"""What becomes of requests when the pod of a replica on one node ends, and when its model is edited."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from function.kube.manifests import text
from tests.answers import scene
from tests.answers.model import TinyModel
from tests.answers.serving import TEAM, Record, check_answer, find_pods, is_replaced, list_uids, serve
from tests.answers.stages import SECONDS, Stages
from tests.e2e.world import World, main_container
from tools.stack.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("environment")]
NAME = "single"
_PAUSE = 15  # seconds between the deletion of a pod and its SIGTERM
_LONG = 30  # seconds that a request takes, so that it is still computed then


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Stages]:
    """A replica on one node, which reads its weights from a claim."""
    yield from serve(world, NAME, 1)


def test_answers_as_transformers_does(served: Stages, model: TinyModel, record_property: Record) -> None:
    check_answer(served, model, "", record_property)


def test_a_request_is_answered_although_its_pod_ends(world: World, served: Stages, record_property: Record) -> None:
    began = time.monotonic()
    served.ask(tokens=200, whole=True)
    tokens = int(200 / (time.monotonic() - began) * _LONG)
    (pod,) = find_pods(world, NAME)
    with ThreadPoolExecutor() as threads:
        request = threads.submit(partial(served.ask, tokens=tokens, whole=True))
        time.sleep(2)
        world.stack.remote.delete("Pod", text(pod, "metadata.name"), TEAM)
        deleted = time.monotonic()
        answer = request.result(SECONDS)
    took = time.monotonic() - deleted
    record_property("request", f"{tokens} tokens, answered {took:.1f} s after its pod was deleted")
    assert len(answer.tokens) == tokens
    assert took > _PAUSE, "it was still computed when the engine got SIGTERM"
    until("another pod", lambda: is_replaced(world, NAME, list_uids([pod])), seconds=SECONDS)


def test_an_edit_of_the_arguments_replaces_the_pod_once(
    world: World, served: Stages, model: TinyModel, record_property: Record
) -> None:
    before = list_uids(find_pods(world, NAME))
    seen, failures, stop = set(before), list[str](), threading.Event()

    def keep_asking() -> int:
        count = 0
        while not stop.is_set():
            try:
                assert served.ask().tokens == model.tokens
            except (OSError, AssertionError) as error:
                failures.append(f"{type(error).__name__}: {error}")
            count += 1
            stop.wait(0.5)
        return count

    def is_edited() -> bool:
        seen.update(list_uids(find_pods(world, NAME)))
        return is_replaced(world, NAME, before)

    began = time.monotonic()
    world.apply(scene.build_model(NAME, 1, "--max-num-batched-tokens=1024"))
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(keep_asking)
        try:
            until("the new pod", is_edited, seconds=SECONDS)
        finally:
            stop.set()
    seconds = time.monotonic() - began
    record_property("edit", f"{asking.result()} requests during {seconds:.1f} s, {len(failures)} failed")
    assert not failures
    assert len(seen) == len(before) + 1
    (pod,) = find_pods(world, NAME)
    assert "--max-num-batched-tokens=1024" in str(main_container(pod)["args"])
