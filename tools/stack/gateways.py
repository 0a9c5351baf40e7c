"""Real gateways instead of the played one, and pods that answer: what scenarios with ModelServices add to a stack.

Each cluster has a Traefik with an address of its own, because one with 127.0.0.1 could not be the endpoint of a
Service: the API server refuses such slices. The addresses exist in the stack's network namespace only.
"""

import subprocess
from functools import partial

from tools import programs
from tools.stack import apiserver, inventory, layout, players, pods, remote, traffic, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import EAST, WESTERN, Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

ADDRESSES = {"hub": "10.99.0.1", EAST.name: "10.99.1.1", WESTERN.name: "10.99.2.1"}
NAME, NAMESPACE = "models", "modelplane-system"  # of the control plane's Gateway
METRICS = 8082
_CLASS, _CONTROLLER = "traefik", "traefik.io/gateway-controller"
_WEST = ("apiserver", "controllers", "scheduler", "kwok", "lws", "kserve", "players")


def start_west(home: Home, processes: Processes) -> None:
    """Start the second GPU cluster."""
    processes.start(apiserver.apiserver(home, WESTERN.name))
    remote.start(home, processes, WESTERN)
    remote.finish(home, WESTERN)
    processes.start(players.program(home, WESTERN))


def stop_west(processes: Processes) -> None:
    """End the second GPU cluster; what etcd has of it stays."""
    for name in reversed(_WEST):
        processes.stop(f"{WESTERN.prefix}{name}", patience=5)


def start_gateways(home: Home, processes: Processes) -> None:
    """Put a Traefik in front of each cluster, and pods that answer in the place of the played traffic."""
    processes.stop(traffic.NAME)
    for cluster in (EAST, WESTERN):
        subprocess.run(("ip", "route", "replace", "local", cluster.pods, "dev", "lo"), check=True)
    for address in ADDRESSES.values():
        subprocess.run(("ip", "address", "replace", f"{address}/32", "dev", "lo"), check=True)
    install_gateway_api(home)
    processes.start(pods.program(home))
    for name in (EAST.name, WESTERN.name):
        Kubectl(home, name).apply(upstream.gateway_crds(), server_side=True)
        _exchange_gateway(home, name, _CLASS, _CONTROLLER)
    for name in ADDRESSES:
        processes.start(program(home, name))
    for name, address in ADDRESSES.items():
        until(f"the gateway of {name}", partial(listens, layout.GATEWAY, address))


def stop_gateways(home: Home, processes: Processes) -> None:
    """Have the played gateway again. Gateway API stays: core waits two minutes for a kind that has gone."""
    for name in ADDRESSES:
        processes.stop(f"traefik-{name}")
    processes.stop(pods.NAME)
    Api(home, EAST.name).delete("GatewayClass", _CLASS)
    _exchange_gateway(home, EAST.name, inventory.PLAYED, inventory.PLAYER)
    processes.start(traffic.program(home))


def install_gateway_api(home: Home) -> None:
    """Install Gateway API on the control plane, and its Gateway."""
    kubectl = Kubectl(home, "hub")
    kubectl.apply(upstream.gateway_crds(), server_side=True)
    kubectl.established("crd", *(f"{kind}.gateway.networking.k8s.io" for kind in upstream.GATEWAY_CRDS))
    kubectl.apply(inventory.list_gateway_manifests(_CLASS, _CONTROLLER, NAMESPACE, NAME))


def program(home: Home, name: str) -> Program:
    """Return the gateway of a cluster, with Traefik's own throttle."""
    return Program(
        name=f"traefik-{name}",
        argv=(
            str(programs.wheel("traefik")),
            f"--entrypoints.web.address={ADDRESSES[name]}:{layout.GATEWAY}",
            "--providers.kubernetesgateway",
            f"--providers.kubernetesgateway.statusaddress.ip={ADDRESSES[name]}",
            # What can wake a deployment without replicas (docs/scale.md).
            f"--entrypoints.metrics.address={ADDRESSES[name]}:{METRICS}",
            "--metrics.prometheus.entrypoint=metrics",
            "--metrics.prometheus.addrouterslabels=true",
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
        ),
        env={"KUBECONFIG": str(home.kubeconfig(name))},
    )


def _exchange_gateway(home: Home, name: str, class_name: str, controller: str) -> None:
    """Replace the Gateway that KServe's routes refer to, with whatever status another controller has written."""
    Api(home, name).delete("Gateway", inventory.GATEWAY, "kserve")
    Kubectl(home, name).apply(inventory.list_gateway_manifests(class_name, controller, "kserve", inventory.GATEWAY))
