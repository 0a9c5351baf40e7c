"""Not answered, answered with none and answered are three different things."""

from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from tests.support.plane import call, only, plane, request_of

STORY = "kimi-k2-two-nodes"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind that serves, the requirement that is taken back, and what each state is called."""

    id: str
    reason: str
    kind: str
    requirement: str
    condition: str
    none: str


CASES = (
    Case(
        id="deployment-model",
        reason="a model that is not fetched yet is not a model that does not exist",
        kind="ModelDeployment",
        requirement="model",
        condition="ModelResolved",
        none="ModelNotFound",
    ),
    Case(
        id="placement-model",
        reason="the same for the placement",
        kind="ModelPlacement",
        requirement="model",
        condition="ReferencesResolved",
        none="ModelNotFound",
    ),
    Case(
        id="placement-environment",
        reason="an environment that is not fetched yet is not one that is gone",
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
        assert response.requirements == answered.requirements, "requirements never depend on an answer"
        assert not [r for r in response.results if r.severity == fnv1.SEVERITY_FATAL], case.reason


def test_deployment_of_deleted_environment_requires_all_environments() -> None:
    """What it uses is asked for by name; only an answer without it makes it look at every other."""
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
