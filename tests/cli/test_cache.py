"""`cache`: lists caches and their users; preloads, clears and purges."""

import copy
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from function.cli.cache import SCRIPT
from function.kube.manifests import JSON, Manifest, condition, get, list_texts, listing, mapping, strings, text
from function.kube.names import VERSION
from tests.cli.api import ApiServer
from tests.cli.conftest import controlled, example
from tests.cli.process import cells, error_lines, output_of, run

NAMESPACE, CACHE = "translation", "qwen-weights"
ENVIRONMENTS = ["h100-frankfurt", "h100-paris"]
WRITES = ("PATCH", "DELETE", "POST", "PUT")


@pytest.fixture
def options(server: ApiServer, cached: list[Manifest], tmp_path: Path) -> list[str]:
    """Serve the example of a ModelCache with a deployment on it, and return how to reach it."""
    server.put(copy.deepcopy(cached))
    return ["--kubeconfig", server.kubeconfig(tmp_path, NAMESPACE)]


def written(server: ApiServer) -> list[str]:
    return [request for request in server.requests if request.startswith(WRITES)]


def without_users(server: ApiServer) -> None:
    for key in [k for k in server.objects if k[0] in ("modeldeployments", "modelplacements")]:
        del server.objects[key]
    cache = server.get("ModelCache", NAMESPACE, CACHE)
    assert cache is not None
    mapping(cache, "status")["usedBy"] = []


def test_lists_a_line_for_each_environment(options: list[str]) -> None:
    rows = cells(output_of("cache", "list", *options))
    assert [row[3] for row in rows] == ENVIRONMENTS
    assert {(row[1], row[2], row[4], row[5], row[6]) for row in rows} == {
        (CACHE, "qwen3-235b", "Ready", "520Gi", "qwen")
    }


def test_lists_another_namespace_and_all(options: list[str]) -> None:
    assert "There is no ModelCache" in output_of("cache", "list", "-n", "elsewhere", *options)
    assert output_of("cache", "list", "-A", "-o", "name", *options) == f"modelcache.modelplane.ai/{CACHE}\n"


def test_lists_caches_from_files() -> None:
    (row,) = cells(output_of("cache", "list", "-f", "examples/model-cache"))
    assert row[:3] == [NAMESPACE, CACHE, "qwen3-235b"]


def test_lists_files_beside_one_namespace_without_reading_settings(server: ApiServer, options: list[str]) -> None:
    server.forbidden = frozenset({"compositions"})
    done = run("cache", "list", "-f", "examples/model-cache", "--live", *options)
    assert (done.returncode, done.stderr) == (0, ""), "those who read one namespace may not read Compositions"


def kept(name: str, deployment: str, kind: str, path: str = "models/0123456789abcdef") -> Manifest:
    """Return a Ready placement with weights on a claim."""
    return {
        "apiVersion": VERSION,
        "kind": "ModelPlacement",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "modelRef": {"name": "gemma"},
            "deploymentRef": {"name": deployment},
            "inferenceEnvironmentRef": {"name": "h100-paris"},
        },
        "status": {
            "phase": "Ready",
            "storage": {"type": kind, "claimName": "team-claim", "path": path, "size": "80Gi"},
            "conditions": [{"type": "StorageReady", "status": "True", "reason": "Hydrated"}],
        },
    }


def test_lists_weights_on_claims_that_stay(server: ApiServer, options: list[str]) -> None:
    """Once for all deployments that read the same directory; those of a managed claim go with their deployment."""
    server.put([kept("a", "one", "Shared"), kept("b", "two", "Shared"), kept("c", "three", "PVC")])
    server.put([kept("d", "four", "UserClaim", "models/fedcba9876543210")])
    rows = [row for row in cells(output_of("cache", "list", *options)) if row[1] != CACHE]
    assert [(*row[1:6], row[6]) for row in rows] == [
        ("claim team-claim", "gemma", "h100-paris", "Ready", "80Gi", "one, two"),
        ("claim team-claim", "gemma", "h100-paris", "Ready", "80Gi", "four"),
    ]
    assert output_of("cache", "list", "-o", "name", *options) == f"modelcache.modelplane.ai/{CACHE}\n"


def test_preload_names_the_model_of_a_repository(options: list[str]) -> None:
    done = run("cache", "preload", "Qwen/Qwen3-235B-A22B", "-e", "h100-paris", *options)
    assert (done.returncode, "names no ClusterModel or Model" in done.stderr) == (2, True)


def test_preload_applies_the_options(server: ApiServer, options: list[str]) -> None:
    output_of("cache", "preload", "clustermodel/qwen3-235b", "-e", "h100-paris", "--name", "more", *options)
    made = server.get("ModelCache", NAMESPACE, "more")
    assert made is not None
    assert made["spec"] == {"modelRef": {"kind": "ClusterModel", "name": "qwen3-235b"}, "environments": ["h100-paris"]}


