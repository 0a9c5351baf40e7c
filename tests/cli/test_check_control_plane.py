"""`check control-plane` and `version`: what a control plane has and lacks, as its API server shows it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pytest

from function.cli import prerequisites
from function.cli.prerequisites import CORE_RIGHTS, GATEWAY_RIGHTS, GKE_RIGHTS, KEDA_RIGHTS, PROVIDER_RIGHTS
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tests.cli.api import ApiServer
from tests.cli.process import ROOT, error_lines, output_of, run
from tools.documents import documents

PACKAGES, DEPLOYMENTS = "/apis/pkg.crossplane.io/v1", "/apis/apps/v1/namespaces/crossplane-system/deployments"
EXTENSIONS, OBJECT_API = "/apis/apiextensions.crossplane.io", "/apis/kubernetes.m.crossplane.io/v1alpha1"
XRDS, COMPOSITIONS = f"{EXTENSIONS}/v2/compositeresourcedefinitions", f"{EXTENSIONS}/v1/compositions"
CONFIG = "/apis/pkg.crossplane.io/v1beta1/deploymentruntimeconfigs/provider-kubernetes"
RELEASE = f"v{version('function-modelplane')}"


def items(*found: JSON) -> Manifest:
    return {"kind": "List", "items": [*found]}


def resources(*names: str) -> Manifest:
    return {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}


def package(name: str, tag: str, *untrue: str, registry: str = "registry.local/team", message: str = "") -> Manifest:
    conditions: list[JSON] = [
        {"type": type_, "status": str(type_ not in untrue), "message": message} for type_ in ("Installed", "Healthy")
    ]
    return {
        "metadata": {"name": name},
        "spec": {"package": f"{registry}/{name}:{tag}", "runtimeConfigRef": {"name": name}},
        "status": {"currentRevision": f"{name}-1", "conditions": conditions},
    }


def revision(tag: str, endpoint: str = "dns:///function:9443") -> Manifest:
    return {
        "metadata": {"name": "function-modelplane-1"},
        "spec": {"image": f"registry.local/function-modelplane:{tag}"},
        "status": {"endpoint": endpoint} if endpoint else {},
    }


def deployment(account: str, image: str = "provider:v1") -> Manifest:
    container: Manifest = {"name": "crossplane", "image": image}
    return {"spec": {"template": {"spec": {"serviceAccountName": account, "containers": [container]}}}}


def definitions(without: str = "", established: str = "True") -> list[JSON]:
    found: list[JSON] = []
    for file in sorted((ROOT / "apis").glob("*/definition.yaml")):
        (definition,) = documents(file)
        conditions: list[JSON] = [{"type": "Established", "status": established}]
        if text(definition, "spec.names.kind") != without:
            found.append({**definition, "status": {"conditions": conditions}})
    return found


def compositions(function: str = "function-modelplane") -> list[JSON]:
    found = [document for file in sorted((ROOT / "apis").glob("*/composition.yaml")) for document in documents(file)]
    for step in (step for composition in found for step in listing(composition, "spec.pipeline")):
        mapping(step, "functionRef")["name"] = function
    return [*found]


def limited_deployments() -> list[JSON]:
    """Returns the Compositions, of which only that of ModelDeployments has limits."""
    found = [mapping({"composition": each}, "composition") for each in compositions()]
    (step,) = (s for c in found if c["metadata"] == {"name": "modeldeployments"} for s in listing(c, "spec.pipeline"))
    step["input"] = {
        "apiVersion": "modelplane.fn.crossplane.io/v1beta1",
        "kind": "Defaults",
        "limits": {"gpusPerNamespace": 2},
    }
    return [*found]


def runtime(*flags: str) -> Manifest:
    container: Manifest = {"name": "package-runtime", "args": [*flags]}
    return {"spec": {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}}}}


SOUND: dict[str, Manifest | int] = {
    "/version": {"gitVersion": "v1.34.2"},
    f"{EXTENSIONS}/v2": resources("compositeresourcedefinitions"),
    f"{DEPLOYMENTS}/crossplane": deployment("crossplane", "registry.local/crossplane:v2.4.0"),
    f"{DEPLOYMENTS}/provider-kubernetes-1": deployment("provider-kubernetes-1"),
    f"{PACKAGES}/providers": items(package("provider-kubernetes", "v1.2.1")),
    f"{PACKAGES}/functions": items(package("function-modelplane", RELEASE)),
    f"{PACKAGES}/configurations": items(package("configuration-modelplane", RELEASE)),
    f"{PACKAGES}/functionrevisions/function-modelplane-1": revision(RELEASE),
    CONFIG: runtime("--enable-watches", "--sanitize-secrets"),
    OBJECT_API: resources("objects", "clusterproviderconfigs", "observedobjectcollections", "providerconfigusages"),
    f"{OBJECT_API}/objects": items({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Synced"}]}}),
    XRDS: items(*definitions()),
    COMPOSITIONS: items(*compositions()),
}
DEPENDENCY: Manifest = {
    **package("function-modelplane", RELEASE),
    "metadata": {"name": "modelplane-function-modelplane"},
}
FOUND = {
    "Crossplane": ("ok", "v2.4.0 with apiextensions.crossplane.io/v2"),
    "Provider provider-kubernetes": ("ok", "v1.2.1"),
    "flags of provider-kubernetes": ("ok", "all"),
    "kinds of the provider": ("ok", "kubernetes.m.crossplane.io/v1alpha1"),
    "Function function-modelplane": ("ok", RELEASE),
    "Configuration configuration-modelplane": ("ok", RELEASE),
    "XRDs of modelplane.ai": ("ok", "7 established"),
    "Compositions": ("ok", "7"),
    "rights of Crossplane": ("ok", "all, as crossplane"),
    "rights of provider-kubernetes": ("ok", "all, as provider-kubernetes-1"),
    "Objects": ("ok", "1 Object"),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is otherwise on a control plane, and the lines that then are, each with a part of its cure."""

    id: str
    reason: str
    paths: Mapping[str, Manifest | int] = field(default_factory=dict)
    denied: frozenset[tuple[str, str]] = frozenset()
    lines: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    code: int = 1


