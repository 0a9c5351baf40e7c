"""Servers under measurement: called over one connection each, as Crossplane does, and watched from outside."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse

from tests.server.certificates import shown
from tests.server.processes import FUNCTION, Running, started

_RUN = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction"
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Else all connections of a process to one address are one.
    ("grpc.use_local_subchannel_pool", 1),
)
Request = bytes | RunFunctionRequest


@dataclass(frozen=True, slots=True)
class Server:
    """A process and the connection to it."""

    running: Running
    channel: grpc.Channel

    def call(self, request: Request) -> tuple[RunFunctionResponse, float]:
        """Return the response and how many milliseconds it took."""
        run = self.channel.unary_unary(
            _RUN,
            request_serializer=None if isinstance(request, bytes) else RunFunctionRequest.SerializeToString,
            response_deserializer=RunFunctionResponse.FromString,
        )
        begun = time.perf_counter()
        response = run(request, timeout=120)
        return response, 1000 * (time.perf_counter() - begun)

    def peak_megabytes(self) -> float:
        """Return the most memory that the process has held."""
        return self._memory("VmHWM")

    def megabytes(self) -> float:
        """Return the memory that the process holds."""
        return self._memory("VmRSS")

    def forget_peak(self) -> None:
        """Let the most memory be what is held now."""
        (self._proc / "clear_refs").write_text("5")

    def _memory(self, what: str) -> float:
        found = re.search(rf"{what}:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def processor_milliseconds(self) -> float:
        """Return how long the process has been computing, all threads together."""
        return sum(int(task.read_text().split()[0]) for task in self._proc.glob("task/*/schedstat")) / 1e6

    @property
    def _proc(self) -> Path:
        return Path(f"/proc/{self.running.process.pid}")


@contextmanager
def serving(folder: Path, certificates: Path | None, program: tuple[str, ...] = FUNCTION) -> Iterator[Server]:
    """Run a server; with certificates, as Crossplane calls it, or without, as `crossplane render` does."""
    folder.mkdir()
    options = () if certificates else ("--insecure",)
    variables = {"TLS_SERVER_CERTS_DIR": str(certificates)} if certificates else {}
    with (
        started(folder, *options, program=program, variables=variables) as running,
        connected(running, certificates) as server,
    ):
        yield server


@contextmanager
def connected(running: Running, certificates: Path | None) -> Iterator[Server]:
    """Open one more connection to a server that runs."""
    channel = (
        grpc.secure_channel(running.address, shown(certificates), _OPTIONS)
        if certificates
        else grpc.insecure_channel(running.address, _OPTIONS)
    )
    with channel:
        grpc.channel_ready_future(channel).result(30)
        yield Server(running, channel)
