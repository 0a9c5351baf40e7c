"""States of Objects by provider-kubernetes' messages, which come from the real stack or from its source code."""

import time
from dataclasses import dataclass

import pytest

from function.kube.manifests import Manifest
from function.remote.observed_object import ObservedObject, State, read_object

REMOTE: Manifest = {"apiVersion": "v1", "kind": "Secret"}


def _object(message: str | None, remote: Manifest | None = None) -> Manifest:
    synced: Manifest = {"type": "Synced", "status": "True" if message is None else "False", "message": message or ""}
    return {"status": {"conditions": [synced], "atProvider": {"manifest": remote or {}}}}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    message: str
    want: State


CASES = (
    Case("absent", "an observe-only object that is not there", "observe failed: external resource does not exist",
         State.ABSENT),
    Case("no-secret", "the kubeconfig's Secret is missing",
         'connect failed: cannot get credentials: cannot get credentials secret: Secret "x" not found',
         State.NO_CREDENTIALS),
    Case("no-kubeconfig", "the kubeconfig's Secret holds something else",
         "connect failed: cannot build kube client for provider config: failed to load kubeconfig: couldn't get "
         "version/kind; json parse error: json: cannot unmarshal string into Go value of type struct",
         State.INVALID_KUBECONFIG),
    Case("no-token", "a Secret to copy is missing",
         'observe failed: cannot resolve resource references: cannot get referenced resource: secrets "x" not found',
         State.NO_REFERENCE),
    Case("no-token-key", "a Secret to copy lacks the key",
         "observe failed: cannot resolve resource references: cannot patch from referenced resource: "
         "data[HF_TOKEN]: no such field", State.NO_REFERENCE_KEY),
    Case("no-kind", "the cluster answers and does not know the kind",
         'observe failed: cannot get object: no matches for kind "LLMInferenceService" in version '
         '"serving.kserve.io/v1alpha2"', State.KIND_MISSING),
    Case("no-namespace", "the cluster answers and lacks the namespace",
         'create failed: cannot create object: namespaces "kserve" not found', State.NAMESPACE_MISSING),
    Case("namespace-ends", "an object cannot be created while its namespace is being deleted, which ends by itself",
         'create failed: cannot apply object: jobs.batch "x" is forbidden: unable to create new content in namespace '
         "team-a because it is being terminated", State.NAMESPACE_ENDING),
    Case("refused", "an admission webhook has denied the request",
         'create failed: cannot create object: admission webhook "x.kserve" denied the request: no', State.REJECTED),
    Case("smaller-claim", "a claim may not request less storage than it has",
         'update failed: cannot apply object: PersistentVolumeClaim "c" is invalid: spec.resources.requests.storage: '
         "Forbidden: field can not be less than status.capacity", State.REJECTED),
    Case("down", "no server listens at the address of the cluster",
         'observe failed: cannot get object: Get "https://10.0.0.1:6443/api": dial tcp 10.0.0.1:6443: connect: '
         "connection refused", State.UNREACHABLE),
    Case("down-while-discovering",
         "a discovery error that names an API group still means that the cluster is down",
         "observe failed: cannot get object: failed to get API group resources: unable to retrieve the list of "
         'server APIs: batch/v1: Get "https://10.0.0.1:6443": dial tcp 10.0.0.1:6443: i/o timeout', State.UNREACHABLE),
    Case("unknown-words", "an unknown message does not tell whether the cluster answers", "observe failed: EOF",
         State.UNRECOGNISED),
    Case("unauthorised",
        "the API server has refused the credentials with 401, in the words of client-go",
        "observe failed: Unauthorized",
         State.UNAUTHORISED),
    Case("no-login",
        "the API server has refused the credentials during discovery",
        "observe failed: cannot get object: failed to get server groups: "
         "the server has asked for the client to provide credentials", State.UNAUTHORISED),
    Case("expired", "a certificate of either side is invalid", 'observe failed: Get "https://10.0.0.1:6443/api": '
         "tls: failed to verify certificate: x509: certificate has expired or is not yet valid", State.UNAUTHORISED),
    Case("conflict",
        "two writers have changed the object at once, which a retry resolves",
        'update failed: Operation cannot be fulfilled on jobs "x": '
         "the object has been modified; please apply your changes to the latest version and try again", State.CONFLICT),
    Case("webhook-down", "a webhook cannot be reached by the API server, which itself answers",
         'create failed: Internal error occurred: failed calling webhook "x.kserve": failed to call webhook: '
         'Post "https://kserve.svc:443/x": dial tcp 10.96.0.1:443: connect: connection refused',
         State.WEBHOOK_FAILED),
    Case("unknown-field", "server-side apply refuses a field that an older CRD lacks",
         "create failed: cannot apply object: failed to create typed patch object: .spec.worker: field not declared in "
         "schema", State.UNKNOWN_FIELD),
    Case("strict",
        "strict decoding refuses a field that an older CRD lacks",
        'create failed: strict decoding error: unknown field "spec.worker"',
         State.UNKNOWN_FIELD),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_states(case: Case) -> None:
    remote = read_object(_object(case.message, REMOTE))
    assert remote.state is case.want, case.reason
    assert remote.manifest == REMOTE, "the remote object that was observed before stays readable"
    assert remote.seen
    assert not remote.present


def test_unseen_and_present_objects() -> None:
    assert read_object(None).state is read_object(_object(None)).state is State.UNSEEN
    assert read_object(_object(None, REMOTE)).present


@pytest.mark.parametrize("part", ["a", "1:", ":1", "a:1->", " a:1->", "\n"])
def test_classifies_long_message_in_linear_time(part: str) -> None:
    started = time.perf_counter()
    found = read_object(_object(f"observe failed: {part * 16000} dial tcp"))
    assert time.perf_counter() - started < 0.2, (
        "a message is classified in linear time, because every Object is read on every call"
    )
    assert len(found.message) <= 1000
    assert found.state is State.UNREACHABLE, (
        "the state follows from the last part of a message, which is the cause of wrapped errors"
    )


def test_removes_ports_from_messages() -> None:
    message = "observe failed: read tcp 10.0.0.9:{}->10.0.0.1:6443: read: connection reset by peer"
    first, second = (read_object(_object(message.format(port))).message for port in (40001, 40002))
    assert first == second == "observe failed: read tcp 10.0.0.1:6443: read: connection reset by peer", (
        "a message that changes on every attempt would change the status on every attempt"
    )


@pytest.mark.parametrize("state", State)
def test_provider_words_are_part_of_the_problem(state: State) -> None:
    assert ObservedObject(state, {}, "its words").problem.endswith("its words")


def test_present_object_has_no_problem() -> None:
    assert ObservedObject(State.PRESENT, {"kind": "Job"}).problem == ""
