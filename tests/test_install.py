"""What `install/` says: one version everywhere, the names that Compositions call, the versions that were tested."""

import re
import tomllib
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, mapping, text
from tools.documents import documents

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def _read(path: str) -> list[Manifest]:
    return documents(ROOT / path)


@pytest.mark.parametrize(("kind", "meta"), [("function", "package"), ("configuration", "apis")])
def test_a_package_is_installed_under_the_name_in_its_metadata_and_in_this_version(kind: str, meta: str) -> None:
    (package,) = _read(f"install/{kind}.yaml")
    (metadata,) = _read(f"{meta}/crossplane.yaml")
    name = text(metadata, "metadata.name")
    assert text(package, "metadata.name") == name
    assert text(package, "spec.package") == f"REGISTRY/modelplane/{name}:v{VERSION}"


def test_compositions_call_the_function_by_the_name_under_which_it_is_installed() -> None:
    (function,) = _read("install/function.yaml")
    called = {
        text(step, "functionRef.name")
        for path in (ROOT / "apis").glob("*/composition.yaml")
        for step in listing(_read(str(path.relative_to(ROOT)))[0], "spec.pipeline")
    }
    assert called == {text(function, "metadata.name")}


def test_no_package_depends_on_another() -> None:
    """It would come under another name: docs/decisions/0016-packages-under-their-own-names.md."""
    metadata = [_read(f"{folder}/crossplane.yaml")[0] for folder in ("apis", "package")]
    assert ["dependsOn" in mapping(meta, "spec") for meta in metadata] == [False, False]


def test_the_provider_is_the_one_that_the_stack_runs() -> None:
    (pin,) = re.findall(
        r"^require \S+/provider-kubernetes (\S+)$",
        (ROOT / "tools/provider-kubernetes/go.mod").read_text(),
        re.MULTILINE,
    )
    provider, _ = _read("install/provider.yaml")
    assert text(provider, "spec.package").rpartition(":")[2] == pin


def test_a_provider_that_watches_is_used() -> None:
    """Objects ask for a watch in the packaged Compositions, and the provider's flags allow it."""
    _, config = _read("install/provider.yaml")
    (container,) = listing(config, "spec.deploymentTemplate.spec.template.spec.containers")
    assert "--enable-watches" in str(container["args"])
    watching = {
        path.parent.name
        for path in (ROOT / "apis").glob("*/composition.yaml")
        for step in listing(_read(str(path.relative_to(ROOT)))[0], "spec.pipeline")
        if mapping(step, "input").get("objectWatch")
    }
    assert watching == {"inferenceenvironments", "modelcaches", "modelplacements", "modelservices"}


def test_documents_name_this_version_of_our_packages() -> None:
    pattern = re.compile(r"(?:function|configuration)-modelplane(?:-runtime)?[:-]v(\d+\.\d+\.\d+)")
    shown = (*DOCUMENTS, *(ROOT / "examples" / "render").glob("*.yaml"))
    named = {(path.name, version) for path in shown for version in pattern.findall(path.read_text())}
    assert named, "the README says how to install"
    assert {(name, version) for name, version in named if version != VERSION} == set()


def test_the_least_crossplane_is_the_same_everywhere() -> None:
    least = {text(_read(f"{folder}/crossplane.yaml")[0], "spec.crossplane.version") for folder in ("apis", "package")}
    (said,) = set(re.findall(r"Crossplane v(\d+\.\d+) or later", (ROOT / "README.md").read_text()))
    assert least == {f">=v{said}.0-0"}


def test_every_manifest_is_applied_by_the_kustomization_or_says_where_it_belongs() -> None:
    (kustomization,) = _read("install/kustomization.yaml")
    applied = kustomization["resources"]
    assert isinstance(applied, list)
    left = {path.stem for path in (ROOT / "install").glob("*.yaml")} - {str(name)[:-5] for name in applied}
    optional = {"admission-policy", "author-rbac", "cost-warnings", "crossplane-values", "gate-rbac", "hub-rbac"}
    optional |= {"gke-activation", "gke-rbac"}
    assert left == {"kustomization", "remote-rbac", "verify-signatures", *optional}


WORKFLOW = "https://github.com/ORGANISATION/function-modelplane/.github/workflows"


