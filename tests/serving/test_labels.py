"""A service keeps the labels of its pods that cannot change, whatever its pool says, and every other edit reaches it.

KServe uses the labels of a service on one node also as the selector of its Deployment, which never changes.
"""

from dataclasses import replace

import pytest

from function.domain.environment import Pool
from function.domain.model import Shape
from function.domain.pods import InterNode, PodAdditions
from function.kube.manifests import JSON, Manifest, strings
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.labels import drop_kept_labels, find_kept_labels, find_queue, keep_labels
from function.serving.service import build_service
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, edit_environment, edit_model, load_scene
from tests.support.serving_requests import FRONTIER, PIPELINE, request
from tests.support.serving_requests import ONE_NODE as SINGLE

QUEUE = "kueue.x-k8s.io/queue-name"
TEAM_A: JSON = {"team": "a"}
LABELS = "spec.labels"


def labelled(**labels: str) -> Pool:
    return replace(FRONTIER, pod=PodAdditions(labels=tuple(sorted(labels.items()))))


def service_of(story: str, *, labels: JSON, queue: str = "", image: str = "") -> tuple[Manifest, str]:
    """Returns the service at rest after an edit of its pool, and the message of ServiceReady."""
    edits = [edit_environment("nodePools.0.pod", {"labels": labels})]
    edits += [edit_environment("nodePools.0.kueue", {"queue": queue})] if queue else []
    edits += [edit_model("serving.0.engine.image", image)] if image else []
    scene = load_scene(story).edited(*edits)
    (service,) = scene.composed().values()
    return service, scene.condition("ServiceReady").message


def test_labels_of_a_service_on_one_node_do_not_change() -> None:
    before, _ = service_of(ONE_NODE, labels={})
    after, message = service_of(ONE_NODE, labels=TEAM_A)
    assert after == before
    assert (
        "Note on pool h100: the pods keep their labels team, as these cannot change while the service exists; "
        "deleting ModelPlacement gemma-" in message
    )
    assert message.endswith(" stops the service and creates it again")


def test_other_edits_reach_a_service_that_keeps_its_labels() -> None:
    after, _ = service_of(ONE_NODE, labels=TEAM_A, image="vllm/vllm-openai:v9")
    unlabelled, _ = service_of(ONE_NODE, labels={}, image="vllm/vllm-openai:v9")
    assert after == unlabelled


def test_only_the_queue_of_a_service_over_several_nodes_does_not_change() -> None:
    """A LeaderWorkerSet has no selector, and Kueue refuses another queue for it."""
    before, _ = service_of(SEVERAL_NODES, labels={})
    after, message = service_of(SEVERAL_NODES, labels=TEAM_A, queue="gpus")
    assert strings(after, LABELS) == {**strings(before, LABELS), "team": "a"}
    assert f"the pods keep their labels {QUEUE}, " in message


@pytest.mark.parametrize("shape", [SINGLE, PIPELINE])
def test_a_new_service_has_the_labels_of_its_pool(shape: Shape) -> None:
    asked = request(shape, pool=labelled(**{QUEUE: "gpus", "team": "a"}))
    built = build_service(keep_labels(asked, {}))
    assert strings(built, LABELS).items() >= {QUEUE: "gpus", "team": "a"}.items()
    assert find_queue(built) == "gpus"
    assert find_kept_labels(asked, keep_labels(asked, built)) == ()


def kept(asked: ServingRequest, existing: ServingRequest) -> ServingRequest:
    return keep_labels(asked, build_service(existing))


@pytest.mark.parametrize("earlier", [{}, {QUEUE: "earlier"}, {QUEUE: "earlier", "team": "a"}])
def test_kept_labels_do_not_change_the_digest(earlier: dict[str, str]) -> None:
    existing, asked = request(SINGLE, pool=labelled(**earlier)), request(SINGLE, pool=labelled(team="b"))
    assert compute_spec_digest(kept(asked, existing)) == compute_spec_digest(existing)
    assert compute_spec_digest(drop_kept_labels(existing)) == compute_spec_digest(drop_kept_labels(asked))


@pytest.mark.parametrize(("earlier", "later"), [("a", "b"), ("", "b"), ("a", "")])
def test_a_kept_queue_also_reaches_pods_with_settings_between_nodes(earlier: str, later: str) -> None:
    def between(queue: str) -> Pool:
        pod = PodAdditions(labels=((QUEUE, queue),) if queue else ())
        return replace(FRONTIER, pod=pod, inter_node=InterNode(merged=pod))

    existing, asked = request(PIPELINE, pool=between(earlier)), request(PIPELINE, pool=between(later))
    assert find_queue(build_service(kept(asked, existing))) == earlier
    assert find_kept_labels(asked, kept(asked, existing)) == (QUEUE,)
    assert compute_spec_digest(kept(asked, existing)) == compute_spec_digest(existing)
