"""What both packages say about themselves comes from one place (tools/package_roots.py)."""

import re
import tomllib
from pathlib import Path

import pytest

from function.kube.manifests import listing, mapping, text
from tools import package_roots
from tools.documents import document, documents

ROOT = package_roots.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("folder", ["package", "apis"])
def test_folder_is_written_with_annotations_and_nothing_else_changes(folder: str, tmp_path: Path) -> None:
    before = document(ROOT / folder / "crossplane.yaml")
    target = package_roots.write(ROOT / folder, tmp_path / folder, "https://example.com/source")
    after = document(target / "crossplane.yaml")
    annotations = mapping(after, "metadata.annotations")
    assert annotations.pop("meta.crossplane.io/source") == "https://example.com/source"
    assert annotations.pop("meta.crossplane.io/license") == PROJECT["license"] == "Apache-2.0"
    assert annotations.pop("meta.crossplane.io/maintainer") == PROJECT["maintainers"][0]["name"]
    assert text({"readme": annotations.pop("meta.crossplane.io/readme")}, "readme").startswith("# function-modelplane")
    assert after == before
    others = sorted(path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.yaml"))
    assert sorted(path.relative_to(target) for path in target.rglob("*.yaml")) == others


@pytest.mark.parametrize("folder", ["package", "apis"])
def test_description_is_one_sentence(folder: str) -> None:
    key = package_roots.PREFIX + "description"
    annotations = mapping(document(ROOT / folder / "crossplane.yaml"), "metadata.annotations")
    assert set(annotations) == {key}  # all others are in one place
    assert re.fullmatch(r"[A-Z][^.]+[.]", str(annotations[key]))


def test_source_is_only_named_where_it_is_known(tmp_path: Path) -> None:
    target = package_roots.write(ROOT / "package", tmp_path / "package")
    assert "meta.crossplane.io/source" not in (target / "crossplane.yaml").read_text()


def test_introduction_has_no_picture_and_no_link_into_the_tree() -> None:
    readme = """# Name

Places [models](https://example.com/models) as [said](docs/a.md#b).

![A picture](docs/a.svg)

- Nothing fails.

## Try it

More.
"""
    expected = "# Name\n\nPlaces [models](https://example.com/models) as said.\n\n- Nothing fails.\n"
    assert package_roots.introduction(readme) == expected


def test_a_second_writing_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    target = package_roots.write(ROOT / "package", tmp_path / "package")
    (target / "left.yaml").touch()
    package_roots.write(ROOT / "package", target)
    assert not (target / "left.yaml").exists()


RELEASE = package_roots.Release(
    registry="registry.example.com/team", provider_registry="mirror.example.com", tag=f"v{PROJECT['version']}"
)
FUNCTION, PROVIDER = "team-modelplane-function-modelplane", "crossplane-contrib-provider-kubernetes"


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("registry.example.com/modelplane/function-modelplane", "modelplane-function-modelplane"),
        ("127.0.0.1:5000/modelplane/function-modelplane", "modelplane-function-modelplane"),
        (RELEASE.function, FUNCTION),
        (RELEASE.provider, PROVIDER),
        ("registry.example.com/a.b/c_d", "a-b-cd"),
    ],
)
def test_names_a_dependency_as_crossplane_does(repository: str, name: str) -> None:
    assert package_roots.name_dependency(repository) == name


def test_bundle_depends_on_the_function_of_its_release_and_calls_it(tmp_path: Path) -> None:
    target = package_roots.write_bundle(tmp_path / "bundle", RELEASE)
    meta = document(target / "crossplane.yaml")
    assert mapping(meta, "spec") == {
        **mapping(document(ROOT / "apis" / "crossplane.yaml"), "spec"),
        "dependsOn": [
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Function",
                "package": "registry.example.com/team/modelplane/function-modelplane",
                "version": f"=v{PROJECT['version']}",
            },
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Provider",
                "package": "mirror.example.com/crossplane-contrib/provider-kubernetes",
                "version": ">=v1.2.0, <v2.0.0",
            },
        ],
    }
    for path in sorted((ROOT / "apis").glob("*/*.yaml")):
        source, written = document(path), document(target / path.relative_to(ROOT / "apis"))
        for step in listing(source, "spec.pipeline"):
            mapping(step, "functionRef")["name"] = FUNCTION
        assert written == source
    assert document(target / "activation.yaml")["kind"] == "ManagedResourceActivationPolicy"


def test_settings_are_what_the_kustomization_applies_besides_packages() -> None:
    """Under the names of dependencies, and without what the bundle contains."""
    settings = package_roots.list_settings(RELEASE)
    packages = [(m["kind"], text(m, "metadata.name"), m["spec"]) for m in settings[-2:]]
    assert packages == [
        ("Function", FUNCTION, {"runtimeConfigRef": {"name": "function-modelplane"}}),
        ("Provider", PROVIDER, {"runtimeConfigRef": {"name": "provider-kubernetes"}}),
    ]
    names = document(ROOT / "install" / "kustomization.yaml")["resources"]
    assert isinstance(names, list)
    applied = [m for name in names for m in documents(ROOT / "install" / str(name))]
    left = [m["kind"] for m in applied if m not in settings]
    assert left == ["ConfigMap", "Provider", "ManagedResourceActivationPolicy", "Function", "Configuration"]
    assert all(manifest in applied for manifest in settings[:-2])


def test_the_provider_of_the_bundle_is_one_that_was_tested() -> None:
    provider, _ = documents(ROOT / "install" / "provider.yaml")
    major, minor, _ = text(provider, "spec.package").rpartition(":v")[2].split(".")
    assert f">=v{major}.{minor}.0, <v{int(major) + 1}.0.0" == package_roots.PROVIDER_VERSIONS