@pytest.mark.parametrize(
    ("identity", "accepted"),
    [
        (f"{WORKFLOW}/packages.yaml@refs/tags/v{VERSION}", True),
        (f"{WORKFLOW}/packages.yaml@refs/heads/main", False),
        (f"{WORKFLOW}/packages.yaml@refs/pull/1/merge", False),
        (f"{WORKFLOW}/ci.yaml@refs/tags/v{VERSION}", False),
        (f"{WORKFLOW}/packages.yaml@refs/tags/v{VERSION}/../x", False),
        (f"https://example.com/?{WORKFLOW}/packages.yaml@refs/tags/v{VERSION}", False),
        (f"{WORKFLOW.replace('function-modelplane', 'other')}/packages.yaml@refs/tags/v{VERSION}", False),
    ],
)
def test_only_the_release_workflow_may_sign(identity: str, accepted: bool) -> None:
    """GitHub's certificates name the workflow file and the ref; Crossplane searches the pattern in this name."""
    (config,) = _read("install/verify-signatures.yaml")
    (authority,) = listing(config, "spec.verification.cosign.authorities")
    (allowed,) = listing(authority, "keyless.identities")
    assert bool(re.search(text(allowed, "subjectRegExp"), identity)) is accepted
    assert (ROOT / ".github/workflows/packages.yaml").exists()


def test_signatures_are_asked_for_where_the_packages_come_from() -> None:
    (config,) = _read("install/verify-signatures.yaml")
    (registry,) = _read("install/registry.yaml")
    (match,) = listing(config, "spec.matchImages")
    assert text(match, "prefix") == f"{text(registry, 'data.modelplane')}/modelplane/"


def test_authors_may_write_the_kinds_that_the_page_lists() -> None:
    (role,) = (found for found in _read("install/author-rbac.yaml") if found["kind"] == "ClusterRole")
    rules = [rule for rule in listing(role, "rules") if "create" in _texts(rule, "verbs")]
    written = {resource for rule in rules for resource in _texts(rule, "resources")}
    page = (ROOT / "docs/security.md").read_text()
    (row,) = re.findall(r"^\| author in a namespace \| (.+) \|$", page, re.MULTILINE)
    kinds = {kind for kind in row.split(", ") if " " not in kind}
    assert {f"{kind.lower()}s" for kind in kinds} == written


def test_core_may_apply_what_a_service_composes_with_and_without_the_rbac_manager() -> None:
    roles = [_read("install/gateway-rbac.yaml")[0], _read("install/hub-rbac.yaml")[0]]
    label = {"rbac.crossplane.io/aggregate-to-crossplane": "true"}
    assert [mapping(role, "metadata.labels") for role in roles] == [label, label]
    (golden,) = _read("tests/golden/ModelService/serving.yaml")
    kinds = {
        (text(item, "resource.apiVersion").rpartition("/")[0], text(item, "resource.kind").lower())
        for item in mapping(golden, "desired.resources").values()
        if isinstance(item, dict)
    }
    kinds.add(("gateway.networking.k8s.io", "backendtlspolicy"))
    applies = {"get", "list", "watch", "create", "update", "patch", "delete"}
    granted = {
        (group, resource.removesuffix("s").removesuffix("ie") + ("y" if resource.endswith("ies") else ""))
        for role in roles
        for rule in listing(role, "rules")
        if applies <= {*_texts(rule, "verbs")} or _texts(rule, "verbs") == ["*"]
        for group in _texts(rule, "apiGroups")
        for resource in _texts(rule, "resources")
    }
    assert len(kinds) == 6
    assert kinds <= granted


def _texts(rule: Manifest, field: str) -> list[str]:
    values = rule[field]
    return [str(value) for value in values] if isinstance(values, list) else []


def test_costs_are_only_warned_of() -> None:
    """A warning must never stand in the way of what works, also where the policy itself has an error."""
    policies, bindings = (_read("install/cost-warnings.yaml")[start::2] for start in (0, 1))
    assert [text(policy, "spec.failurePolicy") for policy in policies] == ["Ignore", "Ignore"]
    assert [mapping(b, "spec") for b in bindings] == [
        {"policyName": text(policy, "metadata.name"), "validationActions": ["Warn"]} for policy in policies
    ]


def test_the_first_model_of_the_readme_is_the_tutorials() -> None:
    """What the tutorial's own test applies, word for word."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    assert [f"<<'EOF'\n{block}EOF\n" in tutorial for block in blocks] == [True, True]
