"""Conditions of a service: accepted or not, serving or not, and Unknown if its cluster does not answer."""

from dataclasses import dataclass

import pytest

from function.domain.model import Problem
from function.kube.manifests import JSON, Manifest
from function.reasons import ServiceAccepted, ServiceReady, Status
from function.remote.observed_object import ObservedObject, State
from function.serving.reconcile import ReconciledService, ServiceDecision
from function.status.model_placement import build_service_accepted, build_service_ready, get_service_url

_seen = ObservedObject


def _service(*conditions: JSON, generation: int = 1, address: str = "") -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"generation": generation},
        "status": {"observedGeneration": 1, "conditions": [*conditions], "url": address},
    }


def _is(type_: str, status: str, message: str = "") -> Manifest:
    return {"type": type_, "status": status, "message": message}


READY = _service(_is("PresetsCombined", "True"), _is("Ready", "True"), address="http://x")
STARTING = _service(_is("PresetsCombined", "True"), _is("Ready", "False", "1/2 pods"))
STUCK = _service(_is("PresetsCombined", "False", "config x not found"))
UNSEEN = _seen(State.UNSEEN, {})


@dataclass(frozen=True)
class Acceptance:
    id: str
    remote: ObservedObject
    decision: ServiceDecision
    want: tuple[Status, ServiceAccepted]


COMPOSE, WAITS = ServiceDecision.COMPOSE, ServiceDecision.WEIGHTS_NOT_READY
ACCEPTANCES = (
    Acceptance("waits-for-weights", UNSEEN, WAITS, (Status.FALSE, ServiceAccepted.WAITING_FOR_STORAGE)),
    Acceptance("being-created", UNSEEN, COMPOSE, (Status.FALSE, ServiceAccepted.APPLYING)),
    Acceptance("refused", _seen(State.REJECTED, {}, "no"), COMPOSE, (Status.FALSE, ServiceAccepted.REJECTED)),
    Acceptance("no-kserve", _seen(State.KIND_MISSING, {}), COMPOSE, (Status.FALSE, ServiceAccepted.REJECTED)),
    Acceptance("no-answer", _seen(State.UNREACHABLE, READY), COMPOSE, (Status.UNKNOWN, ServiceAccepted.APPLYING)),
    Acceptance("odd-words", _seen(State.UNRECOGNISED, {}, "odd"), COMPOSE, (Status.UNKNOWN, ServiceAccepted.APPLYING)),
    Acceptance("older-kserve", _seen(State.UNKNOWN_FIELD, {}, "x"), COMPOSE, (Status.FALSE, ServiceAccepted.REJECTED)),
    Acceptance("webhook", _seen(State.WEBHOOK_FAILED, {}, "x"), COMPOSE, (Status.UNKNOWN, ServiceAccepted.APPLYING)),
    Acceptance("latest-unseen", _seen(State.PRESENT, _service(generation=2)), COMPOSE,
               (Status.FALSE, ServiceAccepted.APPLYING)),
    Acceptance("stuck", _seen(State.PRESENT, STUCK), COMPOSE, (Status.FALSE, ServiceAccepted.REJECTED)),
    Acceptance("not-combined-yet", _seen(State.PRESENT, _service()), COMPOSE, (Status.FALSE, ServiceAccepted.APPLYING)),
    Acceptance("accepted", _seen(State.PRESENT, STARTING), COMPOSE, (Status.TRUE, ServiceAccepted.ACCEPTED)),
)  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTANCES, ids=lambda c: c.id)
def test_accepted(case: Acceptance) -> None:
    rollout = ReconciledService(decision=case.decision, composed={}, pull_secrets={}, remote=case.remote)
    found = build_service_accepted(rollout)
    assert (found.status, found.reason) == case.want


@dataclass(frozen=True)
class Serving:
    id: str
    reason: str
    remote: ObservedObject
    want: tuple[Status, ServiceReady]
    replicas: int = 1
    has_served: bool = False


SERVINGS = (
    Serving("not-there", "", UNSEEN, (Status.FALSE, ServiceReady.STARTING)),
    Serving("refused-before-it-was", "a service that was rejected at first never existed",
            _seen(State.REJECTED, {}), (Status.FALSE, ServiceReady.STARTING)),
    Serving("serving", "", _seen(State.PRESENT, READY), (Status.TRUE, ServiceReady.SERVING)),
    Serving("change-refused", "the running service is unaffected by a rejected change",
            _seen(State.REJECTED, READY), (Status.TRUE,
         ServiceReady.SERVING)),
    Serving("starting", "", _seen(State.PRESENT, STARTING), (Status.FALSE, ServiceReady.STARTING)),
    Serving("degraded", "a service that served before is degraded",
            _seen(State.PRESENT, STARTING), (Status.FALSE, ServiceReady.DEGRADED),
            has_served=True),
    Serving("to-zero", "a service without requested replicas is scaled to zero",
            _seen(State.PRESENT, STARTING), (Status.TRUE,
         ServiceReady.SCALED_TO_ZERO),
            replicas=0),
    Serving("stuck-at-zero", "a service that KServe refuses is not scaled to zero", _seen(State.PRESENT, STUCK),
            (Status.FALSE, ServiceReady.STARTING), replicas=0),
    Serving("outage", "an earlier state does not show the current state", _seen(State.UNREACHABLE, READY),
            (Status.UNKNOWN, ServiceReady.UNREACHABLE), has_served=True),
    Serving("expired", "the cluster rejects the credentials, so the state is unknown", _seen(State.UNAUTHORISED, READY),
            (Status.UNKNOWN, ServiceReady.UNREACHABLE), has_served=True),
    Serving("odd-words", "an unknown message does not show the state of the service", _seen(State.UNRECOGNISED, READY),
            (Status.UNKNOWN, ServiceReady.SYNC_FAILED), has_served=True),
    Serving("odd-words-at-first", "an unknown message does not show that the service is missing",
            _seen(State.UNRECOGNISED, {}),
            (Status.UNKNOWN, ServiceReady.SYNC_FAILED)),
    Serving("conflict", "the running service is unaffected by a conflict",
            _seen(State.CONFLICT, READY), (Status.TRUE, ServiceReady.SERVING)),
    Serving("no-kserve-any-more", "an earlier state does not show the current state", _seen(State.KIND_MISSING, READY),
            (Status.UNKNOWN, ServiceReady.UNREACHABLE)),
    Serving("outage-while-starting", "", _seen(State.UNREACHABLE, STARTING), (Status.UNKNOWN,
         ServiceReady.UNREACHABLE)),
)  # fmt: skip


@pytest.mark.parametrize("case", SERVINGS, ids=lambda c: c.id)
def test_serving(case: Serving) -> None:
    found = build_service_ready(case.remote, case.replicas, has_served=case.has_served)
    assert (found.status, found.reason) == case.want, case.reason


def test_invalid_service_reports_all_problems() -> None:
    problems = (Problem("spec.serving[a].engine.args", "x"), Problem("spec.serving[a].engine.image", "y"))
    found = build_service_accepted(
        ReconciledService(decision=ServiceDecision.INVALID, composed={}, pull_secrets={}, problems=problems)
    )
    assert (found.status, found.reason) == (Status.FALSE, ServiceAccepted.REJECTED)
    assert found.message == "spec.serving[a].engine.args: x; spec.serving[a].engine.image: y"


def test_url_defaults_to_first_address() -> None:
    assert get_service_url(READY) == "http://x"
    assert get_service_url({"status": {"addresses": [{"url": "http://y"}]}}) == "http://y"
    assert get_service_url({}) == ""
