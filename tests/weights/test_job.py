"""The manifest of a download's Job, and its name, which changes exactly if the download must start again."""

import re
from dataclasses import dataclass, replace

import pytest

from function.domain.model import DownloadedSource, HuggingFaceSource, SecretKey, UriSource
from function.domain.settings import BUILT_IN
from function.kube import manifests
from function.kube.manifests import JSON, Manifest
from function.weights.credentials import plan_credential
from function.weights.job import DOWNLOAD, SCRIPT_FILES, DownloadSpec, build_job, differs_in_scripts_alone

KEY = "e58d081b43957492"
SOURCE = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct")
TASK = DownloadSpec(
    namespace="ml-team-research",
    stem="kimi-k2-coreweave-1a2b3c4d",
    claim="kimi-claim",
    scripts="kimi-scripts",
    source=SOURCE,
    download=BUILT_IN.download,
)


def pod(task: DownloadSpec) -> Manifest:
    return manifests.mapping(build_job(task), "spec.template.spec")


def container(task: DownloadSpec) -> Manifest:
    return manifests.listing(pod(task), "containers")[0]


def environment(task: DownloadSpec) -> dict[str, JSON]:
    return {manifests.text(e, "name"): e.get("value") for e in manifests.listing(container(task), "env")}


def test_builds_pod() -> None:
    spec = manifests.mapping(build_job(TASK), "spec")
    assert {key: spec[key] for key in ("backoffLimit", "activeDeadlineSeconds")} == {
        "backoffLimit": 6,
        "activeDeadlineSeconds": 86400,
    }
    assert "ttlSecondsAfterFinished" not in spec, "a TTL would delete the Job, and the provider would create it again"
    found = pod(TASK)
    assert found["restartPolicy"] == "Never"
    assert found["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert found["volumes"] == [
        {"name": "weights", "persistentVolumeClaim": {"claimName": "kimi-claim"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "scripts", "configMap": {"name": "kimi-scripts"}},
    ]
    assert "nodeSelector" not in found, "a GPU pool at zero must not boot for a download"
    assert "tolerations" not in found, "a GPU pool at zero must not boot for a download"


def test_builds_container() -> None:
    found = container(TASK)
    assert found["image"] == "kserve/storage-initializer:v0.20.0"
    assert found["command"] == ["python3", "/opt/modelplane/download.py"]
    assert found["args"] == ["hf://moonshotai/Kimi-K2-Instruct:main", f"/mnt/models/models/{KEY}"]
    assert found["resources"] == {"requests": {"cpu": "2", "memory": "8Gi"}}, (
        "the download has no memory limit by default"
    )
    assert found["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert found["volumeMounts"] == [
        {"name": "weights", "mountPath": "/mnt/models"},
        {"name": "scratch", "mountPath": "/tmp"},
        {"name": "scripts", "mountPath": "/opt/modelplane", "readOnly": True},
    ]
    assert environment(TASK) == {
        "HF_HOME": "/tmp/hf",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_XET_NUM_CONCURRENT_RANGE_GETS": "8",
        "TQDM_MININTERVAL": "30",
        "MODELPLANE_BACKOFF_LIMIT": "6",
        "MODELPLANE_JOB": None,
    }


def test_divided_download_is_an_indexed_job() -> None:
    divided = build_job(replace(TASK, parts=5))
    whole = build_job(TASK)
    assert environment(replace(TASK, parts=5)) == environment(TASK) | {"MODELPLANE_PARTS": "5"}
    spec, other = manifests.mapping(divided, "spec"), manifests.mapping(whole, "spec")
    added: Manifest = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}
    assert {**spec, "template": None} == {**other, **added, "template": None}
    assert differs_in_scripts_alone(divided, whole)
    assert manifests.get(divided, "metadata.name") != manifests.get(whole, "metadata.name")


def test_failure_policy_ends_the_job_on_final_codes_only() -> None:
    rules = manifests.listing(build_job(TASK), "spec.podFailurePolicy.rules")
    values = [41, 42, 43, 44, 45, 61, 62, 63, 64, 65, 66]
    on_exit: Manifest = {"containerName": "download", "operator": "In", "values": [*values]}
    assert rules == [
        {"action": "FailJob", "onExitCodes": on_exit},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]


