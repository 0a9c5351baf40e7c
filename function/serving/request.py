"""What is known when a service is written: the recorded decision, and where its weights lie."""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.environment import Pool
from function.domain.model import Model, Profile, Shape
from function.domain.pull_secrets import PullSecret, of_control_plane, placed
from function.domain.settings import Initializer, Kserve


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """One service on one remote cluster.

    `name` (at most 40 characters) changes with `identity(shape)`. `shape` is the recorded decision, not what
    the profile says today. `weights`, in bytes, and `bandwidth`, the bytes per second at which they are read, decide
    how long the engine may take to start; None = not known.
    `pull_secrets` are those of the environment.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    model: Model
    profile: Profile
    shape: Shape
    pool: Pool
    replicas: int
    uri: str
    kserve: Kserve
    initializer: Initializer | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    weights: int | None = None
    bandwidth: int | None = None

    @property
    def pulled_with(self) -> tuple[PullSecret, ...]:
        """With what the pods' images are pulled, the engine's Secrets and the environment's, by the names they have."""
        own = (of_control_plane(secret.name, secret.namespace) for secret in self.profile.engine.pull_secrets)
        return placed((*own, *self.pull_secrets), self.name, self.namespace)
