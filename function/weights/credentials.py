"""Secrets that pods of a remote cluster need: how the download reads them, and their copies.

What the storage-initializer reads differs by scheme. The hub wants one value, `HF_TOKEN`: the named key. Google wants a
file: the named key, mounted, its path in `GOOGLE_APPLICATION_CREDENTIALS`. Everything else is configured by variables
(`AWS_ACCESS_KEY_ID` …, `AZURE_…`, `<host>-headers` for https): every key of the Secret becomes one.

The provider copies a Secret from the control plane by reference: its values pass through none of our code. The copy is
removed once the bytes are verified, unless the environment names a Secret that is on the remote cluster already. On one
node without a claim every pod start downloads, so there it stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from function.contract import Composed
from function.domain.model import HuggingFaceSource, SecretKey, UriSource
from function.domain.pods import TYPE, PullSecret
from function.kube.manifests import JSON, Manifest
from function.kube.names import MANAGED_BY
from function.remote.object_writer import ManagementPolicy, ObjectWriter, copy_field

HUB_KEY = "HF_TOKEN"
DIRECTORY = "/var/secrets/source"


class CredentialForm(Enum):
    """What the downloading program reads."""

    TOKEN = "the named key as HF_TOKEN"  # noqa: S105  # a description
    FILE = "the named key as a file"
    VARIABLES = "every key as a variable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCopy:
    """A copy of a Secret of the control plane, on the remote cluster."""

    name: str
    origin: SecretKey
    type: str = "Opaque"
    all_keys: bool = False  # else the one key
    is_lasting: bool = False  # needed after the download, too

    @property
    def label(self) -> str:
        """The Secret that it is copied from, as users find it on the control plane."""
        return f"{self.origin.namespace}/{self.origin.name} (key {self.origin.key})"

    def compose(self, writer: ObjectWriter, key: str, namespace: str, policy: ManagementPolicy) -> Composed:
        """Composes the Object that copies it."""
        secret: Manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": self.type,
            "metadata": {"name": self.name, "namespace": namespace, "labels": {**MANAGED_BY}},
        }
        field = "data" if self.all_keys else f"data[{self.origin.key}]"
        return writer.compose(key, secret, policy, copy_field(self.origin.name, self.origin.namespace, field))


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A Secret on the remote cluster that a download reads."""

    name: str
    key: str
    form: CredentialForm
    copy: SecretCopy | None = None  # None: it is on the remote cluster already
    optional: bool = False  # the model does not reference it, so it may be missing

    @property
    def env(self) -> tuple[Manifest, ...]:
        """Variables of the container."""
        match self.form:
            case CredentialForm.TOKEN:
                ref: Manifest = {"name": self.name, "key": self.key}
                if self.optional:
                    ref["optional"] = True
                return ({"name": HUB_KEY, "valueFrom": {"secretKeyRef": ref}},)
            case CredentialForm.FILE:
                return ({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": f"{DIRECTORY}/{self.key}"},)
            case _:
                return ()

    @property
    def env_from(self) -> tuple[Manifest, ...]:
        """Sources of variables of the container."""
        return ({"secretRef": {"name": self.name}},) if self.form is CredentialForm.VARIABLES else ()

    @property
    def volumes(self) -> tuple[Manifest, ...]:
        """Volumes of the pod."""
        if self.form is not CredentialForm.FILE:
            return ()
        items: list[JSON] = [{"key": self.key, "path": self.key}]
        return ({"name": "credentials", "secret": {"secretName": self.name, "items": items}},)

    @property
    def mounts(self) -> tuple[Manifest, ...]:
        """Mounts of the container."""
        if self.form is not CredentialForm.FILE:
            return ()
        return ({"name": "credentials", "mountPath": DIRECTORY, "readOnly": True},)


def plan_credential(
    source: HuggingFaceSource | UriSource, existing: str | None, name: str, *, is_lasting: bool
) -> Credential | None:
    """Plans what the download reads: the environment's Secret, else a copy as `name`; None where it reads nothing."""
    secret = source.secret
    if isinstance(source, HuggingFaceSource):
        form = CredentialForm.TOKEN
    else:
        form = CredentialForm.FILE if source.uri.startswith("gs://") else CredentialForm.VARIABLES
    if secret is None:
        if not existing or form is not CredentialForm.TOKEN:
            return None
        return Credential(name=existing, key=HUB_KEY, form=form, optional=True)
    all_keys = form is CredentialForm.VARIABLES
    copy = SecretCopy(name=name, origin=secret, all_keys=all_keys, is_lasting=is_lasting)
    return Credential(name=existing or name, key=secret.key, form=form, copy=None if existing else copy)


def list_pull_secret_copies(secrets: Iterable[PullSecret]) -> tuple[SecretCopy, ...]:
    """Lists the copies with which images are pulled; Secrets that are on the cluster already are not copied."""
    return tuple(SecretCopy(name=secret.name, origin=secret.source, type=TYPE) for secret in secrets if secret.source)
