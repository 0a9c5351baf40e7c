"""One YAML file for each case: `cases/<kind>/<case>.yaml` goes in, and the whole answer must come out.

A case holds `reason` (why it exists), `xr`, and where they count `observed` ({name: manifest}), `required`
({requirement: [manifests]}; a name that is absent is not answered yet), `input`, `context`, and `now` in seconds since
1970. The answer is in `golden/<kind>/<case>.yaml`. A case that differs little from another names it with `from`, and
has only the `changes` of the request and, with `answer`, of the answer (tools/cases.py).

After a change that is meant, run `pytest tests/test_cases.py --snapshot-update`, correct `answer` in the cases that
have one, and read the difference. The scripts of a download stand as `<download.py>` and `<prepare.py>` in both. Cases
and answers have a folder each because the update deletes what it does not know. An answer without a case fails
`pytest tests`, though not a run of this file alone.
"""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct
from google.protobuf.json_format import MessageToDict
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from function.runner import Runner
from function.weights.job import SCRIPT_FILES
from tools.cases import GOLDEN, NAMES, has_golden, read_answer, read_case

SCRIPT_NAMES = {script: f"<{name}>" for name, script in SCRIPT_FILES.items()}


class Answers(SingleFileSnapshotExtension):
    """Writes `<kind>/<case>` as YAML under `golden`."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: object, **_: object) -> str:
        """Return the response as a person reads it."""
        return yaml.safe_dump(_replaced(data, SCRIPT_NAMES), width=110, allow_unicode=True)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, **_: object) -> str:
        """Return `<case>`."""
        return _case_of(test_location).name

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return `golden/<kind>`."""
        return str(GOLDEN / _case_of(test_location).parent)

    @classmethod
    def discovery_dirname(cls, **_: object) -> str:
        """Return where answers without a case are looked for."""
        return str(GOLDEN)


def _case_of(test_location: PyTestLocation) -> Path:
    # pytest's own item type has no callspec; every item here is parametrized.
    return Path(getattr(test_location.item, "callspec").id)  # noqa: B009  # mypy knows no such attribute


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(Answers)


def load(name: str) -> dict[str, Any]:
    return dict(_replaced(read_case(name), {name: script for script, name in SCRIPT_NAMES.items()}))


def _replaced(value: Any, new: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, new) for item in value]
    return new.get(value, value) if isinstance(value, str) else value


def request_of(case: Mapping[str, Any]) -> fnv1.RunFunctionRequest:
    def resource(manifest: dict[str, Any]) -> fnv1.Resource:
        return fnv1.Resource(resource=dict_to_struct(manifest))

    return fnv1.RunFunctionRequest(
        observed=fnv1.State(
            composite=resource(case["xr"]),
            resources={name: resource(manifest) for name, manifest in case.get("observed", {}).items()},
        ),
        required_resources={
            name: fnv1.Resources(items=[resource(manifest) for manifest in manifests])
            for name, manifests in case.get("required", {}).items()
        },
        **{key: dict_to_struct(case[key]) for key in ("input", "context") if key in case},
    )


def answer(case: Mapping[str, Any]) -> fnv1.RunFunctionResponse:
    # Nothing of a call's context is used, so there is none here.
    runner = Runner(clock=lambda: case.get("now", 0))
    return asyncio.run(runner.RunFunction(request_of(case).SerializeToString(), None))


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_answer(name: str, golden: SnapshotAssertion) -> None:
    case = load(name)
    found = MessageToDict(answer(case))
    if has_golden(name):
        assert found == golden, case["reason"]
    else:
        assert _replaced(found, SCRIPT_NAMES) == read_answer(name), case["reason"]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_order_does_not_matter(name: str) -> None:
    case = load(name)
    for found in case.get("required", {}).values():
        random.Random(name).shuffle(found)
    backwards = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in case.items()
    }
    wanted = answer(load(name)).SerializeToString(deterministic=True)
    assert answer(backwards).SerializeToString(deterministic=True) == wanted, "Crossplane sends maps in any order"
