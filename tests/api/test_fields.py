"""Fields that a schema does not have, by path and with the nearest that it has."""

from function.api.problems import SPECS, build_schemas, find_unknown_fields
from function.domain.model import Problem
from function.kube.manifests import Manifest
from function.schemas import DeploymentSpec


def test_a_field_that_is_not_there_names_the_nearest() -> None:
    found = find_unknown_fields(DeploymentSpec, {"environmnts": 2}, "spec")
    assert [*found] == [Problem("spec.environmnts", "is not a field; did you mean environments?")]


def test_what_crossplane_keeps_beside_our_fields_is_its_own() -> None:
    """Every composite has `spec.crossplane`; below it nothing is ours to judge."""
    assert not [*find_unknown_fields(DeploymentSpec, {"crossplane": {"compositionRef": {"name": "x"}}}, "spec")]


def test_what_is_no_map_has_no_fields() -> None:
    assert not [*find_unknown_fields(DeploymentSpec, ["environments"], "spec")]


def test_built_at_once_or_at_first_use_it_finds_the_same() -> None:
    slip: Manifest = {"environmnts": 2}
    before = [*find_unknown_fields(DeploymentSpec, slip, "spec")]
    build_schemas()
    assert [*find_unknown_fields(DeploymentSpec, slip, "spec")] == before
    assert all(schema.__pydantic_complete__ for schema in SPECS.values())
