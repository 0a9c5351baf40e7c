"""KEDA on the hub: its CRDs and roles, its operator and metrics server as processes, and the autoscaler of Kubernetes.

Scenarios that need it start it on a running stack. It is KEDA itself, without most of its scalers (tools/keda.py).
"""

from dataclasses import replace

from function.kube.manifests import Manifest, mapping, text
from tools import keda
from tools.stack import apiserver, certificates, inventory, layout, upstream
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

_NAMESPACE = "keda"
OPERATOR, METRICS_SERVER, AUTOSCALER = "keda-operator", "keda-adapter", "hub-autoscaler"


def up(home: Home, processes: Processes) -> None:
    """Install and start KEDA and the HorizontalPodAutoscaler controller."""
    kubectl = Kubectl(home, "hub")
    crds = upstream.read(*sorted((keda.module_dir() / "config/crd/bases").glob("*.yaml")))
    kubectl.apply(crds, server_side=True)
    kubectl.established("crd", *(text(crd, "metadata.name") for crd in crds))
    kubectl.apply(_manifests(home))
    for program in (operator(home), metrics_server(home), autoscaler(home)):
        processes.start(program)
    until("KEDA's operator", lambda: listens(layout.KEDA_OPERATOR_HEALTH))
    until("KEDA's metrics server", lambda: listens(layout.KEDA_METRICS_SERVER))


def down(home: Home, processes: Processes) -> None:
    """Stop KEDA, and remove what answers for its API."""
    for name in (OPERATOR, METRICS_SERVER, AUTOSCALER):
        processes.stop(name)
    Kubectl(home, "hub")("delete", "apiservice", "v1beta1.external.metrics.k8s.io")


def _manifests(home: Home) -> list[Manifest]:
    config = keda.module_dir() / "config"
    roles = upstream.read(
        config / "rbac/role.yaml",
        config / "rbac/role_binding.yaml",
        config / "rbac/aggregate_cluster_roles.yaml",
        config / "metrics-server/role.yaml",
        config / "metrics-server/role_binding.yaml",
    )
    service: Manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "keda-metrics-apiserver", "namespace": _NAMESPACE},
        # No pod serves it: the API server resolves this name, and still checks that of the Service.
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": layout.KEDA_METRICS_SERVER}]},
    }
    (api,) = upstream.read(config / "metrics-server/api_service.yaml")
    reached = {**mapping(api, "spec.service"), "port": layout.KEDA_METRICS_SERVER}
    spec: Manifest = {**mapping(api, "spec"), "service": reached, "caBundle": certificates.authority(home)}
    return [*inventory.namespaces(_NAMESPACE), *roles, service, {**api, "spec": spec}]


def _environment(home: Home) -> dict[str, str]:
    return {
        "KUBECONFIG": str(home.kubeconfig("keda")),
        "WATCH_NAMESPACE": "",
        "POD_NAMESPACE": _NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": _NAMESPACE,
    }


def operator(home: Home) -> Program:
    """Return KEDA's operator."""
    return Program(
        name=OPERATOR,
        argv=(
            str(keda.path(OPERATOR)),
            "--zap-encoder=console",
            f"--cert-dir={home.server_tls}",
            f"--metrics-service-bind-address=127.0.0.1:{layout.KEDA_OPERATOR}",
            f"--metrics-bind-address=127.0.0.1:{layout.KEDA_OPERATOR_METRICS}",
            f"--health-probe-bind-address=127.0.0.1:{layout.KEDA_OPERATOR_HEALTH}",
        ),
        env=_environment(home),
    )


def metrics_server(home: Home) -> Program:
    """Return KEDA's server of external metrics."""
    config = home.kubeconfig("keda")
    return Program(
        name=METRICS_SERVER,
        argv=(
            str(keda.path(METRICS_SERVER)),
            f"--secure-port={layout.KEDA_METRICS_SERVER}",
            "--bind-address=127.0.0.1",
            f"--port={layout.KEDA_SERVER_METRICS}",
            "--zap-encoder=console",
            f"--client-ca-file={home.certificates / 'ca.crt'}",
            f"--tls-cert-file={home.server_tls / 'tls.crt'}",
            f"--tls-private-key-file={home.server_tls / 'tls.key'}",
            f"--cert-dir={home.server_tls}",
            f"--metrics-service-address=localhost:{layout.KEDA_OPERATOR}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--lister-kubeconfig={config}",
        ),
        env=_environment(home),
    )


def autoscaler(home: Home) -> Program:
    """Return the HorizontalPodAutoscaler controller, with the rights that a cluster gives it."""
    program = apiserver.controllers(
        home,
        "hub",
        ("horizontal-pod-autoscaler-controller",),
        "--use-service-account-credentials",
        "--horizontal-pod-autoscaler-sync-period=5s",
    )
    return replace(program, name=AUTOSCALER)
