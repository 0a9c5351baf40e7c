"""What is read from files, and how objects are found and owned."""

from pathlib import Path

import pytest

from function.cli.inputs import load_inventory, read_files
from function.cli.options import Sources
from function.cli.store import Ref, Store, set_owner
from function.cli.validation import Item
from function.contract import Requirement
from function.kube.manifests import JSON, Manifest, get, text
from function.kube.names import VERSION
from tests.cli.conftest import example, find_manifest
from tests.cli.process import write

XR: Manifest = {"apiVersion": VERSION, "kind": "ModelDeployment", "metadata": {"name": "run", "namespace": "team"}}


def read(paths: list[str]) -> list[Manifest]:
    return [item.manifest for item in read_files(paths) if isinstance(item, Item)]


def test_reads_yaml_as_kubernetes_does(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    values = "when: 2026-01-01T00:00:00Z\nwhole: 2.0\nhalf: 0.5\n1: x\n"
    file.write_text(f"apiVersion: v1\nkind: A\n{values}---\n---\napiVersion: v1\nkind: B\n")
    first, second = read([str(file)])
    assert {**first} == {
        "apiVersion": "v1",
        "kind": "A",
        "when": "2026-01-01T00:00:00Z",
        "whole": 2,
        "half": 0.5,
        "1": "x",
    }
    assert isinstance(first["whole"], int)
    assert second == {"apiVersion": "v1", "kind": "B"}


def test_reads_items_of_a_list(tmp_path: Path) -> None:
    file = write(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [XR]})
    assert read([file]) == [XR]


def test_reads_folders_recursively(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/z.yml", "a.json", "c.txt"):
        (tmp_path / name).write_text(f'{{"apiVersion": "v1", "kind": "{name}"}}')
    assert [text(manifest, "kind") for manifest in read([str(tmp_path)])] == ["a.json", "b/z.yml"]


def test_sets_the_namespace_of_namespaced_kinds(tmp_path: Path) -> None:
    deployment, model = (find_manifest(example("gemma-one-gpu"), kind) for kind in ("ModelDeployment", "ClusterModel"))
    file = write(tmp_path, {**deployment, "metadata": {"name": "run"}}, model)
    assert load_inventory(Sources(files=(file,))).store.refs("ModelDeployment") == [
        Ref("ModelDeployment", "default", "run")
    ]
    store = load_inventory(Sources(files=(file,), namespace="team")).store
    assert store.refs("ModelDeployment", "ClusterModel") == [
        Ref("ClusterModel", "", "gemma-3-27b"),
        Ref("ModelDeployment", "team", "run"),
    ]


def test_answers_requirements_as_crossplane_does() -> None:
    store = Store([XR, {**XR, "metadata": {"name": "run", "namespace": "other"}}])
    every = store.find(Requirement(api_version=VERSION, kind="ModelDeployment"))
    one = store.find(Requirement(api_version=VERSION, kind="ModelDeployment", name="run", namespace="team"))
    none = store.find(Requirement(api_version=VERSION, kind="ModelDeployment", name="stop", namespace="team"))
    assert (len(every), [found.load() for found in one], none) == (2, [XR], ())


def test_applied_manifests_keep_identity_and_status() -> None:
    there: Manifest = {**XR, "metadata": {**XR["metadata"], "uid": "1"}, "status": {"replicas": 1}}  # type: ignore[dict-item]  # a map
    store = Store([there])
    store.lay_over({**XR, "spec": {"environments": 2}})
    found = store.get(Ref.of(XR))
    assert (get(found, "metadata.uid"), get(found, "status.replicas"), get(found, "spec.environments")) == ("1", 1, 2)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ("Load", {"signal": "Load"}, 8),
        ("Load", {"signal": "Fixed"}, 8),  # the field belongs to the autoscaler, and stays
        ("Load", {"signal": "Load", "fixed": {"replicas": 2}}, 2),
        ("Fixed", {"signal": "Load"}, None),  # the field belonged to the file
        ("Fixed", {"signal": "Fixed"}, None),
        ("Load", None, None),
    ],
)
def test_a_file_without_replicas_keeps_those_of_the_autoscaler(before: str, after: JSON, want: int | None) -> None:
    store = Store([{**XR, "spec": {"scaling": {"signal": before, "fixed": {"replicas": 8}}}}])
    store.lay_over({**XR, "spec": {"scaling": after} if after else {}})
    assert get(store[Ref.of(XR)], "spec.scaling.fixed.replicas") == want


def test_only_the_composite_owns_what_it_composed() -> None:
    placement: Manifest = {"apiVersion": VERSION, "kind": "ModelPlacement", "metadata": {"name": "p"}}
    by_hand: Manifest = {**placement, "metadata": {"name": "q", "namespace": "team"}}
    store = Store([XR, set_owner(XR, "placement-east", placement), by_hand])
    assert [text(m, "metadata.name") for m in store.owned(Ref.of(XR)).values()] == ["p"]
    store.drop(Ref.of(XR))
    assert store.refs("ModelPlacement") == [Ref("ModelPlacement", "team", "q")]
