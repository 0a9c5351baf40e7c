"""The process: the SDK's standard options, and a server that adds health to what the SDK serves.

The SDK's own `serve` takes no further services and stops abruptly on SIGINT, hence a server of our own. All
calls run on one event loop, one after the other: they are arithmetic, the memos need no lock, and only one
request at a time is unpacked in memory. On SIGTERM or SIGINT health turns to NOT_SERVING and composing pauses until
what has arrived is accepted; from then on no call is accepted any more, and those accepted are answered.
"""

import asyncio
import gc
import signal
from collections.abc import Sequence

import click
import grpc
from crossplane.function import cli as sdk
from crossplane.function import logging, runtime
from crossplane.function.proto.v1 import run_function_pb2_grpc as v1
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse
from crossplane.function.proto.v1beta1 import run_function_pb2_grpc as v1beta1
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from function.fn import Runner

# Calls that wait behind the one being answered are unknown to gRPC's own grace period. Together less than a pod's 30 s.
ARRIVED_SECONDS = 0.5
GRACE_SECONDS = 28
# The SDK's 4 MB end at about 1,140 environments (docs/facts.md, Crossplane).
RECEIVE_MEGABYTES = 32
SERVICES = (*runtime.SERVICE_NAMES, health.SERVICE_NAME)


@click.command(context_settings={"default_map": {"max_recv_message_size": RECEIVE_MEGABYTES}})
@sdk.standard_options
def cli(
    *,
    debug: bool,
    address: str,
    tls_certs_dir: str | None,
    insecure: bool,
    max_recv_message_size: int,
    max_send_message_size: int | None,
) -> None:
    """Serve the composition function for large language models."""
    logging.configure(logging.Level.DEBUG if debug else logging.Level.INFO)
    credentials = None if insecure else _credentials(tls_certs_dir)
    send = max_recv_message_size if max_send_message_size is None else max_send_message_size
    options = (
        ("grpc.max_receive_message_length", max_recv_message_size * 2**20),
        ("grpc.max_send_message_length", send * 2**20),
        # Else a second process shares the port in silence and gets half of the calls.
        ("grpc.so_reuseport", 0),
    )
    asyncio.run(serve(Runner(), address, credentials, options))


class Gate(v1.FunctionRunnerServiceServicer):
    """Hands calls to another servicer while it is open, and keeps them in the meantime."""

    def __init__(self, runner: v1.FunctionRunnerServiceServicer) -> None:
        self._runner = runner
        self.opened = asyncio.Event()
        self.opened.set()

    async def RunFunction(  # noqa: N802  # gRPC's name
        self, request: RunFunctionRequest, context: grpc.aio.ServicerContext[RunFunctionRequest, RunFunctionResponse]
    ) -> RunFunctionResponse:
        """Answer one call."""
        await self.opened.wait()
        answer: RunFunctionResponse = await self._runner.RunFunction(request, context)
        return answer


async def serve(
    runner: v1.FunctionRunnerServiceServicer,
    address: str,
    credentials: grpc.ServerCredentials | None,
    options: Sequence[tuple[str, int]] = (),
) -> None:
    """Serve until SIGTERM or SIGINT, then let the calls under way finish."""
    server, gate = grpc.aio.server(options=options), Gate(runner)
    v1.add_FunctionRunnerServiceServicer_to_server(gate, server)
    v1beta1.add_FunctionRunnerServiceServicer_to_server(runtime.BetaFunctionRunner(gate), server)
    healthy = health.aio.HealthServicer()
    for service in (health.OVERALL_HEALTH, *SERVICES):
        await healthy.set(service, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection(SERVICES, server)
    port = _listen(server, address, credentials)

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # What is imported stays: measured, walking it again and again took a third of a call over a large fleet.
    gc.freeze()
    await server.start()
    logging.get_logger().info("serving", address=address, port=port, mtls=credentials is not None)

    await stop.wait()
    gate.opened.clear()
    await healthy.enter_graceful_shutdown()
    await asyncio.sleep(ARRIVED_SECONDS)
    stopped = asyncio.create_task(server.stop(GRACE_SECONDS))
    await asyncio.sleep(ARRIVED_SECONDS)  # until everybody was told
    logging.get_logger().info("stopping")
    gate.opened.set()
    await stopped


def _credentials(directory: str | None) -> grpc.ServerCredentials:
    if directory is None:
        raise click.UsageError("Give --tls-server-certs-dir to serve with mTLS, or --insecure.")
    try:
        return runtime.load_credentials(directory)
    except OSError as error:
        raise click.ClickException(f"cannot read certificates: {error}") from error


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Return the port, which the system chooses where the address asks for port 0."""
    try:
        port: int = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        # gRPC itself has told the exact cause on standard error.
        causes = "taken or no address" if credentials is None else "taken, no address or bad certificates"
        raise click.ClickException(f"cannot listen on {address}: {causes}") from error
    return port
