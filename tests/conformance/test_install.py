"""`kubectl apply -k install/` applies what it should, every object valid by Crossplane's own schemas."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, text
from tests.conformance import crossplane
from tools import programs

pytestmark = pytest.mark.conformance
INSTALL = programs.ROOT / "install"
# Kubernetes' own, of which Crossplane's programs hold no schema.
BUILT_IN = {"Namespace"}


def _rendered(folder: Path) -> list[Manifest]:
    command = (str(programs.path("kubectl")), "kustomize", str(folder))
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [doc for doc in yaml.safe_load_all(said) if doc]


def test_everything_is_valid(schemas: Path, tmp_path: Path) -> None:
    manifests = [m for m in _rendered(INSTALL) if m["kind"] not in BUILT_IN]
    assert crossplane.validate(schemas, manifests, tmp_path) == []


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
