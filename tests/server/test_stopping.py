"""A rollout of the function costs no call: what has arrived is answered, then the process ends by itself."""

import signal
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1.run_function_pb2 import Resource, RunFunctionRequest, State
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub
from crossplane.function.resource import dict_to_struct, struct_to_dict
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from function.main import ARRIVED_SECONDS, GRACE_SECONDS
from tests.server.processes import STANDIN, started

SLOW = RunFunctionRequest(observed=State(composite=Resource(resource=dict_to_struct({"metadata": {"name": "slow"}}))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_answers_arrived_calls_while_stopping(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, program=STANDIN) as server:
        with grpc.insecure_channel(server.address) as channel:
            stub = FunctionRunnerServiceStub(channel)
            calls = [stub.RunFunction.future(SLOW, timeout=30) for _ in range(3)]
            server.wait_for("composing")
            server.process.send_signal(number)
            for call in calls:
                answer = struct_to_dict(call.result().desired.composite.resource)
                assert answer == {"status": {"name": "slow"}}
        assert server.process.wait(30) == 0
        assert (tmp_path / "stderr").read_text() == "", "ending as asked is no error"


def test_answers_all_arrived_calls_and_refuses_new_ones(tmp_path: Path) -> None:
    with started(tmp_path, program=STANDIN) as server, ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(server.address)) for _ in range(3)]
        stubs = [FunctionRunnerServiceStub(channel) for channel in channels]
        calls = [stub.RunFunction.future(SLOW, timeout=60) for _ in range(7) for stub in stubs]
        server.wait_for("composing")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping")
        late = stubs[0].RunFunction.future(SLOW, timeout=60)
        other = FunctionRunnerServiceStub(stack.enter_context(grpc.insecure_channel(server.address)))
        for new in (late, other.RunFunction.future(SLOW, timeout=60)):
            assert new.exception().code() is grpc.StatusCode.UNAVAILABLE
        assert not all(call.done() for call in calls), "the new ones did not wait for the others"
        for call in calls:
            assert struct_to_dict(call.result().desired.composite.resource) == {"status": {"name": "slow"}}
        assert server.process.wait(30) == 0


def test_ends_within_grace_period_of_pod() -> None:
    assert ARRIVED_SECONDS + GRACE_SECONDS < 30, "what Kubernetes gives a pod"


def test_health_is_not_serving_before_calls_are_refused(tmp_path: Path) -> None:
    with started(tmp_path, program=STANDIN) as server, grpc.insecure_channel(server.address) as channel:
        states = HealthStub(channel).Watch(HealthCheckRequest(), timeout=30)
        assert next(states).status == HealthCheckResponse.SERVING
        server.process.send_signal(signal.SIGTERM)
        assert next(states).status == HealthCheckResponse.NOT_SERVING
        states.cancel()
        assert server.process.wait(30) == 0
