"""Entries that lists of type set and map may not repeat, as the API server refuses them."""

from typing import Any

import pytest

from function.api.problems import find_duplicates
from function.api.values import find_invalid_label
from function.domain.model import Problem
from function.kube.manifests import JSON, Manifest
from function.schemas import Defaults, DeploymentSpec, EnvironmentSpec, ServiceSpec

TAINT: Manifest = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("schema", "spec", "path", "value", "same"),
    [
        (
            ServiceSpec,
            {"environments": ["e2", "e1", "e2"]},
            "spec.environments[2]",
            '"e2"',
            "spec.environments[0] is the same",
        ),
        (
            ServiceSpec,
            {"backends": [{"deployment": "a", "weight": 1}, {"deployment": "a"}]},
            "spec.backends[1].deployment",
            '"a"',
            "spec.backends[0] has the same deployment",
        ),
        (
            EnvironmentSpec,
            {"taints": [TAINT, {**TAINT, "effect": "NoExecute"}, {**TAINT, "value": "x"}]},
            "spec.taints[2]",
            '{"key": "a", "effect": "NoSchedule"}',
            "spec.taints[0] has the same key and effect",
        ),
        (
            DeploymentSpec,
            {"rollout": {"order": ["a", "a"]}},
            "spec.rollout.order[1]",
            '"a"',
            "spec.rollout.order[0] is the same",
        ),
    ],
)
def test_repeated_entry_is_reported(schema: type, spec: Manifest, path: str, value: str, same: str) -> None:
    problem = Problem(path, f"{value} is not allowed; must be unique, and {same}")
    assert [*find_duplicates(schema, spec, "spec")] == [problem]


@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        (ServiceSpec, {"environments": "e2", "backends": ["a", "a", {"weight": 1}, {"weight": 1}]}),
        (EnvironmentSpec, {"taints": [{"key": "a"}, {"key": "a"}], "nodePools": None}),
        (DeploymentSpec, ["a", "a"]),
        (Defaults, {"limits": {"namespaces": {"a": {"gpus": 1}, "b": "x"}}}),
    ],
)
def test_entries_without_their_keys_are_reported_elsewhere(schema: type, spec: Any) -> None:
    assert not [*find_duplicates(schema, spec, "spec")]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("zone", "a", ""),
        ("zone", 1, "1 is not allowed; must be text, in quotes"),
        ("a b", "c", '"a b" is not allowed; must be'),
    ],
)
def test_labels_are_those_that_the_api_server_accepts(key: str, value: JSON, found: str) -> None:
    problem = find_invalid_label(key, value, "metadata.labels")
    assert (problem.message if problem else "").startswith(found)
    assert bool(problem) is bool(found)
