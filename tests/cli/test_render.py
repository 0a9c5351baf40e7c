"""`render`: what would finally exist, by level and kind."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, mapping
from function.storage.job import SCRIPT
from tests.cli.conftest import Live, example
from tests.cli.process import KIMI, run, said, write


def kinds(rendered: str) -> Counter[str]:
    return Counter(m["kind"] for m in yaml.safe_load_all(rendered))


def test_both_levels_in_one_go() -> None:
    found = kinds(said("render", "-f", KIMI))
    remote = ("Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService", "LLMInferenceServiceConfig")
    # Each remote object has an Object that describes it; the class is described only to be looked at.
    assert found == Counter({"ModelPlacement": 1, "ClusterProviderConfig": 1, "Object": 6, **dict.fromkeys(remote, 1)})


def test_one_kind_with_where_it_is_above_it() -> None:
    shown = said("render", "-f", KIMI, "--kind", "llminferenceservice")
    assert shown.splitlines()[1].startswith("# h200-east: LLMInferenceService assistants/kimi-k2-")
    (service,) = yaml.safe_load_all(shown)
    assert service["spec"]["parallelism"] == {"tensor": 8, "pipeline": 2, "expert": True}


def test_one_level() -> None:
    assert set(kinds(said("render", "-f", KIMI, "--level", "control-plane"))) == {
        "ClusterProviderConfig",
        "ModelPlacement",
        "Object",
    }
    assert "Object" not in kinds(said("render", "-f", KIMI, "--level", "remote"))


def test_json_and_names() -> None:
    items = json.loads(said("render", "-f", KIMI, "-o", "json", "--kind", "Job"))
    assert [item["place"] for item in items] == ["h200-east"]
    assert said("render", "-f", KIMI, "-o", "name", "--kind", "ModelPlacement").startswith(
        "control plane: ModelPlacement assistants/kimi-k2-"
    )


def test_a_composition_among_the_files_supplies_the_functions_input() -> None:
    (job,) = yaml.safe_load_all(said("render", "-f", "examples/air-gap", "--kind", "Job"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "platform/storage-initializer-with-ca:v0.20.0"


def test_what_would_not_come_up_is_told_beside_the_manifests(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            mapping(manifest, "spec")["nodePools"] = []
    done = run("render", "-f", write(tmp_path, *manifests))
    assert done.returncode == 1
    assert "ModelDeployment assistants/kimi-k2: Scheduled is False, NoPoolSatisfiesRequirements" in done.stderr
    assert "ModelPlacement" not in kinds(done.stdout)


def test_the_model_may_be_on_the_control_plane(live: Live, tmp_path: Path) -> None:
    (deployment,) = [m for m in example("kimi-k2-two-nodes") if m["kind"] == "ModelDeployment"]
    renamed: Manifest = {**deployment, "metadata": {"name": "second", "namespace": "assistants"}}
    shown = said("render", "-f", write(tmp_path, renamed), "--live", "--kind", "LLMInferenceService", *live())
    assert "name: second-" in shown


def test_no_value_of_a_secret_is_written() -> None:
    (secret,) = yaml.safe_load_all(said("render", "-f", "examples/gemma-one-gpu", "--kind", "Secret"))
    assert "data" not in secret


def test_the_download_script_is_a_line_unless_it_is_asked_for() -> None:
    (job,) = yaml.safe_load_all(said("render", "-f", KIMI, "--kind", "Job"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    line = container["command"][2]
    digest = hashlib.sha256(SCRIPT.encode()).hexdigest()
    assert line == (
        f"raise SystemExit('the download script, {len(SCRIPT.encode()):,} bytes, sha256:{digest}: "
        "left out without --full')"
    )
    with pytest.raises(SystemExit, match="left out without --full"):
        exec(line)
    (whole,) = yaml.safe_load_all(said("render", "-f", KIMI, "--kind", "Job", "--full"))
    (container,) = whole["spec"]["template"]["spec"]["containers"]
    assert container["command"][2] == SCRIPT.replace("$", "$$")
    everything = said("render", "-f", KIMI)
    assert "import" not in everything, "neither in the Job nor in the Object that carries it"
