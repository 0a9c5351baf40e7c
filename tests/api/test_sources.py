"""Parsing sources: exactly the block that `source` names is allowed, with an address that KServe can fetch."""

from dataclasses import dataclass

import pytest

from function.api.cluster_model import parse_model
from function.api.problems import Parsed
from function.domain.model import HuggingFaceSource, OciSource, Problem, PvcSource, SecretKey, Source, UriSource
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest
from tests.api import manifests


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    want: Source
    fields: Manifest
    kind: str = "ClusterModel"


SECRET: JSON = {"repo": "a/b", "secretRef": {"name": "token"}}
CASES = [
    Case("hub", "the default source is the hub, with the main branch", HuggingFaceSource(repo="a/b"),
         {"huggingFace": {"repo": "a/b"}}),
    Case("hub-all", "every field is read",
         HuggingFaceSource(repo="a/b", revision="v1", allow=("*.safetensors",), ignore=("original/*",),
                           secret=SecretKey(name="token", namespace="vault", key="T")),
         {"source": "HuggingFace",
          "huggingFace": {"repo": "a/b", "revision": "v1", "allowPatterns": ["*.safetensors"],
                          "ignorePatterns": ["original/*"],
                          "secretRef": {"name": "token", "namespace": "vault", "key": "T"}}}),
    Case("hub-file", "only the named file is downloaded", HuggingFaceSource(repo="a/b", file="Q4/c.gguf",
                                                                            allow=("Q4/c.gguf",)),
         {"huggingFace": {"repo": "a/b", "file": "Q4/c.gguf"}}),
    Case("hub-first-part", "the first part is downloaded with the other parts", HuggingFaceSource(
        repo="a/b", file="c-00001-of-00003.gguf", allow=("c-*-of-00003.gguf",)),
         {"huggingFace": {"repo": "a/b", "file": "c-00001-of-00003.gguf"}}),
    Case("hub-file-and-more", "the patterns of the author take precedence over the file", HuggingFaceSource(
        repo="a/b", file="c.gguf", allow=("*.gguf", "*.json")),
         {"huggingFace": {"repo": "a/b", "file": "c.gguf", "allowPatterns": ["*.gguf", "*.json"]}}),
    Case("hub-folder", "only the named folder is downloaded", HuggingFaceSource(
        repo="a/b", path="fp8/v1", allow=("fp8/v1/*",)),
         {"huggingFace": {"repo": "a/b", "path": "fp8/v1"}}),
    Case("hub-folder-and-more", "the patterns of the author take precedence over the folder", HuggingFaceSource(
        repo="a/b", path="fp8", allow=("fp8/*", "tokenizer*")),
         {"huggingFace": {"repo": "a/b", "path": "fp8", "allowPatterns": ["fp8/*", "tokenizer*"]}}),
    Case("hub-secret", "a ClusterModel's Secret is in the platform's namespace",
         HuggingFaceSource(repo="a/b", secret=SecretKey(name="token", namespace="modelplane-system", key="HF_TOKEN")),
         {"source": "huggingface", "huggingFace": SECRET}),
    Case("model-secret", "a Model's Secret is in its own namespace",
         HuggingFaceSource(repo="a/b", secret=SecretKey(name="token", namespace="ml-team", key="HF_TOKEN")),
         {"source": "HuggingFace", "huggingFace": SECRET}, "Model"),
    Case("model-secret-said", "a Model may name its own namespace",
         HuggingFaceSource(repo="a/b", secret=SecretKey(name="token", namespace="ml-team", key="HF_TOKEN")),
         {"source": "HuggingFace",
          "huggingFace": {"repo": "a/b", "secretRef": {"name": "token", "namespace": "ml-team"}}}, "Model"),
    Case("oci", "lower case is accepted", OciSource(image=f"reg.example.com/m@sha256:{'0' * 64}"),
         {"source": "oci", "oci": {"image": f"reg.example.com/m@sha256:{'0' * 64}"}}),
    Case("uri", "the credentials of a bucket need no particular key",
         UriSource(uri="s3://bucket/m", secret=SecretKey(name="aws", namespace="modelplane-system", key="")),
         {"source": "URI", "uri": {"uri": "s3://bucket/m", "secretRef": {"name": "aws"}}}),
    Case("uri-one-part", "a file of one part is complete", UriSource(uri="s3://b/c-00001-of-00001.gguf"),
         {"source": "URI", "uri": {"uri": "s3://b/c-00001-of-00001.gguf"}}),
    Case("pvc", "a claim and a directory", PvcSource(claim="weights", path="a/b"),
         {"source": "pvc", "pvc": {"claimName": "weights", "path": "a/b"}}),
    Case("pvc-root", "the root of a claim", PvcSource(claim="weights"),
         {"source": "PVC", "pvc": {"claimName": "weights"}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_every_source(case: Case) -> None:
    model = parse_model(manifests.model(kind=case.kind, **case.fields)).value
    assert model
    assert model.source == case.want, case.reason


def test_secret_namespace_is_a_setting() -> None:
    given = manifests.model(huggingFace=SECRET)
    model = parse_model(given, Settings(secret_namespace="vault")).value
    assert model
    assert model.source == HuggingFaceSource(
        repo="a/b", secret=SecretKey(name="token", namespace="vault", key="HF_TOKEN")
    )


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    fields: Manifest
    want: tuple[Problem, ...]
    kind: str = "ClusterModel"


def _uri(uri: str) -> Manifest:
    return {"source": "URI", "uri": {"uri": uri}}


KNOWN = "an address of s3://, gs://, https://, http://, hdfs://, webhdfs://"
FAULTS = [
    Fault("unknown", "no other fields are checked for an unknown source", {"source": "hub", "oci": {"image": "a"}},
          (Problem("spec.source", '"hub" is not known; must be one of HuggingFace, OCI, URI, PVC'),)),
    Fault("missing-block", "the block of the source is required", {"source": "OCI"},
          (Problem("spec.oci", "is required, as source is OCI"),)),
    Fault("foreign-block", "other blocks are refused",
          {"source": "oci", "oci": {"image": "a"}, "pvc": {"claimName": "b"}},
          (Problem("spec.pvc", '{"claimName": "b"} is not allowed; must be left out, as source is OCI. '
                   "To use pvc instead, set source: PVC and leave out oci"),)),
    Fault("other-block", "the source of the only block is named", {"source": "OCI", "pvc": {"claimName": "b"}},
          (Problem("spec.source", "is OCI, and only pvc is set; set source: PVC"),)),
    Fault("repo", "a repository has an owner and a name", {"huggingFace": {"repo": "a/b/c"}},
          (Problem("spec.huggingFace.repo", '"a/b/c" is not allowed; must be owner/name, such as Qwen/Qwen3-8B'),)),
    Fault("file-outside", "a file must be within the repository", {"huggingFace": {"repo": "a/b", "file": "../c.gguf"}},
          (Problem("spec.huggingFace.file",
                   '"../c.gguf" is not allowed; must be a path within the repository, without ..'),)),
    Fault("file-not-fetched", "the patterns exclude the file, so the engine would not find it",
          {"huggingFace": {"repo": "a/b", "file": "c.gguf", "allowPatterns": ["*.json"]}},
          (Problem("spec.huggingFace.file",
                   '"c.gguf" is not allowed; must be a file that matches allowPatterns'),)),
    Fault("file-left-out", "the patterns exclude the file, so the engine would not find it",
          {"huggingFace": {"repo": "a/b", "file": "c.gguf", "ignorePatterns": ["c.*"]}},
          (Problem("spec.huggingFace.file",
                   '"c.gguf" is not allowed; must be a file that does not match ignorePatterns'),)),
    Fault("file-later-part", "engines open the first, and find the others by its name",
          {"huggingFace": {"repo": "a/b", "file": "c-00002-of-00003.gguf"}},
          (Problem("spec.huggingFace.file",
                   '"c-00002-of-00003.gguf" is not allowed; must be the first of its parts, c-00001-of-00003.gguf'),)),
    Fault("file-of-another-format", "engines open a folder of them",
          {"huggingFace": {"repo": "a/b", "file": "model.safetensors"}},
          (Problem("spec.huggingFace.file", '"model.safetensors" is not allowed; '
                   "must be a file that ends in .gguf, as engines open other models as a folder"),)),
    *(Fault(f"folder-{path}", "a folder within the repository, written in one way",
            {"huggingFace": {"repo": "a/b", "path": path}},
            (Problem("spec.huggingFace.path", f'"{path}" is not allowed; '
                     "must be a folder within the repository, without .. and without / at its ends"),))
      for path in ("../a", "/a", "a/", "a//b", "./a")),
    Fault("folder-and-file", "the file says where it is",
          {"huggingFace": {"repo": "a/b", "path": "q4", "file": "q4/c.gguf"}},
          (Problem("spec.huggingFace.path",
                   '"q4" is not allowed; must be left out together with file, which is a path of its own'),)),
    Fault("revision-of-a-pull-request", "KServe gets it in an address",
          {"huggingFace": {"repo": "a/b", "revision": "refs/pr/12"}},
          (Problem("spec.huggingFace.revision", '"refs/pr/12" is not allowed; '
                   "must be a branch, tag or commit without a slash; of a pull request, name its last commit"),)),
    Fault("one-part", "only one file is downloaded from such an address", _uri("s3://b/c-00001-of-00003.gguf"),
          (Problem("spec.uri.uri",
                   '"s3://b/c-00001-of-00003.gguf" is not allowed; '
                   "must be one file with its 3 parts merged, as no other file is fetched"),)),
    Fault("one-part-query", "a query is not part of the file name",
          _uri("https://a/c-00002-of-00002.gguf?download=true"),
          (Problem("spec.uri.uri",
                   '"https://a/c-00002-of-00002.gguf?download=true" is not allowed; '
                   "must be one file with its 2 parts merged, as no other file is fetched"),)),
    Fault("repo-type", "a value of the wrong type is reported only once", {"huggingFace": {"repo": 3}},
          (Problem("spec.huggingFace.repo", "3 is not allowed; must be text, in quotes"),)),
    Fault("scheme", "the message names the nearest scheme", _uri("gcs://bucket"),
          (Problem("spec.uri.uri", f'"gcs://bucket" is not allowed; must be {KNOWN} (did you mean gs://?)'),)),
    Fault("uri-gs-secret-without-key", "Google's credentials are one file, so one key must be named",
          {"source": "URI", "uri": {"uri": "gs://bucket/m", "secretRef": {"name": "gcp"}}},
          (Problem("spec.uri.secretRef.key", "is required, as the credentials for gs:// are one file"),)),
    Fault("strange-scheme", "no known scheme is similar", _uri("ftp9://bucket"),
          (Problem("spec.uri.uri", f'"ftp9://bucket" is not allowed; must be {KNOWN}'),)),
    Fault("no-bucket", "an address needs more than a scheme", _uri("s3://"),
          (Problem("spec.uri.uri", f'"s3://" is not allowed; must be {KNOWN}'),)),
    Fault("own-source", "the hub has a source of its own", _uri("hf://a/b"),
          (Problem("spec.uri.uri", '"hf://a/b" is not allowed; must be given as source HuggingFace'),)),
    Fault("page-of-a-repository", "what would be downloaded is HTML", _uri("https://huggingface.co/a/b/tree/main"),
          (Problem("spec.uri.uri", '"https://huggingface.co/a/b/tree/main" is not allowed; must be given as '
                   "spec.huggingFace.repo: a/b, as this is a web page"),)),
    Fault("page-of-a-file", "what would be downloaded is HTML", _uri("https://huggingface.co/a/b/blob/main/x.gguf"),
          (Problem("spec.uri.uri", '"https://huggingface.co/a/b/blob/main/x.gguf" is not allowed; must be written with '
                   "/resolve/ in place of /blob/, as this is a web page"),)),
    Fault("uri-type", "a value of the wrong type is reported only once", {"source": "URI", "uri": {"uri": 3}},
          (Problem("spec.uri.uri", "3 is not allowed; must be text, in quotes"),)),
    Fault("path", "a path stays within its claim", {"source": "PVC", "pvc": {"claimName": "a", "path": "b/../../c"}},
          (Problem("spec.pvc.path", '"b/../../c" is not allowed; must be a directory within the claim, without ..'),)),
    Fault("namespace", "a Model cannot reach into another namespace",
          {"source": "HuggingFace",
           "huggingFace": {"repo": "a/b", "secretRef": {"name": "t", "namespace": "vault"}}},
          (Problem("spec.huggingFace.secretRef.namespace",
                   '"vault" is not allowed; must be left out, as a Model\'s Secret is in its namespace ml-team'),),
          "Model"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_reports_every_problem_of_a_source(case: Fault) -> None:
    assert parse_model(manifests.model(kind=case.kind, **case.fields)) == Parsed(None, case.want), case.reason
