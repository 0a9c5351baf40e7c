"""`validate`: a ModelCache on an environment whose models share a claim; and files without an object of ours."""

import json
from pathlib import Path

from function.kube.manifests import Manifest, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import run, write

OPTIONS: Manifest = {"size": "520Gi", "storageClassName": "slow", "accessMode": "ReadWriteOnce"}
WHY = (
    "has no effect, as all models of a namespace share claim team; "
    "the spec.storage of InferenceEnvironment h100-paris decides"
)


def _validate(folder: Path, storage: Manifest, options: Manifest) -> str:
    manifests = [m for m in example("model-cache") if mapping(m, "metadata")["name"] != "h100-frankfurt"]
    mapping(find_manifest(manifests, "InferenceEnvironment"), "spec")["storage"] = storage
    mapping(find_manifest(manifests, "ModelCache"), "spec")["storage"] = options
    return run("validate", write(folder, *manifests)).stdout


def test_warns_of_settings_of_a_cache_that_have_no_effect(tmp_path: Path) -> None:
    shared: Manifest = {"mode": "Shared", "storageClassName": "fast", "sharedClaim": {"name": "team", "size": "2Ti"}}
    warned = _validate(tmp_path, shared, OPTIONS)
    assert [field for field in OPTIONS if f"ModelCache translation/qwen-weights: spec.storage.{field}: {WHY}" in warned]
    assert warned.count(WHY) == len(OPTIONS)
    assert WHY not in _validate(tmp_path, shared, {}), "nothing is set that could be ignored"


def test_warns_of_none_on_an_environment_with_claims_of_its_own(tmp_path: Path) -> None:
    assert "has no effect" not in _validate(tmp_path, {"storageClassName": "fast"}, OPTIONS)


def test_says_in_every_form_that_nothing_was_checked(tmp_path: Path) -> None:
    file = write(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    done = run("validate", file, "-o", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert done.stderr == "warning: no object of modelplane.ai in what was given: 1 other object passed over\n"
    assert run("validate", file, "--strict").returncode == 1
