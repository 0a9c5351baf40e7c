"""What clients of the running function can count on: both protocol versions, health, reflection, size."""

from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from crossplane.function.proto.v1beta1.run_function_pb2_grpc import (
    FunctionRunnerServiceStub as BetaFunctionRunnerServiceStub,
)
from crossplane.function.resource import dict_to_struct
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from function.kube.manifests import Manifest
from tests.server.processes import Running, started

DEPLOYMENT: Manifest = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"namespace": "team", "name": "kimi"},
    "spec": {"modelRef": {"name": "kimi-k2"}},
}
SERVICES = (
    "apiextensions.fn.proto.v1.FunctionRunnerService",
    "apiextensions.fn.proto.v1beta1.FunctionRunnerService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
)


def request(padding: int = 0) -> fnv1.RunFunctionRequest:
    """Build a first call, before anything is answered, with so many unrequested bytes."""
    return fnv1.RunFunctionRequest(
        meta=fnv1.RequestMeta(tag="a tag"),
        observed=fnv1.State(composite=fnv1.Resource(resource=dict_to_struct(DEPLOYMENT))),
        required_resources={
            "unasked": fnv1.Resources(items=[fnv1.Resource(resource=dict_to_struct({"x": "x" * padding}))])
        },
    )


def test_run_function(server: Running) -> None:
    response = server.call(request())
    assert response.meta.tag == "a tag"
    assert len(response.requirements.resources) > 0, "a deployment always asks for its model"
    assert {condition.target for condition in response.conditions} == {fnv1.TARGET_COMPOSITE}
    assert not [r for r in response.results if r.severity == fnv1.SEVERITY_FATAL], "waiting is never fatal"


def test_runs_function_of_v1beta1(server: Running) -> None:
    older = fnv1beta1.RunFunctionRequest.FromString(request().SerializeToString())
    with grpc.insecure_channel(server.address) as channel:
        response = BetaFunctionRunnerServiceStub(channel).RunFunction(older, timeout=30)
    assert [c.type for c in response.conditions] == [c.type for c in server.call(request()).conditions]


@pytest.mark.parametrize("service", ["", *SERVICES])
def test_health(server: Running, service: str) -> None:
    with grpc.insecure_channel(server.address) as channel:
        answer = HealthStub(channel).Check(HealthCheckRequest(service=service), timeout=30)
    assert answer.status == HealthCheckResponse.SERVING


def test_reports_unknown_service_to_health_checks(server: Running) -> None:
    with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError) as caught:
        HealthStub(channel).Check(HealthCheckRequest(service="unknown"), timeout=30)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection(server: Running) -> None:
    with grpc.insecure_channel(server.address) as channel:
        asked = iter([ServerReflectionRequest(list_services="")])
        (answer,) = ServerReflectionStub(channel).ServerReflectionInfo(asked, timeout=30)
    assert tuple(sorted(s.name for s in answer.list_services_response.service)) == SERVICES


def test_accepts_large_request(server: Running) -> None:
    # gRPC's own limit is 4 MiB, which about 1,140 environments exceed.
    assert server.call(request(padding=6 * 2**20)).meta.tag == "a tag"


@pytest.mark.parametrize(
    ("options", "variables"),
    [(("--max-recv-message-size", "1"), {}), ((), {"MAX_RECV_MESSAGE_SIZE": "1"})],
    ids=["by-flag", "by-variable"],
)
def test_request_limit_can_be_set(tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]) -> None:
    with started(tmp_path, "--insecure", *options, variables=variables) as server:
        with pytest.raises(grpc.RpcError) as caught:
            server.call(request(padding=2**20))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert server.call(request()).meta.tag == "a tag"


@pytest.mark.parametrize("service", SERVICES[:2])
def test_answers_malformed_bytes_with_invalid_argument(server: Running, service: str) -> None:
    item = fnv1.RunFunctionRequest(required_resources={"model": fnv1.Resources()}).SerializeToString()
    broken = item.replace(b"model\x12\x00", b"model\x12\x03\x0a\x01\xff").replace(b"\x42\x09", b"\x42\x0c")
    for sent, said in (
        (b"\xff", "The request is not a RunFunctionRequest"),
        (request().SerializeToString() + broken, "A required resource is not a Resource"),
    ):
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{service}/RunFunction")(sent, timeout=30)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, said)
    assert server.log()[-1]["msg"] == "malformed"
    assert server.call(request()).meta.tag == "a tag", "and the server goes on"
