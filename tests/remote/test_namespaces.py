"""A placement or cache keeps the remote namespace in which it started; `remoteNamespacePrefix` applies to new ones."""

from dataclasses import replace

import pytest

from function.kube.manifests import Manifest, text
from tests.support.plane import only, plane, remote, said
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, build_scene, edit_settings
from tools.control_plane import ControlPlane
from tools.engine import Engine

STORIES = (SEVERAL_NODES, ONE_NODE, "shared-claim", "bring-your-own-claim", "private-model", "model-cache")
INPUT: Manifest = {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults"}


def prefixed(prefix: str) -> Manifest:
    """Return the function's input with a prefix."""
    return {**INPUT, "remoteNamespacePrefix": prefix}


def change_prefix(control: ControlPlane, prefix: str) -> None:
    """Let the platform set another prefix from now on."""
    assert isinstance(control.renderer, Engine)
    control.renderer = replace(control.renderer, input=prefixed(prefix))


def namespaces(found: dict[str, Manifest]) -> set[str]:
    """Return the namespaces of the remote manifests."""
    return {text(m, "metadata.namespace") for m in found.values()} - {""}


@pytest.mark.parametrize("story", STORIES)
def test_keeps_remote_namespace_when_prefix_changes(story: str) -> None:
    control = plane(story, settings=prefixed("a-"))
    composites = [*control.all("ModelPlacement"), *control.all("ModelCache")]
    before = {ref: remote(control, ref, "") for ref in composites}
    change_prefix(control, "b-")
    for _ in range(4):
        control.advance()
    for ref in composites:
        assert remote(control, ref, "") == before[ref]
        assert namespaces(before[ref]) <= {f"a-{ref.namespace}"}
    assert {said(control, ref, "ServiceReady") for ref in control.all("ModelPlacement")} == {("True", "Serving")}


@pytest.mark.parametrize("story", [SEVERAL_NODES, "model-cache"])
def test_starts_in_namespace_with_current_prefix(story: str) -> None:
    rest = build_scene(story).edited(edit_settings("remoteNamespacePrefix", "a-"))
    started = rest.edited(lambda found: found.observed.clear())
    (namespace,) = started.composed("namespace").values()
    assert text(namespace, "metadata.name").startswith("a-")
    assert namespaces(started.composed("")) <= {text(namespace, "metadata.name")}


def test_names_of_remote_objects_do_not_depend_on_prefix() -> None:
    control = plane(SEVERAL_NODES, settings=prefixed("a-"))
    placement = only(control, "ModelPlacement")
    plain = plane(SEVERAL_NODES)
    assert remote(control, placement, "service-").keys() == remote(plain, placement, "service-").keys()
