"""`kubectl apply -k install/` applies what it should, every object valid by Crossplane's own schemas."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.kube.names import VERSION
from tests.conformance import crossplane
from tools import programs

pytestmark = pytest.mark.conformance
INSTALL = programs.ROOT / "install"
# Kubernetes' own, of which Crossplane's programs hold no schema.
BUILT_IN = {"Namespace"}
MODEL: Manifest = {
    "model": {"name": "o/m"},
    "serving": [{"name": "p", "replicaTopology": {"gpusPerNode": 1}, "engine": {"name": "vLLM", "image": "e:1"}}],
}


def _rendered(folder: Path) -> list[Manifest]:
    command = (str(programs.path("kubectl")), "kustomize", str(folder))
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [doc for doc in yaml.safe_load_all(said) if doc]


def test_everything_is_valid(schemas: Path, tmp_path: Path) -> None:
    manifests = [m for m in _rendered(INSTALL) if m["kind"] not in BUILT_IN]
    assert crossplane.validate(schemas, manifests, tmp_path) == []


def test_signatures_are_asked_for_as_the_schema_says(schemas: Path, tmp_path: Path) -> None:
    assert crossplane.validate(schemas, crossplane.read(INSTALL / "verify-signatures.yaml"), tmp_path) == []


def test_one_value_says_where_each_package_comes_from(tmp_path: Path) -> None:
    folder = tmp_path / "install"
    shutil.copytree(INSTALL, folder)
    (registry,) = crossplane.read(folder / "registry.yaml")
    registry["data"] = {"modelplane": "registry.example.com/team/ml", "crossplane-contrib": "127.0.0.1:5000"}
    crossplane.write(folder / "registry.yaml", [registry])
    packages = {text(m, "kind"): text(m, "spec.package").rpartition(":")[0] for m in _rendered(folder)}
    assert {kind: package for kind, package in packages.items() if package} == {
        "Function": "registry.example.com/team/ml/modelplane/function-modelplane",
        "Configuration": "registry.example.com/team/ml/modelplane/configuration-modelplane",
        "Provider": "127.0.0.1:5000/crossplane-contrib/provider-kubernetes",
    }


def test_the_value_itself_is_not_applied() -> None:
    assert [m for m in _rendered(INSTALL) if m["kind"] == "ConfigMap"] == []


COSTLY: tuple[tuple[str, Manifest, str], ...] = (
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}}, "each of 4 replicas downloads the weights again"),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}, "modelCache": {"size": "9Gi"}}, "each of 4 replicas"),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}, "modelCache": {"type": "PVC"}}, ""),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}, "modelCache": {"name": "kept"}}, ""),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}, "modelCache": {"claimName": "mine"}}, ""),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 4}}, "modelCache": {"type": "pvc"}}, ""),
    ("ModelDeployment", {"modelCache": {"type": "EmptyDir"}}, "every pod start downloads the weights again"),
    ("ModelDeployment", {"modelCache": {"type": "emptyDir"}}, "every pod start downloads the weights again"),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 2}}, "modelCache": {"type": "EmptyDir"}}, "of 2 replicas"),
    ("ModelDeployment", {"scaling": {"fixed": {"replicas": 1}}}, ""),
    ("ModelDeployment", {}, ""),
    ("ClusterModel", {"source": "HuggingFace", "huggingFace": {"repo": "o/m"}}, "spec.resources.disk: is not set"),
    ("ClusterModel", {"source": "HuggingFace", "huggingFace": {"repo": "o/m"}, "resources": {"disk": "9Gi"}}, ""),
    ("Model", {"source": "HuggingFace", "huggingFace": {"repo": "o/m"}, "resources": {"vram": "9Gi"}}, ""),
    ("Model", {"source": "URI", "uri": {"uri": "s3://b/m"}}, "spec.resources.disk: is not set"),
    ("Model", {"source": "PVC", "pvc": {"claimName": "c"}}, ""),
    ("Model", {"source": "OCI", "oci": {"image": "r.example.com/o/m:1"}}, ""),
)


@pytest.mark.parametrize(("kind", "spec", "warning"), COSTLY)
def test_costly_storage_is_warned_of(kind: str, spec: Manifest, warning: str, tmp_path: Path) -> None:
    """The policy's own expressions, as rules of the schema: only an API server runs policies."""
    path = INSTALL.parent / "apis" / f"{kind.lower()}s" / "definition.yaml"
    (definition,) = crossplane.read(path)
    schema = listing(definition, "spec.versions")[0]
    rules: list[JSON] = [_as_rule(f"{kind.lower()}s")]
    mapping(schema, "schema.openAPIV3Schema.properties.spec")["x-kubernetes-validations"] = rules
    schemas = crossplane.write(tmp_path / "schemas.yaml", [definition])
    filled: Manifest = {"modelRef": {"name": "m"}} if kind == "ModelDeployment" else MODEL
    metadata: Manifest = {"name": "m"} if kind == "ClusterModel" else {"name": "m", "namespace": "team"}
    manifest: Manifest = {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": {**filled, **spec}}
    faults = crossplane.validate(schemas, [manifest], tmp_path)
    assert [warning in fault for fault in faults] == [True] * bool(warning), faults


def _as_rule(resource: str) -> Manifest:
    """Return the policy on a resource as a rule for its `spec`; conditions on metadata are left out."""
    policies = crossplane.read(INSTALL / "cost-warnings.yaml")[::2]
    policy = next(p for p in policies if resource in str(mapping(p, "spec.matchConstraints")))
    (validation,) = listing(policy, "spec.validations")

    def inline(expression: str) -> str:
        for variable in listing(policy, "spec.variables"):
            expression = expression.replace(f"variables.{text(variable, 'name')}", f"({text(variable, 'expression')})")
        return expression.replace("object.spec", "self")

    conditions = [text(c, "expression") for c in listing(policy, "spec.matchConditions")]
    matches = " && ".join(f"({c})" for c in conditions if "metadata" not in c) or "true"
    rule: Manifest = {"rule": f"!({inline(matches)}) || ({inline(text(validation, 'expression'))})"}
    said = {k: inline(str(v)) if k == "messageExpression" else v for k, v in validation.items() if k != "expression"}
    return {**rule, **said}
