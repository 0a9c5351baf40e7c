"""What a platform may set once for all: function input, EnvironmentConfig and environment, weakest first.

None and empty mean "not said here"; `or_else` lets a stronger level fall back on a weaker one field by field.
"""

from dataclasses import dataclass, fields, replace
from typing import TypeVar

from function.kube.manifests import Manifest

# KServe v0.20 is the floor: earlier ones cannot size the initializer (docs/facts.md, KServe).
INITIALIZER_IMAGE = "kserve/storage-initializer:v0.20.0"

T = TypeVar("T", "Download", "Kserve", "Settings")


def _or_else(stronger: T, weaker: T) -> T:
    unsaid = (field.name for field in fields(stronger) if getattr(stronger, field.name) is None)
    return replace(stronger, **{name: getattr(weaker, name) for name in unsaid})


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """How weights are fetched: the Job's image and pod. Seconds for the deadline; None = not said."""

    image: str | None = None
    resources: Manifest | None = None
    env: tuple[Manifest, ...] | None = None
    node_selector: Manifest | None = None
    tolerations: tuple[Manifest, ...] | None = None
    service_account: str | None = None
    pull_secrets: tuple[str, ...] | None = None
    token_secret: str | None = None
    deadline_seconds: int | None = None
    backoff_limit: int | None = None

    def or_else(self, weaker: "Download") -> "Download":
        """Return these settings, completed by weaker ones."""
        return _or_else(self, weaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kserve:
    """KServe's installation on the remote cluster; None = not said."""

    namespace: str | None = None
    config_prefix: str | None = None
    gateway: bool | None = None

    def or_else(self, weaker: "Kserve") -> "Kserve":
        """Return these settings, completed by weaker ones."""
        return _or_else(self, weaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Platform-wide settings; None = not said. TTLs in seconds."""

    download: Download = Download()
    kserve: Kserve = Kserve()
    storage_class: str | None = None
    ttl_settled: int | None = None
    ttl_pending: int | None = None
    secret_namespace: str | None = None
    object_watch: bool | None = None
    remote_namespace_prefix: str | None = None

    def or_else(self, weaker: "Settings") -> "Settings":
        """Return these settings, completed by weaker ones."""
        download, kserve = self.download.or_else(weaker.download), self.kserve.or_else(weaker.kserve)
        return _or_else(replace(self, download=download, kserve=kserve), weaker)


BUILT_IN = Settings(
    download=Download(
        image=INITIALIZER_IMAGE,
        # No memory limit: downloads were killed at whatever it was (docs/facts.md, storage-initializer).
        resources={"requests": {"cpu": "2", "memory": "8Gi"}},
        env=(),
        node_selector={},
        tolerations=(),
        pull_secrets=(),
        deadline_seconds=86400,
        backoff_limit=6,
    ),
    kserve=Kserve(namespace="kserve", config_prefix="kserve-", gateway=True),
    ttl_settled=600,
    ttl_pending=30,
    secret_namespace="modelplane-system",  # noqa: S106  # a namespace
    object_watch=False,
    remote_namespace_prefix="",
)
