"""Every flag of the newest parsers that may name a repository or a path is known, or said to name no repository.

An engine whose arguments name no other repository is offline (`repository_flags` in `function/domain/engines.py`). A
flag that a new release adds fails here until it is read in the engine's source and put into either table.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.domain.engines import ENGINES, SERVED_NAME, EngineSpec, may_name_repository
from function.domain.model import Engine, EngineName
from function.kube.manifests import text
from tests.engines.asking import ask
from tests.engines.shapes import IMAGES
from tools.engines import list_releases

pytestmark = pytest.mark.engines
SUSPICIOUS_NAME = re.compile(
    r"path|repo|model|tokenizer|lora|adapter|draft|spec|checkpoint|weight|config|template|revision|hf-"
)
SUSPICIOUS_HELP = re.compile(r"\brepo|hugging ?face", re.IGNORECASE)
# A word that these flags accept, where `org/other` is none.
VALUES = {"--lora-modules": "a=org/other", "--default-mm-loras": '{"audio": "org/other"}'}


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """Flags that name no repository, as the source of the engine shows."""

    why: str
    vllm: tuple[str, ...] = ()
    sglang: tuple[str, ...] = ()


REVIEWED = (
    Reviewed(
        why="a word, a number, or a list of layers",
        vllm=("--tokenizer-mode", "--max-model-len", "--config-format", "--model-impl", "--max-cpu-loras",
              "--lora-target-modules", "--max-lora-cls-labels"),
        sglang=("--model-impl", "--model-config-parser", "--modelopt-quant", "--weight-version",
                "--speculative-algorithm", "--speculative-draft-attention-backend", "--hf-chat-template-name",
                "--tokenizer-metrics-custom-labels-header", "--tokenizer-metrics-allowed-custom-labels"),
    ),
    Reviewed(
        why="belongs to another flag, which names the repository",
        vllm=("--tokenizer-revision", "--revision", "--code-revision"),
        sglang=("--speculative-draft-model-revision", "--revision"),
    ),
    Reviewed(why="a token goes with another flag or a variable that names a repository", vllm=("--hf-token",)),
    Reviewed(
        why="keys and values that name neither a repository nor a model",
        vllm=("--quantization-config", "--hf-overrides", "--model-class-overrides", "--pooler-config",
              "--override-generation-config", "--model-loader-extra-config", "--eplb-config",
              "--fault-tolerance-config", "--logging-config", "--diffusion-config", "--kv-transfer-config",
              "--kv-events-config", "--ec-transfer-config", "--ec-manager-config", "--compilation-config",
              "--attention-config", "--engram-config", "--reasoning-config", "--kernel-config",
              "--additional-config", "--structured-outputs-config", "--aux-output-config", "--profiler-config",
              "--watchdog-config", "--watermark-config", "--weight-transfer-config", "--default-chat-template-kwargs"),
        sglang=("--model-loader-extra-config", "--json-model-override-args", "--radix-eviction-policy-config",
                "--default-chat-template-kwargs", "--kv-events-config", "--cuda-graph-config", "--mm-process-config",
                "--hisparse-config", "--hierarchical-sparse-attention-extra-config", "--modelexpress-config",
                "--unified-cache-external-linker-config"),
    ),
    Reviewed(
        why="a file or a folder, which no release looks for on a hub",
        vllm=("--chat-template", "--allowed-local-media-path", "--mm-encoder-fp8-scale-path",
              "--mm-encoder-fp8-scale-save-path", "--log-config-file"),
        sglang=("--chat-template", "--completion-template", "--quantization-param-path",
                "--modelopt-checkpoint-restore-path", "--modelopt-checkpoint-save-path", "--modelopt-export-path",
                "--file-storage-path", "--speculative-dspark-sps-table-path", "--spec-trace-dir",
                "--speculative-dspark-confidence-sts-path", "--speculative-adaptive-config",
                "--speculative-ngram-external-corpus-path", "--deepep-config", "--hicache-storage-backend-extra-config",
                "--lmcache-config-file", "--flexkv-config-file", "--kt-weight-path", "--dllm-algorithm-config",
                "--pdmux-config-path", "--decrypted-config-file", "--decrypted-draft-config-file", "--download-dir",
                "--msprobe-dump-config", "--watermark-config"),
    ),
    Reviewed(
        why="a path of HTTP, a module of Python, or the address of a peer",
        sglang=("--fastapi-root-path", "--custom-weight-loader", "--decoupled-spec-bind-endpoint",
                "--decoupled-spec-connect-endpoints", "--remote-instance-weight-loader-seed-instance-ip",
                "--remote-instance-weight-loader-send-weights-group-ports", "--weight-cache-socket"),
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", EngineName)
def test_every_flag_that_may_name_a_repository_is_known_or_reviewed(name: EngineName, model: Path) -> None:
    spec = ENGINES[name]
    texts = ask(list_releases(name.lower())[-1], [], model, gpus=8).texts
    assert texts.keys() >= {spec.tokenizer_flag}, "the parser answered"
    reviewed = {flag for row in REVIEWED for flag in getattr(row, name.lower())}
    suspicious = {flag for flag in texts if SUSPICIOUS_NAME.search(flag) or SUSPICIOUS_HELP.search(text(texts, flag))}
    unknown = {flag for flag in suspicious if not _is_managed(spec, flag) and not _takes_offline(name, flag)}
    assert sorted(unknown - reviewed) == [], "read what the engine does with them"
    assert sorted(reviewed - unknown) == [], "gone, or known by now"


@pytest.mark.parametrize("name", EngineName)
def test_newest_parser_takes_every_spelling_of_a_repository(name: EngineName, model: Path) -> None:
    """Spellings that this function does not know would leave the engine offline: beginnings, dots and underscores."""
    release = list_releases(name.lower())[-1]
    start = {EngineName.VLLM: ("serve", "/mnt/models"),
             EngineName.SGLANG: ("-m", "sglang.launch_server", "--model-path=/mnt/models")}[name]  # fmt: skip
    options = ask(release, [], model, gpus=8).options
    flags = [flag for flag in ENGINES[name].repository_flags if flag in options and flag != "--trust-remote-code"]
    spellings = [(flag, VALUES.get(flag, "org/other")) for flag in flags if "config" not in flag and flag != "-sc"]
    if name is EngineName.VLLM:
        spellings += [("--speculative-config.model", "org/other"), ("--speculative_config.model", "org/other"),
                      ("-sc.model", "org/other"), ("-sc", '{"model": "org/other"}'),
                      ("--speculative-conf", '{"model": "org/other"}')]  # fmt: skip
    answers = ask(release, [(*start, *spelling) for spelling in spellings], model, gpus=8).answers
    assert {spelling: answer.error for spelling, answer in zip(spellings, answers, strict=True) if answer.error} == {}
    assert [spelling for spelling in spellings if not may_name_repository(_run(name, *spelling))] == []


def _run(name: EngineName, *args: str) -> Engine:
    return Engine(name=name, image=IMAGES[name], args=args)


def _takes_offline(name: EngineName, flag: str) -> bool:
    return may_name_repository(_run(name, flag, "org/other"))


def _is_managed(spec: EngineSpec, flag: str) -> bool:
    is_managed = any(row.covers(flag) for row in spec.managed_flags)
    return is_managed or flag in spec.weights_flags or flag == SERVED_NAME
