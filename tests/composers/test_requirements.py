"""Required resources have three states: not fetched yet, missing, and found."""

from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from tests.support.plane import call, only, plane, request_of

STORY = "kimi-k2-two-nodes"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind, the required resource that is removed, and the reason for each state."""

    id: str
    reason: str
    kind: str
    requirement: str
    condition: str
    none: str


CASES = (
    Case(
        id="deployment-model",
        reason="a model that is not fetched yet does not count as missing",
        kind="ModelDeployment",
        requirement="model",
        condition="ModelResolved",
        none="ModelNotFound",
    ),
    Case(
        id="placement-model",
        reason="the placement does not treat a model that is not fetched yet as missing",
        kind="ModelPlacement",
        requirement="model",
        condition="ReferencesResolved",
        none="ModelNotFound",
    ),
    Case(
        id="placement-environment",
        reason="an environment that is not fetched yet does not count as missing",
        kind="ModelPlacement",
        requirement="environment",
        condition="ReferencesResolved",
        none="EnvironmentNotFound",
    ),
)


def _reason(response: fnv1.RunFunctionResponse, type_: str) -> tuple[int, str]:
    (found,) = [c for c in response.conditions if c.type == type_]
    return found.status, found.reason


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_three_states(case: Case) -> None:
    control = plane(STORY)
    request = request_of(control, only(control, case.kind))
    answered = call(request)
    del request.required_resources[case.requirement].items[:]
    none = call(request)
    del request.required_resources[case.requirement]
    pending = call(request)
    assert _reason(answered, case.condition)[0] == fnv1.STATUS_CONDITION_TRUE, case.reason
    assert _reason(none, case.condition) == (fnv1.STATUS_CONDITION_FALSE, case.none), case.reason
    assert _reason(pending, case.condition) == (fnv1.STATUS_CONDITION_UNKNOWN, "Resolving"), case.reason
    for response in (none, pending):
        assert set(response.desired.resources) == set(answered.desired.resources), case.reason
        assert response.requirements == answered.requirements, "the requirements do not depend on the fetched resources"
        assert not [r for r in response.results if r.severity == fnv1.SEVERITY_FATAL], case.reason


def test_deployment_of_deleted_environment_requires_all_environments() -> None:
    """The deployment requires its environment by name. It requires all environments once this one is missing."""
    control = plane(STORY)
    request = request_of(control, only(control, "ModelDeployment"))
    kept = set(call(request).desired.resources)
    own = {"model", "own-placements", "resource-ProviderConfigUsage"}
    assert set(request.required_resources) == {*own, "environment-h200-east"}
    del request.required_resources["environment-h200-east"].items[:]
    for further in ("selected-environments", "environments"):
        response = call(request)
        assert _reason(response, "Scheduled") == (fnv1.STATUS_CONDITION_UNKNOWN, "Resolving")
        assert set(response.desired.resources) == kept
        asked = set(response.requirements.resources) - set(request.required_resources)
        assert further in asked
        for name in asked:
            request.required_resources[name].SetInParent()
    response = call(request)
    assert _reason(response, "Scheduled") == (fnv1.STATUS_CONDITION_FALSE, "NoEnvironments")
    usage = "provider-usage-h200-east"  # keeps the ClusterProviderConfig of the environment for the placement
    assert set(response.desired.resources) == {*kept, usage}


def test_lost_placement_of_a_deleted_environment_takes_four_calls() -> None:
    """Crossplane gives up after five calls; each stage of the search takes one, and the last one asks for no more."""
    control = plane(STORY)
    request = request_of(control, only(control, "ModelDeployment"))
    (key,) = [name for name in request.observed.resources if name.startswith("placement-")]
    placement = fnv1.Resource()
    placement.CopyFrom(request.observed.resources.pop(key))
    request.required_resources["own-placements"].ClearField("items")  # it has lost its labels
    seeded = {name: fnv1.Resources(items=answer.items) for name, answer in request.required_resources.items()}
    seeded |= {"selected-environments": fnv1.Resources(), "environment-h200-east": fnv1.Resources()}
    asked: list[dict[str, fnv1.ResourceSelector]] = []
    for _ in range(6):
        response = call(request)
        asked.append(dict(response.requirements.resources))
        answers = {name: fnv1.Resources(items=[placement] * name.startswith("placement-")) for name in asked[-1]}
        request.ClearField("required_resources")
        for name, answer in {**answers, **seeded}.items():
            request.required_resources[name].CopyFrom(answer)
        if asked[-2:-1] == asked[-1:]:
            break
    assert _reason(response, "Scheduled") == (fnv1.STATUS_CONDITION_FALSE, "NoEnvironments")
    assert len(asked) == 4, [sorted(names) for names in asked]
