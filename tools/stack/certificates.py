"""One authority, one certificate for all servers, one for each identity that talks to an API server.

Core, provider-kubernetes and what it is on the remote cluster have identities of their own: with an
administrator's certificate a missing ClusterRole would go unnoticed.
"""

import base64
import json
import shutil
import subprocess
from pathlib import Path

from tools.stack import layout
from tools.stack.layout import Home

FRONT_PROXY = "front-proxy-client"
_SERVER_NAMES = (
    "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1,IP:10.1.0.1"
    ",DNS:keda-metrics-apiserver.keda.svc"  # the API server checks this name, whatever the Service resolves to
)
_ACCOUNT = (
    "/O=system:serviceaccounts/O=system:serviceaccounts:crossplane-system/CN=system:serviceaccount:crossplane-system:"
)

# identity: (port of its API server, subject)
IDENTITIES = {
    "hub": (layout.HUB, "/O=system:masters/CN=admin"),
    "remote": (layout.REMOTE, "/O=system:masters/CN=admin"),
    "core": (layout.HUB, _ACCOUNT + "crossplane"),
    "provider": (layout.HUB, _ACCOUNT + "provider-kubernetes"),
    "executor": (layout.REMOTE, "/CN=modelplane"),
    "west": (layout.WEST, "/O=system:masters/CN=admin"),
    "west-executor": (layout.WEST, "/CN=modelplane"),
    "reader": (layout.HUB, "/CN=reader"),
    "keeper": (layout.HUB, "/CN=keeper"),
    "keda": (
        layout.HUB,
        "/O=system:serviceaccounts/O=system:serviceaccounts:keda/CN=system:serviceaccount:keda:keda-operator",
    ),
}


def issue(home: Home) -> None:
    """Write the authority, the servers' certificate, the service account key and all kubeconfigs."""
    folder = home.certificates
    if home.kubeconfig("executor").exists():
        return
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 365 -subj /CN=modelplane-e2e")
    _openssl(folder, "genrsa -out accounts.key 2048")
    _openssl(folder, "rsa -in accounts.key -pubout -out accounts.pub")
    _sign(folder, "localhost", "/CN=localhost", _SERVER_NAMES)
    for name, source in (("ca.crt", "ca.crt"), ("tls.crt", "localhost.crt"), ("tls.key", "localhost.key")):
        shutil.copy(folder / source, home.server_tls / name)
    # An authority of its own, so that no client of ours can pose as the API server.
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout front.key -out front.crt -days 365 -subj /CN=front")
    _sign(folder, FRONT_PROXY, f"/CN={FRONT_PROXY}", authority="front")
    for identity, (port, subject) in IDENTITIES.items():
        _sign(folder, identity, subject)
        home.kubeconfig(identity).write_text(json.dumps(_kubeconfig(folder, identity, port), indent=1))


def authority(home: Home) -> str:
    """Return the authority's certificate as webhooks want it."""
    return encoded(home.certificates / "ca.crt")


def _sign(folder: Path, name: str, subject: str, extension: str = "", authority: str = "ca") -> None:
    (folder / "extensions").write_text(extension)
    _openssl(folder, f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj {subject}")
    _openssl(
        folder,
        f"x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 365"
        f" -extfile extensions -out {name}.crt",
    )


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(("openssl", *arguments.split()), cwd=folder, check=True, capture_output=True)


def encoded(path: Path) -> str:
    """Return a file as the data of a Secret."""
    return base64.b64encode(path.read_bytes()).decode()


def _kubeconfig(folder: Path, identity: str, port: int) -> dict[str, object]:
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": encoded(folder / "ca.crt")}
    user = {
        "client-certificate-data": encoded(folder / f"{identity}.crt"),
        "client-key-data": encoded(folder / f"{identity}.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": server}],
        "users": [{"name": identity, "user": user}],
        "contexts": [{"name": identity, "context": {"cluster": "cluster", "user": identity}}],
        "current-context": identity,
    }
