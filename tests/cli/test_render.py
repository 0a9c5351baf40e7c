"""`render`: what would finally exist, by level and kind."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, mapping
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import KIMI, output_of, run, write
from tools.documents import document


def kinds(rendered: str) -> Counter[str]:
    return Counter(m["kind"] for m in yaml.safe_load_all(rendered))


def test_renders_both_levels() -> None:
    found = kinds(output_of("render", "-f", KIMI))
    remote = ("Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService", "LLMInferenceServiceConfig")
    # Each remote object has an Object that describes it; the class is described only to be looked at.
    control_plane = {"ModelPlacement": 1, "ClusterProviderConfig": 1, "Object": 6}
    assert found == Counter({**control_plane, **dict.fromkeys(remote, 1)})


def test_renders_one_kind_with_its_place() -> None:
    shown = output_of("render", "-f", KIMI, "--kind", "llminferenceservice")
    assert shown.splitlines()[1].startswith("# h200-east: LLMInferenceService assistants/kimi-k2-")
    (service,) = yaml.safe_load_all(shown)
    assert service["spec"]["parallelism"] == {"tensor": 8, "pipeline": 2, "expert": True}


def test_renders_one_level() -> None:
    assert set(kinds(output_of("render", "-f", KIMI, "--level", "control-plane"))) == {
        "ClusterProviderConfig",
        "ModelPlacement",
        "Object",
    }
    assert "Object" not in kinds(output_of("render", "-f", KIMI, "--level", "remote"))


def test_renders_json_and_names() -> None:
    items = json.loads(output_of("render", "-f", KIMI, "-o", "json", "--kind", "Job"))
    assert [item["place"] for item in items] == ["h200-east"]
    names = output_of("render", "-f", KIMI, "-o", "name").splitlines()
    assert [name for name in names if not name.startswith(("object.", "clusterproviderconfig."))] == [
        "modelplacement.modelplane.ai/kimi-k2-4e23e0cb",
        "job.batch/kimi-k2-4e23e0cb-6eb5e8d4",
        "llminferenceservice.serving.kserve.io/kimi-k2-4e23e0cb-3fafcaa9",
        "llminferenceserviceconfig.serving.kserve.io/kserve-config-llm-worker-pipeline-parallel",
        "namespace/assistants",
        "persistentvolumeclaim/kimi-k2-4e23e0cb-072dc43a",
    ]


def test_reads_input_from_composition_in_files() -> None:
    (job,) = yaml.safe_load_all(output_of("render", "-f", "examples/air-gap", "--kind", "Job"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "platform/storage-initializer-with-ca:v0.20.0"


def test_lists_refusals_on_standard_error(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            mapping(manifest, "spec")["nodePools"] = []
    done = run("render", "-f", write(tmp_path, *manifests))
    assert done.returncode == 1
    assert "error: ModelDeployment assistants/kimi-k2: Scheduled is False, NoPoolSatisfiesRequirements" in done.stderr
    assert "ModelPlacement" not in kinds(done.stdout)


def test_reads_the_model_from_the_control_plane(live: Live, tmp_path: Path) -> None:
    deployment = find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment")
    renamed: Manifest = {**deployment, "metadata": {"name": "second", "namespace": "assistants"}}
    shown = output_of("render", "-f", write(tmp_path, renamed), "--live", "--kind", "LLMInferenceService", *live())
    assert "name: second-" in shown


def test_renders_no_secret_value() -> None:
    (secret,) = yaml.safe_load_all(output_of("render", "-f", "examples/gemma-one-gpu", "--kind", "Secret"))
    assert "data" not in secret


def test_renders_no_script() -> None:
    """The ConfigMap with them is gone once the weights are there, and the Job names it."""
    everything = output_of("render", "-f", KIMI)
    assert "kind: Job" in everything
    assert "import" not in everything, "neither in the Job nor in the Object that carries it"


def test_names_the_cluster_of_each_manifest() -> None:
    documents = output_of("render", "-f", KIMI).split("---\n")[1:]
    assert {each.partition(":")[0] for each in documents} == {"# control plane", "# h200-east"}
    assert len(documents) == 13
    one = output_of("render", "-f", KIMI, "--cluster", "h200-east")
    assert one == output_of("render", "-f", KIMI, "--level", "remote")


def test_renders_the_job_of_every_claim_and_no_claim_of_a_user() -> None:
    """A Job that is kept on a shared or user's claim is only observed at the end, as is the user's own claim."""
    shared = kinds(output_of("render", "-f", "examples/shared-claim", "--level", "remote"))
    assert (shared["Job"], shared["PersistentVolumeClaim"]) == (2, 1), "two models on one claim"
    own = kinds(output_of("render", "-f", "examples/bring-your-own-claim", "--level", "remote"))
    assert (own["Job"], own["PersistentVolumeClaim"], own["StorageClass"]) == (1, 0, 0)


def test_renders_the_job_of_a_retained_claim(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    cache = mapping(mapping(find_manifest(manifests, "ModelDeployment"), "spec"), "modelCache")
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["modelCache"] = {**cache, "retain": True}
    retained = kinds(output_of("render", "-f", write(tmp_path, *manifests), "--level", "remote"))
    assert (retained["Job"], retained["PersistentVolumeClaim"]) == (1, 1)


def test_writes_a_folder_for_each_cluster(tmp_path: Path) -> None:
    shown = output_of("render", "-f", KIMI, "--output-dir", str(tmp_path / "out"))
    assert shown == f"13 manifests in {tmp_path}/out, a folder for each of control plane, h200-east\n"
    files = {str(file.relative_to(tmp_path / "out")): file for file in (tmp_path / "out").rglob("*.yaml")}
    assert len(files) == 13
    job = files["h200-east/job-assistants-kimi-k2-4e23e0cb-6eb5e8d4.yaml"]
    (whole,) = yaml.safe_load_all(output_of("render", "-f", KIMI, "--kind", "Job"))
    assert document(job) == whole
    assert "control-plane/modelplacement-assistants-kimi-k2-4e23e0cb.yaml" in files


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--kind", "Jbo"), "there is no manifest of kind Jbo in it. Did you mean Job?"),
        (("--kind", "Pod"), "There are ClusterProviderConfig, Job, LLMInferenceService, "),
        (("--cluster", "h200-eest"), "there is no cluster h200-eest in it. Did you mean h200-east?"),
    ],
)
def test_refuses_unknown_clusters_and_kinds(option: tuple[str, str], says: str) -> None:
    done = run("render", "-f", KIMI, *option)
    assert (done.returncode, done.stdout) == (4, "")
    assert says in done.stderr
