"""Every name that people write by habit leads to a field that exists."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from function.api.problems import SPECS, find_unknown_fields
from function.api.synonyms import SYNONYMS, is_token, list_synonyms
from function.domain.model import Problem
from function.schemas import Defaults, DeploymentSpec, EnvironmentSpec, ModelSpec


@pytest.mark.parametrize("key", SYNONYMS)
def test_synonyms_lead_to_fields(key: str) -> None:
    fields = {field.rpartition(".")[2] for field in SYNONYMS[key]}
    known = {name for schema in SPECS.values() for name in _list_names(schema)}
    assert fields <= known
    assert list_synonyms(key.upper()) == SYNONYMS[key]


def _list_names(annotation: Any) -> Iterator[str]:
    """Yields the names of all fields below a type."""
    for name, info in getattr(annotation, "model_fields", {}).items():
        yield info.alias or name
        yield from _list_names(info.annotation)
    for part in get_args(annotation):
        yield from _list_names(part)


def test_field_beside_comes_before_one_elsewhere() -> None:
    (found,) = find_unknown_fields(EnvironmentSpec, {"nodePools": [{"gpu-count": 8}]}, "spec")
    assert found == Problem("spec.nodePools[0].gpu-count", "is not a field; did you mean acceleratorCount?")


def test_of_fields_in_lists_the_nearest_to_the_top_is_meant() -> None:
    """Environments have pools in three places, of which two are for clusters of one kind."""
    (found,) = find_unknown_fields(EnvironmentSpec, {"gpus": 8}, "spec")
    assert found == Problem("spec.gpus", "is not a field; did you mean spec.nodePools[].acceleratorCount?")


def test_field_of_another_kind_is_named_with_it() -> None:
    (found,) = find_unknown_fields(ModelSpec, {"environments": 2}, "spec")
    assert found.message == "is not a field; did you mean environmentSelector?"
    (found,) = find_unknown_fields(DeploymentSpec, {"cluster": {}}, "spec")
    assert found.message == "is not a field; InferenceEnvironment has spec.cluster"


def test_settings_of_the_platform_name_no_other_kind() -> None:
    (found,) = find_unknown_fields(Defaults, {"gpus": 2}, "input")
    assert found.message.startswith("is not a field; known are ")


def test_tokens_are_recognised_by_their_names() -> None:
    assert [is_token(key) for key in ("token", "HF_TOKEN", "api-key", "gpus")] == [True, True, True, False]
