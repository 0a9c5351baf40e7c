"""How the secret of a source reaches the program that downloads.

What the storage-initializer reads differs by scheme. The hub wants one value, `HF_TOKEN`: the named key.
Google wants a file: the named key, mounted, its path in `GOOGLE_APPLICATION_CREDENTIALS`. Everything else
is configured by variables (`AWS_ACCESS_KEY_ID` …, `AZURE_…`, `<host>-headers` for https): every key of the
Secret becomes one.

The Secret is copied from the control plane and removed again once the bytes are verified, unless the
environment names one that is on the remote cluster already. On one node without a claim every pod start
downloads, so there it stays.
"""

from dataclasses import dataclass
from enum import Enum

from function.domain.model import HuggingFaceSource, SecretKey, UriSource
from function.kube.manifests import JSON, Manifest

HUB_KEY = "HF_TOKEN"
DIRECTORY = "/var/secrets/source"


class Form(Enum):
    """What the downloading program reads."""

    TOKEN = "the named key as HF_TOKEN"  # noqa: S105  # a description
    FILE = "the named key as a file"
    VARIABLES = "every key as a variable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A Secret `name` on the remote cluster. `copied` None: it is there already.

    `lasting`: needed after the download, too. `optional`: the model does not ask for it, so it may be
    missing.
    """

    name: str
    key: str
    form: Form
    copied: SecretKey | None = None
    lasting: bool = False
    optional: bool = False

    @property
    def whole(self) -> bool:
        """Whether all keys are copied, not just the one."""
        return self.form is Form.VARIABLES

    @property
    def env(self) -> tuple[Manifest, ...]:
        """Return the container's variables."""
        match self.form:
            case Form.TOKEN:
                ref: Manifest = {"name": self.name, "key": self.key}
                if self.optional:
                    ref["optional"] = True
                return ({"name": HUB_KEY, "valueFrom": {"secretKeyRef": ref}},)
            case Form.FILE:
                return ({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": f"{DIRECTORY}/{self.key}"},)
            case _:
                return ()

    @property
    def env_from(self) -> tuple[Manifest, ...]:
        """Return the container's sources of variables."""
        return ({"secretRef": {"name": self.name}},) if self.form is Form.VARIABLES else ()

    @property
    def volumes(self) -> tuple[Manifest, ...]:
        """Return the pod's volumes."""
        if self.form is not Form.FILE:
            return ()
        items: list[JSON] = [{"key": self.key, "path": self.key}]
        return ({"name": "credentials", "secret": {"secretName": self.name, "items": items}},)

    @property
    def mounts(self) -> tuple[Manifest, ...]:
        """Return the container's mounts."""
        if self.form is not Form.FILE:
            return ()
        return ({"name": "credentials", "mountPath": DIRECTORY, "readOnly": True},)


def credential(
    source: HuggingFaceSource | UriSource, existing: str | None, name: str, *, lasting: bool
) -> Credential | None:
    """Return what the download reads: the environment's Secret, else a copy as `name`, else nothing."""
    hub = isinstance(source, HuggingFaceSource)
    if source.secret is None and not (hub and existing):
        return None
    return Credential(
        name=existing or name,
        key=source.secret.key if source.secret else HUB_KEY,
        form=_form(source),
        copied=None if existing else source.secret,
        lasting=lasting,
        optional=source.secret is None,
    )


def _form(source: HuggingFaceSource | UriSource) -> Form:
    if isinstance(source, HuggingFaceSource):
        return Form.TOKEN
    return Form.FILE if source.uri.startswith("gs://") else Form.VARIABLES
