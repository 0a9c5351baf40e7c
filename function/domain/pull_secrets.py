"""Secrets with which images are pulled: on the remote cluster already, or copied there from the control plane.

Whoever names one of the control plane never names one of the remote cluster: a copy has a name of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.domain.model import SecretKey
from function.kube.names import named

TYPE = "kubernetes.io/dockerconfigjson"
KEY = ".dockerconfigjson"  # the one that this type has


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSecret:
    """A Secret `name` of the remote cluster; where there is a `source`, a copy of that one."""

    name: str = ""
    source: SecretKey | None = None

    def within(self, stem: str, *identity: str) -> "PullSecret":
        """Return it under the name that its copy has beside what `stem` and identity name; others keep theirs."""
        if self.source is None:
            return self
        origin = self.source.namespace, self.source.name
        return PullSecret(name=named(stem, *identity, stem, "pull", *origin), source=self.source)


def of_control_plane(name: str, namespace: str) -> PullSecret:
    """Return a Secret of the control plane, not yet copied to anywhere."""
    return PullSecret(source=SecretKey(name=name, namespace=namespace, key=KEY))


def placed(secrets: Iterable[PullSecret], stem: str, *identity: str) -> tuple[PullSecret, ...]:
    """Return each Secret once, as it is named on the remote cluster."""
    return tuple(dict.fromkeys(secret.within(stem, *identity) for secret in secrets))
