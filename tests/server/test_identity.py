"""Which callers' resourceVersions are believed: only those of Crossplane, which shows a certificate."""

from pathlib import Path

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub
from crossplane.function.resource import dict_to_struct

from bench.fleet import DEPLOYMENT, MODEL, environment
from function.kube.manifests import Manifest, listing
from tests.server.certificates import shown
from tests.server.processes import Running, started


def request(environment: Manifest) -> fnv1.RunFunctionRequest:
    """Return a decision's request with a single environment."""
    found = {"model": [MODEL], "own-placements": list[Manifest](), "resource-ProviderConfigUsage": list[Manifest]()}
    found |= {name: [environment] for name in ("environments", "selected-environments")}
    return fnv1.RunFunctionRequest(
        observed=fnv1.State(composite=fnv1.Resource(resource=dict_to_struct(DEPLOYMENT))),
        required_resources={
            name: fnv1.Resources(items=[fnv1.Resource(resource=dict_to_struct(item)) for item in items])
            for name, items in found.items()
        },
    )


def edited() -> Manifest:
    """Return the environment with one node free where two are wanted, as after an edit of a file: the version stays."""
    found = environment(1)
    for pool in listing(found, "status.pools"):
        pool["free"] = [{"gpus": 8, "nodes": 1}]
    return found


def placed(response: fnv1.RunFunctionResponse) -> bool:
    return any(name.startswith("placement-") for name in response.desired.resources)


def test_identifies_items_by_content_without_certificate(server: Running) -> None:
    assert placed(server.call(request(environment(1))))
    assert not placed(server.call(request(edited()))), "a file that was edited keeps its version"


def test_identifies_items_by_version_with_certificate(tmp_path: Path, certificates: Path) -> None:
    with (
        started(tmp_path, "--tls-server-certs-dir", str(certificates)) as server,
        grpc.secure_channel(server.address, shown(certificates)) as channel,
    ):
        stub = FunctionRunnerServiceStub(channel)
        assert placed(stub.RunFunction(request(environment(1)), timeout=30))
        assert placed(stub.RunFunction(request(edited()), timeout=30)), "an API server never does this"
        newer = edited()
        metadata = newer["metadata"]
        assert isinstance(metadata, dict)
        metadata["resourceVersion"] = "100002"
        assert not placed(stub.RunFunction(request(newer), timeout=30))
