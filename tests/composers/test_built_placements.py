"""A decision as it is recorded: whole manifests, and the labels by which others find it."""

import copy
from dataclasses import replace

import pytest

from function.api.model_deployment import parse_placement
from function.composers.model_deployment import build_placement
from function.domain.cache import ModelCacheChoice
from function.domain.model import Parallelism
from function.kube.manifests import Manifest, mapping
from tests.support import builders
from tests.support.remote_scene import set_field

SHAPE = builders.shape(2, 8, Parallelism(tensor=8, pipeline=2, data=3, data_local=1, expert=True))
DECIDED = builders.placement("east", "h200", name="chat-1", namespace="team", shape=SHAPE, replicas=3, vram="80Gi")
WANT: Manifest = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelPlacement",
    "metadata": {
        "name": "chat-1",
        "namespace": "team",
        "labels": {
            "app.kubernetes.io/managed-by": "modelplane",
            "modelplane.ai/deployment": "chat",
            "modelplane.ai/environment": "east",
            "modelplane.ai/cache": "weights",
        },
        "annotations": {"modelplane.ai/vram": str(80 * 2**30)},
    },
    "spec": {
        "modelRef": {"kind": builders.MODEL.kind, "name": builders.MODEL.name},
        "deploymentRef": {"name": "chat"},
        "inferenceEnvironmentRef": {"name": "east"},
        "profile": "default",
        "pool": "h200",
        "topology": {
            "nodes": 2,
            "gpusPerNode": 8,
            "parallelism": {"tensor": 8, "pipeline": 2, "data": 3, "dataLocal": 1, "expert": "enabled"},
        },
        "replicas": 3,
        "modelCache": {"name": "weights"},
    },
}


def test_records_complete_decision() -> None:
    deployment = builders.deployment(cache=ModelCacheChoice(name="weights"))
    assert build_placement(deployment, DECIDED, {"modelCache": {"name": "weights"}}) == WANT


def test_omits_unknown_fields() -> None:
    bare = replace(DECIDED, shape=None, vram=None)
    made = build_placement(builders.deployment(), bare, {})
    labels = mapping(WANT, "metadata.labels")
    want = copy.deepcopy(WANT)
    set_field(want, "metadata.annotations", None)
    set_field(want, "metadata.labels", {key: value for key, value in labels.items() if key != "modelplane.ai/cache"})
    set_field(want, "spec.topology", None)
    set_field(want, "spec.modelCache", None)
    assert made == want
    narrow = replace(DECIDED, shape=builders.shape(1, 1, Parallelism(tensor=1)))
    made = build_placement(builders.deployment(), narrow, {})
    split: Manifest = {"tensor": 1, "pipeline": 1, "expert": "disabled"}
    assert mapping(made, "spec.topology") == {"nodes": 1, "gpusPerNode": 1, "parallelism": split}


@pytest.mark.parametrize("vram", [None, "80Gi"])
def test_ledger_reads_exclusive_nodes_annotation(vram: str | None) -> None:
    apart = replace(builders.placement(vram=vram), exclusive_replica_nodes=True)
    found = parse_placement(build_placement(builders.deployment(), apart, {})).value
    assert found
    assert (found.requested, found.vram) == (apart.requested, apart.vram)
    assert found.exclusive_replica_nodes