def test_preload_selects_by_labels(server: ApiServer, options: list[str]) -> None:
    output_of("cache", "preload", "qwen3-235b", "-l", "a=b,c=d", *options)
    made = server.get("ModelCache", NAMESPACE, "qwen3-235b")
    assert get(made, "spec.environmentSelector") == {"matchLabels": {"a": "b", "c": "d"}}


def test_preload_keeps_every_requirement_on_a_label(server: ApiServer, options: list[str]) -> None:
    # kubectl selects nothing with either: no value equals both, and none differs from itself.
    output_of("cache", "preload", "qwen3-235b", "-l", "a=b,a!=b,c=d,c=e", *options)
    made = server.get("ModelCache", NAMESPACE, "qwen3-235b")
    equal: list[tuple[str, ...]] = [*strings(made, "spec.environmentSelector.matchLabels").items()]
    for row in listing(made, "spec.environmentSelector.matchExpressions"):
        equal += [(text(row, "key"), text(row, "operator"), *list_texts(row, "values"))]
    assert sorted(equal) in (
        [("a", "NotIn", "b"), ("a", "b"), ("c", "In", "d"), ("c", "e")],
        [("a", "NotIn", "b"), ("a", "b"), ("c", "In", "e"), ("c", "d")],
    )


def test_dry_run_writes_nothing(server: ApiServer, options: list[str]) -> None:
    shown = output_of("cache", "preload", "qwen3-235b", "-l", "", "--dry-run", "-o", "yaml", *options)
    assert "kind: ModelCache" in shown
    without_users(server)
    assert "would be deleted" in output_of("cache", "clear", CACHE, "--dry-run", *options)
    assert written(server) == []


def hydrated(ready: int, message: str) -> Manifest:
    status = "True" if ready else "False"
    found: Manifest = {"type": "Hydrated", "status": status, "reason": "Downloading", "message": message}
    return {"ready": ready, "desired": 1, "conditions": [found]}


def test_wait_ends_when_weights_are_complete(server: ApiServer, options: list[str]) -> None:
    def download(state: ApiServer, cache: Manifest) -> None:
        cache["status"] = hydrated(0, "Job is running")
        later = {**cache, "status": hydrated(1, "1 of 1 environments have the weights")}
        threading.Timer(1, state.put, [[later]]).start()

    server.controller = download
    done = run("cache", "preload", "qwen3-235b", "-e", "h100-paris", "--wait", *options)
    assert done.returncode == 0, done.stderr
    assert error_lines(done) == ["Job is running", "1 of 1 environments have the weights"]


def test_wait_ends_when_the_download_failed(server: ApiServer, options: list[str]) -> None:
    def fail(_: ApiServer, cache: Manifest) -> None:
        cache["status"] = hydrated(0, "the token was refused")
        condition(cache, "Hydrated")["reason"] = "DownloadFailed"

    server.controller = fail
    done = run("cache", "preload", "qwen3-235b", "-e", "h100-paris", "--wait", *options)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: the token was refused. Then set another value of spec.retry"


def test_wait_times_out(server: ApiServer, options: list[str]) -> None:
    def never(_: ApiServer, cache: Manifest) -> None:
        cache["status"] = hydrated(0, "Job is running")

    server.controller = never
    done = run("cache", "preload", "qwen3-235b", "-l", "", "--wait", "--timeout", "1", *options)
    assert (done.returncode, "it goes on" in done.stderr) == (1, True)


def test_clear_refuses_a_cache_in_use(server: ApiServer, options: list[str]) -> None:
    done = run("cache", "clear", CACHE, *options)
    assert done.returncode == 1
    assert "is used by ModelDeployment translation/qwen. Remove" in done.stderr
    assert written(server) == []


def test_clear_all_leaves_what_is_used(server: ApiServer, options: list[str]) -> None:
    spare = copy.deepcopy(server.get("ModelCache", NAMESPACE, CACHE))
    assert spare is not None
    spare["metadata"] = {"name": "spare", "namespace": NAMESPACE}
    spare["status"] = {}
    server.put([spare])
    shown = output_of("cache", "clear", "--all", *options)
    assert f"ModelCache {NAMESPACE}/{CACHE} is used by ModelDeployment {NAMESPACE}/qwen, and stays" in shown
    assert f"ModelCache {NAMESPACE}/spare deleted" in shown
    assert [server.get("ModelCache", NAMESPACE, name) is None for name in (CACHE, "spare")] == [False, True]
    assert run("cache", "clear", CACHE, "--all", *options).returncode == 2
    assert run("cache", "clear", *options).returncode == 2


def test_clear_deletes_an_unused_cache(server: ApiServer, options: list[str]) -> None:
    without_users(server)
    output_of("cache", "clear", CACHE, "--purge", *options)
    assert server.get("ModelCache", NAMESPACE, CACHE) is None
    # The claims were made for it and go with it, so that there is nothing to purge.
    assert len(written(server)) == 1


