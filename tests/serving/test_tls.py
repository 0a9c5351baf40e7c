"""KServe's TLS within the cluster: what our own commands serve with, how they are asked, and who mounts the files."""

from dataclasses import dataclass, replace

import pytest

from function.domain.model import Engine, HuggingFaceSource, Shape
from function.kube.manifests import JSON, Manifest, listing, text
from function.kube.names import build_name
from function.serving.digest import compute_spec_digest
from function.serving.service import build_service, find_service_problems
from tests.support.serving_requests import (
    DATA,
    KSERVE,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    TENSOR,
    VLLM_OLD,
    VLLM_RANKS,
    build_pods,
    engine,
    get_main,
    request,
)

ON = replace(KSERVE, tls=True)
FILES = ["--ssl-certfile=/var/run/kserve/tls/tls.crt", "--ssl-keyfile=/var/run/kserve/tls/tls.key"]
VLLM_FLAGS, SGLANG_FLAGS = [*FILES, "--enable-ssl-refresh"], FILES
SGLANG_TLS = "lmsysorg/sglang:v0.5.10"
VOLUME: Manifest = {"name": "tls-certs", "secret": {"secretName": "kimi-1a2b3c4d-kserve-self-signed-certs"}}
MOUNT: Manifest = {"name": "tls-certs", "mountPath": "/var/run/kserve/tls", "readOnly": True}


def flags(pod: Manifest) -> list[JSON]:
    args = get_main(pod).get("args", [])
    assert isinstance(args, list)
    return [arg for arg in args if str(arg).startswith(("--ssl", "--enable-ssl"))]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    want: list[str]
    mounted: bool = False
    source: HuggingFaceSource = HuggingFaceSource(repo="org/kimi")


CASES = (
    Case("preset", "the preset has KServe's own TLS arguments and mounts", ONE_NODE, engine(), []),
    Case("preset-data",
        "the preset for data parallelism has KServe's own TLS arguments and mounts",
        DATA, engine(), []),
    Case("ranks",
        "the function's own command gets the TLS arguments, and the preset mounts the files",
        DATA, engine(image=VLLM_RANKS), VLLM_FLAGS),
    Case("gguf",
        "the function's own command for a GGUF file gets the TLS arguments",
        ONE_GPU, engine(image="own/vllm:v0.15.0"), VLLM_FLAGS,
         source=HuggingFaceSource(repo="org/kimi", file="m.gguf")),
    Case("sglang",
        "the function's own command for SGLang gets the TLS arguments",
        ONE_NODE, engine(image=SGLANG_TLS, name=engine(image=SGLANG).name), SGLANG_FLAGS),
    Case("pipeline",
        "without a preset, the function adds the TLS arguments and mounts",
        PIPELINE, engine(), VLLM_FLAGS, mounted=True),
    Case("tensor", "tensor parallelism over nodes has no preset either", TENSOR, engine(), VLLM_FLAGS, mounted=True),
    Case("ray",
        "the script of Ray passes the TLS arguments to the engine",
        PIPELINE, engine(image=VLLM_OLD), VLLM_FLAGS, mounted=True),
    Case("sglang-nodes", "all ranks of SGLang have the same TLS arguments", PIPELINE,
         engine(image=SGLANG_TLS, name=engine(image=SGLANG).name), SGLANG_FLAGS, mounted=True),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_leader_serves_with_certificate_of_kserve(case: Case) -> None:
    leader, *workers = build_pods(request(case.shape, case.engine, source=case.source, kserve=ON))
    assert flags(leader) == case.want, case.reason
    for pod in (leader, *workers):
        assert (VOLUME in listing(pod, "volumes"), MOUNT in listing(get_main(pod), "volumeMounts")) == (
            case.mounted,
            case.mounted,
        ), case.reason
    scheme = text(get_main(leader), "startupProbe.httpGet.scheme")
    assert scheme == ("HTTPS" if case.want else ""), "the probes of a preset keep the scheme that KServe sets"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_no_tls_settings_without_tls(case: Case) -> None:
    service = build_service(request(case.shape, case.engine, source=case.source))
    assert "ssl" not in str(service)
    assert "tls" not in str(service)
    assert "HTTPS" not in str(service)


def test_refuses_engine_without_https() -> None:
    (problem,) = find_service_problems(request(PIPELINE, engine(image=SGLANG), kserve=ON))
    assert str(problem) == (
        "spec.serving[default].engine.image: 'lmsysorg/sglang:v0.5.4' cannot serve HTTPS, which kserve.tls of the "
        "environment requires; must be SGLang 0.5.10 or later"
    )


def test_only_switching_tls_on_changes_the_digest() -> None:
    off = request(PIPELINE)
    assert compute_spec_digest(replace(off, kserve=ON)) != compute_spec_digest(off)
    assert compute_spec_digest(replace(off, kserve=replace(KSERVE, tls=False))) == compute_spec_digest(off)


def test_tls_secret_has_name_of_kserve() -> None:
    longest = build_name("a" * 99)
    secret = f"{longest}-kserve-self-signed-certs"
    leader, _ = build_pods(replace(request(PIPELINE, kserve=ON), name=longest))
    assert {"name": "tls-certs", "secret": {"secretName": secret}} in listing(leader, "volumes")
    assert len(secret) <= 63, "KServe truncates and hashes a longer name"