def test_platform_settings_reach_the_pod() -> None:
    settings = replace(
        BUILT_IN.download,
        env=({"name": "HF_ENDPOINT", "value": "https://hub.mirror"}, {"name": "HF_HOME", "value": "/tmp/x"}),
        node_selector={"pool": "cpu"},
        tolerations=({"key": "batch", "operator": "Exists"},),
        service_account_name="downloader",
        image_pull_secrets=("mirror",),
        backoff_limit=2,
        active_deadline_seconds=60,
    )
    task = replace(TASK, download=settings)
    found = pod(task)
    assert found["nodeSelector"] == {"pool": "cpu"}
    assert found["tolerations"] == [{"key": "batch", "operator": "Exists"}]
    assert (found["serviceAccountName"], found["imagePullSecrets"]) == ("downloader", [{"name": "mirror"}])
    assert environment(task)["HF_ENDPOINT"] == "https://hub.mirror"
    assert environment(task)["HF_HOME"] == "/tmp/x", "the resources of the platform team take precedence"
    assert environment(task)["MODELPLANE_BACKOFF_LIMIT"] == "2", "the script must know which attempt is the last one"
    assert manifests.integer(build_job(task), "spec.backoffLimit") == 2
    assert manifests.integer(build_job(task), "spec.activeDeadlineSeconds") == 60


@pytest.mark.parametrize("directory", ["", "/certs"])
def test_certificate_bundle_is_mounted_where_the_initializer_looks(directory: str) -> None:
    env: list[Manifest] = [{"name": "CA_BUNDLE_CONFIGMAP_NAME", "value": "corporate-ca"}]
    if directory:
        env.append({"name": "CA_BUNDLE_VOLUME_MOUNT_POINT", "value": directory})
    task = replace(TASK, download=replace(BUILT_IN.download, env=tuple(env)))
    mount = {"name": "certificates", "mountPath": directory or "/etc/ssl/custom-certs", "readOnly": True}
    assert mount in manifests.listing(container(task), "volumeMounts")
    volume = {"name": "certificates", "configMap": {"name": "corporate-ca"}}
    assert volume in manifests.listing(pod(task), "volumes")


def test_patterns_are_json_and_values_survive_kubernetes_expansion() -> None:
    source = HuggingFaceSource(repo="a/b", revision="$(HOME)", allow=("b", "a"), ignore=("original/*", "$x"))
    task = replace(TASK, source=source)
    assert environment(task)["STORAGE_ALLOW_PATTERNS"] == '["a", "b"]'
    assert environment(task)["STORAGE_IGNORE_PATTERNS"] == '["$$x", "original/*"]'
    args = container(task)["args"]
    assert isinstance(args, list)
    assert args[0] == "hf://a/b:$$(HOME)"


@pytest.mark.parametrize(
    ("source", "want"),
    [
        (HuggingFaceSource(repo="a/b", file="Q4/m.gguf"), "Q4/m.gguf"),
        (HuggingFaceSource(repo="a/b", path="fp8"), "fp8"),
        (UriSource(uri="https://m.example.com/a/m.gguf?x=1"), "m.gguf"),
        (HuggingFaceSource(repo="a/b"), None),
    ],
    ids=["file", "folder", "address", "all"],
)
def test_script_knows_what_the_engine_opens(source: DownloadedSource, want: str | None) -> None:
    assert environment(replace(TASK, source=source)).get("MODELPLANE_MODEL_PATH") == want


def test_token_is_referred_to_and_never_written() -> None:
    source = HuggingFaceSource(repo="a/b", secret=SecretKey(name="hf", namespace="modelplane-system", key="HF_TOKEN"))
    task = replace(TASK, source=source, credential=plan_credential(source, None, "copy"))
    reference = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "copy", "key": "HF_TOKEN"}}}
    assert reference in manifests.listing(container(task), "env")


