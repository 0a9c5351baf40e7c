"""Asking for many pools of an environment at once: the same words as one by one, and fewer of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from function.domain.cache import CreatedStorage
from function.domain.environment import Environment, EnvironmentStorage, Pool
from function.domain.model import Shape
from function.weights import planner
from function.weights.faults import StorageFault, find_faults
from function.weights.planner import DeploymentWeights
from function.weights.request import StorageRequest
from tests.support import builders

WEIGHTS = DeploymentWeights(
    model=replace(builders.model(), disk=None, vram=None),
    choice=CreatedStorage(),
    cache=None,
    namespace="team",
    owner="kimi",
)
ENVIRONMENTS: Sequence[Environment] = [
    Environment(name="with", storage=EnvironmentStorage(class_name="fast")),
    Environment(name="without"),
    Environment(name="once", storage=EnvironmentStorage(class_name="fast", access_mode="ReadWriteOnce")),
]


def _all(ask: Callable[[Environment, Pool, Shape, int], tuple[StorageFault, ...]]) -> list[tuple[StorageFault, ...]]:
    return [
        ask(environment, builders.pool(name, memory=memory), builders.shape(nodes, gpus), replicas)
        for environment in ENVIRONMENTS
        for name in ("a", "b")
        for memory in ("80Gi", None)
        for nodes in (1, 2)
        for gpus in (4, 8)
        for replicas in (1, 2)
    ]


def test_cached_faults_equal_computed_ones() -> None:
    said = _all(lambda *asked: find_faults(WEIGHTS.build_request(*asked)))
    assert len(set(said)) > 3, "the words differ"
    assert _all(replace(WEIGHTS).find_faults) == said


def test_checks_equal_pools_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[StorageRequest] = []

    def counted(request: StorageRequest) -> tuple[StorageFault, ...]:
        asked.append(request)
        return find_faults(request)

    monkeypatch.setattr(planner, "find_faults", counted)
    ask = replace(WEIGHTS).find_faults
    _all(ask)
    once = len(asked)
    _all(ask)
    assert len(asked) == once == len(_all(ask)) // 2, "two pools each"
