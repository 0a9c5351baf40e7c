"""KServe's initializer gets the settings that a Job would get; settings that it cannot have are refused."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.reasons import Status
from tests.support.plane import change, manifests, plane, said
from tests.support.plane import only as composite
from tests.support.remote_scene import (
    ONE_NODE,
    Edit,
    Scene,
    composed_service,
    edit_environment,
    edit_model,
    edit_placement,
    edit_settings,
    load_scene,
    observed_service,
    set_field,
)

BUNDLE: Manifest = {"name": "CA_BUNDLE_CONFIGMAP_NAME", "value": "corporate-ca"}
CERTIFICATES: JSON = [BUNDLE]
ELSEWHERE: JSON = [BUNDLE, {"name": "CA_BUNDLE_VOLUME_MOUNT_POINT", "value": "/certs"}]
S3: JSON = {"uri": "s3://models/gemma"}


def of_s3(found: Scene) -> None:
    """Let the model come from a bucket."""
    for path, value in (("huggingFace", None), ("source", "URI"), ("uri", S3)):
        edit_model(path, value)(found)


def _not_there_yet(found: Scene) -> None:
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]


def pod(*edits: Edit) -> Manifest:
    return mapping(composed_service(load_scene(ONE_NODE).edited(_not_there_yet, *edits)), "spec.template")


def container(found: Manifest) -> Manifest:
    (initializer,) = listing(found, "initContainers")
    return initializer


def variables(found: Manifest) -> dict[str, str]:
    return {text(entry, "name"): text(entry, "value") for entry in listing(container(found), "env")}


def test_the_pod_is_pulled_with_what_a_job_would_be() -> None:
    found = pod(edit_environment("storage.download.imagePullSecrets", [{"name": "mirror"}]))
    assert found["imagePullSecrets"] == [{"name": "mirror"}]


XET_CHOICES: tuple[tuple[str, Manifest, str | None], ...] = (
    ("default", {}, "1"),
    ("platform", {"env": [{"name": "HF_HUB_DISABLE_XET", "value": "0"}]}, "0"),
    ("image-of-the-platform", {"image": "mirror/storage-initializer:v1"}, None),
)


@pytest.mark.parametrize(("download", "want"), [row[1:] for row in XET_CHOICES], ids=[row[0] for row in XET_CHOICES])
def test_default_image_downloads_without_xet(download: Manifest, want: str | None) -> None:
    """hf-xet hangs in large downloads, and nothing would end KServe's initializer."""
    assert variables(pod(edit_environment("storage.download", download))).get("HF_HUB_DISABLE_XET") == want


def _of_an_earlier_release(found: Scene) -> None:
    """Leave out of the observed service what an earlier release did not set."""
    for key in [key for key in found.observed if key.startswith("service-")]:
        for manifest in ("spec.forProvider.manifest", "status.atProvider.manifest"):
            spec = mapping(found.observed[key], f"{manifest}.spec.template")
            initializer = container(spec)
            kept: JSON = [e for e in listing(initializer, "env") if e["name"] != "HF_HUB_DISABLE_XET"]
            initializer["env"] = kept


def test_service_of_an_earlier_release_keeps_xet() -> None:
    found = load_scene(ONE_NODE).edited(_of_an_earlier_release)
    assert "HF_HUB_DISABLE_XET" not in str(composed_service(found))
    new_image = edit_model("serving.0.engine.image", "vllm/vllm-openai:v0.21.0")
    changed = load_scene(ONE_NODE).edited(_of_an_earlier_release, new_image)
    assert "HF_HUB_DISABLE_XET" in str(composed_service(changed)), (
        "the next change of the service brings the missing settings"
    )


@pytest.mark.parametrize(("env", "where"), [(CERTIFICATES, "/etc/ssl/custom-certs"), (ELSEWHERE, "/certs")])
def test_certificates_are_mounted_for_the_hub_where_kserve_mounts_none(env: JSON, where: str) -> None:
    found = pod(edit_environment("storage.download.env", env))
    assert container(found)["volumeMounts"] == [
        {"name": "initializer-certificates", "mountPath": where, "readOnly": True}
    ]
    volume: Manifest = {"name": "initializer-certificates", "configMap": {"name": "corporate-ca"}}
    assert volume in listing(found, "volumes")
    assert "AWS_CA_BUNDLE_CONFIGMAP" not in variables(found)


@pytest.mark.parametrize(("env", "where"), [(CERTIFICATES, "/etc/ssl/custom-certs"), (ELSEWHERE, "/certs")])
def test_lets_kserve_mount_certificates_for_s3(env: JSON, where: str) -> None:
    found = pod(of_s3, edit_environment("storage.download.env", env))
    set_values = variables(found)
    assert (set_values["AWS_CA_BUNDLE_CONFIGMAP"], set_values["AWS_CA_BUNDLE"]) == (
        "corporate-ca",
        f"{where}/cabundle.crt",
    )
    assert "volumeMounts" not in container(found), "the cluster refuses two mounts at one path"


def test_keeps_platforms_own_kserve_variables() -> None:
    own: JSON = [BUNDLE, {"name": "AWS_CA_BUNDLE_CONFIGMAP", "value": "buckets-ca"}]
    assert (
        variables(pod(of_s3, edit_environment("storage.download.env", own)))["AWS_CA_BUNDLE_CONFIGMAP"] == "buckets-ca"
    )


