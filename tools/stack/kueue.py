"""Kueue on a GPU cluster: its CRDs and webhooks, and its controller as a process.

Scenarios that need it start it on a running stack. It is Kueue itself, with the integrations that its own configuration
enables for what runs there. Its webhooks fail closed, as they do on clusters: while it does not answer, no pod is
created.
"""

from functools import cache
from pathlib import Path

import yaml

from function.kube.manifests import JSON, Manifest, list_texts, listing, mapping, text
from tools import programs
from tools.stack import certificates, inventory, layout, upstream
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Cluster, Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

NAME = "kueue"
_NAMESPACE = "kueue-system"
# Of the kinds that the cluster serves.
_INTEGRATIONS = ("batch/job", "pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")
_SERVED = ("", "apps", "batch", "kueue.x-k8s.io", "leaderworkerset.x-k8s.io")  # groups
# As config/components/webhook/kustomization.yaml of Kueue: its own pods must not wait for its webhooks.
_ELSEWHERE: Manifest = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", _NAMESPACE]}
    ]
}
_CORE_KINDS = ("pod", "deployment", "statefulset")
# Where others manage its certificates, Kueue reads those of its metrics from this folder, and ends without them.
_METRICS_CERTIFICATES = "/etc/kueue/metrics/certs"
# It needs nothing else of /etc, and gets one of its own.
_START = 'mount -t tmpfs kueue /etc && mkdir -p "$1" && cp "$0"/tls.* "$1" && shift && exec "$@"'


def up(home: Home, processes: Processes, cluster: Cluster = layout.EAST) -> None:
    """Install and start Kueue."""
    programs.path(NAME)
    kubectl = Kubectl(home, cluster.name)
    crds = _crds(home, layout.KUEUE_WEBHOOK + cluster.shift)
    kubectl.apply([*inventory.namespaces(_NAMESPACE), *crds], server_side=True)
    kubectl.established("crd", *(text(crd, "metadata.name") for crd in crds))
    processes.start(controller(home, cluster))
    until("Kueue's webhooks", lambda: listens(layout.KUEUE_WEBHOOK + cluster.shift))
    kubectl.apply(_webhooks(home, layout.KUEUE_WEBHOOK + cluster.shift), server_side=True)


def down(home: Home, processes: Processes, cluster: Cluster = layout.EAST) -> None:
    """Remove Kueue's webhooks, without which its end would stop the cluster, then stop it and delete its CRDs."""
    kubectl = Kubectl(home, cluster.name)
    for hooks in _webhooks(home, layout.KUEUE_WEBHOOK + cluster.shift):
        kubectl("delete", text(hooks, "kind"), text(hooks, "metadata.name"), "--ignore-not-found")
    kubectl("delete", "crd", *(text(crd, "metadata.name") for crd in _crds(home, 0)), "--ignore-not-found")
    processes.stop(f"{cluster.prefix}{NAME}")


def controller(home: Home, cluster: Cluster = layout.EAST) -> Program:
    """Return Kueue's controller, which serves its webhooks, too."""
    config = home.root / f"{cluster.prefix}{NAME}.yaml"
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{layout.KUEUE_HEALTH + cluster.shift}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": layout.KUEUE_WEBHOOK + cluster.shift, "certDir": str(home.server_tls)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": [*_INTEGRATIONS]},
    }
    config.write_text(yaml.safe_dump(settings))
    argv = (
        *("unshare", "--mount", "sh", "-c", _START, str(home.server_tls), _METRICS_CERTIFICATES),
        str(programs.path(NAME)),
        f"--config={config}",
        f"--kubeconfig={home.kubeconfig(cluster.name)}",
        "--feature-gates=VisibilityOnDemand=false",  # an API server of its own, which nothing here asks
        "--zap-log-level=2",
    )
    return Program(name=f"{cluster.prefix}{NAME}", argv=argv)


def _crds(home: Home, port: int) -> list[Manifest]:
    folder = _module() / "config/components/crd"
    converted = {
        text(patch, "metadata.name")
        for path in sorted((folder / "patches").glob("webhook_in_*.yaml"))
        for patch in upstream.read(path)
    }
    found = upstream.read(*sorted((folder / "bases").glob("*.yaml")))
    for crd in found:
        if text(crd, "metadata.name") in converted:
            client: JSON = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": certificates.authority(home)}
            webhook: JSON = {"conversionReviewVersions": ["v1"], "clientConfig": client}
            mapping(crd, "spec")["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return found


def _webhooks(home: Home, port: int) -> list[Manifest]:
    found = upstream.read(_module() / "config/components/webhook/manifests.yaml")
    for hooks in found:
        mapping(hooks, "metadata")["name"] = f"kueue-{text(hooks, 'metadata.name')}"
        served = [hook for hook in listing(hooks, "webhooks") if _is_served(hook)]
        for hook in served:
            path = text(hook, "clientConfig.service.path")
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": certificates.authority(home)}
            if any(text(hook, "name") in {f"m{kind}.kb.io", f"v{kind}.kb.io"} for kind in _CORE_KINDS):
                hook["namespaceSelector"] = _ELSEWHERE
        hooks["webhooks"] = [*served]
    return found


def _is_served(hook: Manifest) -> bool:
    return all(group in _SERVED for rule in listing(hook, "rules") for group in list_texts(rule, "apiGroups"))


@cache
def _module() -> Path:
    return programs.module_dir(NAME, "sigs.k8s.io/kueue")
