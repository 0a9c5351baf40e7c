"""What is known when a service is written: the recorded decision, and where its weights are."""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.environment import Pool
from function.domain.model import Model, Profile, Shape
from function.domain.pods import PullSecret, build_copied_secret, name_pull_secrets
from function.domain.settings import Initializer, Kserve


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """One service on one remote cluster."""

    name: str  # at most 40 characters; another `identify_service(shape)` is another name
    namespace: str
    labels: Mapping[str, str]
    model: Model
    profile: Profile
    shape: Shape  # the recorded decision, not what the profile says today
    pool: Pool
    replicas: int
    uri: str  # where KServe reads the weights
    kserve: Kserve
    initializer: Initializer | None = None  # None: the weights are not downloaded into the pod
    pull_secrets: tuple[PullSecret, ...] = ()  # of the environment
    weights: int | None = None  # bytes; None: unknown
    bandwidth: int | None = None  # bytes per second at which a pod reads the weights; None: unknown

    @property
    def pulled_with(self) -> tuple[PullSecret, ...]:
        """The Secrets with which the images are pulled, by their names on the remote cluster."""
        own = (build_copied_secret(secret.name, secret.namespace) for secret in self.profile.engine.pull_secrets)
        return name_pull_secrets((*own, *self.pull_secrets), self.name, self.namespace)
