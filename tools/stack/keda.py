"""KEDA on the hub: its CRDs and roles, its programs as processes, and the autoscaler of Kubernetes.

Scenarios that need it start it on a running stack. It is KEDA itself, without most of its scalers (tools/keda.py).
"""

from dataclasses import replace

from function.kube.manifests import Manifest, get, listing, mapping, text
from tools import keda
from tools.stack import apiserver, certificates, inventory, layout, upstream
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

_NAMESPACE = "keda"
OPERATOR, METRICS_SERVER, WEBHOOKS = "keda-operator", "keda-adapter", "keda-admission-webhooks"
AUTOSCALER = "hub-autoscaler"
_CHECKED = "scaledobjects"


def up(home: Home, processes: Processes) -> None:
    """Install and start KEDA and the HorizontalPodAutoscaler controller."""
    apply_crds(home)
    Kubectl(home, "hub").apply(_manifests(home))
    for program in (operator(home), metrics_server(home), webhooks(home), autoscaler(home)):
        processes.start(program)
    until("KEDA's operator", lambda: listens(layout.KEDA_OPERATOR_HEALTH))
    until("KEDA's metrics server", lambda: listens(layout.KEDA_METRICS_SERVER))
    until("KEDA's admission webhooks", lambda: listens(layout.KEDA_WEBHOOKS))
    Kubectl(home, "hub").apply([_admission(home)])


def apply_crds(home: Home) -> None:
    """Install KEDA's CRDs."""
    kubectl = Kubectl(home, "hub")
    crds = _crds()
    kubectl.apply(crds, server_side=True)
    kubectl.established("crd", *(text(crd, "metadata.name") for crd in crds))


def delete_crds(home: Home) -> None:
    """Delete KEDA's CRDs with all their objects, from which KEDA must take its finalizers."""
    Kubectl(home, "hub")("delete", "crd", *(text(crd, "metadata.name") for crd in _crds()))


def _crds() -> list[Manifest]:
    return upstream.read(*sorted((keda.module_dir() / "config/crd/bases").glob("*.yaml")))


def down(home: Home, processes: Processes) -> None:
    """Stop KEDA, and remove what answers for its API."""
    for name in (OPERATOR, METRICS_SERVER, WEBHOOKS, AUTOSCALER):
        processes.stop(name)
    kubectl = Kubectl(home, "hub")
    kubectl("delete", "apiservice", "v1beta1.external.metrics.k8s.io")
    kubectl("delete", "validatingwebhookconfiguration", "keda-admission")


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


def _admission(home: Home) -> Manifest:
    """Return KEDA's own admission of ScaledObjects, at the address of its process."""
    (found,) = upstream.read(keda.module_dir() / "config/webhooks/validation_webhooks.yaml")
    (hook,) = (h for h in listing(found, "webhooks") if _CHECKED in str(get(h, "rules")))
    path = text(hook, "clientConfig.service.path")
    reached: Manifest = {
        "url": f"https://localhost:{layout.KEDA_WEBHOOKS}{path}",
        "caBundle": certificates.authority(home),
    }
    return {**found, "webhooks": [{**hook, "clientConfig": reached}]}


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


def webhooks(home: Home) -> Program:
    """Return KEDA's admission webhooks."""
    return Program(
        name=WEBHOOKS,
        argv=(
            str(keda.path(WEBHOOKS)),
            "--zap-encoder=console",
            f"--cert-dir={home.server_tls}",
            f"--port={layout.KEDA_WEBHOOKS}",
            f"--metrics-bind-address=127.0.0.1:{layout.KEDA_WEBHOOKS_METRICS}",
            f"--health-probe-bind-address=127.0.0.1:{layout.KEDA_WEBHOOKS_HEALTH}",
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
