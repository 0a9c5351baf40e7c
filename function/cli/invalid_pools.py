"""Pools with faults: each decision leaves them out, and every command names them with what is wrong."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from function.cli.store import Ref, Store
from function.domain.environment import Environment
from function.domain.problem import Problem
from function.domain.settings import BUILT_IN
from function.parse.environments import read_environment

_POOL = re.compile(r"(.*\.nodePools\[[0-9]+\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidPool:
    """A pool with all of its faults; one that has no name is called by its path."""

    environment: Environment
    name: str
    faults: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """Everything that is wrong with it."""
        return "; ".join(map(str, self.faults))


def invalid_pools(store: Store, environments: Iterable[Environment]) -> list[InvalidPool]:
    """Return the invalid pools of some environments, in their order."""
    found: list[InvalidPool] = []
    for environment in (e for e in environments if e.broken_pools):
        parsed = read_environment(store[Ref("InferenceEnvironment", "", environment.name)], BUILT_IN)
        # As they stand in the manifest, which is how the names are listed, too.
        by_pool = [(path, tuple(sorted(faults))) for path, faults in groupby(parsed.pool_problems, key=_pool)]
        found += (
            InvalidPool(environment=environment, name=name or path, faults=faults)
            for name, (path, faults) in zip(environment.broken_pools, by_pool, strict=True)
        )
    return found


def _pool(problem: Problem) -> str:
    return _POOL.split(problem.path)[1]
