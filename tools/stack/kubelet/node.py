"""The nodes whose pods the stand-in runs, and the program that does it."""

import sys

from function.kube.manifests import Manifest
from tools.stack.layout import Home
from tools.stack.processes import Program

LABEL = "modelplane.ai/kubelet"  # kwok leaves nodes that have it alone


def program(home: Home) -> Program:
    """Returns the stand-in for the kubelets of a stack."""
    return Program(name="kubelet", argv=(sys.executable, "-m", "tools.stack.kubelet", str(home.root)))


def build_node(name: str, labels: dict[str, str], resources: Manifest) -> Manifest:
    """Returns a node with more resources than its containers need: nothing enforces them."""
    size: Manifest = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", LABEL: "", **labels},
        },
        "status": {"allocatable": size, "capacity": size},
    }
