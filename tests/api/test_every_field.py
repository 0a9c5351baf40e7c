"""A problem of any field of any kind has its path, the value found and what is allowed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest
from tests.api.fields import KINDS, Field, Kind, as_json, is_quantity, put, sample, values, walk, without

WRONG_TYPES: dict[str, JSON] = {
    "string": 7,
    "integer": "two",
    "number": "fast",
    "boolean": "yes",
    "array": "a list",
    "object": "a block",
}


@dataclass(frozen=True)
class Case:
    kind: Kind
    field: Field
    fault: str
    found: JSON

    @property
    def id(self) -> str:
        """The kind, the field and what is wrong with it."""
        return f"{self.kind.name}-{self.field.path}-{self.fault}"


def _faults(field: Field) -> Iterator[tuple[str, JSON]]:
    schema = field.schema
    if is_quantity(schema):
        yield "not-a-quantity", "80 gigs"
        yield "wrong-type", ["80Gi"]
        return
    yield "wrong-type", WRONG_TYPES[str(schema["type"])]
    if values(schema):
        yield "unknown-value", "no-such-value"
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if isinstance(minimum, int | float) and isinstance(maximum, int | float):
        yield "too-little", minimum - 1
        yield "too-much", maximum + 1
    most = schema.get("maxItems")
    if isinstance(most, int):
        yield "too-many", [sample(schema["items"])] * (most + 1)  # type: ignore[arg-type]  # a schema


def _cases() -> Iterator[Case]:
    for kind in KINDS:
        for field in walk(kind.schema, (kind.root,), required=False):
            if field.path != "input":  # Crossplane hands over a map, whatever else is wrong
                yield from (Case(kind, field, fault, found) for fault, found in _faults(field))


CASES = tuple(_cases())
REQUIRED = tuple(
    (kind, field) for kind in KINDS for field in walk(kind.schema, (kind.root,), required=False) if field.required
)
FULL: dict[str, Manifest] = {kind.name: kind.manifest(sample(kind.schema)) for kind in KINDS}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_problem_has_the_field_the_value_and_what_is_allowed(case: Case) -> None:
    problems = case.kind.problems(put(FULL[case.kind.name], case.field.steps, case.found))
    named = [p for p in problems if p.path == case.field.path]
    assert len(named) == 1, problems
    shown = as_json(case.found)
    assert shown[:60] in named[0].message
    assert "must be" in named[0].message


@pytest.mark.parametrize(("kind", "field"), REQUIRED, ids=lambda v: getattr(v, "path", None) or v.name)
def test_reports_a_missing_field(kind: Kind, field: Field) -> None:
    problems = kind.problems(without(FULL[kind.name], field.steps))
    assert [p.message for p in problems if p.path == field.path] == ["is required"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_problems_are_sorted_and_unique(kind: Kind) -> None:
    manifest = FULL[kind.name]
    for case in CASES:
        if case.kind is kind and case.fault == "wrong-type" and len(case.field.steps) == 3:
            manifest = put(manifest, case.field.steps, case.found)
    problems = kind.problems(manifest)
    assert list(problems) == sorted(set(problems))
    assert len({p.path for p in problems}) == len(problems)
