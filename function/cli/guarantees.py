"""The GPUs that namespaces are guaranteed, by the settings of the Composition of ModelDeployments."""

from collections.abc import Mapping

from function.api.settings import parse_settings
from function.cli.composing import build_first_call
from function.cli.store import Store
from function.kube.manifests import Manifest
from function.kube.messages import format_count
from function.kube.names import VERSION


def find_guarantees(store: Store) -> dict[str, int]:
    """Returns the guaranteed GPUs of each namespace that has placements or deployments, or a setting of its own."""
    deployment: Manifest = {"apiVersion": VERSION, "kind": "ModelDeployment"}
    call = build_first_call(store, deployment)
    settings = parse_settings(call.input, call.context).value
    namespaces = {ref.namespace for ref in store.refs("ModelDeployment", "ModelPlacement")}
    found = {
        name: settings.limits_of(name).guaranteed_gpus for name in sorted(namespaces | {*settings.namespace_limits})
    }
    return {name: gpus for name, gpus in found.items() if gpus is not None}


def describe_guarantees(guarantees: Mapping[str, int], gpus: int) -> str:
    """Returns the sum of all guarantees, and whether it is more than the GPUs of all environments; empty if none."""
    total = sum(guarantees.values())
    if not guarantees:
        return ""
    if total > gpus:
        return f"guaranteed: {format_count(total, 'GPU')}, more than the {gpus} of all environments"
    return f"guaranteed: {total} of the {format_count(gpus, 'GPU')} of all environments"
