"""examples/bring-your-own-cluster, rendered by Crossplane with the real function-pythonic."""

import base64
import copy
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping, text
from tests.conformance import crossplane
from tests.hub.test_streams import find_free_port, wait_until_listening
from tools import programs, pythonic

pytestmark = pytest.mark.conformance
FOLDER = programs.ROOT / "examples" / "bring-your-own-cluster"
NAMESPACE = "modelplane-system"
CONFIG = "us-east-0001a510"
Render = Callable[..., Mapping[str, Manifest]]


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = find_free_port()
    log = tmp_path_factory.mktemp("pythonic") / "log"
    with log.open("w") as output:
        command = (str(pythonic.install()), "--insecure", "--address", f"127.0.0.1:{port}")
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until_listening(port, server)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture
def render(function: str, tmp_path: Path) -> Render:
    """Returns what the Composition composes, by the name in the Composition."""
    runner = crossplane.write(tmp_path / "functions.yaml", [crossplane.build_runner("function-pythonic", function)])
    _, manifest = crossplane.read(FOLDER / "cluster.yaml")
    xr = crossplane.write(tmp_path / "xr.yaml", [manifest])

    def run(observed: Sequence[Manifest] = (), required: Sequence[Manifest] = ()) -> Mapping[str, Manifest]:
        options = [f"--xrd={FOLDER / 'definition.yaml'}"]
        for option, manifests in (("observed", observed), ("required", required)):
            if manifests:
                options.append(f"--{option}-resources={crossplane.write(tmp_path / f'{option}.yaml', manifests)}")
        return crossplane.render(xr, FOLDER / "composition.yaml", runner, *options).composed

    return run


def _observed(key: str, manifest: Manifest, **more: JSON) -> Manifest:
    metadata: Manifest = {
        **mapping(manifest, "metadata"),
        "annotations": {"crossplane.io/composition-resource-name": key},
    }
    return {**copy.deepcopy(manifest), "metadata": metadata, **more}


def _token(**data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "us-east-token", "namespace": NAMESPACE},
        "data": {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def test_an_identity_and_the_environment_come_first(render: Render, schemas: Path, tmp_path: Path) -> None:
    composed = render()
    roles = {"role", *(f"role-{name}" for name in ("rollouts", "kueue", "pods", "routes", "metrics"))}
    assert composed.keys() == {"account", "token", "environment", *roles}
    _, xr = crossplane.read(FOLDER / "cluster.yaml")
    cluster: Manifest = {"source": "Existing", "existing": {"secretRef": {"name": "us-east-kubeconfig"}}}
    assert composed["environment"]["spec"] == {**mapping(xr, "spec.environment"), "cluster": cluster}
    assert get(composed["environment"], "metadata.labels.region") == "us-east"
    bound = {text(composed[role], "spec.forProvider.manifest.roleRef.name") for role in roles}
    rights = crossplane.read(programs.ROOT / "install/remote-rbac.yaml")
    assert bound == {text(each, "metadata.name") for each in rights if each["kind"] == "ClusterRole"}
    assert crossplane.validate(schemas, composed.values(), tmp_path) == []


def test_the_token_becomes_a_kubeconfig(render: Render) -> None:
    composed = render(required=[_token(token="secret", ca_crt="CA")])
    config = json.loads(base64.b64decode(text(composed["kubeconfig"], "data.kubeconfig")))
    assert get(composed["kubeconfig"], "metadata.name") == "us-east-kubeconfig"
    assert config["clusters"][0]["cluster"] == {
        "server": "https://us-east.example.org:6443",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
    }
    assert config["users"][0]["user"] == {"token": "secret"}


@pytest.mark.parametrize("required", [[], [_token()], [_token(token="secret")]], ids=["gone", "empty", "half"])
def test_the_kubeconfig_stays_while_the_token_is_not_known(render: Render, required: list[Manifest]) -> None:
    before = render(required=[_token(token="secret", ca_crt="CA")])["kubeconfig"]
    after = render([_observed("kubeconfig", before)], required)
    assert after["kubeconfig"]["data"] == before["data"]


@pytest.mark.parametrize(
    ("status", "was_in_use", "want"),
    [
        ({"gpus": {"total": 32}, "admitted": [{"name": "a"}]}, False, True),
        ({"gpus": {"total": 32}, "admitted": []}, True, False),
        ({"gpus": {"total": 32}}, True, False),
        ({}, True, True),
        ({}, False, False),
    ],
    ids=["placed", "drained", "drained-and-left-out", "not-known", "new"],
)
def test_it_cannot_be_deleted_while_models_are_placed(
    render: Render, status: Manifest, *, was_in_use: bool, want: bool
) -> None:
    first = render(required=[_token(token="secret", ca_crt="CA")])
    remote = [_observed(key, each) for key, each in first.items() if key != "environment"]
    known: Manifest = {"gpus": {"total": 32}, "admitted": [{"name": "a"}], "providerConfigRef": {"name": CONFIG}}
    placed = render([_observed("environment", first["environment"], status=known), *remote])
    assert get(placed["in_use"], "spec.of") == {
        "apiVersion": "platform.example.org/v1alpha1",
        "kind": "GpuCluster",
        "resourceRef": {"name": "us-east"},
    }
    kept = {key: each for key, each in placed.items() if key.endswith("-usage") or (key == "in_use" and was_in_use)}
    usages = [_observed(key, each) for key, each in kept.items()]
    after = render([_observed("environment", first["environment"], status=status), *remote, *usages])
    assert ("in_use" in after) == want
    assert _protected(after) == {text(each, "metadata.name") for each in remote}, "what the cluster is reached with"


def test_what_is_not_there_yet_has_no_usage(render: Render) -> None:
    """A Usage of something that does not exist would not become Ready for minutes after it does."""
    first = render(required=[_token(token="secret", ca_crt="CA")])
    environment = _observed("environment", first["environment"], status={"providerConfigRef": {"name": CONFIG}})
    assert _protected(render([environment])) == set()
    secret = _observed("kubeconfig", first["kubeconfig"])
    after = render([environment, secret])
    assert _protected(after) == {"us-east-kubeconfig"}
    usage = _observed("kubeconfig-usage", after["kubeconfig-usage"])
    assert _protected(render([environment, usage])) == {"us-east-kubeconfig"}, "a Usage that is there stays"


def _protected(composed: Mapping[str, Manifest]) -> set[str]:
    usages = [each for each in composed.values() if each["kind"] == "Usage"]
    assert {text(each, "spec.by.resourceRef.name") for each in usages} <= {CONFIG}
    return {text(each, "spec.of.resourceRef.name") for each in usages}
