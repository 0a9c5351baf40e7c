"""Servers as real processes on loopback: started on a port the system chooses, ended by their own id."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import grpc
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub
from google.protobuf.message import Message

Line: TypeAlias = dict[str, object]

# All functions share one metrics port by default.
QUIET = ("--metrics-address", "")
FUNCTION = (str(Path(sys.executable).with_name("function-modelplane")),)
STANDIN = (sys.executable, str(Path(__file__).with_name("standin.py")))
# Not what the tester's own shell may say about servers.
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
# Its input ends with the process at the other end, however that ends; Ctrl-C does not reach it.
LEASH = ("sh", "-c", 'trap "" INT TERM; read -r _; kill -KILL "$0"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    output: Path
    address: str

    def log(self) -> list[Line]:
        """Return what it has logged so far."""
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def wait_for(self, message: str, seconds: float = 30) -> Line:
        """Return the first log line with this message, once it is there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in self.log():
                if line["msg"] == message:
                    return line
            assert self.process.poll() is None, f"ended with {self.process.returncode}"
            time.sleep(0.05)
        raise TimeoutError(message)

    def call(self, request: Message) -> Message:
        """Make one call over a connection of its own."""
        with grpc.insecure_channel(self.address) as channel:
            return FunctionRunnerServiceStub(channel).RunFunction(request, timeout=30)


@contextmanager
def started(
    folder: Path,
    *options: str,
    program: tuple[str, ...] = FUNCTION,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Running]:
    """Run a server until the block ends, or this process; `folder` keeps what it wrote."""
    output = folder / "stdout"
    arguments = (*program, "--address", "127.0.0.1:0", *QUIET, *options)
    with output.open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(arguments, stdout=out, stderr=err, env={**ENVIRONMENT, **variables})
    leash = subprocess.Popen((*LEASH, str(process.pid)), stdin=subprocess.PIPE)
    try:
        port = Running(process=process, output=output, address="").wait_for("serving")["port"]
        yield Running(process=process, output=output, address=f"127.0.0.1:{port}")
    finally:
        with leash:
            process.kill()
            process.wait()
            leash.kill()


def refused(*options: str, variables: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess[str]:
    """Run the function where it cannot start."""
    return subprocess.run(
        (*FUNCTION, *QUIET, *options),
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
        env={**ENVIRONMENT, **variables},
    )
