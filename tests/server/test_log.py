"""One JSON line for each call, and never a value of what is observed: it may be the copy of a Secret."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct

from function.kube.manifests import Manifest
from tests.server.processes import STANDIN, Running, started

TOKEN = "aGZfdmVyeS1zZWNyZXQ="
OBSERVED: Manifest = {
    "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
    "kind": "Object",
    "metadata": {"namespace": "team", "name": "token"},
    "spec": {"forProvider": {"manifest": {"apiVersion": "v1", "kind": "Secret", "data": {"HF_TOKEN": TOKEN}}}},
}


def request(kind: str, name: str) -> fnv1.RunFunctionRequest:
    xr: Manifest = {"kind": kind, "metadata": {"namespace": "team", "name": name}}
    observed = fnv1.State(composite=fnv1.Resource(resource=dict_to_struct(xr)))
    observed.resources["token"].resource.CopyFrom(dict_to_struct(OBSERVED))
    return fnv1.RunFunctionRequest(observed=observed)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    name: str
    messages: tuple[str, ...]


CASES = (
    Case("composed", "one line", "kimi", ("composed",)),
    Case("recovered", "the bug, then how it was answered", "broken", ("cannot compose", "composed")),
    Case("fatal", "both bugs", "hopeless", ("cannot compose", "cannot compose")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_logs_no_secret(tmp_path: Path, case: Case) -> None:
    with started(tmp_path, program=STANDIN) as server:
        server.call(request("ModelPlacement", case.name))
        lines = server.log()[1:]
    assert tuple(line["msg"] for line in lines) == case.messages, case.reason
    assert all(
        (line["kind"], line["namespace"], line["name"]) == ("ModelPlacement", "team", case.name) for line in lines
    )
    written = (tmp_path / "stdout").read_text() + (tmp_path / "stderr").read_text()
    assert TOKEN not in written
    assert "HF_TOKEN" not in written


def test_logs_kind_and_duration_of_call(server: Running) -> None:
    server.call(request("ModelPlacement", "kimi"))
    line = server.log()[-1]
    assert line["msg"] == "composed"
    assert line["level"] == "info"
    assert isinstance(line["composed"], int)
    assert isinstance(line["ready"], int)
    assert isinstance(line["milliseconds"], float)
    assert TOKEN not in server.output.read_text()
