"""The hub: Crossplane core with the rights of its chart, provider-kubernetes with those that a provider is
given.

Core's RBAC manager cannot run here (it and provider-kubernetes both insist on port 8080), so what it would
grant is granted by `install/hub-rbac.yaml`, which serves installations without the RBAC manager too.
"""

from function.kube.manifests import Manifest
from tools import programs
from tools.stack import apiserver, inventory, layout, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import until

_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",  # core's role is an aggregate
)


def start(home: Home, processes: Processes) -> None:
    """Install CRDs and roles, then start core and the provider; the hub's API server is starting."""
    kubectl = Kubectl(home, "hub")
    until("the hub's API server", Api(home, "hub").ready)
    processes.start(apiserver.controllers(home, "hub", _CONTROLLERS))
    kubectl.apply(upstream.hub_crds(), server_side=True)
    kubectl.apply(inventory.namespaces("crossplane-system", "modelplane-system"))
    kubectl.established("crd", "--all")
    kubectl.apply([*upstream.core_roles(), *_bindings()])
    kubectl.apply(upstream.read(layout.SOURCE / "install/hub-rbac.yaml"))
    processes.start(_core(home))
    processes.start(_provider(home))


def _core(home: Home) -> Program:
    return Program(
        name="core",
        argv=(
            str(programs.path("crossplane-core")),
            "core",
            "start",
            "--package-runtime=Provider=External;Function=External",
            f"--xpkg-cache-dir={home.root / 'xpkg'}",
            f"--tls-client-certs-dir={home.server_tls}",
            f"--metrics-port={layout.CORE_METRICS}",
            f"--health-probe-port={layout.CORE_HEALTH}",
            *_recommended(),
        ),
        # There is no flag to turn webhooks off; on, they want serving certificates.
        env={"KUBECONFIG": str(home.kubeconfig("core")), "ENABLE_WEBHOOKS": "false"},
    )


def _recommended() -> list[str]:
    (values,) = upstream.read(layout.SOURCE / "install/crossplane-values.yaml")
    found = values["args"]
    return [str(argument) for argument in found] if isinstance(found, list) else []


def _provider(home: Home) -> Program:
    return Program(
        name="provider-kubernetes",
        argv=(
            str(programs.path("provider-kubernetes")),
            "--enable-management-policies",
            "--enable-watches",
            "--sanitize-secrets",
            "--poll=20s",  # what no watch tells, such as a Secret that is gone, shall not take a minute
            f"--health-probe-bind-addr=127.0.0.1:{layout.PROVIDER_HEALTH}",
        ),
        env={"KUBECONFIG": str(home.kubeconfig("provider")), "TLS_SERVER_CERTS_DIR": str(home.server_tls)},
    )


def _bindings() -> list[Manifest]:
    roles = {"crossplane": "crossplane", "provider-kubernetes": "modelplane:provider-kubernetes"}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "crossplane-system"}],
        }
        for account, role in roles.items()
    ]
