"""`check cluster`: what a GPU cluster has and lacks, as an API server shows it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from function.cli import prerequisites
from function.cli.prerequisites import RIGHTS
from function.kube.manifests import JSON, Manifest
from tests.cli.api import ApiServer
from tests.cli.process import ROOT, run
from tests.support.nodes import node
from tools.documents import documents

KSERVE, LWS, GATEWAYS = (
    "/apis/serving.kserve.io/v1alpha2",
    "/apis/leaderworkerset.x-k8s.io/v1",
    "/apis/gateway.networking.k8s.io/v1",
)
GATEWAY = f"{GATEWAYS}/namespaces/kserve/gateways/kserve-ingress-gateway"
PRESETS = f"{KSERVE}/namespaces/kserve/llminferenceserviceconfigs"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CLASSES, NODES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/nodes"
LWS_CONTROLLER = "/apis/apps/v1/namespaces/lws-system/deployments/lws-controller-manager"
KSERVE_CONTROLLER = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager"


def resources(*names: str) -> Manifest:
    return {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}


def items(*found: JSON) -> Manifest:
    return {"kind": "List", "items": [*found]}


def named(name: str, **more: JSON) -> Manifest:
    return {"metadata": {"name": name}, **more}


def controller(image: str) -> Manifest:
    return {"spec": {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}}}


def gateway(programmed: str, *addresses: str) -> Manifest:
    conditions: list[JSON] = [{"type": "Programmed", "status": programmed, "message": "no pool of addresses"}]
    return {"status": {"conditions": conditions, "addresses": [{"value": address} for address in addresses]}}


SOUND: dict[str, Manifest | int] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.2"},
    KSERVE: resources("llminferenceservices", "llminferenceserviceconfigs"),
    LWS: resources("leaderworkersets"),
    GATEWAYS: resources("gateways", "httproutes"),
    GATEWAY: gateway("True", "192.0.2.7"),
    PRESETS: items(
        *(
            named(f"kserve-config-llm-{name}")
            for name in ("template", "worker-data-parallel", "router-route", "scheduler")
        )
    ),
    CLASSES: items(named("fast", provisioner="csi.example", volumeBindingMode="WaitForFirstConsumer")),
    NODES: items(node("gpu-1"), node("gpu-2", cordoned=True), node("cpu-1", gpus=None)),
    LWS_CONTROLLER: controller("registry.example/lws/lws:v0.8.0"),
    KSERVE_CONTROLLER: controller("registry.example:5000/kserve/llmisvc-controller:v0.20.0@sha256:0"),
}
APIS = {
    "Kubernetes": ("ok", "v1.34.2"),
    "LeaderWorkerSet": ("ok", "v0.8.0 with leaderworkerset.x-k8s.io/v1"),
    "KServe": ("ok", "v0.20.0 with serving.kserve.io/v1alpha2"),
    "KServe's presets": ("ok", "4 LLMInferenceServiceConfigs in kserve"),
    "Gateway API": ("ok", "gateway.networking.k8s.io/v1"),
    "Gateway kserve/kserve-ingress-gateway": ("ok", "Programmed at 192.0.2.7"),
    "storage class fast": ("unchecked", "csi.example, WaitForFirstConsumer"),
    "GPUs nvidia.com/gpu": ("ok", "16 on 2 nodes, not Ready or cordoned: gpu-2"),
    "nodes without GPUs": ("ok", "1 of 3: cpu-1"),
}
ALLOWED = {f"rights on {right.partition('.')[0]}": ("ok", "all") for right in RIGHTS}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is otherwise on a cluster, and the lines that then are; the state of a line is the first of the two."""

    id: str
    reason: str
    paths: Mapping[str, Manifest | int] = field(default_factory=dict)
    denied: frozenset[tuple[str, str]] = frozenset()
    options: tuple[str, ...] = ()
    lines: Mapping[str, tuple[str, str] | None] = field(default_factory=dict)
    code: int = 1


