"""What goes into a decision besides environments and placements."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from function.domain.environment import Environment, Pool
from function.domain.model import Model, Problem, Profile, Shape
from function.domain.placement import Deployment
from function.domain.quota import QuotaUsage
from function.weights.faults import StorageFault

StorageCheck: TypeAlias = Callable[[Environment, Pool, Shape, int], tuple[StorageFault, ...]]
ServingCheck: TypeAlias = Callable[[Profile, Shape, Pool], tuple[Problem, ...]]


def _storable(*_: object) -> tuple[StorageFault, ...]:
    return ()


def _servable(*_: object) -> tuple[Problem, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """What shall run. `unstorable` is the planner's word on the weights: why so many replicas of a shape cannot have
    them on a pool. `unservable` is the word on the service: why a profile cannot run on what a pool gives its pods.
    `excess` is what the namespace takes of its quota, where that has refused what would be chosen first.
    """

    deployment: Deployment
    model: Model
    storage_check: StorageCheck = _storable
    serving_check: ServingCheck = _servable
    quota_usage: QuotaUsage | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that every environment has on which this can be placed: what all selectors ask to be equal."""
        profiles = [profile.selector.equalities for profile in self.model.profiles]
        shared = {pair for pair in profiles[0].items() if all(pair in p.items() for p in profiles)} if profiles else ()
        return {**dict(shared), **self.model.selector.equalities, **self.deployment.selector.equalities}
