"""What the platform sets counts where a deployment is decided as it does where its placement is carried out."""

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from tests.support.plane import call, change, manifests, only, plane, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

OLD_SGLANG: JSON = {"name": "SGLang", "image": "lmsysorg/sglang:v0.4.0"}
VALID: Manifest = {
    "kserve": {"configPrefix": "acme-", "tls": True},
    "download": {"image": "reg.example.com/init:v1"},
    "secretNamespace": "platform",
}
INVALID: tuple[Manifest, ...] = (
    {"kserve": {"configPrefix": "{{x}}", "tls": True}},
    {"kserve": {"configPrefix": 5, "tls": True}},
    {"kserve": {"configPrefix": "acme-", "tls": "ja"}},
    {"kserve": {"configPrefix": "acme-", "tsl": True}},
    {"kserve": {"configPrefix": "acme-", "tls": True, "gateway": "no"}},
    {"kserve": "acme-"},
    {"download": "x"},
    {"storageInitializerImage": "bad image"},
    {"secretNamespace": "Platform_NS"},
    {"storageClassName": 5},
    {"remoteNamespacePrefix": "Team_"},
)
KINDS = ("InferenceEnvironment", "ModelDeployment", "ModelPlacement", "ModelCache")


@pytest.mark.parametrize(
    ("settings", "reason", "words"),
    [
        ({"download": {"serviceAccountName": "loader"}}, "InvalidDeployment", "run as this service account"),
        ({"kserve": {"tls": True}}, "InvalidProfile", "HTTPS"),
    ],
    ids=["account", "tls"],
)
def test_platform_settings_prevent_placement(settings: Manifest, reason: str, words: str) -> None:
    control = ControlPlane(renderer=Engine(call, settings), world=World())
    control.apply(manifests("gemma-one-gpu"))
    model, deployment = only(control, "ClusterModel"), only(control, "ModelDeployment")
    (profile,) = listing(control.composites[model], "spec.serving")
    change(control, model, "spec.serving", [{**profile, "engine": OLD_SGLANG}])
    control.settle()
    assert said(control, deployment, "Scheduled") == ("False", reason)
    assert words in text(condition(control.composites[deployment], "Scheduled"), "message")
    assert get(control.composites[deployment], "status.environments.placed") == 0
    assert not control.all("ModelPlacement")


def _composed(control: ControlPlane) -> dict[Ref, dict[str, Manifest]]:
    """Return the specs of what each composite has composed."""
    owned = {ref: control.store.owned(ref) for ref in control.store.refs(*KINDS)}
    return {ref: {key: mapping(m, "spec") for key, m in objects.items()} for ref, objects in owned.items()}


@pytest.mark.parametrize("story", ["kimi-k2-two-nodes", "model-cache"])
@pytest.mark.parametrize("invalid", INVALID, ids=str)
def test_invalid_settings_change_nothing_that_exists(invalid: Manifest, story: str) -> None:
    """Services keep their spec digest, and clusters are reached with the same Secret, until they are corrected."""
    control = plane(story, None, VALID)
    before = _composed(control)
    assert all(before.values())
    control.renderer = Engine(call, {**VALID, **invalid})
    control.settle()
    assert _composed(control) == before
    control.renderer = Engine(call, VALID)
    control.settle()
    assert _composed(control) == before


def test_invalid_settings_hold_what_is_new() -> None:
    control = plane("model-cache", None, VALID)
    control.renderer = Engine(call, {**VALID, "kserve": {"tls": "ja"}})
    new: list[Manifest] = [
        {**m, "metadata": {**mapping(m, "metadata"), "name": "new"}}
        for m in manifests("model-cache")
        if m["kind"] in ("InferenceEnvironment", "ModelDeployment", "ModelCache")
    ]
    control.apply(new)
    control.settle()
    for ref in map(Ref.of, new):
        assert not control.store.owned(ref)
        first = listing(control.composites[ref], "status.conditions")[0]
        assert (first["status"], first["reason"]) == ("False", "InvalidSettings")
        assert text(first, "message") == (
            "Correct the platform settings; nothing new starts until then. Running workloads are not affected. "
            'Platform settings: input.kserve.tls: "ja" is not allowed; must be true or false'
        )
    control.renderer = Engine(call, VALID)
    control.settle()
    assert all(control.store.owned(ref) for ref in map(Ref.of, new))
