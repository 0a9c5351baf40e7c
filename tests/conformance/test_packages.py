"""Both packages build, and hold what they should."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, mapping
from tests.conformance import crossplane
from tools import package_roots, programs

pytestmark = pytest.mark.conformance
REPOSITORY = "https://github.com/example/function-modelplane"


def _members(package: Path) -> dict[str, bytes]:
    with tarfile.open(package) as image:
        return {m.name: file.read() for m in image.getmembers() if (file := image.extractfile(m))}


def _manifests(package: Path) -> list[Manifest]:
    for name, content in _members(package).items():
        if name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as files:
                if "package.yaml" in files.getnames() and (found := files.extractfile("package.yaml")):
                    return [m for m in yaml.safe_load_all(found) if m]
    return []


def _kinds(package: Path) -> list[str]:
    return sorted(str(m["kind"]) for m in _manifests(package))


def _build(folder: str, target: Path, image: Path | None = None) -> Path:
    root = package_roots.write(programs.ROOT / folder, target / folder, REPOSITORY)
    return crossplane.build(root, target / f"{folder}.xpkg", image)


def test_the_function_package_is_its_meta_and_its_input(tmp_path: Path) -> None:
    assert _kinds(_build("package", tmp_path)) == ["CustomResourceDefinition", "Function"]


def test_the_configuration_package_is_one_definition_and_one_composition_for_each_kind(tmp_path: Path) -> None:
    expected = ["CompositeResourceDefinition"] * 7 + ["Composition"] * 7 + ["Configuration"]
    assert _kinds(_build("apis", tmp_path)) == expected


@pytest.mark.parametrize("folder", ["package", "apis"])
def test_package_has_every_annotation_of_the_package_specification(folder: str, tmp_path: Path) -> None:
    (meta,) = (m for m in _manifests(_build(folder, tmp_path)) if str(m["apiVersion"]).startswith("meta."))
    found = mapping(meta, "metadata.annotations")
    module = programs.module_dir("core", "github.com/crossplane/crossplane/v2")
    specification = (module / "contributing/specifications/xpkg.md").read_text()
    _, _, listed = specification.partition("### Object Annotations")
    keys = {line.partition("`")[2].partition("`")[0] for line in listed.splitlines() if line.startswith("- `meta.")}
    assert len(keys) == 5
    assert set(found) == keys
    assert all(str(value).strip() for value in found.values())


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_function_package_has_the_architecture_of_its_image(architecture: str, tmp_path: Path) -> None:
    """`crossplane xpkg push` reads it there for the index of several packages."""
    package = _build("package", tmp_path, _image(tmp_path / "image.tar", architecture))
    members = _members(package)
    (manifest,) = json.loads(members["manifest.json"])
    config = json.loads(members[manifest["Config"]])
    assert (config["os"], config["architecture"]) == ("linux", architecture)


def _image(target: Path, architecture: str) -> Path:
    """Write a runtime image without files, as `docker save` would."""
    layer = io.BytesIO()
    tarfile.open(fileobj=layer, mode="w").close()
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config = json.dumps({"os": "linux", "architecture": architecture, "config": {}, "rootfs": rootfs}).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["runtime:v1"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(target, "w") as archive:
        for name, said in (("c.json", config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(said)
            archive.addfile(member, io.BytesIO(said))
    return target
