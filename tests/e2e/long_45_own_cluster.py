"""Scenario 45: a Composition of the platform team's own enrols a cluster (examples/bring-your-own-cluster).

The identity of its kubeconfig has only the rights of install/remote-rbac.yaml. As long as a model is placed there,
Crossplane refuses to delete the GpuCluster; then everything goes, also on the cluster.
"""

import base64
import copy
import json
from collections.abc import Iterator

import pytest
import yaml

from function.kube.manifests import Manifest, listing, mapping, text
from tests.e2e.objects import deployment, environment, model
from tests.e2e.world import World
from tools import pythonic
from tools.package_roots import ROOT
from tools.stack import layout, manager, packages, upstream
from tools.stack.kubectl import Kubectl
from tools.stack.processes import Program
from tools.stack.waiting import listens, steady, until

pytestmark = pytest.mark.e2e
FOLDER = ROOT / "examples" / "bring-your-own-cluster"
TEAM, NAME, NAMESPACE, FUNCTION = "owners", "us-east", "modelplane-system", "function-pythonic"


def _remote_config(world: World) -> Manifest:
    found: Manifest = yaml.safe_load(world.stack.home.kubeconfig("remote").read_text())
    return found


def _cluster(world: World) -> list[Manifest]:
    """Returns the manifests of cluster.yaml with the address and the nodes of the stack."""
    config, cluster = upstream.read(FOLDER / "cluster.yaml")
    (server,) = (text(each, "cluster.server") for each in listing(_remote_config(world), "clusters"))
    spec = mapping(copy.deepcopy(cluster), "spec")
    declared = mapping(environment(NAME), "spec")
    pools: Manifest = {key: value for key, value in declared.items() if key != "cluster"}
    return [config, {**cluster, "spec": {**spec, "server": server, "labels": {"e2e": NAME}, "environment": pools}}]


@pytest.fixture(scope="module", autouse=True)
def _enrolled(world: World, empty: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # noqa: ARG001  # it comes first
    home, processes, kubectl = world.stack.home, world.stack.processes, world.stack.kubectl
    world.team(TEAM)
    world.secret(f"{NAME}-admin", {"kubeconfig": home.kubeconfig("remote").read_text()})
    root = tmp_path_factory.mktemp("package")
    meta: Manifest = {
        "apiVersion": "meta.pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": FUNCTION},
        "spec": {"capabilities": ["composition"]},
    }
    (root / "crossplane.yaml").write_text(yaml.safe_dump(meta))
    (function,) = upstream.read(FOLDER / "function.yaml")
    reference = f"{packages.REGISTRY}/{text(function, 'spec.package').partition('/')[2]}"
    packages.push(home, root, reference)
    kubectl.apply([{**function, "spec": {"package": reference, "skipDependencyResolution": True}}])
    program = Program(
        name=FUNCTION,
        argv=(str(pythonic.install()), f"--address=127.0.0.1:{layout.PYTHONIC}", f"--tls-certs-dir={home.server_tls}"),
    )

    def serve() -> None:
        processes.start(program)
        until(FUNCTION, lambda: listens(layout.PYTHONIC))

    manager.install(home, "Function", FUNCTION, serve, f"dns:///localhost:{layout.PYTHONIC}")
    # In the order of docs/own-cluster.md; core's RBAC manager does not run here.
    for file in ("rbac.yaml", "definition.yaml", "composition.yaml"):
        kubectl("apply", "-f", str(FOLDER / file))
    kubectl.established("xrd", "gpuclusters.platform.example.org")
    kubectl.apply(_cluster(world))
    yield
    world.clear()
    kubectl("delete", "gpucluster", NAME, "--ignore-not-found", "--timeout=60s")
    kubectl(
        "delete", "-f", str(FOLDER / "composition.yaml"), "-f", str(FOLDER / "definition.yaml"), "--ignore-not-found"
    )
    kubectl("delete", "function", FUNCTION, "--ignore-not-found")
    processes.stop(FUNCTION)


def _on_cluster(world: World) -> list[str]:
    """Returns what the Composition has made on the cluster."""
    kubectl = Kubectl(world.stack.home, layout.EAST.name)
    made = kubectl("-n", "kube-system", "get", "serviceaccounts,secrets,clusterrolebindings", "-o", "name")
    return [
        each
        for each in made.split()
        if "/modelplane-account" in each or each.endswith(("serviceaccount/modelplane", "/modelplane-token"))
    ]


def _kubeconfig(world: World) -> str:
    return text(world.stack.hub.get("Secret", f"{NAME}-kubeconfig", NAMESPACE), "data.kubeconfig")


def test_its_environment_is_connected_by_an_identity_of_its_own(world: World) -> None:
    world.wait("InferenceEnvironment", NAME, "ClusterReady", "True/Connected")
    config = json.loads(base64.b64decode(_kubeconfig(world)))
    claims = config["users"][0]["user"]["token"].split(".")[1]
    subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    assert subject == "system:serviceaccount:kube-system:modelplane"
    world.stack.kubectl("wait", "gpucluster", NAME, "--for=condition=Ready", "--timeout=60s")


def test_a_model_serves_and_the_cluster_cannot_be_deleted(world: World) -> None:
    world.apply(model("own", resources={"disk": "1Gi"}), deployment(TEAM, "own", "own", on=NAME))
    world.ready(TEAM, "own")
    until("the GpuCluster to be in use", lambda: world.stack.kubectl("get", "clusterusage", f"gpucluster-{NAME}"))
    before = world.remote_uids(TEAM)
    with pytest.raises(ChildProcessError, match="models are placed on InferenceEnvironment us-east; drain it first"):
        world.stack.kubectl("delete", "gpucluster", NAME, "--wait=false")
    steady("what serves stays", lambda: world.remote_uids(TEAM) == before, seconds=5)


def test_the_kubeconfig_stays_whatever_is_deleted(world: World) -> None:
    before = world.remote_uids(TEAM)
    with pytest.raises(ChildProcessError, match="in-use"):
        world.stack.kubectl("-n", NAMESPACE, "delete", "secret", f"{NAME}-kubeconfig")
    kubeconfig = _kubeconfig(world)
    world.stack.kubectl("-n", NAMESPACE, "delete", "secret", f"{NAME}-token")
    steady("the kubeconfig", lambda: _kubeconfig(world) == kubeconfig, seconds=10)
    assert world.remote_uids(TEAM) == before


def test_it_goes_with_everything_once_nothing_is_placed(world: World) -> None:
    world.remove(TEAM, "own")
    until(
        "nothing to be placed",
        lambda: not listing(world.stack.hub.get("InferenceEnvironment", NAME), "status.admitted"),
    )
    kubectl = world.stack.kubectl
    until(
        "the GpuCluster to be free",
        lambda: not kubectl("get", "clusterusage", f"gpucluster-{NAME}", "--ignore-not-found"),
    )
    assert len(_on_cluster(world)) == 1 + 1 + 6, "an account, its token, and the bindings of its ClusterRoles"
    kubectl("delete", "gpucluster", NAME, "--timeout=120s")
    until("nothing to be left on the control plane", lambda: not _left(world), seconds=120)
    assert _on_cluster(world) == []


def _left(world: World) -> list[str]:
    hub = world.stack.hub
    found = [hub.get("InferenceEnvironment", NAME), hub.get("Secret", f"{NAME}-kubeconfig", NAMESPACE)]
    found += [each for each in hub.find("Object") if text(each, "metadata.name").startswith(f"{NAME}-")]
    return [text(each, "metadata.name") for each in found if each]
