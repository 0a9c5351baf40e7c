"""Secrets that pods of a remote cluster need: how the download reads them, and their copies.

The storage-initializer reads credentials differently for each scheme. For the hub, the named key becomes the variable
`HF_TOKEN`. For Google, the named key is mounted as a file, and `GOOGLE_APPLICATION_CREDENTIALS` holds its path. For all
other schemes, every key of the Secret becomes a variable (`AWS_ACCESS_KEY_ID` …, `AZURE_…`, `<host>-headers` for
https).

The provider copies a Secret from the control plane by reference, so its values never pass through this function. The
copy is deleted once the weights are verified and no pod downloads by itself any more. On one node without a claim,
every pod downloads when it starts, so the copy stays there. If the environment names a Secret that is already on the
remote cluster, there is no copy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.contract import Composed
from function.domain.model import DownloadedSource, HuggingFaceSource, SecretKey, UriSource
from function.domain.pods import DOCKER_CONFIG_TYPE, PullSecret
from function.kube.manifests import JSON, Manifest
from function.kube.names import MANAGED_BY
from function.remote.object_writer import ManagementPolicy, ObjectWriter

HUB_KEY = "HF_TOKEN"
DIRECTORY = "/var/secrets/source"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCopy:
    """A copy of a Secret of the control plane, on the remote cluster."""

    name: str
    origin: SecretKey
    type: str = "Opaque"
    all_keys: bool = False  # otherwise only the key of `origin`

    @property
    def label(self) -> str:
        """The Secret that it is copied from, as users find it on the control plane."""
        key = f" (key {self.origin.key})" if self.origin.key else ""
        return f"{self.origin.namespace}/{self.origin.name}{key}"

    def compose(self, writer: ObjectWriter, key: str, namespace: str, policy: ManagementPolicy) -> Composed:
        """Composes the Object by which the provider copies it; this function never sees its values."""
        secret: Manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": self.type,
            "metadata": {"name": self.name, "namespace": namespace, "labels": {**MANAGED_BY}},
        }
        field = "data" if self.all_keys else f"data[{self.origin.key}]"
        source: Manifest = {"name": self.origin.name, "namespace": self.origin.namespace, "fieldPath": field}
        reference: Manifest = {"patchesFrom": {"apiVersion": "v1", "kind": "Secret", **source}, "toFieldPath": field}
        return writer.compose(key, secret, policy, reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A Secret on the remote cluster that a download reads, and how its container and pod refer to it."""

    copies: tuple[SecretCopy, ...] = ()  # empty: the Secret is on the remote cluster already
    env: tuple[Manifest, ...] = ()
    env_from: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()


def plan_credential(source: DownloadedSource, existing: str | None, name: str) -> Credential:
    """Plans the Secret that a download reads: the environment's, otherwise a copy as `name`; empty if it needs none."""
    origin = source.secret
    is_hub = isinstance(source, HuggingFaceSource)
    name = existing or name
    if origin is None and not (is_hub and existing):
        return Credential()
    is_file = isinstance(source, UriSource) and source.uri.startswith("gs://")
    copies: tuple[SecretCopy, ...] = ()
    if origin and not existing:
        copies = (SecretCopy(name=name, origin=origin, all_keys=not is_hub and not is_file),)
    if is_hub:
        ref: Manifest = {"name": name, "key": origin.key if origin else HUB_KEY}
        # A Secret that the model does not reference may be missing.
        optional: Manifest = {} if origin else {"optional": True}
        env: Manifest = {"name": HUB_KEY, "valueFrom": {"secretKeyRef": {**ref, **optional}}}
        return Credential(copies=copies, env=(env,))
    if is_file and origin:
        items: list[JSON] = [{"key": origin.key, "path": origin.key}]
        return Credential(
            copies=copies,
            env=({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": f"{DIRECTORY}/{origin.key}"},),
            volumes=({"name": "credentials", "secret": {"secretName": name, "items": items}},),
            mounts=({"name": "credentials", "mountPath": DIRECTORY, "readOnly": True},),
        )
    return Credential(copies=copies, env_from=({"secretRef": {"name": name}},))


def list_pull_secret_copies(secrets: Iterable[PullSecret]) -> tuple[SecretCopy, ...]:
    """Lists the copies with which images are pulled; Secrets that are on the cluster already are not copied."""
    return tuple(
        SecretCopy(name=secret.name, origin=secret.source, type=DOCKER_CONFIG_TYPE)
        for secret in secrets
        if secret.source
    )
