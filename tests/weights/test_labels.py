"""Claims and Jobs carry the name of the model and its cache key, so that kept weights can be found on a cluster.

The names and keys follow from docs/storage.md; a label value has at most 63 characters (Kubernetes).
"""

import copy
from dataclasses import replace

import pytest

from function.domain.cache import CreatedStorage, StorageChoice
from function.domain.model import DownloadedSource, HuggingFaceSource, UriSource
from function.kube.manifests import Manifest, get, mapping, strings
from function.kube.names import LABEL_CACHE_KEY, LABEL_MODEL, MANAGED_BY, clean_label_value
from function.remote.observed_object import read_written
from function.weights.claim import build_claim
from function.weights.job import DOWNLOAD, SCRIPT_FILES
from function.weights.planner import plan_weights
from function.weights.request import cache_key, label_weights
from tests.support.weights_scene import (
    DESCRIBED,
    RETAINED,
    RUNS,
    observe_started,
    reconcile_observed,
    request_weights,
    with_job_status,
)

OWN = CreatedStorage()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (HuggingFaceSource(repo="Qwen/Qwen3-8B"), "Qwen_Qwen3-8B"),
        (UriSource(uri="s3://bucket/models/llama-3.1/"), "llama-3.1"),
        (UriSource(uri="https://host/x/model.gguf?signature=a/b"), "model.gguf"),
        (UriSource(uri="s3://bucket"), "bucket"),
    ],
    ids=["repository", "folder", "file", "bucket"],
)
def test_labels_follow_from_the_source_alone(source: DownloadedSource, name: str) -> None:
    assert label_weights(source) == {LABEL_MODEL: name, LABEL_CACHE_KEY: cache_key(source)}


def test_a_source_without_a_name_has_its_key_as_the_name() -> None:
    source = UriSource(uri="https://host/---")
    assert label_weights(source)[LABEL_MODEL] == cache_key(source)


def test_a_long_name_becomes_a_label_value() -> None:
    value = clean_label_value("organisation/" + "m" * 96)
    assert len(value) <= 63
    assert value != clean_label_value("organisation/" + "m" * 97), "it ends with a hash of the whole name"


def _written(choice: StorageChoice, kind: str) -> Manifest:
    observed = observe_started(request_weights(choice), with_job_status(RUNS))
    (found,) = (read_written(item) for item in observed.values() if read_written(item).get("kind") == kind)
    return found


@pytest.mark.parametrize("choice", [OWN, RETAINED], ids=["own", "retained"])
@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Job"])
def test_claims_and_jobs_carry_the_labels(choice: StorageChoice, kind: str) -> None:
    source = request_weights(choice).model.source
    assert isinstance(source, HuggingFaceSource)
    assert label_weights(source).items() <= strings(_written(choice, kind), "metadata.labels").items()


def test_pods_of_a_job_have_no_label_of_the_model() -> None:
    """The template of a Job is immutable, and its hash is part of the Job's name."""
    assert LABEL_MODEL not in mapping(_written(OWN, "Job"), "spec.template.metadata.labels")


def test_a_claim_for_several_models_has_no_label_of_one() -> None:
    request = request_weights(OWN)
    storage = replace(request.environment.storage, is_shared=True, shared_claim="team", shared_size=2**41)
    plan = plan_weights(replace(request, environment=replace(request.environment, storage=storage)))
    assert plan.claim is not None
    assert plan.job is not None
    assert strings(build_claim(plan.claim, {}), "metadata.labels") == MANAGED_BY
    assert LABEL_MODEL in strings(plan.job.manifest, "metadata.labels"), "its Jobs tell what is on the claim"


def without_label(found: dict[str, Manifest]) -> None:
    """Takes away the label of the model, which an earlier release did not set."""
    for manifest in found.values():
        for path in (DESCRIBED, "status.atProvider.manifest"):
            mapping(manifest, f"{path}.metadata.labels").pop(LABEL_MODEL, None)


@pytest.mark.parametrize("choice", [OWN, RETAINED], ids=["own", "retained"])
def test_an_upgrade_changes_only_the_labels_of_a_running_job(choice: StorageChoice) -> None:
    request = request_weights(choice)
    observed = observe_started(request, with_job_status(RUNS), without_label)
    before = copy.deepcopy(observed)
    found = reconcile_observed(request, observed)
    assert found.composed.keys() == observed.keys()
    for key, item in found.composed.items():
        assert get(item.manifest, f"{DESCRIBED}.spec") == get(before[key], f"{DESCRIBED}.spec")


def test_an_upgrade_with_other_scripts_restarts_no_running_download(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_weights(OWN)
    observed = observe_started(request, with_job_status(RUNS), without_label)
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "another release's")
    found = reconcile_observed(request, observed)
    (job,) = (key for key in observed if key.startswith("job-"))
    assert {key for key in found.composed if key.startswith("job-")} == {job}
