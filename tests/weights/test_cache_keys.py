"""The cache key says which bytes these are; expected values are `printf '<json>' | sha256sum`."""

from dataclasses import dataclass

import pytest

from function.domain.model import DownloadedSource, HuggingFaceSource, SecretKey, UriSource
from function.weights.request import cache_key, source_uri


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    source: DownloadedSource
    want: str
    uri: str


KIMI = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct")

CASES = (
    Case(
        "hub",
        "the key is the hash of the array of repository, revision and patterns",
        KIMI,
        "e58d081b43957492",
        "hf://moonshotai/Kimi-K2-Instruct:main",
    ),
    Case(
        "secret-does-not-count",
        "the same bytes have the same key, whichever token fetches them",
        HuggingFaceSource(repo=KIMI.repo, secret=SecretKey(name="a", namespace="b", key="c")),
        "e58d081b43957492",
        "hf://moonshotai/Kimi-K2-Instruct:main",
    ),
    Case(
        "patterns-are-sorted-and-deduplicated",
        "the order of patterns does not change the key",
        HuggingFaceSource(
            repo="a/b", revision="v1", allow=("*.safetensors", "*.json", "*.json"), ignore=("original/*",)
        ),
        "5d8295916fa71fae",
        "hf://a/b:v1",
    ),
    Case(
        "folder",
        "another folder of the same files has its own key, because it is verified on its own",
        HuggingFaceSource(repo="a/b", path="fp8", allow=("fp8/*",)),
        "0dbe4643c4753ca2",
        "hf://a/b:main",
    ),
    Case(
        "uri-without-trailing-slash",
        "a folder of a bucket has the same key with and without a trailing slash",
        UriSource(uri="s3://models/llama/"),
        "57e52aae29d07393",
        "s3://models/llama/",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_key_and_uri(case: Case) -> None:
    assert cache_key(case.source) == case.want, case.reason
    assert source_uri(case.source) == case.uri, case.reason


def test_revision_changes_the_key() -> None:
    assert cache_key(KIMI) != cache_key(HuggingFaceSource(repo=KIMI.repo, revision="v2"))
