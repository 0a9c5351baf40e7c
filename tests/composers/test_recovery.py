"""After an internal error, the resources, the status and the required resources are kept.

Requirements that differ from one call to the next are answered again each time: what failed with its answers succeeds
without them, and the composite flips for ever.
"""

import asyncio

import pytest

from function.contract import Call, Outcome
from function.runner import Runner
from tests.support.plane import call
from tests.test_cases import request_of
from tools.cases import NAMES, read_case


def _crash(_: Call) -> Outcome:
    raise ZeroDivisionError


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_recovery_keeps_requirements_and_status(name: str) -> None:
    request = request_of(read_case(name))
    recovered = asyncio.run(Runner(compose=_crash).RunFunction(request.SerializeToString(), None))
    assert recovered.requirements == call(request).requirements
    status = request.observed.composite.resource.fields["status"].struct_value
    kept = recovered.desired.composite.resource.fields["status"].struct_value
    assert {k: v for k, v in status.fields.items() if k != "conditions"} == dict(kept.fields)


def test_recovery_of_invalid_composite_requires_nothing_new() -> None:
    for kind in ("InferenceEnvironment", "ModelDeployment", "ModelPlacement", "ModelCache", "Model", "Other"):
        request = request_of({"xr": {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "spec": "odd"}})
        recovered = asyncio.run(Runner(compose=_crash).RunFunction(request.SerializeToString(), None))
        assert recovered.requirements == call(request).requirements
