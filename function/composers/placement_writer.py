"""A scheduling decision becomes a ModelPlacement on the control plane."""

from collections.abc import Mapping
from dataclasses import replace

from function.contract import Composed
from function.domain.model import Shape
from function.domain.placement import Deployment, Placement
from function.kube.manifests import JSON, Manifest, integer, mapping, prune, text
from function.kube.names import (
    ANNOTATION_EXCLUSIVE_NODES,
    ANNOTATION_PRICE,
    ANNOTATION_VRAM,
    LABEL_DEPLOYMENT,
    MANAGED_BY,
    VERSION,
    label_value,
)
from function.scheduling.admission import build_labels

KIND = "ModelPlacement"


def build_placement(deployment: Deployment, placement: Placement, cache: JSON) -> Manifest:
    """Returns the ModelPlacement that records a decision; `cache` is the deployment's `modelCache`, unchanged."""
    shape, price = placement.shape, placement.price
    annotations = prune(
        {
            ANNOTATION_VRAM: None if placement.vram is None else str(placement.vram),
            ANNOTATION_PRICE: f"{price.per_gpu_hour} {price.currency}" if price else None,
            ANNOTATION_EXCLUSIVE_NODES: "true" if placement.exclusive_replica_nodes else None,
        }
    )
    return {
        "apiVersion": VERSION,
        "kind": KIND,
        "metadata": prune(
            {
                "name": placement.name,
                "namespace": placement.namespace,
                "labels": {
                    **MANAGED_BY,
                    LABEL_DEPLOYMENT: label_value(deployment.name),
                    **build_labels(placement.environment, deployment.cache),
                },
                "annotations": annotations or None,
            }
        ),
        "spec": prune(
            {
                "modelRef": {"kind": deployment.model.kind, "name": deployment.model.name},
                "deploymentRef": {"name": deployment.name},
                "inferenceEnvironmentRef": {"name": placement.environment},
                "profile": placement.profile,
                "pool": placement.pool,
                "topology": _build_topology(shape) if shape else None,
                "replicas": placement.replicas,
                "rollout": _build_rollout(deployment, placement),
                "modelCache": cache,
            }
        ),
    }


def drain_placement(item: Composed) -> Composed:
    """Returns an observed placement to which ModelServices are to send no requests any more."""
    spec: Manifest = {**mapping(item.manifest, "spec"), "draining": True}
    return replace(item, manifest={**item.manifest, "spec": spec})


def build_service(deployment: Deployment, block: Manifest) -> Manifest:
    """Returns the ModelService of a deployment; `block` is its `service`, unchanged."""
    return {
        "apiVersion": VERSION,
        "kind": "ModelService",
        "metadata": {
            "name": deployment.name,
            "namespace": deployment.namespace,
            "labels": {**MANAGED_BY, LABEL_DEPLOYMENT: label_value(deployment.name)},
        },
        "spec": {"backends": [{"deployment": deployment.name}], **block},
    }


def lower_replicas(composed: Mapping[str, Composed], replicas: int) -> dict[str, Composed]:
    """Returns composed resources in which no ModelPlacement has more than `replicas`; nothing else changes.

    Scaling down needs no model, environment or capacity, so a placement that is carried over is scaled down as well.
    """
    lowered = dict(composed)
    for key, item in composed.items():
        if text(item.manifest, "kind") == KIND and integer(item.manifest, "spec.replicas", 1) > replicas:
            spec: Manifest = {**mapping(item.manifest, "spec"), "replicas": replicas}
            lowered[key] = replace(item, manifest={**item.manifest, "spec": spec})
    return lowered


def _build_rollout(deployment: Deployment, placement: Placement) -> Manifest | None:
    when_full = "Replace" if deployment.replaces_when_full else None
    return prune({"digest": placement.allowed_digest, "whenFull": when_full}) or None


def _build_topology(shape: Shape) -> Manifest:
    split = shape.parallelism
    return {
        "nodes": shape.nodes,
        "gpusPerNode": shape.gpus_per_node,
        "parallelism": prune(
            {
                "tensor": split.tensor,
                "pipeline": split.pipeline,
                "data": split.data,
                "dataLocal": split.data_local,
                "expert": "enabled" if split.expert else "disabled",
            }
        ),
    }