@pytest.fixture(scope="module", params=["Auto", "Always"])
def on_a_users_claim(request: pytest.FixtureRequest) -> list[Manifest]:
    """A ModelCache on a claim of the user's, at rest."""
    kimi = [m for m in example("kimi-k2-two-nodes") if m["kind"] in ("ClusterModel", "InferenceEnvironment")]
    cache: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "kept", "namespace": "assistants"},
        "spec": {
            "modelRef": {"name": "kimi-k2-instruct"},
            "environments": ["h200-east"],
            "storage": {"claimName": "mine"},
        },
    }
    for environment in (m for m in kimi if m["kind"] == "InferenceEnvironment"):
        mapping(environment, "spec.storage")["download"] = {"prepare": request.param}
    return list(controlled([*kimi, cache]).store.values())


def test_purge_removes_the_directory_from_a_kept_claim(
    server: ApiServer, on_a_users_claim: list[Manifest], tmp_path: Path
) -> None:
    written_jobs: list[Manifest] = []

    def complete(_: ApiServer, item: Manifest) -> None:
        job = copy.deepcopy(mapping(item, "spec.forProvider.manifest"))
        written_jobs.append(job)
        done: JSON = [{"type": "Complete", "status": "True"}]
        item["status"] = {"atProvider": {"manifest": {**job, "status": {"conditions": done}}}}

    server.controller = complete
    server.put(copy.deepcopy(on_a_users_claim))
    before = set(server.objects)
    shown = output_of("cache", "clear", "kept", "--purge", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    (job,) = written_jobs
    (pod,) = (mapping(job, "spec.template.spec"),)
    assert get(listing(pod, "volumes")[0], "persistentVolumeClaim.claimName") == "mine"
    command = get(listing(pod, "containers")[0], "command")
    assert isinstance(command, list)
    directory = command[-1]
    assert str(directory).startswith("/mnt/models/models/")
    assert f"models/{str(directory).rpartition('/')[2]} of claim mine on h200-east is removed" in shown
    assert get(pod, "securityContext.runAsUser") == 1000, "the user who may write there"
    mounts = [
        m for kind in ("initContainers", "containers") for c in listing(pod, kind) for m in listing(c, "volumeMounts")
    ]
    assert {m["name"] for m in mounts} == {volume["name"] for volume in listing(pod, "volumes")}
    assert before - set(server.objects) == {("modelcaches", "assistants", "kept")}
    assert set(server.objects) <= before, "the Object goes when it is done"


def test_purge_refuses_a_directory_with_readers(
    server: ApiServer, on_a_users_claim: list[Manifest], tmp_path: Path
) -> None:
    server.put(copy.deepcopy(on_a_users_claim))
    (entry,) = listing(server.get("ModelCache", "assistants", "kept"), "status.environments")
    reader: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {"name": "other", "namespace": "assistants"},
        "spec": {"inferenceEnvironmentRef": {"name": "h200-east"}},
        "status": {"storage": {"claimName": "mine", "path": entry["path"]}},
    }
    server.put([reader])
    kubeconfig = server.kubeconfig(tmp_path, "assistants")
    done = run("cache", "clear", "kept", "--purge", "--kubeconfig", kubeconfig)
    assert (done.returncode, "is used by ModelPlacement assistants/other" in done.stderr) == (1, True)
    assert "deleted" in output_of("cache", "clear", "kept", "--kubeconfig", kubeconfig), "the bytes stay, and so may it"


@pytest.mark.parametrize("there", [True, False])
def test_purge_script_removes_only_the_directory(tmp_path: Path, there: bool) -> None:
    spared, gone = tmp_path / "models" / "spared", tmp_path / "models" / "gone"
    spared.mkdir(parents=True)
    if there:
        (gone / "deeper").mkdir(parents=True)
        (gone / "deeper" / "shard").write_text("x")
    subprocess.run((sys.executable, "-c", SCRIPT, str(gone)), check=True)
    assert (spared.exists(), gone.exists()) == (True, False)


def test_preload_names_missing_models_and_environments(options: list[str]) -> None:
    done = run("cache", "preload", "qwen3", "-e", "h100-paris", *options)
    assert (done.returncode, "Did you mean qwen3-235b?" in done.stderr) == (4, True)
    done = run("cache", "preload", "qwen3-235b", "-e", "h100-pari", *options)
    assert (done.returncode, "Did you mean h100-paris?" in done.stderr) == (4, True)


def test_preload_requires_environments(options: list[str]) -> None:
    done = run("cache", "preload", "qwen3-235b", *options)
    assert (done.returncode, "-e ENVIRONMENT" in done.stderr) == (2, True)


def test_preload_refuses_an_invalid_cache_before_writing(server: ApiServer, options: list[str]) -> None:
    done = run("cache", "preload", "qwen3-235b", "-l", "a/b/c=d", *options)
    assert (done.returncode, "spec.environmentSelector" in done.stderr) == (2, True)
    assert written(server) == []
