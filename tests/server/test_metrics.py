"""What Prometheus reads: every call counted once, only our own words as labels, and a scrape blocks nothing."""

import asyncio
import re
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bench.fleet import DEPLOYMENT, MODEL, environment
from function import reasons
from function.composers import CACHE_STATS, COMPOSERS, compose, recover
from function.contract import Call, Condition, Outcome, Requirement
from function.kube.manifests import Manifest
from function.metrics import CallResult, Metrics
from function.reasons import CallFailure, ConditionType, Status
from function.runner import Runner
from tests.server.processes import Running, refused, started

ROOT = Path(__file__).parents[2]
LISTENING = ("--insecure", "--metrics-address", "127.0.0.1:0")
Samples = dict[tuple[str, ...], float]
Compose = Callable[[Call], Outcome]


@dataclass(frozen=True)
class Watched:
    """A server and where its metrics are."""

    running: Running
    port: int

    def samples(self) -> Samples:
        """Scrape, and return our own samples: the name and the values of labels in their order."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return ours(answer.read().decode())


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with started(tmp_path, *LISTENING) as running:
        port = running.wait_for("serving metrics")["port"]
        assert isinstance(port, int)
        yield Watched(running, port)


def ours(exposition: str) -> Samples:
    """Return the samples of ours in an exposition."""
    return {
        (
            sample.name.removeprefix("modelplane_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name.startswith("modelplane_")
    }


def request(xr: Manifest, **required: list[Manifest]) -> fnv1.RunFunctionRequest:
    return fnv1.RunFunctionRequest(
        observed=fnv1.State(composite=fnv1.Resource(resource=dict_to_struct(xr))),
        required_resources={
            name: fnv1.Resources(items=[fnv1.Resource(resource=dict_to_struct(item)) for item in items])
            for name, items in required.items()
        },
    )


def test_counts_every_call_once(watched: Watched) -> None:
    model = request(MODEL)
    first = request(DEPLOYMENT)
    responses = [watched.running.call(each) for each in (model, first)]
    found = watched.samples()
    assert found["call_seconds_count", "composed", "ClusterModel"] == 1
    assert found["call_seconds_count", "composed", "ModelDeployment"] == 1
    assert found["call_seconds_sum", "composed", "ModelDeployment"] > 0
    assert found["received_bytes_total", "ClusterModel"] == model.ByteSize()
    assert found["sent_bytes_total", "ClusterModel"] == responses[0].ByteSize()
    assert found["sent_bytes_total", "ModelDeployment"] == responses[1].ByteSize()
    assert found["reconciles_total", "ClusterModel"] == 1, "it asks for nothing"
    assert ("reconciles_total", "ModelDeployment") not in found, "Crossplane calls again with what it asks for"
    assert not [key for key in found if key[0] == "conditions_not_true_total"], "nothing was said to last"


def reconcile(server: Running, xr: Manifest, have: dict[str, list[Manifest]]) -> int:
    """Call as Crossplane does until the requirements repeat, and return how often that was."""
    answered: dict[str, list[Manifest]] = {}
    for rounds in range(1, 7):
        asked = server.call(request(xr, **answered)).requirements.resources
        if asked.keys() == answered.keys():
            return rounds
        answered = {name: have.get(selector.kind, []) for name, selector in asked.items()}
    raise AssertionError("the requirements do not come to rest")


def test_counts_reconcile_once_and_cache_hits_of_the_next(watched: Watched) -> None:
    have = {"ClusterModel": [MODEL], "InferenceEnvironment": [environment(n) for n in range(3)]}
    rounds = [reconcile(watched.running, DEPLOYMENT, have) for _ in range(2)]
    found = watched.samples()
    assert found["call_seconds_count", "composed", "ModelDeployment"] == sum(rounds)
    assert found["reconciles_total", "ModelDeployment"] == 2
    assert found["memory_lookups_total", "environments", "miss"] == 3
    assert found["memory_lookups_total", "environments", "hit"] >= 3


def test_counts_malformed_requests(watched: Watched) -> None:
    with grpc.insecure_channel(watched.running.address) as channel:
        run = channel.unary_unary("/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction")
        with pytest.raises(grpc.RpcError):
            run(b"\xff\xff", timeout=30)
    found = watched.samples()
    assert found["call_seconds_count", "malformed", "other"] == 1
    assert found["received_bytes_total", "other"] == 2


def broken(*_: object) -> Outcome:
    raise ValueError


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    composing: Compose = compose
    recovering: Callable[[Call, CallFailure, str], Outcome] = recover


CASES = (
    Case("composed", "as ever"),
    Case("kept", "a bug, and what is observed stays", composing=broken),
    Case("fatal", "that failed too", composing=broken, recovering=broken),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_counts_how_call_ended(case: Case) -> None:
    metrics = Metrics()
    runner = Runner(case.composing, case.recovering, metrics=metrics)
    response = asyncio.run(runner.RunFunction(request(MODEL).SerializeToString(), None))
    found = ours(generate_latest(metrics.registry).decode())
    counted = {key[1:]: value for key, value in found.items() if key[0] == "call_seconds_count"}
    assert counted == {(case.id, "ClusterModel"): 1}, case.reason
    assert found["sent_bytes_total", "ClusterModel"] == response.ByteSize()


NONE: frozenset[str] = frozenset()
ROUNDS = (
    (NONE, NONE, 1, "asks for nothing"),
    ({"model"}, NONE, 0, "Crossplane fetches and calls again"),
    ({"model", "environments"}, {"model"}, 0, "likewise"),
    ({"model"}, {"model"}, 1, "nothing is outstanding"),
    ({"model"}, {"model", "other"}, 1, "nor is more than was asked for"),
)


@pytest.mark.parametrize(("asked", "answered", "want", "reason"), ROUNDS)
def test_counts_only_last_round_of_reconcile(
    asked: AbstractSet[str], answered: AbstractSet[str], want: int, reason: str
) -> None:
    metrics = Metrics()
    call = Call(xr={}, answers=dict.fromkeys(answered, ()))
    outcome = Outcome(
        requirements={name: Requirement(api_version="v1", kind="Any") for name in asked},
        conditions=(Condition(type=ConditionType.SCHEDULED, status=Status.FALSE, reason="PoolTooSmall"),),
    )
    metrics.count_conditions("ModelDeployment", call, outcome)
    found = ours(generate_latest(metrics.registry).decode())
    said = ("conditions_not_true_total", "ModelDeployment", "PoolTooSmall", "False", "Scheduled")
    assert found.get(said, 0) == found.get(("reconciles_total", "ModelDeployment"), 0) == want, reason


def test_does_not_count_true_conditions() -> None:
    metrics = Metrics()
    condition = Condition(type=ConditionType.SCHEDULED, status=Status.TRUE, reason="Placed")
    metrics.count_conditions("ModelDeployment", Call(xr={}), Outcome(conditions=(condition,)))
    assert b"Placed" not in generate_latest(metrics.registry)


WORDS = {
    *COMPOSERS,
    *ConditionType,
    *Status,
    *(answered.value for answered in CallResult),
    *(
        reason
        for kind in vars(reasons).values()
        if isinstance(kind, type) and issubclass(kind, StrEnum)
        for reason in kind
    ),
    *(*CACHE_STATS, "hit", "miss"),
    "other",
}
MINE = st.sampled_from(sorted(WORDS)) | st.text()


@given(kind=MINE, reason=MINE, type_=st.sampled_from(ConditionType), status=st.sampled_from(Status))
def test_labels_contain_no_text_of_request(kind: str, reason: str, type_: ConditionType, status: Status) -> None:
    metrics = Metrics()
    metrics.count_call(kind, CallResult.COMPOSED, 0.1, 1, 1)
    metrics.count_conditions(
        kind, Call(xr={}), Outcome(conditions=(Condition(type=type_, status=status, reason=reason),))
    )
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    labels = {
        value
        for family in families
        for sample in family.samples
        if sample.name.startswith("modelplane_")
        for name, value in sample.labels.items()
        if name != "le"
    }
    assert labels <= WORDS


def test_two_processes_do_not_share_metrics_port(watched: Watched) -> None:
    address = f"127.0.0.1:{watched.port}"
    ended = refused("--insecure", "--metrics-address", address)
    assert ended.returncode != 0
    assert ended.stderr.splitlines()[-1] == (
        f"Error: cannot serve metrics on {address}: [Errno 98] Address already in use"
    )


def listening(pid: int) -> int:
    """Return how many sockets a process listens on."""
    tables = (Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    inodes = {fields[9] for table in tables for fields in map(str.split, table.splitlines()[1:]) if fields[3] == "0A"}
    held = [re.match(r"socket:\[(\d+)\]", _link(fd)) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(each is not None and each[1] in inodes for each in held)


def _link(descriptor: Path) -> str:
    """Return what a descriptor is of, empty where it was closed meanwhile."""
    with suppress(FileNotFoundError):
        return str(descriptor.readlink())
    return ""


def test_metrics_can_be_turned_off(watched: Watched, server: Running) -> None:
    assert listening(watched.running.process.pid) == 2
    assert listening(server.process.pid) == 1


def test_slow_scraper_delays_no_call(watched: Watched, tmp_path: Path) -> None:
    for said in (b"", b"GET /metrics HTTP/1.1\r\n", b"nonsense\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", watched.port)) as gone:
            gone.sendall(said)
    assert watched.samples()
    with socket.create_connection(("127.0.0.1", watched.port)) as slow:
        slow.sendall(b"GET /metrics")
        watched.running.call(request(MODEL))
        watched.running.process.send_signal(signal.SIGTERM)
        assert watched.running.process.wait(30) == 0
    assert (tmp_path / "stderr").read_text() == ""


NAMES = {
    f"modelplane_{name}"
    for name in (
        *(f"call_seconds_{part}" for part in ("bucket", "count", "sum")),
        *(f"{name}_total" for name in ("reconciles", "conditions_not_true", "memory_lookups")),
        *(f"{name}_bytes_total" for name in ("received", "sent")),
    )
}


def test_metrics_are_documented() -> None:
    metrics = Metrics()
    metrics.count_call("Model", CallResult.COMPOSED, 0.1, 1, 1)
    condition = Condition(type=ConditionType.MODEL_VALID, status=Status.FALSE, reason="InvalidSource")
    metrics.count_conditions("Model", Call(xr={}), Outcome(conditions=(condition,)))
    exposed = {f"modelplane_{key[0]}" for key in ours(generate_latest(metrics.registry).decode())}
    documented = set(re.findall(r"`(modelplane_\w+)`", (ROOT / "docs" / "reference.md").read_text()))
    assert exposed == NAMES
    assert documented == {name.removesuffix("_bucket") for name in NAMES if not name.endswith(("_count", "_sum"))}


def test_exposes_process_metrics(watched: Watched) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{watched.port}/metrics", timeout=10) as answer:
        said = answer.read().decode()
    assert {"process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds", "python_info"} <= {
        family.name for family in text_string_to_metric_families(said)
    }
