"""A source's secret reaches the program in the form that the program reads."""

from dataclasses import dataclass

import pytest

from function.domain.model import DownloadedSource, HuggingFaceSource, SecretKey, UriSource
from function.kube.manifests import Manifest
from function.weights.credentials import Credential, SecretCopy, plan_credential

HUB = SecretKey(name="hf-token", namespace="modelplane-system", key="token")
BUCKET = SecretKey(name="bucket", namespace="modelplane-system", key="account.json")


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    source: DownloadedSource
    existing: str | None = None
    copy: SecretCopy | None = None
    env: tuple[Manifest, ...] = ()
    env_from: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()


def ref(name: str, key: str) -> Manifest:
    return {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


CASES = (
    Case(
        "hub-token",
        "the client of the Hugging Face Hub reads HF_TOKEN",
        HuggingFaceSource(repo="a/b", secret=HUB),
        copy=SecretCopy(name="copy", origin=HUB),
        env=(ref("copy", "token"),),
    ),
    Case(
        "token-on-the-remote-cluster",
        "a token that exists on the cluster is not copied there",
        HuggingFaceSource(repo="a/b", secret=HUB),
        existing="hf",
        env=(ref("hf", "token"),),
    ),
    Case(
        "platforms-token-for-a-public-model",
        "the platform's token is optional for a public model, where it only lifts the rate limit",
        HuggingFaceSource(repo="a/b"),
        existing="hf",
        env=({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "HF_TOKEN", "optional": True}}},),
    ),
    Case(
        "bucket",
        "boto reads several variables, so that all keys of the Secret are copied",
        UriSource(uri="s3://b/m", secret=BUCKET),
        copy=SecretCopy(name="copy", origin=BUCKET, all_keys=True),
        env_from=({"secretRef": {"name": "copy"}},),
    ),
    Case(
        "google",
        "Google's client reads its credentials from a file",
        UriSource(uri="gs://b/m", secret=BUCKET),
        copy=SecretCopy(name="copy", origin=BUCKET),
        env=({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/var/secrets/source/account.json"},),
        mounts=({"name": "credentials", "mountPath": "/var/secrets/source", "readOnly": True},),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_credential(case: Case) -> None:
    found = plan_credential(case.source, case.existing, "copy")
    assert found.copies == ((case.copy,) if case.copy else ()), case.reason
    assert (found.env, found.env_from, found.mounts) == (case.env, case.env_from, case.mounts), case.reason
    assert len(found.volumes) == len(case.mounts), case.reason


def test_google_key_becomes_a_file() -> None:
    found = plan_credential(UriSource(uri="gs://b/m", secret=BUCKET), None, "copy")
    items = [{"key": "account.json", "path": "account.json"}]
    assert found.volumes == ({"name": "credentials", "secret": {"secretName": "copy", "items": items}},)


@pytest.mark.parametrize("existing", [None, "hf"])
def test_public_bucket_reads_nothing(existing: str | None) -> None:
    assert plan_credential(UriSource(uri="s3://b/m"), existing, "copy") == Credential()


def test_public_repository_reads_nothing() -> None:
    assert plan_credential(HuggingFaceSource(repo="a/b"), None, "copy") == Credential()
