"""Every pod template that we write against Kubernetes' Pod Security Standards, profile `restricted`.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ (restricted, with what it
takes from baseline), for Linux pods. What the real admission says of the pods that KServe makes of ours is in
tests/e2e/test_25_rights.py; what is refused, and why it is so, stands in docs/security.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from function.domain.model import Engine, Shape
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, get, listing, mapping, text
from function.serving.service import build_service
from function.weights.credentials import plan_credential
from function.weights.job import build_job
from tests.support.serving_requests import DATA, ONE_GPU, PIPELINE, engine, request
from tests.weights.test_job import TASK

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def violations(spec: Manifest) -> set[str]:
    """Return the rules that a pod breaks, by what breaks them."""
    return {
        *_pod(spec),
        *(found for kind in CONTAINERS for each in listing(spec, kind) for found in _container(spec, each)),
    }


def _pod(spec: Manifest) -> Iterator[str]:
    yield from (f"{field} is set" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field))
    for volume in listing(spec, "volumes"):
        if not VOLUMES & volume.keys():
            yield f"volume {text(volume, 'name')} is of the node"
    if mapping(spec, "securityContext").get("sysctls"):
        yield "sysctls are set"


def _container(spec: Manifest, container: Manifest) -> Iterator[str]:
    name, own = text(container, "name"), mapping(container, "securityContext")
    rights = {**mapping(spec, "securityContext"), **own}
    capabilities = mapping(own, "capabilities")
    if rights.get("runAsNonRoot") is not True:
        yield f"{name} may run as root"
    if rights.get("runAsUser") == 0:
        yield f"{name} runs as user 0"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may escalate"
    if own.get("privileged"):
        yield f"{name} is privileged"
    if get(rights, "seccompProfile.type") not in ("RuntimeDefault", "Localhost"):
        yield f"{name} has no seccomp profile"
    if "ALL" not in (capabilities.get("drop") or ()):  # type: ignore[operator]  # a list of names
        yield f"{name} keeps capabilities"
    yield from (f"{name} adds {each}" for each in capabilities.get("add") or () if each != "NET_BIND_SERVICE")  # type: ignore[union-attr]  # likewise
    if any("hostPort" in port for port in listing(container, "ports")):
        yield f"{name} has a port of the node"
    if own.get("procMount", "Default") != "Default":
        yield f"{name} sees all of /proc"


def _job(**more: object) -> Manifest:
    return mapping(build_job(replace(TASK, **more)), "spec.template.spec")  # type: ignore[arg-type]  # fields of a download


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    spec: Manifest
    want: set[str]


AS_ROOT = replace(BUILT_IN.download, security_context={"runAsUser": 0})
PREPARED = {
    "prepare may run as root", "prepare runs as user 0", "prepare adds CHOWN", "prepare adds DAC_OVERRIDE",
    "prepare adds FOWNER",
}  # fmt: skip
JOBS = (
    Case("download", "whatever it is to fetch", _job(), set()),
    Case("with-a-token", "as a variable", _job(credential=plan_credential(TASK.source, "HF_TOKEN", "copy")), set()),
    Case("prepared", "who owns a directory is root's to say", _job(is_prepared=True), PREPARED),
    Case(
        "as-root",
        "the platform asked for it",
        _job(download=AS_ROOT),
        {"download may run as root", "download runs as user 0"},
    ),
)


@pytest.mark.parametrize("case", JOBS, ids=lambda c: c.id)
def test_downloads(case: Case) -> None:
    assert violations(case.spec) == case.want, case.reason


# The rights of a container of KServe's presets: what is ours is merged over it.
PRESET: Manifest = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}


def _service(shape: Shape, run: Engine | None = None) -> Manifest:
    """Return the leader's pod of a service, over a preset's rights where it has a preset."""
    made = build_service(request(shape, run))
    spec = mapping(made, "spec.template")
    if shape is PIPELINE:
        return spec
    (main,) = listing(spec, "containers")
    return {**spec, "containers": [{**main, "securityContext": {**PRESET, **mapping(main, "securityContext")}}]}


LLM_D = engine(image="llm-d/llm-d-cuda:v0.4.0")
BARE = {
    "main may run as root", "main may escalate", "main has no seccomp profile", "main keeps capabilities",
    "main adds IPC_LOCK",
}  # fmt: skip
SERVICES = (
    Case("own-user", "an image that does not start as root", _service(ONE_GPU, LLM_D), set()),
    Case("root-image", "engines' own images start as root", _service(ONE_GPU), {"main may run as root"}),
    Case("data", "its preset adds what RDMA needs, we add nothing", _service(DATA), {"main may run as root"}),
    Case("pipeline", "no preset, and RDMA locks memory", _service(PIPELINE), BARE),
)


@pytest.mark.parametrize("case", SERVICES, ids=lambda c: c.id)
def test_services(case: Case) -> None:
    assert violations(case.spec) == case.want, case.reason