def function(*untrue: str, name: str = "function-modelplane", **more: str) -> Mapping[str, Manifest]:
    return {f"{PACKAGES}/functions": items(package(name, RELEASE, *untrue, **more))}


FUNCTION, XRDS_LINE = "Function function-modelplane", "XRDs of modelplane.ai"
CASES = (
    Case(id="sound", reason="all that docs/install.md asks for is there", code=0),
    Case(
        id="old-releases",
        reason="the minimum of Crossplane is v2.3 and of the provider v1.2; ours are to be of one release",
        paths={
            f"{DEPLOYMENTS}/crossplane": deployment("crossplane", "crossplane:v2.2.9"),
            f"{PACKAGES}/providers": items(package("provider-kubernetes", "v1.1.0")),
            f"{PACKAGES}/configurations": items(package("configuration-modelplane", "v9.9.9")),
        },
        lines={
            "Crossplane": ("missing", "v2.2.9 with apiextensions.crossplane.io/v2", "Install Crossplane v2.3"),
            "Provider provider-kubernetes": ("missing", "v1.1.0", "install/provider.yaml"),
            "Configuration configuration-modelplane": ("warning", "v9.9.9", f"This command line is {RELEASE}"),
        },
    ),
    Case(
        id="incomplete",
        reason="each is the cause of a symptom that heads docs/troubleshooting.md",
        paths={
            OBJECT_API: resources("objects", "clusterproviderconfigs", "providerconfigusages"),
            f"{PACKAGES}/functionrevisions/function-modelplane-1": revision(RELEASE, endpoint=""),
            XRDS: items(*definitions(without="ModelCache")),
            COMPOSITIONS: items(),
        },
        denied=frozenset({("models", "list"), ("models", "watch")}),
        lines={
            "kinds of the provider": (
                "missing",
                "kubernetes.m.crossplane.io/v1alpha1 has no observedobjectcollections",
                "install/activation.yaml",
            ),
            FUNCTION: ("missing", "no endpoint", "kubectl describe functionrevision function-modelplane-1"),
            XRDS_LINE: ("missing", "6 established", "ModelCache"),
            "Compositions": (
                "missing",
                "none for ClusterModel, Model, InferenceEnvironment and 4 more",
                "Install the Configuration",
            ),
            "rights of Crossplane": (
                "missing",
                "crossplane may not use models (list, watch)",
                "kubectl apply -f install/hub-rbac.yaml",
            ),
        },
    ),
    Case(
        id="model-services",
        reason="a kind that Crossplane may not use costs a ModelService its whole status",
        paths={
            "/apis/modelplane.ai/v1alpha1/modelservices": items({"metadata": {"name": "chat"}}),
            "/apis/gateway.networking.k8s.io/v1": resources("gateways"),
        },
        denied=frozenset({("httproutes", "create"), ("backendtlspolicies", "list")}),
        lines={
            "Gateway API": ("missing", "gateway.networking.k8s.io/v1 has no httproutes", "Install Gateway API v1.2"),
            "rights of Crossplane for ModelServices": (
                "missing",
                "crossplane may not use httproutes (create), backendtlspolicies (list)",
                "kubectl apply -f install/gateway-rbac.yaml",
            ),
        },
    ),
    Case(
        id="by-load",
        reason="a kind that Crossplane may not use costs a ModelDeployment its whole status",
        paths={
            "/apis/modelplane.ai/v1alpha1/modeldeployments": items({"spec": {"scaling": {"signal": "Load"}}}),
            "/apis/keda.sh/v1alpha1": resources("scaledjobs"),
        },
        denied=frozenset({("scaledobjects", "create")}),
        lines={
            "KEDA": ("missing", "keda.sh/v1alpha1 has no scaledobjects", "Install KEDA"),
            "rights of Crossplane for replicas by load": (
                "missing",
                "crossplane may not use scaledobjects (create)",
                "kubectl apply -f install/keda-rbac.yaml",
            ),
        },
    ),
    Case(
        id="creates-clusters",
        reason="a kind that is not served, or that Crossplane may not use, costs an environment its whole status",
        paths={
            "/apis/modelplane.ai/v1alpha1/inferenceenvironments": items(
                {"spec": {"cluster": {"source": "GKE", "gke": {"provision": {}}}}}
            ),
            "/apis/container.gcp.m.upbound.io/v1beta1": resources("clusters"),
        },
        denied=frozenset({("nodepools", "patch")}),
        lines={
            "provider-gcp-container": (
                "missing",
                "container.gcp.m.upbound.io/v1beta1 has no nodepools",
                "install/gke-activation.yaml",
            ),
            "rights of Crossplane for clusters of GKE": (
                "missing",
                "crossplane may not use nodepools (patch)",
                "kubectl apply -f install/gke-rbac.yaml",
            ),
        },
    ),
    Case(
        id="works-not-well",
        reason="without the flags changes are seen late and a status repeats tokens; Objects may wait for the provider",
        paths={
            CONFIG: runtime("--enable-watches=true"),
            f"{OBJECT_API}/objects": items({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}),
        },
        lines={
            "flags of provider-kubernetes": ("warning", "not --sanitize-secrets", "as install/provider.yaml does"),
            "Objects": ("warning", "2 without conditions: a, b", "restart its pod"),
        },
        code=0,
    ),
    Case(
        id="one-command",
        reason="the Compositions of the package with dependencies call the Function by the name of a dependency",
        paths={
            f"{PACKAGES}/functions": items(DEPENDENCY),
            f"{PACKAGES}/configurations": items({**package("modelplane", RELEASE), "metadata": {"name": "modelplane"}}),
            COMPOSITIONS: items(*compositions(text(DEPENDENCY, "metadata.name"))),
        },
        code=0,
    ),
    Case(
        id="limits-in-one-composition",
        reason="the placements of a deployment that its limits refuse are still admitted",
        paths={COMPOSITIONS: items(*limited_deployments())},
        lines={
            "Compositions": (
                "warning",
                (
                    "7; modeldeployments: spec.pipeline[0].input.limits: is not the same in the Composition of "
                    "ModelPlacements; set it equally in both"
                ),
                "Correct the settings",
            )
        },
        code=0,
    ),
    Case(
        id="wrong-name",
        reason="the Compositions call the function by its name; XRDs that are not established are not served",
        paths={
            f"{PACKAGES}/functions": items(
                {**package("function-modelplane", "v1"), "metadata": {"name": "modelplane"}}
            ),
            XRDS: items(*definitions(established="False")),
        },
        lines={
            FUNCTION: ("missing", "only modelplane", "whose names the Compositions call"),
            XRDS_LINE: ("missing", "0 established", "kubectl describe xrd"),
        },
    ),
    Case(
        id="not-healthy",
        reason="install/registry.yaml was not edited; of others Crossplane says why",
        paths={
            **function("Installed", "Healthy", registry="registry.example.com/modelplane"),
            f"{PACKAGES}/configurations": items(
                package("configuration-modelplane", RELEASE, "Healthy", message="cannot pull it")
            ),
        },
        lines={
            FUNCTION: (
                "missing",
                f"registry.example.com/modelplane/function-modelplane:{RELEASE}",
                "Set both registries in install/registry.yaml",
            ),
            "Configuration configuration-modelplane": ("missing", "not Healthy", "says: cannot pull it"),
        },
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reports_each_prerequisite(case: Case, server: ApiServer, tmp_path: Path) -> None:
    server.paths, server.denied = {**SOUND, **case.paths}, case.denied
    done = run("check", "control-plane", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "json")
    lines = {line["check"]: line for line in json.loads(done.stdout)}
    found = {check: (line["state"], line["found"]) for check, line in lines.items()}
    assert found == {**FOUND, **{check: line[:2] for check, line in case.lines.items()}}, case.reason
    assert all(cure in lines[check]["todo"] for check, (_, _, cure) in case.lines.items())
    assert done.returncode == case.code, case.reason


def test_nothing_is_installed(server: ApiServer, tmp_path: Path) -> None:
    server.paths = {"/version": {"gitVersion": "v1.34.2"}}
    done = run("check", "control-plane", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "json")
    states = {line["check"]: line["state"] for line in json.loads(done.stdout)}
    installed = FOUND.keys() - {"rights of Crossplane", "rights of provider-kubernetes", "flags of provider-kubernetes"}
    assert {check for check, state in states.items() if state == "missing"} == installed - {"Objects"}
    assert done.returncode == 1


def test_what_may_not_be_read_is_a_warning(server: ApiServer, tmp_path: Path) -> None:
    server.paths = SOUND | dict.fromkeys(SOUND.keys() - {"/version", f"{EXTENSIONS}/v2", OBJECT_API}, 403)
    done = run("check", "control-plane", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "json")
    assert {line["state"] for line in json.loads(done.stdout)} == {"ok", "warning"}
    assert done.returncode == 0


@pytest.mark.parametrize(("file", "rights"), [("gateway", GATEWAY_RIGHTS), ("keda", KEDA_RIGHTS), ("gke", GKE_RIGHTS)])
def test_checks_the_rights_that_are_granted_beside_the_core(file: str, rights: Mapping[str, Sequence[str]]) -> None:
    (role,) = documents(ROOT / "install" / f"{file}-rbac.yaml")
    granted = {
        f"{resource}.{group}".rstrip("."): {*rule["verbs"]}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {right: {*verbs} for right, verbs in rights.items()}


def test_checks_the_granted_rights() -> None:
    core, provider = documents(ROOT / "install" / "hub-rbac.yaml")
    for role, rights in ((core, CORE_RIGHTS), (provider, PROVIDER_RIGHTS)):
        granted: dict[tuple[str, str], set[str]] = {}
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    granted[group, resource] = {*rule["verbs"]}
        for right, verbs in rights.items():
            resource, _, group = right.partition(".")
            given = granted.get((group, resource)) or granted[group, "*"]
            assert given in ({"*"}, {*verbs}), right
        groups = {(group, resource.partition("/")[0]) for group, resource in granted} - {
            (group, "*") for group, _ in granted
        }
        assert groups == {tuple(r.partition(".")[::-2]) for r in rights if tuple(r.partition(".")[::-2]) in groups}


@pytest.mark.parametrize(
    ("row", "least"),
    [
        ("| Crossplane | v2.3 |", prerequisites.CROSSPLANE),
        ("| provider-kubernetes | v1.2 |", prerequisites.PROVIDER_KUBERNETES),
    ],
)
def test_minimum_versions_match_the_docs(row: str, least: str) -> None:
    assert row in (ROOT / "docs" / "install.md").read_text()
    assert least in row


def test_version_without_a_control_plane() -> None:
    assert output_of("version", "--client") == f"Client Version: {RELEASE}\n"
    done = run("version")
    assert (done.returncode, done.stdout) == (0, f"Client Version: {RELEASE}\nFunction Version: unknown\n")
    assert error_lines(done)[0].startswith("warning: cannot connect: there is no kubeconfig")


def test_version_warns_where_releases_differ(server: ApiServer, tmp_path: Path) -> None:
    server.paths = SOUND
    kubeconfig = server.kubeconfig(tmp_path)
    done = run("version", "--kubeconfig", kubeconfig)
    assert (done.stdout, done.stderr) == (f"Client Version: {RELEASE}\nFunction Version: {RELEASE}\n", "")
    server.paths = SOUND | {f"{PACKAGES}/functionrevisions/function-modelplane-1": revision("v9.9.9")}
    done = run("version", "--kubeconfig", kubeconfig)
    assert done.stdout == f"Client Version: {RELEASE}\nFunction Version: v9.9.9\n"
    assert "warning: the releases differ" in done.stderr
    shown = json.loads(output_of("version", "--kubeconfig", kubeconfig, "-o", "json", "-q"))
    assert shown == {"clientVersion": RELEASE, "functionVersion": "v9.9.9"}
