"""Adapters of a deployment: three sources, names, and what a bad one says."""

from dataclasses import dataclass

import pytest

from function.api.cluster_model import parse_model
from function.api.model_deployment import parse_deployment, parse_placement
from function.domain.adapter import Adapter
from function.domain.model import HuggingFaceSource, PvcSource, SecretKey, UriSource
from function.kube.manifests import JSON, Manifest

HUB: Manifest = {"repo": "org/sql"}


def _deployment(*adapters: JSON) -> Manifest:
    return {
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": {"modelRef": {"name": "llama"}, "adapters": [*adapters]},
    }


def test_parses_every_source_with_secrets_of_the_deployments_namespace() -> None:
    parsed = parse_deployment(
        _deployment(
            {"name": "sql", "huggingFace": {**HUB, "revision": "v1", "path": "a/b", "secretRef": {"name": "hub"}}},
            {"name": "law", "source": "URI", "uri": {"uri": "gs://b/law", "secretRef": {"name": "gcs", "key": "k"}}},
            {"name": "own", "source": "PVC", "pvc": {"claimName": "c", "path": "x"}, "retry": "2"},
            {"name": "bare", "source": "URI", "uri": {"uri": "s3://b/bare", "secretRef": {"name": "s3"}}},
        )
    )
    assert parsed.problems == ()
    assert parsed.value
    hub, gcs, s3 = (
        SecretKey(name=n, namespace="team", key=k) for n, k in (("hub", "HF_TOKEN"), ("gcs", "k"), ("s3", ""))
    )
    assert parsed.value.adapters == (
        Adapter(name="bare", source=UriSource(uri="s3://b/bare", secret=s3)),
        Adapter(name="law", source=UriSource(uri="gs://b/law", secret=gcs)),
        Adapter(name="own", source=PvcSource(claim="c", path="x"), retry="2"),
        Adapter(
            name="sql",
            source=HuggingFaceSource(repo="org/sql", revision="v1", secret=hub, allow=("a/b/adapter_*",), path="a/b"),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Bad:
    id: str
    adapter: JSON
    path: str
    words: str


BAD = (
    Bad(id="no-source", adapter={"name": "a"}, path="huggingFace", words="is required, as source is HuggingFace"),
    Bad(id="other-block", adapter={"name": "a", "pvc": {"claimName": "c"}}, path="source", words="set source: PVC"),
    Bad(id="a-number", adapter=3, path="", words="must be"),
    Bad(
        id="folder",
        adapter={"name": "a", "huggingFace": {**HUB, "path": "a/../b"}},
        path="huggingFace.path",
        words="without .. and without / at its ends",
    ),
    Bad(
        id="claim-path",
        adapter={"name": "a", "source": "PVC", "pvc": {"claimName": "c", "path": "a/../b"}},
        path="pvc.path",
        words="a directory within the claim, without ..",
    ),
    Bad(
        id="own-scheme",
        adapter={"name": "a", "source": "URI", "uri": {"uri": "hf://org/sql"}},
        path="uri.uri",
        words="given as source HuggingFace",
    ),
    Bad(
        id="google-without-key",
        adapter={"name": "a", "source": "URI", "uri": {"uri": "gs://b/a", "secretRef": {"name": "gcs"}}},
        path="uri.secretRef.key",
        words="as the credentials for gs:// are one file",
    ),
    Bad(
        id="second-name",
        adapter={"name": "publishers/team/models/llama", "huggingFace": HUB},
        path="name",
        words="a name that does not begin with publishers/",
    ),
    Bad(id="name", adapter={"name": "a=b", "huggingFace": HUB}, path="name", words="letters, digits, ., _, / and -"),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.id)
def test_says_what_is_wrong_with_an_adapter(bad: Bad) -> None:
    problems = parse_deployment(_deployment(bad.adapter)).problems
    path = f"spec.adapters[0].{bad.path}".rstrip(".")
    assert [path] == [problem.path for problem in problems]
    assert bad.words in problems[0].message


def test_two_of_one_name_are_refused() -> None:
    problems = parse_deployment(
        _deployment({"name": "a", "huggingFace": HUB}, {"name": "a", "huggingFace": HUB})
    ).problems
    assert [str(problem) for problem in problems] == [
        'spec.adapters[1].name: "a" is not allowed; must be unique, and spec.adapters[0] has the same name'
    ]


def test_a_placement_keeps_what_it_knows_of_each_download() -> None:
    manifest: Manifest = {
        "kind": "ModelPlacement",
        "metadata": {"name": "chat-1", "namespace": "team"},
        "spec": {
            "modelRef": {"name": "llama"},
            "inferenceEnvironmentRef": {"name": "east"},
            "profile": "p",
            "pool": "h100",
            "topology": {"gpusPerNode": 1},
            "adapters": [{"name": "sql", "huggingFace": HUB}],
        },
        "status": {"adapters": [{"name": "sql", "path": "models/0123", "completedAt": "2026-01-01T00:00:00Z"}]},
    }
    placement = parse_placement(manifest).value
    assert placement
    assert placement.adapters == (Adapter(name="sql", source=HuggingFaceSource(repo="org/sql", allow=("adapter_*",))),)
    ((name, record),) = placement.adapter_downloads
    assert (name, record.path, record.completed_at) == ("sql", "models/0123", "2026-01-01T00:00:00Z")


def test_an_engine_must_not_have_flags_that_lora_stands_for() -> None:
    engine: Manifest = {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0", "args": ["--enable-lora", "--max-loras=2"]}
    profile: Manifest = {"name": "p", "replicaTopology": {"gpusPerNode": 1}, "engine": engine}
    spec: Manifest = {"model": {"name": "org/m"}, "huggingFace": {"repo": "org/m"}, "serving": [profile]}
    manifest: Manifest = {"kind": "ClusterModel", "metadata": {"name": "m"}, "spec": spec}
    assert parse_model(manifest).problems == (), "without lora they are the author's"
    profile["lora"] = {"maxAdapters": 2, "maxRank": 12}
    (rank,) = (problem for problem in parse_model(manifest).problems if problem.path.endswith("maxRank"))
    ranks = "1, 8, 16, 32, 64, 128, 256, 320, 512"
    assert str(rank) == f"spec.serving[0].lora.maxRank: 12 is not known; must be one of {ranks}"
    profile["lora"] = {"maxAdapters": 2}
    said = "is not allowed; must be left out, as lora of the profile sets it"
    assert [str(problem) for problem in parse_model(manifest).problems] == [
        f'spec.serving[0].engine.args[0]: "--enable-lora" {said}',
        f'spec.serving[0].engine.args[1]: "--max-loras=2" {said}',
    ]
