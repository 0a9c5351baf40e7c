"""Ours is what one of our composers may have written, in any release; others of the same kind are another step's."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.exchange import Call
from function.kube.manifests import Manifest, mapping
from function.lifecycle.ownership import is_ours, own

GOLDEN = Path(__file__).parents[1] / "golden"
OBJECT = "kubernetes.m.crossplane.io/v1alpha1"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_everything_that_is_composed_is_ours(path: Path) -> None:
    for name, composed in mapping(yaml.safe_load(path.read_text("utf-8")), "desired.resources").items():
        manifest = mapping({"of": composed}, "of.resource")
        assert is_ours(name, manifest), "its label says so"
        manifest["metadata"] = {}
        assert is_ours(name, manifest), "its name says so, where somebody took the label"


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
    assert bool(own(call).observed) is case.want, case.reason


def test_what_an_earlier_step_desires_is_its_own() -> None:
    observed = {"job-x": _manifest(CASES[0])}
    assert own(Call(xr={}, observed=observed, foreign=frozenset({"job-x"}))).observed == {}
