"""The hub: Crossplane core with the rights of its chart, and what its package manager installs: provider-kubernetes,
with the rights that a provider is given, and our own packages.

Core's RBAC manager cannot run here (it and provider-kubernetes both insist on port 8080), so what it would
grant is granted by `install/hub-rbac.yaml`, which serves installations without the RBAC manager too.
"""

from function.kube.manifests import Manifest, listing
from tools import programs
from tools.stack import apiserver, inventory, layout, manager, packages, release, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

PROVIDER = "provider-kubernetes"
_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",  # core's role is an aggregate
)


def start(home: Home, processes: Processes) -> None:
    """Install core's CRDs and roles, start core, and tell it what to install; the hub's API server is starting."""
    kubectl = Kubectl(home, "hub")
    until("the hub's API server", Api(home, "hub").ready)
    processes.start(apiserver.controllers(home, "hub", _CONTROLLERS))
    packages.serve(home, processes)
    kubectl.apply(upstream.core_crds(), server_side=True)
    kubectl.apply(inventory.namespaces("crossplane-system"))
    kubectl.established("crd", "--all")
    kubectl.apply([*upstream.core_roles(), *_bindings()])
    kubectl.apply(upstream.read(layout.SOURCE / "install/hub-rbac.yaml"))
    kubectl.apply(upstream.read(layout.SOURCE / "install/gke-rbac.yaml"))
    kubectl.apply([upstream.usage_webhook(home, layout.CORE_WEBHOOK)])
    processes.start(_core(home))
    release.publish(home)
    manager.tell(home)
    packages.publish(home, upstream.provider_package(), manager.package(home, "Provider", PROVIDER))


def finish(home: Home, processes: Processes) -> None:
    """Wait until everything that was asked for is installed, and run the provider and the function."""
    install_provider(home, processes)
    release.configure(home)
    release.exchange(home, processes)


def install_provider(home: Home, processes: Processes, name: str = PROVIDER) -> None:
    """Wait until provider-kubernetes is installed under a name, and run it."""

    def provide() -> None:
        # As core's own runtime does: a provider that starts before the kinds that it is wanted for never serves them.
        for kind in ("objects", "observedobjectcollections"):
            Kubectl(home, "hub").established("crd", f"{kind}.kubernetes.m.crossplane.io")
        processes.start(_provider(home))
        until(PROVIDER, lambda: listens(layout.PROVIDER_HEALTH))

    manager.install(home, "Provider", name, provide)


def _core(home: Home) -> Program:
    return Program(
        name="core",
        argv=(
            str(programs.path("crossplane-core")),
            "core",
            "start",
            "--package-runtime=Provider=External;Function=External",
            f"--xpkg-cache-dir={home.package_cache}",
            f"--tls-client-certs-dir={home.server_tls}",
            f"--metrics-port={layout.CORE_METRICS}",
            f"--health-probe-port={layout.CORE_HEALTH}",
            *_arguments(*upstream.read(layout.SOURCE / "install/crossplane-values.yaml")),
        ),
        env={
            "KUBECONFIG": str(home.kubeconfig("core")),
            # The webhook of Usages refuses the deletion of what is in use.
            "ENABLE_WEBHOOKS": "true",
            "WEBHOOK_PORT": str(layout.CORE_WEBHOOK),
            "TLS_SERVER_CERTS_DIR": str(home.server_tls),
        },
    )


def _arguments(manifest: Manifest) -> list[str]:
    found = manifest["args"]
    return [str(argument) for argument in found] if isinstance(found, list) else []


def _provider(home: Home) -> Program:
    _, config = upstream.read(layout.SOURCE / "install/provider.yaml")
    (container,) = listing(config, "spec.deploymentTemplate.spec.template.spec.containers")
    return Program(
        name=PROVIDER,
        argv=(
            str(programs.path("provider-kubernetes")),
            *_arguments(container),
            "--poll=20s",  # changes that no watch reports, such as a deleted Secret, are seen within a minute
            f"--health-probe-bind-addr=127.0.0.1:{layout.PROVIDER_HEALTH}",
        ),
        env={"KUBECONFIG": str(home.kubeconfig("provider")), "TLS_SERVER_CERTS_DIR": str(home.server_tls)},
    )


def _bindings() -> list[Manifest]:
    roles = {"crossplane": "crossplane", PROVIDER: "modelplane:provider-kubernetes"}
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
