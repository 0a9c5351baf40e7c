"""A GPU cluster: Kubernetes' own controllers and scheduler, kwok's nodes, LeaderWorkerSet and KServe.

Order matters: webhook manifests go in when their process listens, presets after the webhooks.
"""

import yaml

from tools import programs
from tools.stack import apiserver, inventory, layout, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.kubelet import node
from tools.stack.layout import Cluster, Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

# node-lifecycle stays: without it nodes keep their not-ready taint.
_CONTROLLERS = (
    "*",
    "-node-ipam-controller",
    "-service-lb-controller",
    "-cloud-node-lifecycle-controller",
    "-node-route-controller",
)
# A kubelet makes its pods Ready again after an outage of the API server; kwok does not.
_PATIENCE = "--node-monitor-grace-period=10m"


def start(home: Home, processes: Processes, cluster: Cluster = layout.EAST) -> None:
    """Start everything that runs on or for a GPU cluster; its API server serves already."""
    kubectl = Kubectl(home, cluster.name)
    until(f"the API server of {cluster.name}", Api(home, cluster.name).ready)
    for program in (
        apiserver.controllers(home, cluster.name, _CONTROLLERS, _PATIENCE),
        apiserver.scheduler(home, cluster.name),
        _kwok(home, cluster),
    ):
        processes.start(program)
    kubectl.apply([*inventory.nodes(), *inventory.namespaces("kserve"), *inventory.storage()], server_side=True)
    crds = upstream.kserve_crds(home, layout.KSERVE_WEBHOOK + cluster.shift)
    kubectl.apply([*upstream.lws_crds(), *crds], server_side=True)
    kubectl.established("crd", "--all")
    kubectl.apply([*upstream.kserve_config(), *inventory.gateway()], server_side=True)
    kubectl.apply(upstream.read(layout.SOURCE / "install/remote-rbac.yaml"))
    processes.start(_lws(home, cluster))
    processes.start(_kserve(home, cluster))


def finish(home: Home, cluster: Cluster = layout.EAST) -> None:
    """Install webhooks and presets once their processes listen, and wait for the nodes."""
    kubectl = Kubectl(home, cluster.name)
    lws, kserve = layout.LWS_WEBHOOK + cluster.shift, layout.KSERVE_WEBHOOK + cluster.shift
    until("LeaderWorkerSet's webhooks", lambda: listens(lws))
    kubectl.apply(upstream.lws_webhooks(home, lws), server_side=True)
    until("KServe's webhooks", lambda: listens(kserve))
    kubectl.apply(upstream.kserve_webhooks(home, kserve), server_side=True)

    def presets() -> bool:
        kubectl.apply(upstream.kserve_presets(), server_side=True)
        return True

    until("KServe's presets", presets)
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")


def _kwok(home: Home, cluster: Cluster) -> Program:
    # Without leases nodes go NotReady and their pods lose Ready for good.
    return Program(
        name=f"{cluster.prefix}kwok",
        argv=(
            str(programs.path("kwok")),
            f"--kubeconfig={home.kubeconfig(cluster.name)}",
            f"--manage-nodes-with-label-selector=!{node.LABEL}",
            "--node-lease-duration-seconds=200",
            f"--server-address=127.0.0.1:{layout.KWOK + cluster.shift}",
            f"--cidr={cluster.pods.replace('.0/', '.1/')}",
        ),
    )


def _lws(home: Home, cluster: Cluster) -> Program:
    config = home.root / f"{cluster.prefix}lws.yaml"
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": layout.LWS_WEBHOOK + cluster.shift, "certDir": str(home.server_tls)},
        "metrics": {"bindAddress": f"127.0.0.1:{layout.LWS_METRICS + cluster.shift}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{layout.LWS_HEALTH + cluster.shift}"},
    }
    config.write_text(yaml.safe_dump(settings))
    argv = (str(programs.path("lws")), "--config", str(config), "--kubeconfig", str(home.kubeconfig(cluster.name)))
    return Program(name=f"{cluster.prefix}lws", argv=argv)


def _kserve(home: Home, cluster: Cluster) -> Program:
    # It looks for certificates below TMPDIR, in a folder that controller-runtime names.
    temporary = home.root / f"{cluster.prefix}kserve"
    serving = temporary / "k8s-webhook-server" / "serving-certs"
    serving.parent.mkdir(parents=True, exist_ok=True)
    if not serving.exists():
        serving.symlink_to(home.server_tls)
    return Program(
        name=f"{cluster.prefix}kserve",
        argv=(
            str(programs.path("kserve-llmisvc")),
            f"--webhook-port={layout.KSERVE_WEBHOOK + cluster.shift}",
            f"--metrics-addr=127.0.0.1:{layout.KSERVE_METRICS + cluster.shift}",
            "--metrics-secure=false",
            f"--health-probe-addr=127.0.0.1:{layout.KSERVE_HEALTH + cluster.shift}",
        ),
        env={"KUBECONFIG": str(home.kubeconfig(cluster.name)), "TMPDIR": str(temporary), "POD_NAMESPACE": "kserve"},
    )
