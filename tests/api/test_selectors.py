"""Label selectors are refused where apimachinery refuses them, and else select the same objects."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.api.problems import validate
from function.api.values import parse_selector
from function.domain.model import Problem
from function.kube.manifests import JSON, Manifest, mapping, strings
from function.kube.selectors import Selector
from function.schemas import EnvironmentSelector

ORACLE = json.loads(Path(__file__).parent.parent.joinpath("oracle", "selectors.json").read_text("utf-8"))


def _read(value: JSON) -> tuple[Selector, tuple[Problem, ...]]:
    selector, problems = validate(EnvironmentSelector, value, "selector")
    return parse_selector(selector, problems), problems.list()


def _row_id(row: Manifest) -> str:
    return f"{json.dumps(row['selector'])}-{json.dumps(row['labels'])}"


@pytest.mark.parametrize("row", ORACLE, ids=_row_id)
def test_agrees_with_apimachinery(row: Manifest) -> None:
    selector, problems = _read(mapping(row, "selector"))
    if row["matches"] is None:
        assert problems
    else:
        assert problems == ()
        assert (selector.find_unmet(strings(row, "labels")) == ()) is row["matches"]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    value: JSON
    want: tuple[Problem, ...]


def _expression(**fields: JSON) -> JSON:
    return {"matchExpressions": [fields]}


A_KEY = "must be the key of a label, [prefix/]name"
A_VALUE = "must be the value of a label, at most 63 letters, digits, dots, dashes and underscores"
TOO_MANY = json.dumps([{"key": "a"}] * 33)[:60] + "…"
FIRST = "selector.matchExpressions[0]"
CASES = [
    Case("key", "keys are [prefix/]name", {"matchLabels": {"a b": "c"}},
         (Problem("selector.matchLabels.a b", f'"a b" is not allowed; {A_KEY}'),)),
    Case("long-key", "a name has at most 63 characters", {"matchLabels": {"a" * 64: "c"}},
         (Problem(f"selector.matchLabels.{'a' * 64}", f'"{"a" * 59}… is not allowed; {A_KEY}'),)),
    Case("value", "values of labels have a limited length and form", {"matchLabels": {"a": "b c"}},
         (Problem("selector.matchLabels.a", f'"b c" is not allowed; {A_VALUE}'),)),
    Case("operator", "the message names the nearest operator", _expression(key="a", operator="in", values=["b"]),
         (Problem(f"{FIRST}.operator",
                  '"in" is not known; must be one of In, NotIn, Exists, DoesNotExist (did you mean In?)'),)),
    Case("in-without-values", "In requires values", _expression(key="a", operator="In"),
         (Problem(f"{FIRST}.values", "null is not allowed; must be at least one value for operator In"),)),
    Case("exists-with-values", "Exists takes no values",
         _expression(key="a", operator="Exists", values=["b"]),
         (Problem(f"{FIRST}.values", '["b"] is not allowed; must be left out for operator Exists'),)),
    Case("values", "every value is checked", _expression(key="a", operator="In", values=["b", "c d"]),
         (Problem(f"{FIRST}.values[1]", f'"c d" is not allowed; {A_VALUE}'),)),
    Case("wrong-values", "values of the wrong type are reported only once",
         _expression(key="a", operator="In", values="b"),
         (Problem(f"{FIRST}.values", '"b" is not allowed; must be a list, such as ["b"]'),)),
    Case("empty-key", "a key has at least one character", _expression(key="", operator="Exists"),
         (Problem(f"{FIRST}.key", '"" is not allowed; must be not empty'),)),
    Case("too-many", "pydantic does not look into a list that is too long", {"matchExpressions": [{"key": "a"}] * 33},
         (Problem("selector.matchExpressions", f"{TOO_MANY} is not allowed; must be at most 32 long"),)),
    Case("no-key", "a key is required", _expression(operator="Exists"), (Problem(f"{FIRST}.key", "is required"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_reports_every_problem_of_a_selector(case: Case) -> None:
    assert _read(case.value)[1] == case.want, case.reason


def test_order_and_repetition_make_no_difference() -> None:
    one, _ = _read({"matchLabels": {"b": "1", "a": "2"}})
    other, _ = _read(
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["2", "2"]},
                {"key": "b", "operator": "In", "values": ["1"]},
            ],
            "matchLabels": {"a": "2"},
        }
    )
    assert one == other
