"""Ours is what one of our composers may have written, in any release; others of the same kind are another step's."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from function.contract import Call
from function.kube.manifests import Manifest, mapping, text
from function.remote.adoption import is_own, select_own
from function.remote.object_writer import object_name
from tests.support.remote_scene import at_rest, put
from tools.documents import document

GOLDEN = Path(__file__).parents[1] / "golden"
OBJECT = "kubernetes.m.crossplane.io/v1alpha1"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recognises_everything_that_is_composed(path: Path) -> None:
    for name, composed in mapping(document(path), "desired.resources").items():
        manifest = mapping({"of": composed}, "of.resource")
        assert is_own("", name, manifest), "its label says so"
        manifest["metadata"] = {}
        assert is_own("", name, manifest), "its name says so, where somebody took the label"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    name: str
    version: str
    kind: str
    manager: str | None
    want: bool


CASES = (
    Case("labelled", "under a name that another release gave it", "odd", OBJECT, "Object", "modelplane", True),
    Case("other-version", "a later provider's", "odd", "kubernetes.m.crossplane.io/v1", "Object", "modelplane", True),
    Case("unlabelled", "known by its name", "job-x", OBJECT, "Object", None, True),
    Case("of-a-cache", "known by its name behind an environment's", "east/job-x", OBJECT, "Object", None, True),
    Case("odd", "nothing says that it is ours", "odd", OBJECT, "Object", None, False),
    Case("prefix-only", "a prefix alone is no name of ours", "job-", OBJECT, "Object", None, False),
    Case("somebody-else", "another manager's, whatever its name", "job-x", OBJECT, "Object", "helm", False),
    Case("other-kind", "a kind that we never compose", "namespace", "v1", "Namespace", "modelplane", False),
    Case("other-group", "an Object of another provider", "job-x", "example.org/v1", "Object", "modelplane", False),
)


def _manifest(case: Case) -> Manifest:
    labels: Manifest = {"app.kubernetes.io/managed-by": case.manager} if case.manager else {}
    return {"apiVersion": case.version, "kind": case.kind, "metadata": {"labels": labels}}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_ownership(case: Case) -> None:
    call = Call(xr={}, observed={case.name: _manifest(case)})
    assert bool(select_own(call).observed) is case.want, case.reason


def test_ignores_resources_desired_by_earlier_steps() -> None:
    observed = {"job-x": _manifest(CASES[0])}
    assert select_own(Call(xr={}, observed=observed, desired_by_earlier_steps=frozenset({"job-x"}))).observed == {}


def test_keeps_relabelled_objects() -> None:
    """Its name is a hash of the composite and of the composed resource; a service would go with the label."""
    serving = at_rest("model-cache")
    before = serving.outcome().composed
    for manifest in serving.observed.values():
        put(manifest, "metadata.labels", {"app.kubernetes.io/managed-by": "helm"})
    serving.answers.clear()
    objects = {key for key, item in before.items() if text(item.manifest, "kind") == "Object"}
    assert objects <= serving.outcome().composed.keys()


def test_recognises_relabelled_object_of_cache_by_name() -> None:
    named: Manifest = {
        "name": object_name("cache", "job-x", "east"),
        "labels": {"app.kubernetes.io/managed-by": "helm"},
    }
    relabelled: Manifest = {"apiVersion": OBJECT, "kind": "Object", "metadata": named}
    assert is_own("cache", "east/job-x", relabelled)
    assert not is_own("cache", "west/job-x", relabelled)
    assert not is_own("other", "east/job-x", relabelled)
