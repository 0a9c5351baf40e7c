"""What a platform may set once for all: built in < function input < EnvironmentConfig < environment.

Complete everywhere: the defaults are what is built in, and each level is read over the weaker one (`api/settings.py`,
`api/inference_environment.py`). None stands only where saying nothing means something of its own.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from function.domain.allocation import Limits
from function.kube.manifests import Manifest

# KServe v0.20 is the floor: earlier ones cannot size the initializer (docs/facts.md, KServe).
# Variables that a download's container gets besides those of the platform: how often it may fail, and its Job's name.
BACKOFF_LIMIT, JOB_NAME = "MODELPLANE_BACKOFF_LIMIT", "MODELPLANE_JOB"
INITIALIZER_IMAGE = "kserve/storage-initializer:v0.20.0"


def _resources() -> Manifest:
    # No memory limit: downloads were killed at whatever it was (docs/facts.md, storage-initializer).
    return {"requests": {"cpu": "2", "memory": "8Gi"}}


class Prepare(StrEnum):
    """Whether root gives a download the directory of its model: once it could not write, before each, or not at all."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """How weights are fetched: the Job's image and pod. Seconds for the deadline, `security` over the pod's own.

    None: the namespace's own service account; the model's Secret instead of one that is on the cluster already.
    """

    image: str = INITIALIZER_IMAGE
    resources: Manifest = field(default_factory=_resources)
    env: tuple[Manifest, ...] = ()
    node_selector: Manifest = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    token_secret: str | None = None
    deadline_seconds: int = 86400
    backoff_limit: int = 6
    security: Manifest = field(default_factory=dict)
    prepare: Prepare = Prepare.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """What KServe's own initializer is given where it downloads into the pod; a token is one of `env`.

    `bundle`: the ConfigMap that is mounted into it, and where; `pull_secrets`: what it is pulled with. `named`: what of
    it somebody asked for, by the fields of container and pod; the rest is built in.
    """

    image: str | None = None
    resources: Manifest | None = None
    env: tuple[Manifest, ...] = ()
    env_from: tuple[Manifest, ...] = ()
    bundle: tuple[str, str] | None = None
    pull_secrets: tuple[str, ...] = ()
    named: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kserve:
    """KServe's installation on the remote cluster."""

    namespace: str = "kserve"
    config_prefix: str = "kserve-"
    gateway: bool = True
    tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Platform-wide settings. TTLs in seconds; `storage_class` None = no class is named, "" = the cluster's default."""

    download: Download = Download()
    kserve: Kserve = Kserve()
    storage_class: str | None = None
    ttl_settled: int = 600
    ttl_pending: int = 30
    secret_namespace: str = "modelplane-system"  # noqa: S105  # a namespace
    limits: Limits = Limits()
    object_watch: bool = False
    remote_namespace_prefix: str = ""


BUILT_IN = Settings()
