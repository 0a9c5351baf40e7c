"""What the command line says of replicas that are divided over environments, and of replicas by load."""

import copy
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import output_of, refused_output_of, write

MODEL = "llama-405b-sglang"


def scaled(story: str, scaling: JSON, **spec: JSON) -> list[Manifest]:
    """Returns an example whose deployment has these settings for its replicas."""
    manifests = copy.deepcopy(example(story))
    mapping(find_manifest(manifests, "ModelDeployment"), "spec").update({"scaling": scaling, **spec})
    return manifests


def divided(replicas: int) -> list[Manifest]:
    manifests = scaled("two-environments", {"replicaScheduling": "Divided", "fixed": {"replicas": replicas}})
    mapping(find_manifest(manifests, "ModelDeployment"), "spec").pop("environments")
    return manifests


def test_plan_places_divided_replicas(tmp_path: Path) -> None:
    """a100-oslo has 8 nodes of 4 GPUs, and a replica takes 4 there; h100-tokyo has room for 16 replicas of 2 GPUs."""
    shown = output_of("plan", "-f", write(tmp_path, *divided(20)))
    assert "Placed on a100-oslo" in shown
    assert "8 replicas of 1 node x 4 GPUs" in shown
    assert "12 replicas of 1 node x 2 GPUs" in shown


def test_why_says_which_replicas_have_no_room(tmp_path: Path) -> None:
    shown = refused_output_of("why", "llama", "-f", write(tmp_path, *divided(40)))
    assert shown.startswith("ModelDeployment search/llama: partially placed\n")
    assert "24/40 replicas of llama-3.3-70b-anywhere fit" in shown
    assert "asked for 40 replicas, 24 granted" in shown


def test_validate_does_not_ask_one_environment_for_all_replicas(tmp_path: Path) -> None:
    assert "too small" not in output_of("validate", write(tmp_path, *divided(20)))


@pytest.mark.parametrize(
    ("target", "is_warned"), [({"waitingRequests": 5}, True), ({"query": {"promQL": "up", "value": "1"}}, False)]
)
def test_warns_of_an_engine_that_reports_no_load(target: JSON, tmp_path: Path, *, is_warned: bool) -> None:
    manifests = scaled(MODEL, {"signal": "Load", "load": {"maxReplicas": 2, "target": target}})
    why = "spec.scaling.load.target: SGLang reports no load without --enable-metrics: add it to engine.args of profile"
    assert (why in output_of("validate", write(tmp_path, *manifests))) is is_warned
    for profile in listing(find_manifest(manifests, "ClusterModel"), "spec.serving"):
        engine = mapping(profile, "engine")
        arguments = engine.get("args")
        engine["args"] = [*(arguments if isinstance(arguments, list) else ()), "--enable-metrics"]
    assert why not in output_of("validate", write(tmp_path, *manifests))
