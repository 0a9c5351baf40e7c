"""Platform-wide settings: built-in defaults < function input < EnvironmentConfig < environment.

Each level is merged over the weaker one while it is parsed (api/settings.py, api/inference_environment.py), so that
settings are complete everywhere. None is used only where an absent value has a meaning of its own.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from function.domain.allocation import Limits
from function.domain.scaling import Autoscaling
from function.kube.manifests import Manifest
from function.kube.urls import Origin

# Variables that this function sets for a download: the limit of retries, and the name of the Job.
BACKOFF_LIMIT, JOB_NAME = "MODELPLANE_BACKOFF_LIMIT", "MODELPLANE_JOB"
SETTLE_SECONDS = 5  # more than twice the time for which gateways collect changes (docs/facts.md, Gateway API)


class Prepare(StrEnum):
    """When a container running as root prepares the directory of a download; Auto: after a download could not write."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """Settings of download Jobs, named as in the API."""

    # Versions of KServe before 0.20 cannot size the initializer (docs/facts.md, KServe).
    image: str = "kserve/storage-initializer:v0.20.0"
    # No memory limit, because downloads exceed any (docs/facts.md, storage-initializer).
    resources: Manifest = field(default_factory=lambda: {"requests": {"cpu": "2", "memory": "8Gi"}})
    env: tuple[Manifest, ...] = ()
    node_selector: Manifest = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    service_account_name: str | None = None  # None: the default one of the namespace
    image_pull_secrets: tuple[str, ...] = ()
    token_secret_name: str | None = None  # Secret on the remote cluster; None: the Secret of the model is copied
    active_deadline_seconds: int = 86400
    backoff_limit: int = 6
    security_context: Manifest = field(default_factory=dict)  # merged over the default security context
    prepare: Prepare = Prepare.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """Settings of KServe's initializer, which downloads weights into the pod."""

    image: str | None = None
    resources: Manifest | None = None
    env: tuple[Manifest, ...] = ()  # including the token of the hub
    env_from: tuple[Manifest, ...] = ()
    bundle: tuple[str, str] | None = None  # ConfigMap with CA certificates, and its mount path
    pull_secrets: tuple[str, ...] = ()
    named: Manifest = field(default_factory=dict)  # what the platform set, by the fields of container and pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Kserve:
    namespace: str = "kserve"
    config_prefix: str = "kserve-"
    gateway: bool = True
    tls: bool = False
    scheduler: bool = False  # services may have an endpoint picker

    def find_picker_obstacle(self, *, on_claim: bool) -> str:
        """Returns why a service cannot have an endpoint picker; empty if it can.

        For weights that are not on a claim, KServe's picker first downloads the whole model (docs/facts.md, KServe).
        """
        obstacles = []
        if not (self.gateway and self.scheduler):
            obstacles.append(f"kserve.{'scheduler' if self.gateway else 'gateway'} of the environment is false")
        if not on_claim:
            obstacles.append("the weights are not on a claim; set modelCache.type: PVC")
        return ", and ".join(obstacles)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformGateway:
    """The Gateway of the control plane that ModelServices use."""

    name: str
    namespace: str
    origin: Origin  # at which clients reach it
    section_name: str = ""  # empty: all listeners
    settle: int = SETTLE_SECONDS  # seconds that gateways are given to apply a change before the next change


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    download: Download = Download()
    kserve: Kserve = Kserve()
    gateway: PlatformGateway | None = None
    storage_class: str | None = None  # None: none; "": the default class of each cluster
    ttl_settled: int = 600  # seconds
    ttl_pending: int = 30  # seconds
    secret_namespace: str = "modelplane-system"  # noqa: S105  # a namespace
    autoscaling: Autoscaling | None = None  # None: replicas do not follow the load
    limits: Limits = Limits()  # of each namespace without limits of its own
    namespace_limits: dict[str, Limits] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)  # by the names of limits.priorities
    object_watch: bool = False
    gates: frozenset[tuple[str, str]] = frozenset()  # API version and kind of what Crossplane may read as a gate
    remote_namespace_prefix: str = ""
    valid: bool = True  # False: a setting that decides what runs is invalid (decision 36)

    def limits_of(self, namespace: str) -> Limits:
        return self.namespace_limits.get(namespace, self.limits)

    def name_guarantee(self, namespace: str) -> str:
        """Returns the setting that says how many GPUs a namespace is guaranteed."""
        own = f"limits.namespaces.{namespace}.guaranteedGpus"
        return own if namespace in self.namespace_limits else "limits.guaranteedGpusPerNamespace"

    def remote_namespace(self, namespace: str) -> str:
        """Returns the namespace on remote clusters in which new placements and caches of a namespace start."""
        return f"{self.remote_namespace_prefix}{namespace}"


BUILT_IN = Settings()
