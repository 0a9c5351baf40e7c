"""Readers of nested manifests return an empty value of their type for missing values and other types."""

from dataclasses import dataclass

import pytest

from function.kube import manifests
from function.kube.manifests import JSON, Manifest

OBJECT: Manifest = {
    "metadata": {"name": "gemma", "labels": {"tier": "production", "weight": 3}},
    "spec": {"replicas": 3, "paused": True, "args": ["--a", {"b": 1}, {"c": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    found: object
    want: object


CASES = [
    Case("get-nested", "a path leads through maps", manifests.get(OBJECT, "metadata.name"), "gemma"),
    Case("get-missing", "a missing key is None", manifests.get(OBJECT, "metadata.uid"), None),
    Case("get-through-scalar", "a scalar has no keys", manifests.get(OBJECT, "metadata.name.first"), None),
    Case("get-from-none", "nothing has no keys", manifests.get(None, "metadata"), None),
    Case("text", "a string is returned", manifests.text(OBJECT, "metadata.name"), "gemma"),
    Case("text-of-number", "a number is no text", manifests.text(OBJECT, "spec.replicas"), ""),
    Case("integer", "a whole number is returned", manifests.integer(OBJECT, "spec.replicas"), 3),
    Case("integer-default", "the default stands in", manifests.integer(OBJECT, "spec.nodes", 7), 7),
    Case("integer-of-bool", "true is not 1", manifests.integer(OBJECT, "spec.paused"), 0),
    Case("flag", "true is true", manifests.flag(OBJECT, "spec.paused"), True),
    Case("flag-of-number", "only true is true", manifests.flag(OBJECT, "spec.replicas"), False),
    Case("mapping", "a map is returned", manifests.mapping(OBJECT, "spec.nothing"), {}),
    Case("listing", "only maps are items", manifests.listing(OBJECT, "spec.args"), [{"b": 1}, {"c": 2}]),
    Case("listing-of-map", "a map is no list", manifests.listing(OBJECT, "metadata"), []),
    Case(
        "strings",
        "labels are strings; anything else is left out",
        manifests.strings(OBJECT, "metadata.labels"),
        {"tier": "production"},
    ),
    Case(
        "condition",
        "a condition is found by its type",
        manifests.condition(OBJECT, "Synced"),
        {"type": "Synced", "status": "False"},
    ),
    Case("condition-missing", "no such condition is an empty map", manifests.condition(OBJECT, "Healthy"), {}),
    Case("prune", "None is left out, empty is not", manifests.prune({"a": None, "b": "", "c": 0}), {"b": "", "c": 0}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_readers_return_empty_values_of_their_type(case: Case) -> None:
    assert case.found == case.want, case.reason


@pytest.mark.parametrize("odd", [None, 1, "text", True, [], [1], {"a": []}])
def test_readers_never_raise(odd: JSON) -> None:
    assert manifests.text(odd, "a.b") == ""
    assert manifests.integer(odd, "a.b") == 0
    assert manifests.flag(odd, "a.b") is False
    assert manifests.mapping(odd, "a.b") == {}
    assert manifests.listing(odd, "a.b") == []
    assert manifests.strings(odd, "a.b") == {}
    assert manifests.condition(odd, "Ready") == {}
