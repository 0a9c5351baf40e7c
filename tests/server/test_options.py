"""A process that cannot start says so in one line and fails; otherwise options mean what they say."""

from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub

from tests.server.certificates import shown
from tests.server.processes import Running, refused, started


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    options: tuple[str, ...]
    want: str
    variables: dict[str, str] = field(default_factory=dict)


CASES = (
    Case("neither", "never serve without a choice", (), "Give --tls-server-certs-dir"),
    Case(
        "no-such-folder",
        "the path is named",
        ("--tls-server-certs-dir", "nowhere"),
        "cannot read certificates: [Errno 2] No such file or directory: 'nowhere/tls.crt'",
    ),
    Case(
        "no-such-folder-by-variable",
        "as Crossplane sets it",
        (),
        "cannot read certificates: [Errno 2] No such file or directory: 'nowhere/tls.crt'",
        {"TLS_SERVER_CERTS_DIR": "nowhere"},
    ),
    Case("no-address", "a typing error", ("--insecure", "--address", "nonsense"), "cannot listen on nonsense"),
    Case("not-a-number", "click's own words", ("--insecure", "--max-recv-message-size", "x"), "not a valid integer"),
    Case(
        "no-metrics-port",
        "a typing error",
        ("--insecure", "--metrics-address", "127.0.0.1"),
        "cannot serve metrics on 127.0.0.1: want host:port with a port up to 65535",
    ),
    Case(
        "metrics-port-too-high",
        "as a port it would be another",
        ("--insecure", "--metrics-address", "127.0.0.1:65536"),
        "cannot serve metrics on 127.0.0.1:65536: want host:port with a port up to 65535",
    ),
    Case(
        "metrics-address-of-another-machine",
        "192.0.2.0/24 is reserved for documentation (RFC 5737)",
        ("--insecure", "--metrics-address", "192.0.2.1:8080"),
        "cannot serve metrics on 192.0.2.1:8080: [Errno 99] Cannot assign requested address",
    ),
    Case("unknown-option", "click's own words", ("--unknown",), "No such option"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_refuses_invalid_options(case: Case) -> None:
    ended = refused(*case.options, variables=case.variables)
    assert ended.returncode != 0, case.reason
    assert case.want in ended.stderr.splitlines()[-1], case.reason
    assert "Traceback" not in ended.stderr


def test_refuses_unreadable_certificates(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text("not a certificate")
    ended = refused("--tls-server-certs-dir", str(tmp_path), "--address", "127.0.0.1:0")
    assert ended.returncode != 0
    assert "bad certificates" in ended.stderr.splitlines()[-1]


def test_refuses_address_in_use(server: Running) -> None:
    ended = refused("--insecure", "--address", server.address)
    assert ended.returncode != 0, "sharing the port in silence would take half of the calls"
    assert f"cannot listen on {server.address}" in ended.stderr.splitlines()[-1]


def test_two_servers_run_side_by_side(server: Running, tmp_path: Path) -> None:
    with started(tmp_path, "--insecure") as other:
        assert other.address != server.address
        assert other.call(RunFunctionRequest()) == server.call(RunFunctionRequest())


def test_insecure_ignores_certificates(tmp_path: Path) -> None:
    with started(tmp_path, "--insecure", "--tls-server-certs-dir", "nowhere") as server:
        server.call(RunFunctionRequest())


def test_mutual_tls(tmp_path: Path, certificates: Path) -> None:
    unknown = grpc.ssl_channel_credentials(root_certificates=(certificates / "ca.crt").read_bytes())
    with started(tmp_path, "--tls-server-certs-dir", str(certificates)) as server:
        with grpc.secure_channel(server.address, shown(certificates)) as channel:
            FunctionRunnerServiceStub(channel).RunFunction(RunFunctionRequest(), timeout=30)
        with grpc.secure_channel(server.address, unknown) as channel, pytest.raises(grpc.RpcError) as caught:
            FunctionRunnerServiceStub(channel).RunFunction(RunFunctionRequest(), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, "a caller shows who it is"
        with pytest.raises(grpc.RpcError):
            server.call(RunFunctionRequest())
