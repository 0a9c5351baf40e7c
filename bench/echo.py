"""The baseline of any Python function: our server around the SDK's own `response.to`, and nothing else."""

import asyncio
import os

import grpc
from crossplane.function import logging, response, runtime
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest, RunFunctionResponse

from function.main import serve


class Echo:
    """Returns what the request desires."""

    async def RunFunction(  # noqa: N802  # gRPC's name
        self,
        request: bytes,
        context: grpc.aio.ServicerContext[bytes, RunFunctionResponse],  # noqa: ARG002  # gRPC's signature
    ) -> RunFunctionResponse:
        """Return the response that every function starts from."""
        return response.to(RunFunctionRequest.FromString(request))


logging.configure()
CERTIFICATES = os.environ["TLS_SERVER_CERTS_DIR"]
CREDENTIALS = runtime.load_credentials(CERTIFICATES)
asyncio.run(serve(Echo().RunFunction, "127.0.0.1:0", CREDENTIALS, (("grpc.max_receive_message_length", 32 * 2**20),)))
