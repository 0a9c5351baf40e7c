"""The process: the SDK's standard options, and a server that adds health to what the SDK serves.

The SDK's own `serve` takes no further services and stops abruptly on SIGINT, hence a server of our own. One event loop
reads and writes; calls are computed in threads (executor.py). On SIGTERM or SIGINT health becomes NOT_SERVING and
composing pauses until all calls that have arrived are accepted; then no further call is accepted, and the accepted ones
are answered.
"""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import click
import grpc
from crossplane.function import cli as sdk
from crossplane.function import logging, runtime
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionResponse
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from function.api.problems import build_schemas
from function.executor import FairExecutor
from function.metrics import Metrics
from function.runner import Runner

# gRPC's own grace period does not cover calls that wait for the one being answered. Both together are less than the
# 30 s that a pod has to end.
ARRIVED_SECONDS = 0.5
GRACE_SECONDS = 28
RECEIVE_MEGABYTES = 32  # the SDK's 4 MB suffice for some 1,140 environments (docs/facts.md, Crossplane)
# A call over a large fleet allocates 9,000 objects without cycles: with Python's threshold of 700 the garbage collector
# would walk all caches every few calls (docs/performance.md).
GC_THRESHOLD = 20_000
SERVICES = (*runtime.SERVICE_NAMES, health.SERVICE_NAME)
# v1beta1 has the same messages under another name, so one handler serves both.
FUNCTIONS = tuple(name for name in runtime.SERVICE_NAMES if name != reflection.SERVICE_NAME)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, RunFunctionResponse]"


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
    credentials = None if insecure else load_credentials(tls_certs_dir)
    send = max_recv_message_size if max_send_message_size is None else max_send_message_size
    options = (
        ("grpc.max_receive_message_length", max_recv_message_size * 2**20),
        ("grpc.max_send_message_length", send * 2**20),
        # Otherwise a second process would share the port silently and get half of the calls.
        ("grpc.so_reuseport", 0),
    )
    metrics = Metrics()
    # A client certificate signed by Crossplane's CA proves that the caller is Crossplane, whose items come from the API
    # server. Other callers, such as `crossplane render`, may send different items with the same resourceVersion.
    runner = Runner(metrics=metrics, executor=FairExecutor(), trust_versions=credentials is not None)
    if metrics_address:
        try:
            port = metrics.listen(metrics_address)
        except (OSError, ValueError) as error:
            raise click.ClickException(f"cannot serve metrics on {metrics_address}: {error}") from error
        logging.get_logger().info("serving metrics", address=metrics_address, port=port)
    asyncio.run(serve(runner.RunFunction, address, credentials, options))


async def serve(
    run_function: Callable[[bytes, Context], Awaitable[RunFunctionResponse]],
    address: str,
    credentials: grpc.ServerCredentials | None,
    options: Sequence[tuple[str, int]] = (),
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the accepted calls."""
    server = grpc.aio.server(options=options)
    composes = asyncio.Event()
    composes.set()

    async def answer(request: bytes, context: Context) -> RunFunctionResponse:
        await composes.wait()
        return await run_function(request, context)

    run = grpc.unary_unary_rpc_method_handler(answer, response_serializer=RunFunctionResponse.SerializeToString)
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
    # Imported objects stay: measured, walking them took a third of a call over a large fleet.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()
    await server.start()
    logging.get_logger().info("serving", address=address, port=port, mtls=credentials is not None)
    build_schemas()

    await stop.wait()
    composes.clear()
    await healthy.enter_graceful_shutdown()
    await asyncio.sleep(ARRIVED_SECONDS)
    stopped = asyncio.create_task(server.stop(GRACE_SECONDS))
    await asyncio.sleep(ARRIVED_SECONDS)  # until health watchers have seen NOT_SERVING
    logging.get_logger().info("stopping")
    composes.set()
    await stopped


def load_credentials(directory: str | None) -> grpc.ServerCredentials:
    """Returns mTLS credentials from tls.crt, tls.key and ca.crt of a directory; callers must show a certificate.

    The files are read again at every new connection, so that a renewed Secret needs no restart; the SDK's own loader
    reads them once. While a file cannot be read, or a certificate does not match its key, as between two writes, gRPC
    goes on with the previous ones.
    """
    if directory is None:
        raise click.UsageError("Give --tls-server-certs-dir to serve with mTLS, or --insecure.")
    folder = Path(directory)
    try:
        current = _read_certificates(folder)
    except OSError as error:
        raise click.ClickException(f"cannot read certificates: {error}") from error

    def reload() -> grpc.ServerCertificateConfiguration | None:
        nonlocal current
        with suppress(OSError):
            files = _read_certificates(folder)
            if files != current:
                current = files
                return _configure(files)
        return None

    return grpc.dynamic_ssl_server_credentials(_configure(current), reload, require_client_authentication=True)


def _read_certificates(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))


def _configure(files: tuple[bytes, ...]) -> grpc.ServerCertificateConfiguration:
    certificate, key, authority = files
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Returns the port, which the system chooses for port 0."""
    try:
        port: int = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        # gRPC itself has written the exact cause to standard error.
        causes = "taken or invalid" if credentials is None else "taken or invalid, or has bad certificates"
        raise click.ClickException(f"cannot listen on {address}: {causes}") from error
    return port
