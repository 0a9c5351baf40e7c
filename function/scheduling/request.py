"""What goes into a decision besides environments and placements."""

from dataclasses import dataclass

from function.domain.model import Model, Profile
from function.domain.placement import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNeed:
    """What the weights ask of an environment, as far as it decides where to run.

    `class_name` and `access_mode` are the deployment's own, `default_class` is the platform's. A replica of
    several nodes, or of one, may need a claim of ours. `single_node_only`: the deployment asks for storage
    that one node can use. `cache_environments` None: no ModelCache is named.
    """

    class_name: str | None = None
    default_class: str | None = None
    access_mode: str | None = None
    multi_node_claim: bool = False
    single_node_claim: bool = False
    single_node_only: bool = False
    cache_environments: frozenset[str] | None = None
    cache_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """What shall run, and what it needs besides GPUs."""

    deployment: Deployment
    model: Model
    storage: StorageNeed = StorageNeed()

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that may serve, in order of priority; one node where the storage spans no more."""
        if not self.storage.single_node_only:
            return self.model.profiles
        return tuple(p for p in self.model.profiles if p.shape is None or p.shape.nodes == 1)
