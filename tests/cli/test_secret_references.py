"""`validate`: Secrets in the files that do not fit the references to them; their values are never printed."""

import copy
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import run, write

VALUE = "c2VjcmV0LXZhbHVl"
TOKEN: Manifest = {"name": "hf-token", "namespace": "modelplane-system"}
MODEL = "ClusterModel gemma-3-27b: spec.huggingFace.secretRef: "
ENVIRONMENT = "InferenceEnvironment h100-west: spec.cluster.existing."


def secret(metadata: Manifest, *keys: str, field: str = "data") -> Manifest:
    values: JSON = dict.fromkeys(keys, VALUE)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, field: values}


def validate(folder: Path, *secrets: Manifest, edit: Manifest | None = None) -> list[str]:
    """Return the warnings about Secrets in the files of an example; `edit` is laid over its environment."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    mapping(find_manifest(manifests, "InferenceEnvironment"), "spec").update(edit or {})
    done = run("validate", write(folder, *manifests, *secrets))
    assert VALUE not in done.stdout + done.stderr
    return [line.partition(": ")[2].partition(": ")[2] for line in done.stdout.splitlines() if "Secret" in line]


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_accepts_a_secret_that_fits(tmp_path: Path, field: str) -> None:
    kubeconfig: Manifest = {"name": "h100-west-kubeconfig", "namespace": "modelplane-system"}
    assert validate(tmp_path, secret(TOKEN, "HF_TOKEN", field=field), secret(kubeconfig, "kubeconfig")) == []


def test_names_the_keys_of_a_secret_without_the_expected_key(tmp_path: Path) -> None:
    has = "Secret modelplane-system/hf-token in these files has no key HF_TOKEN"
    remedy = "rename the key, or set key here"
    assert validate(tmp_path, secret(TOKEN, "token", "a")) == [f"{MODEL}{has} (it has a, token); {remedy}"]
    assert validate(tmp_path, secret(TOKEN)) == [f"{MODEL}{has} (it has no keys at all); {remedy}"]


@pytest.mark.parametrize(
    ("metadata", "namespace"), [({"name": "hf-token"}, "default"), ({**TOKEN, "namespace": "chat"}, "chat")]
)
def test_names_the_namespace_of_a_secret_that_is_elsewhere(tmp_path: Path, metadata: Manifest, namespace: str) -> None:
    want = f"{MODEL}is Secret modelplane-system/hf-token, and these files have hf-token in namespace {namespace}"
    assert validate(tmp_path, secret(metadata, "HF_TOKEN")) == [want]


def test_says_nothing_of_a_secret_that_also_is_in_the_right_namespace(tmp_path: Path) -> None:
    assert validate(tmp_path, secret({"name": "hf-token"}, "HF_TOKEN"), secret(TOKEN, "HF_TOKEN")) == []


def test_checks_every_secret_of_an_environment(tmp_path: Path) -> None:
    existing: Manifest = {"secretRef": {"name": "west"}, "identitySecretRef": {"name": "identity", "namespace": "b"}}
    edit: Manifest = {
        "cluster": {"source": "Existing", "existing": existing},
        "imagePullSecrets": [{"secretRef": {"name": "pull"}}, {"name": "there"}],
    }
    secrets = (secret({"name": name, "namespace": "a"}) for name in ("west", "identity", "pull", "there"))
    pull = "InferenceEnvironment h100-west: spec.imagePullSecrets: is Secret modelplane-system/pull"
    assert validate(tmp_path, *secrets, edit=edit) == [
        f"{ENVIRONMENT}identitySecretRef: is Secret b/identity, and these files have identity in namespace a",
        f"{ENVIRONMENT}secretRef: is Secret modelplane-system/west, and these files have west in namespace a",
        f"{pull}, and these files have pull in namespace a",
    ]


def test_checks_the_secrets_of_other_sources_and_of_images(tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    spec = mapping(find_manifest(manifests, "ClusterModel"), "spec")
    del spec["huggingFace"]
    spec |= {"source": "URI", "uri": {"uri": "s3://a/b", "secretRef": {"name": "s3", "namespace": "b"}}}
    (profile,) = listing(spec, "serving")
    mapping(profile, "engine")["imagePullSecrets"] = [{"name": "pull", "namespace": "b"}]
    pull: Manifest = {"name": "pull", "namespace": "b"}
    done = run("validate", write(tmp_path, *manifests, secret({"name": "s3"}), secret(pull, "password")))
    model = "ClusterModel gemma-3-27b: spec."
    assert f"{model}uri.secretRef: is Secret b/s3, and these files have s3 in namespace default" in done.stdout
    want = "Secret b/pull in these files has no key .dockerconfigjson (it has password); create it as a docker-registry"
    assert f"{model}serving[one-gpu].engine.imagePullSecrets: {want} Secret" in done.stdout


def test_checks_the_secrets_of_adapters_which_are_beside_the_deployment(tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("lora"))
    (sql, *_) = listing(mapping(find_manifest(manifests, "ModelDeployment"), "spec"), "adapters")
    mapping(sql, "huggingFace")["secretRef"] = {"name": "ours"}
    done = run("validate", write(tmp_path, *manifests, secret({"name": "ours", "namespace": "a"}, "HF_TOKEN")))
    want = (
        "spec.adapters[sql].huggingFace.secretRef: is Secret assistants/ours, and these files have ours in namespace a"
    )
    assert want in done.stdout
