"""An image that the kubelet cannot parse is a problem in every field for images, and removes no running workload."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.settings import parse_settings
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.support.plane import change, manifests, only, plane, remote, said
from tools.control_plane import ControlPlane

ALLOWED = (
    "is not allowed; must be a reference such as registry.example.com/team/engine:v1, with a path in lower case, at "
    "most one tag and a complete digest"
)
NOT_PULLED = ("UPPER/Case:v1", "a:b:c", "vllm/vllm-openai@sha256:zz", "vllm/vllm-openai:v0.15.0:latest")


def manifest(kind: str, story: str) -> Manifest:
    (found,) = (m for m in manifests(story) if m["kind"] == kind)
    return copy.deepcopy(found)


@pytest.mark.parametrize(
    ("name", "image", "other"),
    [("SGLang", "mirror.local:5000/vllm/vllm-openai:v0.15.0", "vLLM"), ("vLLM", "lmsysorg/sglang:v0.5.10", "SGLang")],
)
def test_refuses_the_image_of_another_engine(name: str, image: str, other: str) -> None:
    model = manifest("ClusterModel", "gemma-one-gpu")
    mapping(listing(model, "spec.serving")[0], "engine").update({"name": name, "image": image})
    (problem,) = parse_model(model, BUILT_IN).problems
    assert str(problem) == (
        f'spec.serving[0].engine.image: "{image}" is not allowed; must be an image of {name}, as in engine.name, and '
        f"not of {other}"
    )


@pytest.mark.parametrize("image", NOT_PULLED)
def test_refuses_an_invalid_image_of_an_engine(image: str) -> None:
    model = manifest("ClusterModel", "gemma-one-gpu")
    mapping(listing(model, "spec.serving")[0], "engine")["image"] = image
    parsed = parse_model(model, BUILT_IN)
    assert [str(p) for p in parsed.problems] == [f'spec.serving[0].engine.image: "{image}" {ALLOWED}']
    assert parsed.value is not None
    assert parsed.value.profiles == ()


@pytest.mark.parametrize("image", NOT_PULLED)
def test_refuses_an_invalid_image_with_weights(image: str) -> None:
    model = manifest("Model", "oci-image")
    mapping(model, "spec.oci")["image"] = image
    assert [str(p) for p in parse_model(model, BUILT_IN).problems] == [f'spec.oci.image: "{image}" {ALLOWED}']


@pytest.mark.parametrize("image", NOT_PULLED)
def test_refuses_an_invalid_image_of_downloads(image: str) -> None:
    environment = manifest("InferenceEnvironment", "kimi-k2-two-nodes")
    mapping(environment, "spec.storage")["download"] = {"image": image}
    parsed = parse_environment(environment, BUILT_IN)
    assert [str(p) for p in parsed.problems] == [f'spec.storage.download.image: "{image}" {ALLOWED}']
    assert parsed.value.storage.download.image == BUILT_IN.download.image


@pytest.mark.parametrize("image", NOT_PULLED)
@pytest.mark.parametrize(
    ("setting", "path"),
    [("storageInitializerImage", "input.storageInitializerImage"), ("download", "input.download.image")],
)
def test_refuses_an_invalid_image_in_settings(image: str, setting: str, path: str) -> None:
    value: JSON = {"image": image} if setting == "download" else image
    parsed = parse_settings({setting: value}, {})
    assert [str(p) for p in parsed.problems] == [f'{path}: "{image}" {ALLOWED}']
    assert parsed.value == replace(BUILT_IN, valid=False), "the weaker level counts"


def test_reports_a_template_in_an_image_once() -> None:
    """Braces are not allowed in a reference either."""
    model = manifest("ClusterModel", "gemma-one-gpu")
    mapping(listing(model, "spec.serving")[0], "engine")["image"] = "engine:{{tag}}"
    assert [p.path for p in parse_model(model, BUILT_IN).problems] == ["spec.serving[0].engine.image"]


Edit: TypeAlias = Callable[[ControlPlane], None]


def _edit_engine(control: ControlPlane) -> None:
    ref = only(control, "ClusterModel")
    edited = copy.deepcopy(control.composites[ref])
    for profile in listing(edited, "spec.serving"):
        mapping(profile, "engine")["image"] = "UPPER/Case:v1"
    control.composites[ref] = edited


def _edit_weights(control: ControlPlane) -> None:
    change(control, only(control, "Model"), "spec.oci.image", "a:b:c")


def _edit_download(control: ControlPlane) -> None:
    change(control, only(control, "InferenceEnvironment"), "spec.storage.download", {"image": "engine@sha256:zz"})


@pytest.mark.parametrize(
    ("story", "edit"),
    [("kimi-k2-two-nodes", _edit_engine), ("oci-image", _edit_weights), ("kimi-k2-two-nodes", _edit_download)],
    ids=["engine", "weights", "download"],
)
def test_keeps_the_service_when_an_image_becomes_invalid(story: str, edit: Edit) -> None:
    control = plane(story)
    placement = only(control, "ModelPlacement")
    before = control.rounds[-1].rendered[placement].composed
    served = remote(control, placement, "service-")
    assert served
    edit(control)
    control.settle()
    assert remote(control, placement, "service-") == served
    assert control.rounds[-1].rendered[placement].composed.keys() == before.keys()
    assert said(control, placement, "ReferencesResolved")[0] == "False"
