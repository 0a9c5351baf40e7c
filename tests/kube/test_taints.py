"""Tolerations admit taints as in the Kubernetes documentation: "Taints and Tolerations", Concepts."""

from dataclasses import dataclass

import pytest

from function.kube.selectors import Taint, Toleration, find_untolerated

TAINT = Taint(key="team", value="a", effect="NoSchedule", reason="reserved")


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    toleration: Toleration
    admits: bool


CASES = (
    Case("equal", "key, value and effect are the same", Toleration(key="team", value="a", effect="NoSchedule"), True),
    Case("other-value", "Equal compares the value", Toleration(key="team", value="b"), False),
    Case("no-value", "a value that is left out is the empty value", Toleration(key="team"), False),
    Case("exists", "Exists takes every value", Toleration(key="team", any_value=True), True),
    Case("other-key", "the key is another one", Toleration(key="group", any_value=True), False),
    Case("every-key", "an empty key with Exists tolerates everything", Toleration(any_value=True), True),
    Case("every-effect", "an empty effect matches every effect", Toleration(key="team", value="a"), True),
    Case("other-effect", "the effect is another one", Toleration(any_value=True, effect="NoExecute"), False),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_toleration_admits_taint_as_in_kubernetes(case: Case) -> None:
    assert case.toleration.admits(TAINT) is case.admits, case.reason


def test_taint_needs_one_toleration_and_only_asked_effects_count() -> None:
    repair = Taint(key="repair", effect="NoExecute")
    assert find_untolerated((TAINT, repair), (Toleration(key="x"), Toleration(key="team", value="a"))) == (repair,)
    assert find_untolerated((TAINT, repair), (), {"NoExecute"}) == (repair,)


def test_prints_as_in_kubectl_with_its_reason() -> None:
    assert (str(TAINT), TAINT.describe()) == ("team=a:NoSchedule", "team=a:NoSchedule (reserved)")
    repair = Taint(key="repair", effect="NoExecute")
    assert (str(repair), repair.describe()) == ("repair:NoExecute", "repair:NoExecute")
