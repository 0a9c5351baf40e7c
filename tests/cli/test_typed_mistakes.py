"""What people type by habit, and the whole line that `validate` prints of it: what is wrong, and what to write."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.domain.model import LADDER
from tests.cli.process import EXAMPLES, run

MEMORY = "Gpu: 80Gi\n      inter"
SECRET = "    secretRef:\n      name: hf-token\n      namespace: modelplane-system\n"
FIXED = "    fixed:\n      replicas: 3"
POOL = "spec.nodePools[0]"
PROFILE = "spec.serving[0]"
NO_TOKEN = ", which names a Secret with the token? A token does not belong in a manifest"
NETWORKS = "; eth is Ethernet with TCP, roce is RoCE v2, efa is EFA of AWS, ib is InfiniBand, each with its Gbit/s"
NO_KEY = (
    "ends a key, and there can be none: either the line above has a value already, or a text contains a colon. "
    "Indent both lines alike, or put the text in quotes"
)
INTERCONNECT = (
    "; this is the link between the GPUs of one node. The network between nodes is interNodeBandwidth, such as ib-400g"
)


@dataclass(frozen=True, slots=True)
class Typed:
    old: str
    new: str
    error: str  # the first line without `error: ` and the folder


def _quantity(typed: str, meant: str) -> Typed:
    message = f'{POOL}.capabilities.memoryPerGpu: "{typed}" is not a quantity; must be like 80Gi, 1.5T or 500m'
    error = f"environment.yaml:19: InferenceEnvironment h100-west: {message}"
    return Typed(MEMORY, MEMORY.replace("80Gi", f'"{typed}"'), f"{error} (did you mean {meant}?)" if meant else error)


TYPED = {
    "quantity-with-a-blank": _quantity("18 Gi", "18Gi"),
    "quantity-in-lower-case": _quantity("80gi", "80Gi"),
    "quantity-with-a-comma": _quantity("80,5Gi", "80.5Gi"),
    "quantity-in-words": _quantity("eighty", ""),
    "token": Typed(
        SECRET,
        "    token: hf_abcdefghijklmnopqrstuvwxyz012345\n",
        f"model.yaml:10: ClusterModel gemma-3-27b: spec.huggingFace.token: is not a field; "
        f"did you mean secretRef{NO_TOKEN}",
    ),
    "token-beside-the-source": Typed(
        "  serving:",
        "  hfToken: x\n  serving:",
        f"model.yaml:13: ClusterModel gemma-3-27b: spec.hfToken: is not a field; "
        f"did you mean spec.huggingFace.secretRef{NO_TOKEN}",
    ),
    "gpus-of-a-model": Typed(
        "  serving:",
        "  gpus: 8\n  serving:",
        "model.yaml:13: ClusterModel gemma-3-27b: spec.gpus: is not a field; "
        "did you mean spec.serving[].replicaTopology.gpusPerNode?",
    ),
    "gpus-of-a-pool": Typed(
        "acceleratorCount: 4",
        "gpus: 4",
        f"environment.yaml:14: InferenceEnvironment h100-west: {POOL}.gpus: is not a field; "
        "did you mean acceleratorCount?",
    ),
    "gpus-per-node-of-a-pool": Typed(
        "acceleratorCount: 4",
        "gpusPerNode: 4",
        f"environment.yaml:14: InferenceEnvironment h100-west: {POOL}.gpusPerNode: is not a field; "
        "did you mean acceleratorCount?",
    ),
    "gpus-of-a-deployment": Typed(
        "  scaling:",
        "  gpus: 8\n  scaling:",
        "deployment.yaml:14: ModelDeployment chat/gemma: spec.gpus: is not a field; "
        "ClusterModel and Model have spec.serving[].replicaTopology.gpusPerNode",
    ),
    "image-of-a-deployment": Typed(
        "  scaling:",
        "  image: vllm/vllm-openai:v0.15.0\n  scaling:",
        "deployment.yaml:14: ModelDeployment chat/gemma: spec.image: is not a field; "
        "ClusterModel and Model have spec.serving[].engine.image",
    ),
    "replicas-of-a-model": Typed(
        "  serving:",
        "  replicas: 3\n  serving:",
        "model.yaml:13: ClusterModel gemma-3-27b: spec.replicas: is not a field; "
        "ModelDeployment has spec.scaling.fixed.replicas",
    ),
    "infiniband-within-a-node": Typed(
        "interconnect: pcie",
        "interconnect: infiniband",
        f"environment.yaml:20: InferenceEnvironment h100-west: {POOL}.capabilities.interconnect: "
        f'"infiniband" is not known; must be one of pcie, nvlink, nvswitch, xgmi{INTERCONNECT}',
    ),
    "infiniband-without-its-speed": Typed(
        "interconnect: pcie",
        "interNodeBandwidth: infiniband",
        f"environment.yaml:20: InferenceEnvironment h100-west: {POOL}.capabilities.interNodeBandwidth: "
        f'"infiniband" is not known; must be one of {", ".join(LADDER)}{NETWORKS}',
    ),
    "load-without-its-block": Typed(
        FIXED,
        "    signal: Load",
        "deployment.yaml:14: ModelDeployment chat/gemma: spec.scaling.load: is required for signal Load, "
        "such as load: {maxReplicas: 8, target: {waitingRequests: 5}}",
    ),
    "load-without-a-target": Typed(
        FIXED,
        "    signal: Load\n    load: {maxReplicas: 3}",
        "deployment.yaml:16: ModelDeployment chat/gemma: spec.scaling.load: "
        "needs a target, such as target: {waitingRequests: 5}, or an entry of schedule",
    ),
    "two-sources": Typed(
        "  serving:",
        "  uri: {uri: 's3://b/x'}\n  serving:",
        'model.yaml:13: ClusterModel gemma-3-27b: spec.uri: {"uri": "s3://b/x"} is not allowed; must be left out, '
        "as source is HuggingFace. To use uri instead, set source: URI and leave out huggingFace",
    ),
    "indented-too-far": Typed(
        "  scaling:",
        "   scaling:",
        "deployment.yaml:14: scaling begins in column 4, and those around it begin in column 3 or 5. "
        "Indent it like one of them",
    ),
    "indented-too-little": Typed(
        "    acceleratorCount: 4",
        "   acceleratorCount: 4",
        "environment.yaml:14: acceleratorCount begins in column 4, and those around it begin in column 3 or 5. "
        "Indent it like one of them",
    ),
    "block-below-a-value": Typed(
        "      replicas: 3", "      replicas: 3\n        x: 4", f"deployment.yaml:17: the colon in column 10 {NO_KEY}"
    ),
    "colon-in-a-text": Typed(
        "image: vllm/vllm-openai:v0.15.0", "image: vllm: x", f"model.yaml:22: the colon in column 18 {NO_KEY}"
    ),
    "quote-that-does-not-end": Typed(
        "repo: google/gemma-3-27b-it",
        'repo: "google/gemma-3-27b-it',
        "model.yaml:25: a text in quotes ends before column 41, and more follows. "
        "Check the quotes in this line and above it",
    ),
    "list-without-a-bracket": Typed(
        "[fp16, bf16, fp8]",
        "[fp16, bf16, fp8",
        "environment.yaml:22: did not find expected ',' or ']' (column 1). Correct the YAML",
    ),
    "no-blank-after-a-colon": Typed(
        "      replicas: 3",
        "      replicas:3",
        "deployment.yaml:15: ModelDeployment chat/gemma: spec.scaling.fixed: "
        '"replicas:3" is not allowed; must be a block of fields, with a blank after the colon, such as replicas: 3',
    ),
    "no-colon": Typed(
        "      replicas: 3",
        "      replicas 3",
        "deployment.yaml:15: ModelDeployment chat/gemma: spec.scaling.fixed: "
        '"replicas 3" is not allowed; must be a block of fields, with a colon and a blank, such as replicas: 3',
    ),
}


@pytest.fixture(params=[*TYPED.values()], ids=[*TYPED])
def typed(request: pytest.FixtureRequest) -> Typed:
    assert isinstance(request.param, Typed)
    return request.param


def test_says_what_to_write_instead(typed: Typed, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    shutil.copytree(EXAMPLES / "gemma-one-gpu", folder)
    (file,) = (file for file in folder.glob("*.yaml") if typed.old in file.read_text())
    file.write_text(file.read_text().replace(typed.old, typed.new, 1))
    done = run("validate", str(folder))
    assert done.stdout.partition("\n")[0] == f"error: {folder}/{typed.error}"
    assert done.stderr == ""


@pytest.mark.parametrize("word", ["hunter2", "q" * 3000, f"{'q' * 3000}: x"], ids=["no-key", "long", "long-key"])
def test_does_not_repeat_a_line_that_may_be_part_of_a_secret(word: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text(f"kind: Secret\nstringData:\n    a: b\n   {word}\n")
    assert run("validate", str(file)).stdout.partition("\n")[0] == (
        f"error: {file}:4: this line begins in column 4, and those around it begin in column 1 or 5. Indent it like "
        "one of them"
    )


@pytest.mark.parametrize("value", [f"replicas:{'q' * 3000}", f"{'q' * 3000}:3"], ids=["long-value", "long-key"])
def test_a_long_text_in_place_of_a_block_is_not_repeated_as_a_whole(value: str, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    shutil.copytree(EXAMPLES / "gemma-one-gpu", folder)
    file = folder / "deployment.yaml"
    file.write_text(file.read_text().replace("      replicas: 3", f"      {value}", 1))
    said = run("validate", str(folder)).stdout.partition("\n")[0]
    assert f"{value[:40]}" in said
    assert "q" * 100 not in said
