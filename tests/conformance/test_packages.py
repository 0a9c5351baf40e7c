"""Both packages build, and hold what they should."""

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.conformance import crossplane
from tools import programs

pytestmark = pytest.mark.conformance


def _kinds(package: Path) -> list[str]:
    with tarfile.open(package) as image:
        layers = [image.extractfile(m) for m in image.getmembers() if m.name.endswith(".tar.gz")]
        for layer in (layer.read() for layer in layers if layer):
            with tarfile.open(fileobj=io.BytesIO(layer)) as files:
                found = files.extractfile("package.yaml")
                if found:
                    return sorted(m["kind"] for m in yaml.safe_load_all(found) if m)
    return []


def test_the_function_package_is_its_meta_and_its_input(tmp_path: Path) -> None:
    package = crossplane.build(programs.ROOT / "package", tmp_path / "function.xpkg")
    assert _kinds(package) == ["CustomResourceDefinition", "Function"]


def test_the_configuration_package_is_one_definition_and_one_composition_for_each_kind(tmp_path: Path) -> None:
    package = crossplane.build(programs.ROOT / "apis", tmp_path / "configuration.xpkg")
    expected = ["CompositeResourceDefinition"] * 7 + ["Composition"] * 7 + ["Configuration"]
    assert _kinds(package) == expected
