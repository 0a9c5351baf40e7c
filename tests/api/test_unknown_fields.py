"""Fields that a schema does not have are reported by path, with the nearest known field."""

from function.api.problems import SPECS, build_schemas, find_unknown_fields
from function.domain.model import Problem
from function.kube.manifests import Manifest
from function.schemas import DeploymentSpec, EnvironmentSpec


def test_unknown_field_suggests_the_nearest() -> None:
    found = find_unknown_fields(DeploymentSpec, {"environmnts": 2}, "spec")
    assert [*found] == [Problem("spec.environmnts", "is not a field; did you mean environments?")]


def test_field_that_is_indented_too_far_is_named_by_its_path() -> None:
    found = find_unknown_fields(EnvironmentSpec, {"cluster": {"storage": {}}}, "spec")
    assert [*found] == [Problem("spec.cluster.storage", "is not a field; did you mean spec.storage?")]


def test_field_that_belongs_deeper_is_named_by_its_path() -> None:
    """`spec.replicas` is what a Deployment of Kubernetes has."""
    found = [*find_unknown_fields(DeploymentSpec, {"replicas": 2, "fixed": {"replicas": 2}}, "spec")]
    assert found == [
        Problem("spec.replicas", "is not a field; did you mean spec.scaling.fixed.replicas?"),
        Problem("spec.fixed", "is not a field; did you mean spec.scaling.fixed?"),
    ]


def test_field_that_belongs_deeper_comes_before_a_similar_one() -> None:
    """`replicas` resembles `replicaScheduling`."""
    found = [*find_unknown_fields(DeploymentSpec, {"scaling": {"replicas": 2}}, "spec")]
    assert found == [Problem("spec.scaling.replicas", "is not a field; did you mean spec.scaling.fixed.replicas?")]


def test_field_of_several_places_is_not_guessed() -> None:
    (found,) = find_unknown_fields(EnvironmentSpec, {"secretRef": {}}, "spec")
    assert "did you mean spec." not in found.message


def test_fields_of_crossplane_are_accepted() -> None:
    """Every composite has `spec.crossplane`, whose fields belong to Crossplane."""
    assert not [*find_unknown_fields(DeploymentSpec, {"crossplane": {"compositionRef": {"name": "x"}}}, "spec")]


def test_value_that_is_no_map_has_no_fields() -> None:
    assert not [*find_unknown_fields(DeploymentSpec, ["environments"], "spec")]


def test_building_schemas_early_makes_no_difference() -> None:
    slip: Manifest = {"environmnts": 2}
    before = [*find_unknown_fields(DeploymentSpec, slip, "spec")]
    build_schemas()
    assert [*find_unknown_fields(DeploymentSpec, slip, "spec")] == before
    assert all(schema.__pydantic_complete__ for schema in SPECS.values())
