"""Scenario 22: KServe's service TLS is on, and pods that we start ourselves serve with the certificates it makes."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from function.domain.model import Engine
from function.domain.settings import Kserve
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import build_name
from function.serving.service import build_service
from tests.e2e.objects import environment, pool
from tests.e2e.world import World, main_container, running
from tests.serving.test_tls import SGLANG_TLS
from tests.support.serving_requests import ONE_NODE, PIPELINE, engine, request
from tools.stack import upstream
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e

TEAM = "certificates"
# As long as a service's name may be. KServe cuts and hashes the name of a Secret of more than 63 characters.
LONG = build_name("kimi-k2-on-two-nodes-with-a-name-of-some", TEAM)
SGLANG = engine(image=SGLANG_TLS, name=engine(image="lmsysorg/sglang:v0.5.4").name)


@pytest.fixture(scope="module", autouse=True)
def on(world: World, empty: None) -> Iterator[None]:  # noqa: ARG001  # it comes first
    """The administrator switches it on; the preset that pipelines need is made by any environment."""
    world.team(TEAM)
    world.apply(environment("certified", pool("gpus")))
    world.wait("InferenceEnvironment", "certified", "Ready", "True")
    world.stack.remote.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    (shipped,) = upstream.kserve_config()
    ingress = json.loads(text(shipped, "data.ingress"))
    changed = {**mapping(shipped, "data"), "ingress": json.dumps({**ingress, "enableLLMInferenceServiceTLS": True})}
    world.stack.remote.apply({**shipped, "data": changed})
    yield
    for service in world.stack.remote.find("LLMInferenceService", TEAM):
        world.stack.remote.delete("LLMInferenceService", text(service, "metadata.name"), TEAM)
    world.stack.remote.apply(shipped)


def _pods(world: World, name: str, run: Engine, *, nodes: int) -> list[Manifest]:
    asked = request(PIPELINE if nodes == 2 else ONE_NODE, run, uri="hf://org/kimi:main", kserve=Kserve(tls=True))
    built = build_service(replace(asked, name=name, namespace=TEAM))
    world.stack.remote.apply(built)
    until("its pods", lambda: [running(pod) for pod in world.pods(built)] == [True] * nodes)
    return world.pods(built)


def _args(pod: Manifest) -> list[JSON]:
    found = get(main_container(pod), "args")
    return found if isinstance(found, list) else []


@pytest.mark.parametrize(
    ("name", "run", "nodes", "reason"),
    [
        (LONG, engine(), 2, "no preset mounts anything"),
        ("sglang", SGLANG, 1, "the preset's pod with a command of ours"),
        ("preset", engine(), 1, "all of it is KServe's"),
    ],
)
def test_every_pod_reads_the_certificate_that_kserve_made(
    world: World, name: str, run: Engine, nodes: int, reason: str
) -> None:
    leader, *others = _pods(world, name, run, nodes=nodes)
    for pod in (leader, *others):
        main = main_container(pod)
        (mount,) = (m for m in listing(main, "volumeMounts") if m["mountPath"] == "/var/run/kserve/tls")
        (volume,) = (v for v in listing(pod, "spec.volumes") if v["name"] == mount["name"])
        secret = world.stack.remote.get("Secret", text(volume, "secret.secretName"), TEAM)
        assert secret is not None, (reason, volume)
        certificate = base64.b64decode(str(mapping(secret, "data")["tls.crt"]))
        assert certificate.startswith(b"-----BEGIN CERTIFICATE-----")
        if name != "preset":
            assert "--ssl-certfile=/var/run/kserve/tls/tls.crt" in _args(pod)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert text(main_container(leader), f"{probe}.httpGet.scheme") == "HTTPS", reason
    until("the Service to speak HTTPS", lambda: "https" in _ports(world, name))


def _ports(world: World, name: str) -> set[str]:
    services = world.stack.remote.find("Service", TEAM, f"app.kubernetes.io/name={name}")
    return {text(port, "name") for service in services for port in listing(service, "spec.ports")}
