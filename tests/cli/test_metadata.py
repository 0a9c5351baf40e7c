"""`validate` reports fields outside `spec` that Kubernetes does not know, which the API server drops silently."""

import pytest
import yaml

from function.kube.manifests import JSON, Manifest
from function.kube.names import VERSION
from tests.cli.process import run
from tests.cli.test_validate import GOOD

OBJECT_META: Manifest = {
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 0,
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": ["example.org/hold"],
    "generateName": "model-",
    "generation": 1,
    "managedFields": [],
    "ownerReferences": [],
    "resourceVersion": "1",
    "selfLink": "",
    "uid": "1",
}
KNOWN = sorted((*OBJECT_META, "annotations", "labels", "name", "namespace"))
SPEC: Manifest = {"spec": GOOD["spec"]}
FAULT = "error: standard input:{}: ClusterModel model: {}\n\n1 fault in 1 object\n"


def validate(manifest: Manifest) -> tuple[int, str]:
    done = run("validate", "-", stdin=yaml.safe_dump(manifest, sort_keys=False))
    assert done.stderr == ""
    return done.returncode, done.stdout


def with_metadata(**metadata: JSON) -> Manifest:
    return {"apiVersion": VERSION, "kind": "ClusterModel", "metadata": {"name": "model", **metadata}, **SPEC}


def test_accepts_what_the_control_plane_returns() -> None:
    texts: Manifest = {"example.org/tier": "prod"}
    manifest = with_metadata(**OBJECT_META, labels=texts, annotations=texts)
    assert validate({**manifest, "status": {}}) == (0, "1 object valid\n")


@pytest.mark.parametrize(
    ("metadata", "line", "want"),
    [
        ({"lables": {"a": "b"}}, 5, "metadata.lables: is not a field; did you mean labels?"),
        ({"zone": "a"}, 5, f"metadata.zone: is not a field; known are {', '.join(KNOWN)}"),
        (
            {"annotations": {"a": "b", "example.org/a": 1}},
            7,
            "metadata.annotations[example.org/a]: 1 is not allowed; must be text, in quotes",
        ),
        ({"annotations": {"a": None}}, 6, "metadata.annotations[a]: null is not allowed; must be text"),
        ({"annotations": "a"}, 5, 'metadata.annotations: "a" is not allowed; must be a map'),
        ({"labels": {"a": 1}}, 6, "metadata.labels[a]: 1 is not allowed; must be text, in quotes"),
    ],
)
def test_reports_metadata(metadata: Manifest, line: int, want: str) -> None:
    assert validate(with_metadata(**metadata)) == (1, FAULT.format(line, want))


@pytest.mark.parametrize(
    ("field", "want"),
    [
        ("sepc", "sepc: is not a field; did you mean spec?"),
        ("labels", "labels: is not a field; known are apiVersion, kind, metadata, spec, status"),
    ],
)
def test_reports_a_field_beside_spec(field: str, want: str) -> None:
    manifest: Manifest = {"apiVersion": VERSION, "kind": "ClusterModel", "metadata": {"name": "model"}, field: {}}
    assert validate({**manifest, **SPEC}) == (1, FAULT.format(5, want))


def test_reports_a_misspelt_spec() -> None:
    manifest: Manifest = {"apiVersion": VERSION, "kind": "ClusterModel", "metadata": {"name": "model"}, "sepc": {}}
    at = "error: standard input:{}: ClusterModel model: {}\n"
    missing = at.format(1, "spec: null is not allowed; must be a block of fields")
    source = at.format(1, "spec.huggingFace: is required, as source is HuggingFace")
    misspelt = at.format(5, "sepc: is not a field; did you mean spec?")
    assert validate(manifest) == (1, f"{missing}{source}{misspelt}\n3 faults in 1 object\n")


def test_leaves_other_kinds_alone() -> None:
    """The fields of Kubernetes' own kinds and of Crossplane's are not known here."""
    config: Manifest = {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": "platform", "zone": "a", "annotations": {"a": 1}},
        "data": {},
    }
    assert validate(config) == (0, "1 object valid\n")