def test_passes_existing_token_to_initializer() -> None:
    found = pod(edit_environment("storage.download.tokenSecretName", "hub"))
    (token,) = [entry for entry in listing(container(found), "env") if entry["name"] == "HF_TOKEN"]
    assert mapping(token, "valueFrom.secretKeyRef")["name"] == "hub"


def test_pull_secrets_of_downloads_come_and_go_with_the_setting() -> None:
    rest, secrets = load_scene(ONE_NODE), "storage.download.imagePullSecrets"
    added = rest.edited(edit_environment(secrets, [{"name": "mirror"}])).settled()
    assert mapping(observed_service(added), "spec.template")["imagePullSecrets"] == [{"name": "mirror"}]
    assert composed_service(added.edited(edit_environment(secrets, None))) == observed_service(rest)


@dataclass(frozen=True)
class Refused:
    id: str
    kind: str
    path: str
    value: JSON
    words: str


REFUSED = [
    Refused(
        "preload",
        "ModelDeployment",
        "spec.modelCache.preload",
        value=False,
        words="false needs a claim; with EmptyDir, each pod downloads the weights; set modelCache.type: PVC",
    ),
    Refused(
        "account",
        "InferenceEnvironment",
        "spec.storage.download.serviceAccountName",
        value="a",
        words="a is not supported with EmptyDir: the engine's pod downloads, and engines do not run as this service "
        "account; set "
        "modelCache.type: PVC",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refuses_unsupported_settings_of_empty_dir(case: Refused) -> None:
    control, found = plane(ONE_NODE), manifests(ONE_NODE)
    for manifest in found:
        if manifest["kind"] == case.kind:
            set_field(manifest, case.path, case.value)
    control.delete(composite(control, "ModelDeployment"))
    control.apply(found)
    control.settle()
    deployment = composite(control, "ModelDeployment")
    assert said(control, deployment, "Scheduled") == ("False", "InvalidDeployment")
    assert f"{case.path}: {case.words}" in str(control.composites[deployment]["status"])


EARLIER = {
    "preload": edit_placement("modelCache", {"preload": False}),
    "account": edit_settings("download", {"serviceAccountName": "a"}),
}


@pytest.mark.parametrize("case", EARLIER)
def test_keeps_service_that_is_older_than_the_refusal(case: str) -> None:
    rest = load_scene(ONE_NODE).edited(EARLIER[case])
    assert composed_service(rest) == observed_service(load_scene(ONE_NODE))
    assert rest.condition("StorageReady").status == "True"
    assert text(composed_service(rest), "spec.template.serviceAccountName") == ""


def test_reports_bytes_downloaded_per_pod() -> None:
    found = load_scene(ONE_NODE).edited(edit_model("resources.disk", "55Gi"))
    assert "every pod start downloads 55Gi again" in found.condition("StorageReady").message


OCI: JSON = {"image": "registry.example/gemma@sha256:" + "0" * 64}


def of_image(found: Scene) -> None:
    """Let the model come from an image."""
    for path, value in (("huggingFace", None), ("source", "OCI"), ("oci", OCI)):
        edit_model(path, value)(found)


@pytest.mark.parametrize(
    ("cache", "edits", "unused"),
    [
        ({"retain": True}, (), "retain"),
        ({"type": "EmptyDir", "size": "9Gi"}, (), "size"),
        ({"storageClassName": "x"}, (of_image,), "storageClassName"),
        ({"accessMode": "ReadWriteOnce"}, (of_image,), "accessMode"),
        ({"claimName": "mine"}, (of_image,), "claimName"),
    ],
)
def test_remarks_settings_of_absent_claim(cache: JSON, edits: tuple[Edit, ...], unused: str) -> None:
    """A running service continues; settings without effect are no fault."""
    found = load_scene(ONE_NODE).edited(*edits, edit_placement("modelCache", cache)).condition("StorageReady")
    assert found.status is Status.TRUE
    assert f"Note: spec.modelCache.{unused}: has no effect, as there is no claim: " in found.message


def test_remarks_nothing_without_settings() -> None:
    nothing: tuple[JSON, ...] = (None, {"type": "EmptyDir"}, {"retry": "1"})
    for cache in nothing:
        assert (
            "does not apply"
            not in load_scene(ONE_NODE).edited(edit_placement("modelCache", cache)).condition("StorageReady").message
        )


def test_keeps_token_while_pods_download() -> None:
    """The token stays until the service reads verified weights from a claim: pods that start earlier need it."""
    control = plane(ONE_NODE)
    deployment, found = composite(control, "ModelDeployment"), composite(control, "ClusterModel")
    change(control, found, "spec.huggingFace.secretRef", {"name": "hub", "namespace": "s"})
    control.settle()
    change(control, deployment, "spec.modelCache", {"type": "PVC", "size": "60Gi", "storageClassName": "x"})
    reads = set()
    for _ in range(30):
        control.advance()
        there = control.store.owned(composite(control, "ModelPlacement"))
        status = mapping(control.composites[composite(control, "ModelPlacement")], "status.service")
        tokens = [key for key in there if key.startswith("token-")]
        reads.add((text(status, "uri").partition(":")[0], bool(tokens)))
    assert ("hf", False) not in reads, "a pod that reads from the hub has the token"
    assert ("pvc", False) in reads, "the token is gone once the pods read from the claim"
