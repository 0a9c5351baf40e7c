"""A placement stays on its cluster, because its Objects describe resources of this cluster."""

from dataclasses import replace

import pytest

from function.api.inference_environment import name_provider_config
from function.kube.manifests import Manifest, mapping
from function.parts.references import find_other_cluster
from function.reasons import Status
from tests.support import builders
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    build_scene,
    edit_environment,
    edit_placement,
    set_field,
)


def another(found: Scene) -> None:
    """Let the reference name another environment, which is there."""
    edit_placement("inferenceEnvironmentRef.name", "h200-west")(found)
    mapping(found.answers["environment"], "metadata")["name"] = "h200-west"
    mapping(found.answers["environment"], "status").pop("providerConfigRef", None)


def without_pools(found: Scene) -> None:
    """Let the other environment have none of the pools."""
    edit_environment("nodePools", [])(found)


@pytest.mark.parametrize("edits", [(another,), (another, without_pools)], ids=["alike", "without-its-pool"])
def test_keeps_objects_when_environment_reference_changes(edits: tuple[Edit, ...]) -> None:
    rest = build_scene(SEVERAL_NODES)
    changed = rest.edited(*edits)
    said = changed.condition("ReferencesResolved")
    assert (said.status, said.reason) == (Status.FALSE, "InvalidPlacement")
    assert said.message == (
        'spec.inferenceEnvironmentRef: "h200-west" is not allowed; must be the environment whose '
        "ClusterProviderConfig is h200-east-5519afe8, where its objects are; delete the placement and "
        "make another to move"
    )
    assert changed.composed("") == rest.composed(""), "running services stay on their cluster"


def test_accepts_recreated_environment() -> None:
    def again(found: Scene) -> None:
        found.answers["environment"]["status"] = {}
        mapping(found.answers["environment"], "metadata")["uid"] = "another"

    rest = build_scene(SEVERAL_NODES)
    assert rest.edited(again).condition("ReferencesResolved").status is Status.TRUE


def test_accepts_provider_config_of_environment_status() -> None:
    def named(found: Scene) -> None:
        set_field(found.answers["environment"], "status.providerConfigRef.name", "of-an-earlier-release")

    rest = build_scene(SEVERAL_NODES)
    assert rest.edited(named).condition("ReferencesResolved").status is Status.TRUE, (
        "its own name, by the rule of names"
    )
    kept = rest.edited(named)
    for manifest in kept.observed.values():
        set_field(manifest, "spec.providerConfigRef.name", "of-an-earlier-release")
    assert kept.condition("ReferencesResolved").status is Status.TRUE


def test_finds_objects_on_other_cluster() -> None:
    def on(config: str) -> Manifest:
        return {"spec": {"providerConfigRef": {"name": config}} if config else {"of": {"kind": "ModelCache"}}}

    east = replace(builders.environment("east"), provider_config="said")
    here = {"a": on("said"), "b": on(name_provider_config("east")), "cache-usage": on("")}
    assert find_other_cluster(here, east) == "", "by what its status says, by its name, and on the control plane itself"
    assert find_other_cluster({"z": on("west"), "y": on("north"), **here}, east) == "north", (
        "the first by composed resource"
    )
