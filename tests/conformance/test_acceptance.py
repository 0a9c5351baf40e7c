"""The acceptance manifests come out as their README says, through the real Crossplane."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from tests.conformance.preset import run_single_node_preset
from tests.conformance.rest import Rest, status_of
from tools.control_plane import Rendered
from tools.world import World

pytestmark = pytest.mark.conformance

Settle = Callable[..., Rest]
Acceptance = Callable[..., list[Manifest]]


@pytest.fixture(scope="module")
def kimi(settle: Settle, acceptance: Acceptance) -> Rest:
    return settle(*acceptance("kimi-k2-two-nodes"))


def test_kimi_k2_is_placed_where_the_hardware_and_the_network_suffice(kimi: Rest) -> None:
    deployment, placement = kimi.only("ModelDeployment"), kimi.only("ModelPlacement")
    assert status_of(deployment, "Scheduled") == ("True", "Placed")
    (placed,) = listing(deployment, "status.placements")
    expected = {
        "environment": "hgx-dallas",
        "profile": "two-h200-nodes",
        "pool": "h200-infiniband",
        "nodes": 2,
        "gpusPerNode": 8,
    }
    assert {key: placed.get(key) for key in expected} == expected
    topology = mapping(placement, "spec.topology")
    assert (topology["nodes"], topology["gpusPerNode"]) == (2, 8)
    parallelism = mapping(topology, "parallelism")
    assert (parallelism["tensor"], parallelism["pipeline"], parallelism["expert"]) == (8, 2, "enabled")


def test_kimi_k2_is_downloaded_once_and_served_from_the_shared_claim(kimi: Rest) -> None:
    (claim,) = kimi.remote("PersistentVolumeClaim")
    assert get(claim, "spec.accessModes") == ["ReadWriteMany"]
    assert text(claim, "spec.storageClassName") == "shared-vast"
    (job,) = kimi.remote("Job")
    assert _claims(job) == [text(claim, "metadata.name")]
    service = kimi.service()
    assert text(service, "spec.model.uri").startswith(f"pvc://{text(claim, 'metadata.name')}/models/")
    assert mapping(service, "spec.worker")
    assert mapping(service, "spec.parallelism") == {"tensor": 8, "pipeline": 2, "expert": True}
    assert [_gpus(service, part) for part in ("template", "worker")] == ["8", "8"]


def test_the_service_waits_for_the_job_and_then_never_leaves(kimi: Rest) -> None:
    (ref,) = kimi.plane.all("ModelPlacement")
    served = [_kinds(r.rendered[ref]) >= {"Job", "LLMInferenceService"} for r in kimi.plane.rounds if ref in r.rendered]
    running = [_job_is_running(r.observed[ref]) for r in kimi.plane.rounds if ref in r.rendered]
    assert any(running), "the world never showed a running Job"
    assert not any(s for s, r in zip(served, running, strict=True) if r), "composed beside a running Job"
    assert served == sorted(served), "the service came and went"
    assert served[-1]


def test_kimi_k2_becomes_ready_and_has_a_url(kimi: Rest) -> None:
    for kind in ("ClusterModel", "InferenceEnvironment", "ModelDeployment", "ModelPlacement"):
        assert status_of(kimi.only(kind), "Ready") == ("True", "Available"), kind
    assert text(kimi.only("ModelDeployment"), "status.url").startswith("http")
    assert get(kimi.only("ModelPlacement"), "status.served") is True


def test_what_serves_stays_when_what_it_was_made_from_goes(settle: Settle, acceptance: Acceptance) -> None:
    rest = settle(*acceptance("kimi-k2-two-nodes"))
    service = rest.service()
    gone = {"ClusterModel": "ModelNotFound", "InferenceEnvironment": "EnvironmentNotFound"}
    for kind, reason in gone.items():
        deleted = rest.only(kind)
        rest = rest.without(kind)
        assert rest.service() == service, kind
        assert status_of(rest.only("ModelPlacement"), "ReferencesResolved") == ("False", reason)
        rest = rest.then(deleted)
        assert rest.service() == service
        assert status_of(rest.only("ModelPlacement"), "ReferencesResolved") == ("True", "Resolved")


def test_without_shared_storage_kimi_k2_is_refused_and_the_sentence_says_why(
    settle: Settle, acceptance: Acceptance
) -> None:
    manifests = acceptance("kimi-k2-two-nodes")
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            del mapping(manifest, "spec")["storage"]
    rest = settle(*manifests)
    deployment = rest.only("ModelDeployment")
    assert status_of(deployment, "Scheduled") == ("False", "SharedStorageMissing")
    sentence = "multi-node model requires shared storage on the inference environment."
    assert sentence in text(condition(deployment, "Scheduled"), "message")
    assert rest.plane.all("ModelPlacement") == []


@pytest.fixture(scope="module")
def gemma(settle: Settle, acceptance: Acceptance) -> Rest:
    return settle(*acceptance("kimi-k2-two-nodes", "InferenceEnvironment"), *acceptance("gemma-one-gpu"))


def test_gemma_takes_one_gpu_and_kserves_own_initializer(gemma: Rest) -> None:
    (placed,) = listing(gemma.only("ModelDeployment"), "status.placements")
    found = [placed.get(key) for key in ("environment", "pool", "nodes", "gpusPerNode", "replicas")]
    assert found == ["hgx-dallas", "h100-serving", 1, 1, 3]
    service = gemma.service()
    assert text(service, "spec.model.uri").startswith("hf://google/gemma-3-27b-it")
    assert "worker" not in mapping(service, "spec")
    assert _gpus(service, "template") == "1"
    assert (gemma.remote("PersistentVolumeClaim"), gemma.remote("Job")) == ([], [])


def test_gemmas_json_argument_survives_the_second_parsing_of_kserves_preset(gemma: Rest, tmp_path: Path) -> None:
    argv = run_single_node_preset(gemma.service(), tmp_path)
    assert argv[:2] == ["serve", "/mnt/models"]
    assert '--override-generation-config={"temperature": 0.6, "top_p": 0.9}' in argv
    assert "--max-model-len=16384" in argv
    served = argv[argv.index("--served-model-name") + 1 :][:2]
    assert served == ["google/gemma-3-27b-it", "publishers/research/models/google/gemma-3-27b-it"]


def test_kimi_k26_without_a_topology_is_split_by_its_memory(settle: Settle, acceptance: Acceptance) -> None:
    rest = settle(*acceptance("kimi-k26-four-nodes"))
    (placed,) = listing(rest.only("ModelDeployment"), "status.placements")
    found = [placed.get(key) for key in ("environment", "profile", "pool", "nodes", "gpusPerNode")]
    assert found == ["gke-europe", "by-memory", "a100", 4, 4]
    assert mapping(rest.service(), "spec.parallelism") == {"tensor": 4, "pipeline": 4}
    (claim,) = rest.remote("PersistentVolumeClaim")
    assert text(claim, "spec.storageClassName") == "filestore-rwx"
    assert text(claim, "spec.resources.requests.storage") == "720Gi"
    assert get(claim, "spec.accessModes") == ["ReadWriteMany"]


def test_weights_go_into_the_users_claim_which_is_only_observed(settle: Settle, acceptance: Acceptance) -> None:
    rest = settle(*_platform(acceptance), *acceptance("own-claim"))
    (ref,) = rest.plane.all("ModelPlacement")
    claims = [o for o in rest.rendered[ref].composed.values() if _remote_kind(o) == "PersistentVolumeClaim"]
    assert [get(o, "spec.managementPolicies") for o in claims] == [["Observe"]]
    assert _remote_name(claims[0]) == "team-weights"
    (job,) = rest.remote("Job")
    assert _claims(job) == ["team-weights"]
    assert text(rest.service(), "spec.model.uri").startswith("pvc://team-weights/models/")
    assert status_of(rest.only("ModelDeployment"), "Ready") == ("True", "Available")


def test_a_users_claim_that_is_missing_is_named_and_nothing_falls_back(settle: Settle, acceptance: Acceptance) -> None:
    absent = World(absent=frozenset({"PersistentVolumeClaim/team-weights"}))
    rest = settle(*_platform(acceptance), *acceptance("own-claim"), world=absent)
    placement = rest.only("ModelPlacement")
    assert status_of(placement, "StorageReady") == ("False", "ClaimNotFound")
    message = text(condition(placement, "StorageReady"), "message")
    for named in ("team-weights", "research", "hgx-dallas"):
        assert named in message
    assert (rest.remote("LLMInferenceService"), rest.remote("Job")) == ([], [])


def test_a_cache_holds_the_bytes_and_a_later_deployment_downloads_nothing(
    settle: Settle, acceptance: Acceptance
) -> None:
    staged = settle(*_platform(acceptance), *acceptance("model-cache", "ModelCache"))
    assert status_of(staged.only("ModelCache"), "Hydrated") == ("True", "Hydrated")
    (claim,) = staged.remote("PersistentVolumeClaim", of="ModelCache")
    assert text(claim, "spec.resources.requests.storage") == "1100Gi"
    assert len(staged.remote("Job", of="ModelCache")) == 1
    assert staged.remote("LLMInferenceService", of="ModelCache") == []

    used = staged.then(*acceptance("model-cache", "ModelDeployment"))
    assert used.remote("Job") == []
    uri = text(used.service(), "spec.model.uri")
    assert uri.startswith(f"pvc://{text(claim, 'metadata.name')}/models/")
    assert status_of(used.only("ModelDeployment"), "Ready") == ("True", "Available")
    assert used.remote("Job", of="ModelCache") == staged.remote("Job", of="ModelCache")


def test_a_cache_and_its_deployment_may_be_applied_at_once(settle: Settle, acceptance: Acceptance) -> None:
    rest = settle(*_platform(acceptance), *acceptance("model-cache"))
    assert rest.remote("Job") == []
    assert status_of(rest.only("ModelDeployment"), "Ready") == ("True", "Available")


def test_weights_in_an_image_need_no_claim_and_no_job(settle: Settle, acceptance: Acceptance) -> None:
    rest = settle(*acceptance("kimi-k2-two-nodes", "InferenceEnvironment"), *acceptance("oci-image"))
    image = text(acceptance("oci-image", "Model")[0], "spec.oci.image")
    assert text(rest.service(), "spec.model.uri") == f"oci://{image}"
    assert (rest.remote("PersistentVolumeClaim"), rest.remote("Job")) == ([], [])
    assert status_of(rest.only("ModelDeployment"), "Ready") == ("True", "Available")


def _platform(acceptance: Acceptance) -> list[Manifest]:
    return acceptance("kimi-k2-two-nodes", "ClusterModel", "InferenceEnvironment")


def _claims(job: Manifest) -> list[str]:
    volumes = listing(job, "spec.template.spec.volumes")
    return [text(v, "persistentVolumeClaim.claimName") for v in volumes if "persistentVolumeClaim" in v]


def _kinds(rendered: Rendered) -> set[str]:
    return {text(manifest, "kind") for manifest in rendered.remote.values()}


def _job_is_running(observed: Mapping[str, Manifest]) -> bool:
    jobs = [m for m in observed.values() if _remote_kind(m) == "Job"]
    return any(get(job, "status.atProvider.manifest.status.active") == 1 for job in jobs)


def _gpus(service: Manifest, part: str) -> str:
    (main,) = [c for c in listing(service, f"spec.{part}.containers") if c["name"] == "main"]
    return str(mapping(main, "resources.limits").get("nvidia.com/gpu"))


def _remote_kind(resource: Manifest) -> str:
    return text(resource, "spec.forProvider.manifest.kind")


def _remote_name(resource: Manifest) -> str:
    return text(resource, "spec.forProvider.manifest.metadata.name")
