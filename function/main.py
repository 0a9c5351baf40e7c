"""The process: the SDK's standard options, and a server that adds health to what the SDK serves.

The SDK's own `serve` takes no further services and stops abruptly on SIGINT, hence a server of our own. One event
loop reads and writes; calls are computed beside it, a few at a time and in turns (turns.py). On SIGTERM or SIGINT
health turns to NOT_SERVING and composing pauses until what has arrived is accepted; from then on no call is accepted
any more, and those accepted are answered.
"""

import asyncio
import gc
import signal
from collections.abc import Sequence
from typing import Protocol

import click
import grpc
from crossplane.function import cli as sdk
from crossplane.function import logging, runtime
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionResponse
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from function.api.problems import build_schemas
from function.metrics import Metrics
from function.runner import Runner
from function.tls import rotating
from function.turns import Turns
from function.wire.items import by_content, by_version

# Calls that wait behind the one being answered are unknown to gRPC's own grace period. Together less than a pod's 30 s.
ARRIVED_SECONDS = 0.5
GRACE_SECONDS = 28
# The SDK's 4 MB end at about 1,140 environments (docs/facts.md, Crossplane).
RECEIVE_MEGABYTES = 32
# A call over a large fleet makes 9,000 objects and leaves none in a circle: with Python's 700 the collector would walk
# all that is remembered every few calls (docs/performance.md).
NEW_OBJECTS = 20_000
SERVICES = (*runtime.SERVICE_NAMES, health.SERVICE_NAME)
# v1beta1 has the same messages under another name, so that one handler reads and writes both.
FUNCTIONS = tuple(name for name in runtime.SERVICE_NAMES if name != reflection.SERVICE_NAME)


class Function(Protocol):
    """Answers a RunFunctionRequest as it came from the wire."""

    async def RunFunction(  # noqa: N802  # gRPC's name
        self, request: bytes, context: grpc.aio.ServicerContext[bytes, RunFunctionResponse]
    ) -> RunFunctionResponse:
        """Return the response."""


@click.command(context_settings={"default_map": {"max_recv_message_size": RECEIVE_MEGABYTES}})
@sdk.standard_options
@click.option(
    "--metrics-address",
    default="127.0.0.1:8080",
    show_default=True,
    envvar="METRICS_ADDRESS",
    help="Address at which Prometheus finds metrics, by plain HTTP; empty for none.",
)
def cli(  # noqa: PLR0913  # one for each option
    *,
    debug: bool,
    address: str,
    tls_certs_dir: str | None,
    insecure: bool,
    max_recv_message_size: int,
    max_send_message_size: int | None,
    metrics_address: str,
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
    # Who shows a certificate of Crossplane's is Crossplane, whose items come from the API server. Without any it may be
    # `crossplane render`, or anybody: what they call the same version may be something else.
    metrics = Metrics()
    runner = Runner(identify=by_content if credentials is None else by_version, metrics=metrics, turns=Turns())
    if metrics_address:
        _publish(metrics, metrics_address)
    asyncio.run(serve(runner, address, credentials, options))


class Gate:
    """Hands calls to a function while it is open, and keeps them in the meantime."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.opened = asyncio.Event()
        self.opened.set()

    async def RunFunction(  # noqa: N802  # gRPC's name
        self, request: bytes, context: grpc.aio.ServicerContext[bytes, RunFunctionResponse]
    ) -> RunFunctionResponse:
        """Answer one call."""
        await self.opened.wait()
        return await self._function.RunFunction(request, context)


async def serve(
    function: Function,
    address: str,
    credentials: grpc.ServerCredentials | None,
    options: Sequence[tuple[str, int]] = (),
) -> None:
    """Serve until SIGTERM or SIGINT, then let the calls under way finish."""
    server, gate = grpc.aio.server(options=options), Gate(function)
    run = grpc.unary_unary_rpc_method_handler(
        gate.RunFunction, response_serializer=RunFunctionResponse.SerializeToString
    )
    for name in FUNCTIONS:
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, {"RunFunction": run})])
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
    gc.set_threshold(NEW_OBJECTS)
    gc.enable()
    await server.start()
    logging.get_logger().info("serving", address=address, port=port, mtls=credentials is not None)
    build_schemas()

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
        return rotating(directory)
    except OSError as error:
        raise click.ClickException(f"cannot read certificates: {error}") from error


def _publish(metrics: Metrics, address: str) -> None:
    try:
        port = metrics.listen(address)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"cannot serve metrics on {address}: {error}") from error
    logging.get_logger().info("serving metrics", address=address, port=port)


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
