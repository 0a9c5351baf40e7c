"""Label selectors select as apimachinery does, print as in kubectl, and name requirements that are not met."""

from dataclasses import dataclass

import pytest

from function.kube.selectors import Operator, Selector, SelectorRequirement

PRODUCTION = {"tier": "production", "region": "us-east"}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    requirement: SelectorRequirement
    admits: bool
    text: str


def _requirement(operator: Operator, *values: str, key: str = "tier") -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=values)


CASES = [
    Case("in", "one of the values is enough", _requirement(Operator.IN, "a", "production"), True,
         "tier in (a,production)"),
    Case("in-one", "one value reads as equality", _requirement(Operator.IN, "staging"), False,
         "tier=staging"),
    Case("in-absent", "no label, no value", _requirement(Operator.IN, "a", key="zone"), False, "zone=a"),
    Case("not-in", "a listed value is refused", _requirement(Operator.NOT_IN, "production"), False,
         "tier notin (production)"),
    Case("not-in-absent", "NotIn admits an object without the label",
         _requirement(Operator.NOT_IN, "a", key="zone"), True, "zone notin (a)"),
    Case("exists", "any value will do", _requirement(Operator.EXISTS), True, "tier"),
    Case("exists-absent", "no label", _requirement(Operator.EXISTS, key="zone"), False, "zone"),
    Case("absent", "the label must not be there", _requirement(Operator.DOES_NOT_EXIST), False, "!tier"),
    Case("absent-absent", "DoesNotExist admits an object without the label",
         _requirement(Operator.DOES_NOT_EXIST, key="zone"), True, "!zone"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_requirement_admits_labels_as_kubernetes_does(case: Case) -> None:
    assert case.requirement.admits(PRODUCTION) is case.admits, case.reason
    assert str(case.requirement) == case.text


def test_finds_each_requirement_that_is_not_met() -> None:
    refusing = _requirement(Operator.IN, "staging")
    selector = Selector((_requirement(Operator.EXISTS), refusing))
    assert selector.find_unmet(PRODUCTION) == (refusing,)


def test_empty_selector_admits_everything() -> None:
    assert Selector().find_unmet({}) == ()
    assert Selector().find_unmet(PRODUCTION) == ()


def test_a_selector_prints_as_kubectl_writes_it() -> None:
    requirements = (_requirement(Operator.IN, "a"), _requirement(Operator.EXISTS, key="gpu"))
    assert str(Selector(requirements=requirements)) == "tier=a,gpu"