CASES = (
    Case(id="sound", reason="all that docs/install.md asks for is there", code=0),
    Case(
        id="old-kubernetes",
        reason="matchLabelKeys in pod affinity is on from 1.31; clouds write more behind the number",
        paths={"/version": {"gitVersion": "v1.30.9-eks-1"}},
        lines={"Kubernetes": ("missing", "v1.30.9-eks-1")},
    ),
    Case(
        id="nothing-installed",
        reason="a bare cluster lacks everything of KServe's; 404 differs from 403",
        paths=dict.fromkeys((KSERVE, LWS, GATEWAYS, GATEWAY, PRESETS, LWS_CONTROLLER, KSERVE_CONTROLLER), 404),
        lines={
            "LeaderWorkerSet": ("missing", "leaderworkerset.x-k8s.io/v1 has no leaderworkersets"),
            "KServe": (
                "missing",
                "serving.kserve.io/v1alpha2 has no llminferenceservices and no llminferenceserviceconfigs",
            ),
            "KServe's presets": ("missing", "0 LLMInferenceServiceConfigs in kserve"),
            "Gateway API": ("missing", "gateway.networking.k8s.io/v1 has no gateways and no httproutes"),
            "Gateway kserve/kserve-ingress-gateway": ("missing", "none"),
        },
    ),
    Case(
        id="old-releases",
        reason="the API is served, the release is read from the controllers' images",
        paths={LWS_CONTROLLER: controller("lws:v0.7.0"), KSERVE_CONTROLLER: controller("kserve:v0.19.1")},
        lines={
            "LeaderWorkerSet": ("missing", "v0.7.0 with leaderworkerset.x-k8s.io/v1"),
            "KServe": ("missing", "v0.19.1 with serving.kserve.io/v1alpha2"),
        },
    ),
    Case(
        id="releases-unknown",
        reason="a digest, or no Deployment of that name: what is served is all that is known",
        paths={LWS_CONTROLLER: controller("lws@sha256:0"), KSERVE_CONTROLLER: 404},
        lines={
            "LeaderWorkerSet": ("ok", "leaderworkerset.x-k8s.io/v1"),
            "KServe": ("ok", "serving.kserve.io/v1alpha2"),
        },
        code=0,
    ),
    Case(
        id="a-preset-is-gone",
        reason="KServe would leave every service of that topology stuck",
        paths={PRESETS: items(named("v2-config-llm-template"), named("v2-config-llm-decode-worker-data-parallel"))},
        lines={"KServe's presets": ("missing", "2 LLMInferenceServiceConfigs in kserve")},
    ),
    Case(
        id="gateway-without-address",
        reason="URLs of models come from its address",
        paths={GATEWAY: gateway("True")},
        lines={"Gateway kserve/kserve-ingress-gateway": ("missing", "no address")},
    ),
    Case(
        id="gateway-not-programmed",
        reason="an address alone routes nothing",
        paths={GATEWAY: gateway("False", "192.0.2.7")},
        lines={"Gateway kserve/kserve-ingress-gateway": ("missing", "not Programmed")},
    ),
    Case(
        id="inference-pools",
        reason="KServe's pickers request 1 CPU and 2 GiB each, and only the gateway's documentation says what it can",
        paths={"/apis/inference.networking.k8s.io/v1": resources("inferencepools")},
        lines={
            "endpoint pickers": (
                "unchecked",
                (
                    "inference.networking.k8s.io/v1; whether the gateway routes to InferencePools is not known. Each "
                    "placement takes 2 CPUs and 4Gi"
                ),
            )
        },
        code=0,
    ),
    Case(
        id="no-gateway-wanted",
        reason="kserve.gateway: false",
        paths={GATEWAYS: 404, GATEWAY: 404},
        options=("--no-gateway",),
        lines={"Gateway API": None, "Gateway kserve/kserve-ingress-gateway": None},
        code=0,
    ),
    Case(
        id="no-storage-class",
        reason="environments with claims of their own do without",
        paths={CLASSES: items()},
        lines={"storage class fast": None, "storage class": ("warning", "none")},
        code=0,
    ),
    Case(
        id="no-device-plugin",
        reason="nothing could be scheduled",
        paths={NODES: items(node("gpu-1", gpus=None), node("gpu-2", gpus="0"))},
        lines={
            "GPUs nvidia.com/gpu": None,
            "nodes without GPUs": None,
            "GPUs": ("missing", "2 nodes, none with nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, habana.ai/gaudi"),
        },
    ),
    Case(
        id="gpus-by-another-name",
        reason="spec.nodePools[].gpuResource may be anything",
        paths={NODES: items(node("gpu-1", resource="example.com/gpu"))},
        options=("--gpu-resource", "example.com/gpu"),
        lines={"GPUs nvidia.com/gpu": None, "nodes without GPUs": None, "GPUs example.com/gpu": ("ok", "8 on 1 node")},
        code=0,
    ),
    Case(
        id="who-may-not-look",
        reason="install/remote-rbac.yaml grants no rights on Gateways; that is no fault of the cluster",
        paths=dict.fromkeys((GATEWAY, PRESETS, CLASSES, NODES, LWS_CONTROLLER, KSERVE_CONTROLLER), 403),
        lines={
            "LeaderWorkerSet": ("ok", "leaderworkerset.x-k8s.io/v1"),
            "KServe": ("ok", "serving.kserve.io/v1alpha2"),
            "KServe's presets": ("warning", "forbidden for this identity"),
            "Gateway kserve/kserve-ingress-gateway": ("warning", "forbidden for this identity"),
            "storage class fast": None,
            "storage class": ("warning", "forbidden for this identity"),
            "GPUs nvidia.com/gpu": None,
            "nodes without GPUs": None,
            "GPUs": ("warning", "forbidden for this identity"),
        },
        code=0,
    ),
    Case(
        id="who-may-not-ask-about-rights",
        reason="whether rights are missing is not known then",
        paths={REVIEWS: 403},
        lines=dict.fromkeys(ALLOWED, ("warning", "forbidden for this identity")),
        code=0,
    ),
    Case(
        id="rights-are-missing",
        reason="deletion is asked for where we delete",
        denied=frozenset({("secrets", "delete"), ("secrets", "watch")}),
        lines={"rights on secrets": ("missing", "not watch, delete")},
    ),
    Case(
        id="rights-one-does-without",
        reason="install/remote-rbac.yaml says when",
        denied=frozenset({("nodes", "patch"), ("storageclasses", "patch")}),
        lines={"rights on nodes": ("warning", "not patch"), "rights on storageclasses": ("warning", "not patch")},
        code=0,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reports_each_prerequisite(case: Case, server: ApiServer, tmp_path: Path) -> None:
    server.paths, server.denied = {**SOUND, **case.paths}, case.denied
    done = run("check", "cluster", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "json", *case.options)
    found = {line["check"]: (line["state"], line["found"]) for line in json.loads(done.stdout)}
    want = {check: said for check, said in {**APIS, **ALLOWED, **case.lines}.items() if said}
    assert found == want, case.reason
    assert done.returncode == case.code, case.reason
    assert all(bool(line["todo"]) is (line["state"] in ("warning", "missing")) for line in json.loads(done.stdout))


def test_nothing_is_written(server: ApiServer, tmp_path: Path) -> None:
    server.paths = SOUND
    run("check", "cluster", "--kubeconfig", server.kubeconfig(tmp_path))
    assert {line for line in server.requests if not line.startswith("GET ")} == {f"POST {REVIEWS}"}


def test_table_ends_with_what_to_do(server: ApiServer, tmp_path: Path) -> None:
    server.paths = SOUND | {GATEWAY: gateway("False", "192.0.2.7")}
    done = run("check", "cluster", "--kubeconfig", server.kubeconfig(tmp_path))
    _, todo, summary = done.stdout.split("\n\n")
    advice = "Look at its GatewayClass and its controller, which says: no pool of addresses"
    assert todo == f"missing: Gateway kserve/kserve-ingress-gateway: wanted Programmed, with an address. {advice}"
    assert summary == "22 ok, 1 unchecked, 0 warning, 1 missing\n"
    assert done.stderr == "", "there is no next step but that"


def test_server_errors_are_failures(server: ApiServer, tmp_path: Path) -> None:
    server.paths = SOUND | {NODES: 500}
    done = run("check", "cluster", "--kubeconfig", server.kubeconfig(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot read /api/v1/nodes: Internal Server Error" in done.stderr


def test_checks_the_granted_rights() -> None:
    roles = [d for d in documents(ROOT / "install" / "remote-rbac.yaml") if d["kind"] == "ClusterRole"]
    granted = {
        (g, r): v
        for role in roles
        for rule in role["rules"]
        for g in rule["apiGroups"]
        for r in rule["resources"]
        for v in [rule["verbs"]]
    }
    assert {tuple(right.partition(".")[::-2]): list(verbs) for right, verbs in RIGHTS.items()} == granted


@pytest.mark.parametrize(
    ("row", "least"),
    [
        ("| Kubernetes | v1.31:", prerequisites.KUBERNETES),
        ("| KServe with its LLMInferenceService controller and presets | v0.20 |", prerequisites.KSERVE),
        ("| LeaderWorkerSet, installed before KServe's controller starts | v0.8 |", prerequisites.LWS),
    ],
)
def test_minimum_versions_match_the_docs(row: str, least: str) -> None:
    assert row in (ROOT / "docs" / "install.md").read_text()
    assert least in row
