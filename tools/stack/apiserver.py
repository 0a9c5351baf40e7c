"""etcd and the API servers of all clusters, which share it under a prefix each."""

from tools import programs
from tools.stack import audit, certificates, layout
from tools.stack.layout import Home
from tools.stack.processes import Program

_ACCOUNT_ISSUER = "https://kubernetes.default.svc"
# name: (port, service addresses)
_SERVERS = {"hub": (layout.HUB, "10.0.0.0/24")} | {
    each.name: (each.port, each.services) for each in (layout.EAST, layout.WESTERN)
}


def etcd(home: Home) -> Program:
    """Return etcd; it need not survive a power failure."""
    client, peer = f"http://127.0.0.1:{layout.ETCD}", f"http://127.0.0.1:{layout.ETCD_PEER}"
    return Program(
        name="etcd",
        argv=(
            str(programs.path("etcd")),
            f"--data-dir={home.root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
    )


def apiserver(home: Home, name: str) -> Program:
    """Return the API server of the hub or of a GPU cluster."""
    port, services = _SERVERS[name]
    folder = home.certificates
    return Program(
        name=f"{name}-apiserver",
        argv=(
            str(programs.path("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{layout.ETCD}",
            f"--etcd-prefix=/{name}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--service-cluster-ip-range={services}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--tls-cert-file={folder / 'localhost.crt'}",
            f"--tls-private-key-file={folder / 'localhost.key'}",
            f"--service-account-key-file={folder / 'accounts.pub'}",
            f"--service-account-signing-key-file={folder / 'accounts.key'}",
            f"--service-account-issuer={_ACCOUNT_ISSUER}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",  # nothing here runs as a pod with a token
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            # By these, API servers behind this one (KEDA's metrics server) know who asks.
            f"--requestheader-client-ca-file={folder / 'front.crt'}",
            f"--requestheader-allowed-names={certificates.FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={folder / f'{certificates.FRONT_PROXY}.crt'}",
            f"--proxy-client-key-file={folder / f'{certificates.FRONT_PROXY}.key'}",
            *audit.arguments(home, name),
        ),
    )


def controllers(home: Home, name: str, which: tuple[str, ...], *more: str) -> Program:
    """Return the kube-controller-manager of a cluster with the controllers named."""
    return Program(
        name=f"{name}-controllers",
        argv=(
            str(programs.path("kube-controller-manager")),
            f"--kubeconfig={home.kubeconfig(name)}",
            f"--controllers={','.join(which)}",
            f"--service-account-private-key-file={home.certificates / 'accounts.key'}",
            f"--root-ca-file={home.certificates / 'ca.crt'}",
            "--secure-port=0",
            "--leader-elect=false",
            *more,
        ),
    )


def scheduler(home: Home, name: str) -> Program:
    """Return the scheduler of a GPU cluster."""
    return Program(
        name=f"{name}-scheduler",
        argv=(
            str(programs.path("kube-scheduler")),
            f"--kubeconfig={home.kubeconfig(name)}",
            "--secure-port=0",
            "--leader-elect=false",
            # It may miss that a claim is bound as it looks at its pod, and would look again in five minutes.
            "--pod-max-in-unschedulable-pods-duration=30s",
        ),
    )
