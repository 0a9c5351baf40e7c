"""What is known when a service is written: the recorded decision, and where its weights lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from function.domain.environment import Pool
from function.domain.model import Model, Profile, Shape
from function.domain.settings import Kserve
from function.kube.manifests import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """What KServe's own initializer is given where it downloads into the pod; a token is one of `env`.

    `named`: what of it somebody asked for, by the fields of a container; the rest is built in.
    """

    image: str | None = None
    resources: Manifest | None = None
    env: tuple[Manifest, ...] = ()
    env_from: tuple[Manifest, ...] = ()
    named: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """One service on one remote cluster.

    `name` (at most 40 characters) changes with `identity(shape)`. `shape` is the recorded decision, not what
    the profile says today. `weights`, in bytes, decides how long the engine may take to start; None = not known.
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
    weights: int | None = None
