"""Parsing the Secrets to pull images with."""

from dataclasses import dataclass

import pytest

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.domain.model import Problem, SecretKey
from function.domain.pods import PullSecret
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest, mapping
from tests.api import manifests

SETTINGS = Settings(secret_namespace="vault")  # a namespace


def copied(name: str, namespace: str) -> PullSecret:
    return PullSecret(source=SecretKey(name=name, namespace=namespace, key=".dockerconfigjson"))


def environment(secrets: JSON) -> Manifest:
    made = manifests.environment(manifests.pool())
    mapping(made, "spec")["imagePullSecrets"] = secrets
    return made


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    said: JSON
    want: PullSecret | Problem


CASES = [
    Case("there", "a Secret on the cluster is named directly", {"name": "a"}, PullSecret(name="a")),
    Case(
        "copied",
        "a secretRef defaults to the namespace of the platform",
        {"secretRef": {"name": "a"}},
        copied("a", "vault"),
    ),
    Case(
        "elsewhere",
        "a secretRef may name another namespace",
        {"secretRef": {"name": "a", "namespace": "b"}},
        copied("a", "b"),
    ),
    Case(
        "both",
        "name and secretRef exclude each other",
        {"name": "a", "secretRef": {"name": "b"}},
        Problem(
            "spec.imagePullSecrets[0].secretRef", '{"name": "b"} is not allowed; must be left out together with name'
        ),
    ),
    Case(
        "unknown",
        "an entry needs name or secretRef",
        {"nmae": "a"},
        Problem("spec.imagePullSecrets[0].name", "is required, or secretRef"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_parses_pull_secrets_of_an_environment(case: Case) -> None:
    read = parse_environment(environment([case.said]), SETTINGS)
    if isinstance(case.want, Problem):
        assert case.want in read.problems, case.reason
    else:
        assert (read.value.pull_secrets, read.problems) == ((case.want,), ()), case.reason


def model(kind: str, secret: JSON) -> Manifest:
    engine: JSON = {"name": "vLLM", "image": "a:1", "imagePullSecrets": [secret]}
    return {
        "kind": kind,
        "metadata": {"name": "m", "namespace": "team" if kind == "Model" else ""},
        "spec": {
            "model": {"name": "a/b"},
            "huggingFace": {"repo": "a/b"},
            "serving": [{"name": "p", "engine": engine, "replicaTopology": {"nodes": 1, "gpusPerNode": 1}}],
        },
    }


@pytest.mark.parametrize(
    ("kind", "said", "namespace"),
    [
        ("ClusterModel", {"name": "s"}, "vault"),
        ("ClusterModel", {"name": "s", "namespace": "b"}, "b"),
        ("Model", {"name": "s"}, "team"),
    ],
)
def test_parses_pull_secrets_of_an_engine(kind: str, said: JSON, namespace: str) -> None:
    read = parse_model(model(kind, said), SETTINGS)
    assert read.value, read.problems
    (profile,) = read.value.profiles
    assert profile.engine.pull_secrets == (SecretKey(name="s", namespace=namespace, key=".dockerconfigjson"),)


def test_refuses_pull_secrets_of_another_namespace_for_a_model() -> None:
    read = parse_model(model("Model", {"name": "s", "namespace": "vault"}), SETTINGS)
    assert read.problems == (
        Problem(
            "spec.serving[0].engine.imagePullSecrets[0].namespace",
            '"vault" is not allowed; must be left out, as a Model\'s Secret is in its namespace team',
        ),
    )
