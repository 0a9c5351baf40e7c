"""KServe's TLS in our own commands, against KServe's presets as its release has them."""

import re
from dataclasses import replace

import pytest

from function.kube.manifests import Manifest, listing, mapping, text
from function.serving.service import build_service
from tests.conformance.crossplane import read
from tests.support.serving_requests import KSERVE, PIPELINE, engine, request
from tools import programs

pytestmark = pytest.mark.conformance
PRESET = "config/llmisvcconfig/config-llm-worker-data-parallel.yaml"
ON = re.compile(r"\{\{-? *if \.GlobalConfig\.EnableTLS *\}\}(.*?)\{\{", re.DOTALL)


def _container(pod: Manifest) -> Manifest:
    return next(c for c in listing(pod, "containers") if c["name"] == "main")


def _named(entries: list[Manifest]) -> Manifest:
    (found,) = (entry for entry in entries if entry["name"] == "tls-certs")
    return found


@pytest.mark.parametrize("part", ["template", "worker"])
def test_our_commands_serve_tls_as_kserves_presets_do(part: str) -> None:
    (preset,) = read(programs.module_dir("kserve", "github.com/kserve/kserve") / PRESET)
    theirs = mapping(preset, f"spec.{part}")
    service = build_service(request(PIPELINE, engine(), kserve=replace(KSERVE, tls=True)))
    ours = mapping(service, f"spec.{part}")
    script = "".join(map(str, _container(theirs)["command"]))  # type: ignore[arg-type]  # a list of text
    wanted = {flag.strip().replace(" ", "=") for flag in ON.findall(script)}
    assert wanted == {arg for arg in _args(ours) if arg.startswith(("--ssl-", "--enable-ssl"))}
    assert _named(listing(_container(ours), "volumeMounts")) == _named(listing(_container(theirs), "volumeMounts"))
    named = text(_named(listing(theirs, "volumes")), "secret.secretName")
    child = re.fullmatch(r"\{\{ ChildName \.ObjectMeta\.Name `(.*)` \}\}", named)
    assert child is not None, named
    assert text(_named(listing(ours, "volumes")), "secret.secretName") == text(service, "metadata.name") + child[1]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        scheme = text(_container(theirs), f"{probe}.httpGet.scheme")
        assert text(_container(ours), f"{probe}.httpGet.scheme") == "".join(ON.findall(scheme))


def _args(pod: Manifest) -> list[str]:
    args = _container(pod).get("args")
    return [str(arg) for arg in args] if isinstance(args, list) else []
