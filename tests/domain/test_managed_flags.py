"""Managed flags may be repeated with the managed value, and are else refused with the value found and the allowed one.

The flags are those of vLLM 0.33 and SGLang 0.5.23 (docs/facts.md, Engines).
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from function.domain.engines import ENGINES, drop_repeated_flags, find_managed_flag_faults
from function.domain.model import EngineName, OciSource, Problem, Source
from tests.support.builders import HUB

VLLM, SGLANG = EngineName.VLLM, EngineName.SGLANG
IMAGE = OciSource(image="models/kimi:1")
NAME = "served/kimi"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    engine: EngineName
    args: tuple[str, ...]
    left: tuple[str, ...]
    source: Source = HUB


ALLOWED = [
    Case("none", "arguments without managed flags are kept", VLLM, (), ()),
    Case("equals", "the repo is where the weights come from", VLLM, ("--a", "--model=org/kimi", "--b"), ("--a", "--b")),
    Case("apart", "flag and value as two arguments", VLLM, ("--model", "org/kimi", "--b"), ("--b",)),
    Case("positional", "vllm serve also accepts the model as a positional argument",
         VLLM, ("org/kimi", "--b"), ("--b",)),
    Case("mount", "where KServe mounts them anyway", VLLM, ("/mnt/models", "--b"), ("--b",)),
    Case("mount-of-image", "whatever the source", VLLM, ("--model=/mnt/models",), (), IMAGE),
    Case("value-of-another-flag", "a later value that looks like the repository belongs to another flag",
         VLLM, ("--tokenizer", "org/kimi"),
         ("--tokenizer", "org/kimi")),
    Case("longer-flag", "only complete flags are managed", VLLM, ("--model-impl=vllm",), ("--model-impl=vllm",)),
    Case("sglang-path", "SGLang's name of the flag", SGLANG, ("--model-path", "org/kimi", "--b"), ("--b",)),
    Case("sglang-short", "and its other one, with underscores too", SGLANG,
         ("--model=org/kimi", "--model_path=org/kimi"), ()),
    Case("vllm-knows-no-path", "a flag that the engine does not know is kept", VLLM, ("--model-path=org/kimi",),
         ("--model-path=org/kimi",)),
    Case("name", "ours has the second name that KServe's router asks for", VLLM,
         ("--served-model-name", NAME, "--b"), ("--b",)),
    Case("port", "a port that agrees with the managed one is kept",
         VLLM, ("--port=8000", "--host", "0.0.0.0"), ("--port=8000", "--host", "0.0.0.0")),
    Case("sizes", "must agree with the shape, which is looked at elsewhere", VLLM, ("-tp=8", "-dp", "2", "-dpl=2"),
         ("-tp=8", "-dp", "2", "-dpl=2")),
    Case("backend", "the backend is the choice of the author", VLLM, ("--distributed-executor-backend=ray",),
         ("--distributed-executor-backend=ray",)),
    Case("log-flags", "log flags are the choice of the author",
         VLLM, ("--disable-log-requests", "--uvicorn-log-level=info"),
         ("--disable-log-requests", "--uvicorn-log-level=info")),
    Case("sglang-attention", "ranks that share the GPUs of the tensor ranks", SGLANG,
         ("--dp-size=8", "--enable-dp-attention", "--attn-dp-size=8"),
         ("--dp-size=8", "--enable-dp-attention", "--attn-dp-size=8")),
    Case("letter", "the flag -r of SGLang is not a rank", SGLANG, ("-r=1",), ("-r=1",)),
]  # fmt: skip


@pytest.mark.parametrize("case", ALLOWED, ids=lambda c: c.id)
def test_accepts_arguments_that_repeat_what_is_managed(case: Case) -> None:
    assert find_managed_flag_faults(case.engine, case.args, case.source, NAME, "args") == (), case.reason
    assert drop_repeated_flags(case.engine, case.args, case.source) == case.left, case.reason


@dataclass(frozen=True)
class Fault:
    id: str
    engine: EngineName
    args: tuple[str, ...]
    want: str
    index: int = 0
    source: Source = HUB


WEIGHTS = "names other weights; must be left out: the weights of the model are at /mnt/models"
RANK = "is managed by modelplane (the pod's place in its group decides); remove it"
SERVES = "is managed by modelplane (the first pod of a group serves); remove it"
HTTP = "is managed by modelplane (KServe asks for HTTP on port 8000 at /); remove it"
TLS = "is managed by modelplane (TLS is the cluster's); remove it"
FILE = "is managed by modelplane (a file hides flags from every check); remove it"
PORT = "is managed by modelplane (KServe knows port 8000 only); remove it or set it to 8000"
HOST = "is managed by modelplane (the engine answers on 0.0.0.0); remove it or set it to 0.0.0.0"
NO_FLAG = "is not a flag; must be left out: the source of the model has the weights"
APART = "is one argument; must be {}=VALUE, or flag and value as two arguments"
FAULTS = [
    Fault("other-repo", VLLM, ("--x", "--model=org/other"), f"--model=org/other {WEIGHTS}", 1),
    Fault("other-apart", VLLM, ("--model", "org/other"), f"--model=org/other {WEIGHTS}"),
    Fault("no-value", VLLM, ("--model",), f"--model {WEIGHTS}"),
    Fault("repo-of-image", VLLM, ("--model=org/kimi",), f"--model=org/kimi {WEIGHTS}", source=IMAGE),
    Fault("one-argument", VLLM, ("--seed 1",), f"'--seed 1' {APART.format('--seed')}"),
    Fault("two-in-one", VLLM, ("--seed=1 --enforce-eager",),
          "'--seed=1 --enforce-eager' has two flags in one argument; must be one argument for each"),
    Fault("one-of-sglang", SGLANG, ("--x", "--log_level x"), f"'--log-level x' {APART.format('--log-level')}", 1),
    Fault("positional", VLLM, ("org/other",), f"'org/other' {NO_FLAG}"),
    Fault("positional-of-image", VLLM, ("org/kimi",), f"'org/kimi' {NO_FLAG}", source=IMAGE),
    Fault("sglang-positional", SGLANG, ("org/kimi",), f"'org/kimi' {NO_FLAG}"),
    Fault("sglang-path", SGLANG, ("--model_path=x",), f"--model-path=x {WEIGHTS}"),
    Fault("name", VLLM, ("--served-model-name", NAME, "alias"),
          f"--served-model-name has '{NAME} alias'; must be left out or {NAME}, spec.model.name"),
    Fault("sglang-name", SGLANG, ("--served_model_name=k",),
          f"--served-model-name has 'k'; must be left out or {NAME}, spec.model.name"),
    Fault("port", VLLM, ("--port", "9000"), f"--port=9000 {PORT}"),
    Fault("port-in-one", VLLM, ("--port 8000",), f"--port 8000 {PORT}"),
    Fault("host", SGLANG, ("--host=127.0.0.1",), f"--host=127.0.0.1 {HOST}"),
    Fault("uds", VLLM, ("--uds=/tmp/s",), f"--uds=/tmp/s {HTTP}"),
    Fault("root-path", VLLM, ("--root_path=/v1",), f"--root-path=/v1 {HTTP}"),
    Fault("grpc", VLLM, ("--grpc",), f"--grpc {HTTP}"),
    Fault("sglang-grpc", SGLANG, ("--grpc-mode",), f"--grpc-mode {HTTP}"),
    Fault("tls", VLLM, ("--ssl-keyfile=k",), f"--ssl-keyfile=k {TLS}"),
    Fault("tls-refresh", SGLANG, ("--enable-ssl-refresh",), f"--enable-ssl-refresh {TLS}"),
    Fault("config", VLLM, ("--config=/etc/c.yaml",), f"--config=/etc/c.yaml {FILE}"),
    Fault("sglang-config", SGLANG, ("--config", "c.yaml"), f"--config=c.yaml {FILE}"),
    Fault("api-servers", VLLM, ("-asc", "2"), f"-asc=2 {SERVES}"),
    Fault("headless", VLLM, ("--headless",), f"--headless {SERVES}"),
    Fault("nodes", VLLM, ("--nnodes=2",), f"--nnodes=2 {RANK}"),
    Fault("nodes-short", VLLM, ("-n", "2"), f"-n=2 {RANK}"),
    Fault("nodes-together", VLLM, ("-n2",), f"-n=2 {RANK}"),
    Fault("rank-short", VLLM, ("-r=1",), f"-r=1 {RANK}"),
    Fault("master", VLLM, ("--master_port=1",), f"--master-port=1 {RANK}"),
    Fault("data-rank", VLLM, ("--data-parallel-start-rank=1",), f"--data-parallel-start-rank=1 {RANK}"),
    Fault("data-short", VLLM, ("-dpa=10.0.0.1",), f"-dpa=10.0.0.1 {RANK}"),
    Fault("balancer", VLLM, ("--data-parallel-hybrid-lb",), f"--data-parallel-hybrid-lb {RANK}"),
    Fault("context", VLLM, ("-pcp=2",),
          "-pcp=2 is managed by modelplane (it multiplies the GPUs of a replica); remove it or set it to 1"),
    Fault("sglang-rank", SGLANG, ("--node-rank=0",), f"--node-rank=0 {RANK}"),
    Fault("sglang-address", SGLANG, ("--nccl-init-addr=a:1",), f"--nccl-init-addr=a:1 {RANK}"),
    Fault("shortened-size", VLLM, ("--tensor-parallel=4",),
          "--tensor-parallel is an abbreviation of --tensor-parallel-size; must be written in full"),
    Fault("shortened-name", SGLANG, ("--served-model", "k"),
          "--served-model is an abbreviation of --served-model-name; must be written in full"),
    Fault("shortened-port", VLLM, ("--por=1",), "--por is an abbreviation of --port; must be written in full"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_refuses_arguments_that_contradict_a_managed_flag(case: Fault) -> None:
    assert find_managed_flag_faults(case.engine, case.args, case.source, NAME, "args") == (
        Problem(f"args[{case.index}]", case.want),
    )


def test_every_flag_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    for engine, spec in ENGINES.items():
        for name in (name for row in spec.managed_flags for name in row.names):
            assert f"`{name}`" in reference, f"{engine}: docs/reference.md has the whole list"
