"""What the platform sets counts where a deployment is decided as it does where its placement is carried out."""

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, listing, text
from tests.support.plane import call, change, manifests, only, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

OLD_SGLANG: JSON = {"name": "SGLang", "image": "lmsysorg/sglang:v0.4.0"}


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
