"""When all pods of a service on one node have its spec, as `kubectl rollout status` tells for a Deployment."""

from dataclasses import dataclass

import pytest

from function.domain.records.rollout import PendingUpdate
from function.kube.manifests import JSON, Manifest
from function.remote.object_writer import ObjectWriter
from function.remote.observed_object import ObservedObject, State
from function.serving.pod_deployment import POD_DEPLOYMENT, find_update, observe_pod_deployment

DIGEST = "modelplane.ai/spec-digest"
PRIMARY: Manifest = {"kind": "Deployment", "name": "chat-kserve"}
SERVICE: Manifest = {"spec": {"annotations": {DIGEST: "new"}}, "status": {"workloads": {"primary": PRIMARY}}}


def deployment(digest: str = "new", observed: int = 2, **status: JSON) -> ObservedObject:
    """Return a Deployment of two pods, all of which have the spec unless the status says otherwise."""
    manifest: Manifest = {
        "metadata": {"generation": 2},
        "spec": {"replicas": 2, "template": {"metadata": {"annotations": {DIGEST: digest}}}},
        "status": {
            "observedGeneration": observed, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, **status
        },
    }  # fmt: skip
    return ObservedObject(State.PRESENT, manifest)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    deployment: ObservedObject
    want: str | None


NOT_YET = "its Deployment chat-kserve does not have the current spec yet"
CASES = (
    Case("updated", "all pods have the spec and are available", deployment(), None),
    Case("earlier-spec",
        "the observed Deployment has an earlier spec than the service",
        deployment(digest="old"), NOT_YET),
    Case("not-observed",
        "the controller of the Deployment has not observed the change",
        deployment(observed=1), NOT_YET),
    Case("not-updated", "one pod still has the earlier spec", deployment(updatedReplicas=1),
         "1 of 2 pods have the current spec (2 exist, 2 available)"),
    Case("old-pod-left", "a pod with the earlier spec has not ended", deployment(replicas=3),
         "2 of 2 pods have the current spec (3 exist, 2 available)"),
    Case("not-available", "a pod with the new spec is not available", deployment(availableReplicas=1),
         "2 of 2 pods have the current spec (2 exist, 1 available)"),
    Case("unseen", "the provider has not observed the Deployment yet", ObservedObject(State.UNSEEN, {}),
         "its Deployment chat-kserve has not been observed yet"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_update_has_arrived_when_every_pod_has_the_spec(case: Case) -> None:
    assert find_update(SERVICE, case.deployment) == (PendingUpdate(case.want) if case.want else None), case.reason


def test_what_a_deployment_says_is_truncated() -> None:
    progressing: JSON = {"type": "Progressing", "status": "False", "message": "x" * 32_768}
    update = find_update(SERVICE, deployment(updatedReplicas=1, conditions=[progressing]))
    assert update
    assert update.stalled
    assert len(update.message) < 400


def observe(service: Manifest) -> dict[str, bool | None]:
    """Return the readiness of the Object that observes a Deployment which no longer exists."""
    manifest: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat-kserve"}}
    seen: Manifest = {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object",
        "metadata": {"name": "chat-workload"}, "spec": {"forProvider": {"manifest": manifest}},
    }  # fmt: skip
    writer = ObjectWriter(
        owner="chat", namespace="team", provider_config="east", watch=False, observed={POD_DEPLOYMENT: seen}
    )
    return {key: item.ready for key, item in observe_pod_deployment(service, writer, is_needed=True).composed.items()}


def test_deployment_is_observed_as_long_as_the_service_has_it() -> None:
    assert observe(SERVICE) == {POD_DEPLOYMENT: True}
    assert observe({}) == {POD_DEPLOYMENT: True}, "the Object of the Deployment stays while the service is not observed"
    over_nodes: Manifest = {"status": {"workloads": {"primary": {"kind": "LeaderWorkerSet", "name": "chat-kserve-mn"}}}}
    assert observe(over_nodes) == {}, "the Object is dropped, because the placement would wait for a deleted Deployment"
