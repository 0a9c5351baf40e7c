"""What both packages say about themselves comes from one place (tools/package_roots.py)."""

import re
import tomllib
from pathlib import Path

import pytest

from function.kube.manifests import mapping, text
from tools import package_roots
from tools.documents import document

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
