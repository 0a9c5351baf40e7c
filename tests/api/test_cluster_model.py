"""Parsing ClusterModels and Models: fields outside the source and the profiles."""

import pytest

from function.api.cluster_model import parse_model
from function.domain.model import Problem
from function.kube.manifests import JSON
from function.kube.selectors import Operator, Selector, SelectorRequirement
from tests.api import manifests
from tests.api.manifests import engine, profile

GIB = 2**30


def test_parses_every_field_outside_source_and_profiles() -> None:
    model = parse_model(
        manifests.model(
            kind="Model",
            resources={"vram": "1200Gi", "disk": "1.5T", "cpu": 8, "memory": "64Gi"},
            environmentSelector={"matchLabels": {"tier": "production"}},
        )
    ).value
    assert model
    assert (model.kind, model.name, model.served_name) == ("Model", "gemma", "google/gemma")
    # 1.5T is 1.5 * 10^12 bytes.
    assert (model.vram, model.disk, model.cpu, model.memory) == (1200 * GIB, 1_500_000_000_000, "8", "64Gi")
    assert model.selector == Selector((SelectorRequirement(key="tier", operator=Operator.IN, values=("production",)),))


def test_absent_fields_have_the_documented_defaults() -> None:
    model = parse_model(manifests.model()).value
    assert model
    assert (model.vram, model.disk, model.cpu, model.memory) == (None, None, "4", "16Gi")
    assert model.selector == Selector()


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"resources": {"vram": "80 gigs"}}, '"80 gigs" is not a quantity; must be like 80Gi, 1.5T or 500m'),
        (
            {"resources": {"vram": "80GB"}},
            '"80GB" is not a quantity; must be like 80Gi, 1.5T or 500m (did you mean 80Gi?)',
        ),
        (
            {"resources": {"vram": "80GiB"}},
            '"80GiB" is not a quantity; must be like 80Gi, 1.5T or 500m (did you mean 80Gi?)',
        ),
        ({"resources": {"vram": "1" * 33}}, f'"{"1" * 33}" is not a quantity; must be like 80Gi, 1.5T or 500m'),
        ({"resources": {"vram": "1e999"}}, '"1e999" is not allowed; must be at most 1Ei'),
        ({"resources": {"vram": "1025Pi"}}, '"1025Pi" is not allowed; must be at most 1Ei'),
        ({"resources": {"vram": "-1Gi"}}, '"-1Gi" is not allowed; must be more than 0'),
    ],
)
def test_problem_outside_the_profiles_leaves_no_model(fields: dict[str, JSON], want: str) -> None:
    broken = profile("a", engine=engine("--a={{"))
    problems = parse_model(manifests.model(profile("b"), broken, **fields)).problems
    assert problems[0] == Problem("spec.resources.vram", want)
    assert [p.path for p in problems[1:]] == ["spec.serving[1].engine.args[0]"], "the list is complete"


def test_cpu_may_be_zero_but_not_negative() -> None:
    assert parse_model(manifests.model(resources={"cpu": 0})).value
    assert parse_model(manifests.model(resources={"cpu": "1e300"})).problems == (
        Problem("spec.resources.cpu", '"1e300" is not allowed; must be at most 1Ei'),
    )
    assert parse_model(manifests.model(resources={"cpu": "-1"})).problems == (
        Problem("spec.resources.cpu", '"-1" is not allowed; must be 0 or more'),
    )


@pytest.mark.parametrize("count", [0, 9])
def test_number_of_profiles_is_bounded(count: int) -> None:
    given = manifests.model(serving=[profile(f"p{i}") for i in range(count)])
    problems = parse_model(given).problems
    assert [p.path for p in problems] == ["spec.serving"]


def test_model_without_valid_profiles_has_a_value() -> None:
    model = parse_model(manifests.model(profile("a", engine=engine("{{")))).value
    assert model
    assert model.profiles == ()
    assert [b.name for b in model.broken] == ["a"]


def test_absent_spec_is_reported() -> None:
    problems = parse_model({"kind": "Model"}).problems
    assert problems[0] == Problem("spec", "null is not allowed; must be a block of fields")
