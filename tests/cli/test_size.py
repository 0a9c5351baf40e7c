"""`size`: the arithmetic from parameters to nodes."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.kube.manifests import Manifest
from tests.cli.process import ROOT, cells, run, said, write
from tests.hub.hub import Hub, serving
from tests.hub.weights import SHARDED


@dataclass(frozen=True, kw_only=True)
class Case:
    """Parameters and what they come to."""

    id: str
    reason: str
    params: str
    precision: str
    disk: str
    vram: str


CASES = (
    Case(
        id="deepseek",
        reason="671e9 bytes are 624.92 Gi; 5 % more is 656.17, 20 % more 749.90; its files have 688 GB = 641 Gi",
        params="671B",
        precision="fp8",
        disk="657Gi",
        vram="750Gi",
    ),
    Case(
        id="llama",
        reason="405e9 x 2 bytes are 810 GB = 754.37 Gi, which is what its files have",
        params="405B",
        precision="bf16",
        disk="793Gi",
        vram="906Gi",
    ),
    Case(
        id="gpt-oss",
        reason="120e9 x 4.25 bits are 63.75 GB = 59.37 Gi: a scale of 8 bits stands for 32 numbers of 4",
        params="120B",
        precision="mxfp4",
        disk="63Gi",
        vram="72Gi",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_from_parameters(case: Case) -> None:
    (found,) = json.loads(said("size", "--params", case.params, "--precision", case.precision, "-o", "json"))
    assert (found["disk"], found["vram"]) == (case.disk, case.vram), case.reason


def test_the_arithmetic_is_shown_for_each_kind_of_node() -> None:
    shown = said("size", "--params", "671B", "--precision", "fp8")
    assert "671B parameters x 8 bits (fp8) = 671.0 GB = 625Gi" in shown
    rows = [line for line in shown.splitlines() if "8 x H100" in line]
    # 750 / 80 = 9.4, so 10 GPUs, more than a node of 8 has: two whole nodes.
    assert "750Gi / 80Gi = 10 GPUs" in rows[0]
    assert "2 nodes x 8 GPUs" in rows[0]


def test_headroom_is_the_callers() -> None:
    (found,) = json.loads(said("size", "--params", "100B", "--precision", "fp8", "--headroom", "0", "-o", "json"))
    assert found["vram"] == "94Gi", "100e9 / 2^30 = 93.13"


def test_a_model_that_declares_its_memory_on_the_pools_that_are_given() -> None:
    shown = said("size", "-f", "examples/kimi-k26-vram")
    (row,) = cells(shown.partition("\n\n")[2])
    # The design's own figures: 1200Gi on nodes of 4 x 80Gi are 4 nodes of 4.
    assert row[:2] == ["gke-us-central1", "a100"]
    assert "4 nodes x 4 GPUs" in row


def test_obstacles_are_named() -> None:
    shown = said(
        "size", "-f", "examples/kimi-k2-two-nodes/model.yaml", "-f", "examples/two-environments/environment.yaml"
    )
    assert shown.count("pool is not multiNodeCapable") == 2


def test_the_hub_knows_the_size_of_the_files(tmp_path: Path) -> None:
    model: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ClusterModel",
        "metadata": {"name": "model"},
        "spec": {
            "model": {"name": "owner/model"},
            "huggingFace": {"repo": "owner/model", "ignorePatterns": ["tokenizer*"]},
            "serving": [
                {
                    "name": "one",
                    "replicaTopology": {"gpusPerNode": 1},
                    "engine": {"name": "vLLM", "image": "engine:1"},
                }
            ],
        },
    }
    weights = sum(len(data) for name, data in SHARDED.items() if name.endswith(".safetensors"))
    everything = sum(len(data) for name, data in SHARDED.items() if not name.startswith("tokenizer"))
    with serving(Hub(files={**SHARDED, "original/copy.safetensors": b"x"})) as hub:
        shown = said("size", "-f", write(tmp_path, model), "--hub", HF_ENDPOINT=hub.endpoint)
    assert hub.fetched() == [], "sizes are read, not files"
    assert f"in {len(SHARDED)} files" in shown, "the copy counts, the tokenizer does not"
    assert f"weights: {weights / 10**9:,.1f} GB" in shown
    assert everything > weights


@pytest.mark.parametrize(("status", "code"), [(401, 3), (404, 4), (503, 3)])
def test_a_hub_that_refuses_is_one_line(status: int, code: int) -> None:
    with serving(Hub(files={}, statuses={"/api/": status})) as hub:
        done = run("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1


def test_a_token_is_sent() -> None:
    with serving(Hub(files=SHARDED, token="let-me-in")) as hub:
        said("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint, HF_TOKEN="let-me-in")


def test_nine_tenths_of_gpu_memory_are_usable(tmp_path: Path) -> None:
    """4 nodes x 4 GPUs x 80Gi are 1280Gi, of which engines take 1152Gi; the maths of the decision stay."""
    assert "1152Gi of 1280Gi" in said("size", "-f", "examples/kimi-k26-vram")
    (row,) = json.loads(said("size", "-f", "examples/kimi-k26-vram", "-o", "json"))[0]["pools"]
    assert (row["usableMemory"], row["obstacle"]) == ("1152Gi", "")
    text = (ROOT / "examples/gemma-one-gpu/model.yaml").read_text()
    large = tmp_path / "model.yaml"
    large.write_text(text.replace("  serving:\n", "  resources: {disk: 75Gi}\n  serving:\n"))
    shown = said("size", "-f", str(large), "-f", "examples/gemma-one-gpu/environment.yaml")
    assert "72Gi of GPU memory are usable, weights of 75Gi" in shown, "80 x 0.9"
