"""A rollout of the function costs no call: what has arrived is answered, then the process ends by itself."""

import signal
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1.run_function_pb2 import Resource, RunFunctionRequest, State
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub
from crossplane.function.resource import dict_to_struct, struct_to_dict
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.server.processes import STANDIN, started

SLOW = RunFunctionRequest(observed=State(composite=Resource(resource=dict_to_struct({"metadata": {"name": "slow"}}))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_that_have_arrived_are_answered(tmp_path: Path, number: signal.Signals) -> None:
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


def test_health_turns_first(tmp_path: Path) -> None:
    with started(tmp_path, program=STANDIN) as server, grpc.insecure_channel(server.address) as channel:
        states = HealthStub(channel).Watch(HealthCheckRequest(), timeout=30)
        assert next(states).status == HealthCheckResponse.SERVING
        server.process.send_signal(signal.SIGTERM)
        assert next(states).status == HealthCheckResponse.NOT_SERVING
        states.cancel()
        assert server.process.wait(30) == 0
