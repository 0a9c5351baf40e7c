"""Secrets of the control plane that pods of a remote cluster need, copied there by the provider.

Their values pass through none of our code: an Object refers to the Secret and the provider copies it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.contract import Composed
from function.domain.model import SecretKey
from function.domain.pods import TYPE, PullSecret
from function.kube.manifests import Manifest
from function.kube.names import MANAGED_BY
from function.remote.object_writer import ManagementPolicy, ObjectWriter, copy_field
from function.weights.credentials import Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCopy:
    """The copy `name` of one key of a Secret, or of all (`whole`). `lasting`: needed after the download, too."""

    name: str
    source: SecretKey
    type: str = "Opaque"
    whole: bool = False
    lasting: bool = False

    @property
    def origin(self) -> str:
        """How users find the Secret on the control plane."""
        return f"{self.source.namespace}/{self.source.name} (key {self.source.key})"

    def composed(self, writer: ObjectWriter, key: str, namespace: str, policy: ManagementPolicy) -> Composed:
        """Return its Object."""
        secret: Manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": self.type,
            "metadata": {"name": self.name, "namespace": namespace, "labels": {**MANAGED_BY}},
        }
        field = "data" if self.whole else f"data[{self.source.key}]"
        return writer.compose(key, secret, policy, copy_field(self.source.name, self.source.namespace, field))


def of_credential(credential: Credential | None) -> tuple[SecretCopy, ...]:
    """Return the copy that a download reads, if it reads one."""
    if credential is None or credential.copied is None:
        return ()
    copy = SecretCopy(
        name=credential.name, source=credential.copied, whole=credential.whole, lasting=credential.lasting
    )
    return (copy,)


def of_pull_secrets(secrets: Iterable[PullSecret]) -> tuple[SecretCopy, ...]:
    """Return the copies with which images are pulled; what is on the cluster already is not copied."""
    return tuple(SecretCopy(name=each.name, source=each.source, type=TYPE) for each in secrets if each.source)
