"""Crossplane's own package manager, which installs `install/`, and a stand-in for its package runtime.

Core pulls, unpacks, resolves dependencies and establishes what packages hold, exactly as on a cluster. What it
cannot do here is run a Deployment: nothing on the hub would start its pods. So core runs with the External
runtime, and this module does what core's own runtime would do: before the package is established,
name the Secret with the server's certificate and where a function will listen; then start the process; then
say that it is healthy. These three fields of a revision's status are written here, by a field manager of their
own; every other field is core's.
"""

import shutil
from collections.abc import Callable

import yaml

from function.kube.manifests import JSON, Manifest, condition, listing, mapping, text
from tools.stack import certificates, layout, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.packages import REGISTRY
from tools.stack.waiting import until

_NAMESPACE = "crossplane-system"
_SECRET = "package-server"  # noqa: S105  # the name of a Secret
_RUNS: JSON = {
    "type": "RuntimeHealthy",
    "status": "True",
    "reason": "HealthyPackageRevision",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def tell(home: Home) -> None:
    """Apply install/ as its users do, with the stack's registry in the one place that is to be set."""
    folder = home.manifests / "install"
    shutil.copytree(layout.SOURCE / "install", folder, dirs_exist_ok=True)
    (registry,) = upstream.read(folder / "registry.yaml")
    registry["data"] = dict.fromkeys(mapping(registry, "data"), REGISTRY)
    (folder / "registry.yaml").write_text(yaml.safe_dump(registry))
    Api(home, "hub").apply(_secret(home))
    Kubectl(home, "hub")("apply", "-k", str(folder))


def package(home: Home, kind: str, name: str) -> str:
    """Return what a Function, Configuration or Provider installs."""
    return text(Api(home, "hub").get(kind, name), "spec.package")


def install(home: Home, kind: str, name: str, run: Callable[[], None] | None = None, endpoint: str = "") -> None:
    """Wait until the package manager has installed what is wanted and says that it is healthy.

    `run` starts the process of a package that has one and returns when it listens, at `endpoint` if it is a function.
    """
    api = Api(home, "hub")
    revision = until(f"the revision of {kind} {name}", lambda: _current(api, kind, name))
    status: Manifest = {"tlsServerSecretName": _SECRET}
    if endpoint:
        status["endpoint"] = endpoint
    if run:
        api.apply(_revision(kind, revision, status), part="status")
    _said(api, f"{kind}Revision", revision, "RevisionHealthy")
    if run:
        run()
        api.apply(_revision(kind, revision, status | {"conditions": [_RUNS]}), part="status")
    _said(api, kind, name, "Healthy")


def _said(api: Api, kind: str, name: str, type_: str) -> None:
    def probe() -> bool:
        found = api.get(kind, name) or {}
        if text(condition(found, type_), "status") != "True":
            raise LookupError(str(listing(found, "status.conditions")))
        return True

    until(f"{kind} {name} to be {type_}", probe)


def _current(api: Api, kind: str, name: str) -> str:
    found = api.get(kind, name)
    if text(found, "status.currentIdentifier") != text(found, "spec.package"):
        raise LookupError(str(listing(found, "status.conditions")))
    revision = text(found, "status.currentRevision")
    return revision if api.get(f"{kind}Revision", revision) else ""


def _revision(kind: str, name: str, status: Manifest) -> Manifest:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": f"{kind}Revision",
        "metadata": {"name": name},
        "status": status,
    }


def _secret(home: Home) -> Manifest:
    """Return the certificate that core asks for where a package may hold a webhook."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _SECRET, "namespace": _NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": certificates.encoded(home.server_tls / "tls.crt"),
            "tls.key": certificates.encoded(home.server_tls / "tls.key"),
        },
    }