def test_bucket_credentials_become_variables_and_google_a_file() -> None:
    secret = SecretKey(name="bucket", namespace="modelplane-system", key="account.json")
    bucket = UriSource(uri="s3://b/m", secret=secret)
    task = replace(TASK, source=bucket, credential=plan_credential(bucket, None, "copy"))
    assert container(task)["envFrom"] == [{"secretRef": {"name": "copy"}}]
    google = UriSource(uri="gs://b/m", secret=secret)
    task = replace(TASK, source=google, credential=plan_credential(google, None, "copy"))
    assert "credentials" in [v["name"] for v in manifests.listing(pod(task), "volumes")]
    assert "credentials" in [m["name"] for m in manifests.listing(container(task), "volumeMounts")]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    task: DownloadSpec


CHANGES = (
    Case("retry", "a new retry value starts another Job over the partial files", replace(TASK, retry="1")),
    Case("claim", "another claim holds other weights", replace(TASK, claim="other")),
    Case("source", "another source has other weights", replace(TASK, source=UriSource(uri="s3://b/m"))),
    Case("namespace", "a Job in another namespace has another name", replace(TASK, namespace="other")),
    Case(
        "image",
        "the image is a part of the immutable pod template",
        replace(TASK, download=replace(BUILT_IN.download, image="mirror/initializer:v1")),
    ),
    Case(
        "backoff",
        "the backoff limit is a variable in the immutable pod template",
        replace(TASK, download=replace(BUILT_IN.download, backoff_limit=1)),
    ),
)


def name(task: DownloadSpec) -> str:
    return manifests.text(build_job(task), "metadata.name")


@pytest.mark.parametrize("case", CHANGES, ids=lambda c: c.id)
def test_name_changes_with_everything_immutable(case: Case) -> None:
    assert name(case.task) != name(TASK), case.reason
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,50}[a-z0-9]", name(case.task)), (
        "the name is a DNS-1035 label with room for the suffix of a pod"
    )


def test_annotates_job_with_retry() -> None:
    assert manifests.strings(build_job(replace(TASK, retry="2")), "metadata.annotations") == {
        "modelplane.ai/retry": "2"
    }
    assert manifests.get(build_job(TASK), "metadata.annotations") is None


def test_deletes_pods_with_their_job() -> None:
    finalizers = manifests.get(build_job(TASK), "metadata.finalizers")
    assert finalizers == ["foregroundDeletion"], (
        "pods that stay would hold the claim, which could then never be deleted"
    )


def test_two_objects_may_describe_one_job() -> None:
    spec = manifests.get(build_job(TASK), "spec.template.spec")
    (container,) = manifests.listing(spec, "containers")
    references = [manifests.mapping(entry, "valueFrom.fieldRef") for entry in manifests.listing(container, "env")]
    assert [r["apiVersion"] for r in references if r] == ["v1"], (
        "a default that the cluster fills in would change the field owner"
    )


@pytest.mark.parametrize("mirror", ["", "https://hub.mirror"])
def test_secret_variables_do_not_override_script_or_platform(mirror: str) -> None:
    """A container's `env` takes precedence over `envFrom`, so that no Secret can set a variable that `env` names."""
    bucket = UriSource(uri="s3://b/m", secret=SecretKey(name="bucket", namespace="team", key=""))
    platform: tuple[Manifest, ...] = ({"name": "HF_ENDPOINT", "value": mirror},) if mirror else ()
    own = plan_credential(bucket, None, "copy")
    task = replace(TASK, source=bucket, credential=own, download=replace(BUILT_IN.download, env=platform))
    found = environment(task)
    assert container(task)["envFrom"] == [{"secretRef": {"name": "copy"}}]
    assert found["HF_ENDPOINT"] == (mirror or "https://huggingface.co")
    assert found["MODELPLANE_INITIALIZER"] == "/storage-initializer/scripts/initializer-entrypoint"
    assert set(re.findall(r"MODELPLANE_[A-Z_]+", SCRIPT_FILES[DOWNLOAD])) <= {
        manifests.text(entry, "name") for entry in manifests.listing(container(task), "env")
    }
