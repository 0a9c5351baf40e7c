"""The fleets that the page is shown with: three environments on a control plane, and a hundred from files."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import click

from function.cli.options import Sources
from function.cli.snapshot import build_snapshot
from function.kube.manifests import JSON, Manifest, condition, listing, mapping, text
from function.kube.names import VERSION
from tests.cli.api import ApiServer, serving
from tests.cli.conftest import controlled
from tests.cli.process import EXAMPLES
from tools.documents import documents

NOW = "2026-11-29T12:00:00Z"  # for ages, so that pictures stay the same
_CREATED = "2026-11-27T09:30:00Z"
_CHANGED = "2026-11-29T11:52:00Z"
_GPUS = (("nvidia-h100-80gb", "80Gi", 8), ("nvidia-h200-141gb", "141Gi", 8), ("nvidia-l40s-48gb", "48Gi", 4))


def read_three(folder: Path) -> dict[str, object]:
    """Return the snapshot of a control plane on which a download is under way and a deployment has no room."""
    settings = documents(EXAMPLES / "canary" / "composition.yaml")
    control = controlled([*settings, *documents(Path(__file__).with_name("fleet.yaml"))])
    manifests = copy.deepcopy(list(control.store.values()))
    for manifest in manifests:
        mapping(manifest, "metadata")["creationTimestamp"] = _CREATED
        for each in listing(manifest, "status.conditions"):
            each["lastTransitionTime"] = _CREATED
        if text(manifest, "kind") == "ModelPlacement" and text(manifest, "spec.deploymentRef.name") == "kimi":
            _show_download(manifest)
        if text(manifest, "kind") == "ModelService":
            _show_endpoints(manifest)
        if text(manifest, "kind") == "ModelDeployment" and text(manifest, "metadata.name") == "kimi":
            condition(manifest, "Ready").update({"status": "False", "lastTransitionTime": _CHANGED})
    with serving(ApiServer()) as server, click.Context(click.Command("ui")):
        server.put(manifests)
        return normalize(build_snapshot(Sources(kubeconfig=server.kubeconfig(folder), context="here")))


def normalize(snapshot: dict[str, object]) -> dict[str, object]:
    """Return a snapshot as its JSON has it, under a name that does not depend on the folder."""
    return {**snapshot, "source": "context production" if not snapshot["planned"] else "fleet/"}


def _show_download(placement: Manifest) -> None:
    status = mapping(placement, "status")
    status["phase"] = "Downloading"
    status.pop("readyReplicas", None)
    for type_, reason, message in (
        ("StorageReady", "Downloading", "Job kimi-k2-download on us-east has downloaded 412Gi of 1050Gi"),
        ("ServiceReady", "Starting", "waiting for the weights"),
    ):
        found = condition(placement, type_)
        found.update({"status": "False", "reason": reason, "message": message, "lastTransitionTime": _CHANGED})


def _show_endpoints(service: Manifest) -> None:
    """Let one endpoint serve and the other not, as the function writes it."""
    first, second = listing(service, "status.endpoints")
    first.update({"state": "Serving", "weight": 1, "address": "http://eu-west.gateways.example.com", "reason": ""})
    for row in listing(first, "backends"):
        row.update({"weight": 1, "readyReplicas": 3, "reason": ""})
    second["reason"] = "the gateway of us-east has not accepted the route yet"
    for row in listing(second, "backends"):
        row.update({"readyReplicas": 3, "reason": second["reason"]})


def read_hundred(folder: Path) -> dict[str, object]:
    """Return the snapshot of a hundred environments, and of deployments in a dozen namespaces, from files."""
    file = folder / "fleet.json"
    items: list[JSON] = [*_list_environments(100), *_list_models(), *_list_deployments(90)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return normalize(build_snapshot(Sources(files=(str(file),))))


def _list_environments(number: int) -> Iterator[Manifest]:
    for index in range(number):
        product, memory, gpus = _GPUS[index % len(_GPUS)]
        pool: Manifest = {
            "name": product.split("-")[1],
            "acceleratorType": product,
            "acceleratorCount": gpus,
            "nodeCount": 2 + index % 5,
            "labels": {"modelplane.ai/pool": product},
            "price": {"perGpuHour": f"{1 + index % 4}.50", "currency": "USD"},
            "capabilities": {"memoryPerGpu": memory, "precisionSupport": ["bf16", "fp8"]},
        }
        taints: list[JSON] = [{"key": "modelplane.ai/cordon", "effect": "NoSchedule", "reason": "repair"}]
        yield {
            "apiVersion": VERSION,
            "kind": "InferenceEnvironment",
            "metadata": {"name": f"site-{index:03}", "labels": {"modelplane.ai/region": ("eu", "us", "ap")[index % 3]}},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"site-{index:03}"}}},
                "storage": {"storageClassName": "shared"},
                "nodePools": [pool],
                **({"taints": taints} if index % 17 == 0 else {}),
            },
        }


def _list_models() -> Iterator[Manifest]:
    for name, gpus, memory in (("small", 1, "48Gi"), ("medium", 4, "80Gi"), ("large", 8, "141Gi")):
        requires: Manifest = {"memoryPerGpu": memory}
        yield {
            "apiVersion": VERSION,
            "kind": "ClusterModel",
            "metadata": {"name": name},
            "spec": {
                "model": {"name": f"org/{name}"},
                "huggingFace": {"repo": f"org/{name}"},
                "resources": {"disk": "40Gi"},
                "serving": [
                    {
                        "name": "default",
                        "replicaTopology": {"gpusPerNode": gpus, "requires": requires},
                        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.11.0"},
                    }
                ],
            },
        }


def _list_deployments(number: int) -> Iterator[Manifest]:
    for index in range(number):
        yield {
            "apiVersion": VERSION,
            "kind": "ModelDeployment",
            "metadata": {"name": f"model-{index:02}", "namespace": f"team-{index % 12:02}"},
            "spec": {
                "modelRef": {"name": ("small", "medium", "large")[index % 3]},
                "modelCache": {"type": "PVC"},
                "environments": 1 + index % 3,
                "scaling": {"fixed": {"replicas": 40 if index % 31 == 7 else 1 + index % 4}},
            },
        }
