"""`size` with a latency and a load: what is asked of aiconfigurator, and what is made of its answers.

The rows are those of aiconfigurator 0.12.0 for Qwen/Qwen3-32B-FP8 and deepseek-ai/DeepSeek-V3, with the columns that
are read here.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from function.cli.planner import find_system
from function.domain.environment import Pool
from function.kube.manifests import Manifest, listing
from tests.cli.conftest import example, find_manifest
from tests.cli.process import cells, output_of, run, write

LOAD = ("--ttft", "2000", "--itl", "30", "--requests-per-second", "5", "--output-tokens", "500")
QWEN = "Qwen/Qwen3-32B-FP8"


def row(**values: object) -> dict[str, object]:
    common = {"pp": 1, "dp": 1, "moe_ep": 1, "backend": "vllm", "version": "0.24.0"}
    return common | values


QWEN_ROWS = (
    row(tp=1, num_total_gpus=1, ttft=460.375, tpot=29.831, concurrency=14, request_rate=0.912, replicas_needed=6,
        total_gpus_needed=6),
    row(tp=2, num_total_gpus=2, ttft=327.475, tpot=26.056, concurrency=16, request_rate=1.2, replicas_needed=5,
        total_gpus_needed=10),
)  # fmt: skip
SLOW_ROWS = (
    row(tp=2, num_total_gpus=2, ttft=1088.168, tpot=98.057, concurrency=3, request_rate=0.06, replicas_needed=84,
        total_gpus_needed=168),
)  # fmt: skip
DEEPSEEK_ROWS = (
    row(tp=2, dp=4, num_total_gpus=8, ttft=776.301, tpot=28.968, concurrency=20, request_rate=1.313, replicas_needed=4,
        total_gpus_needed=32),
)  # fmt: skip


@dataclass
class Planner:
    """Answers as aiconfigurator does, and keeps what it was asked."""

    rows: Mapping[str, object] = field(default_factory=dict)  # by system: rows, None or an error
    questions: list[dict[str, Any]] = field(default_factory=list)

    def cli_recommend(self, **question: object) -> SimpleNamespace:
        """Print what nobody asked for, and answer."""
        print("its own report")  # noqa: T201  # as aiconfigurator does
        self.questions.append(question)
        rows = self.rows[str(question["system"])]
        if isinstance(rows, Exception):
            raise rows
        frame = None if rows is None else SimpleNamespace(to_dict=lambda _: rows)
        return SimpleNamespace(best_configs={"agg": frame})


@pytest.fixture
def plan_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planner]:
    """Return what installs a planner with these rows."""

    def install(**rows: object) -> Planner:
        planner = Planner(rows)
        module = ModuleType("aiconfigurator.cli.api")
        module.cli_recommend = planner.cli_recommend  # type: ignore[attr-defined]  # of the module that it stands for
        monkeypatch.setitem(sys.modules, "aiconfigurator.cli.api", module)
        return planner

    return install


def pool_of(folder: Path, **fields: Any) -> str:
    """Write an environment with one pool of eight nodes with eight H200."""
    environment = json.loads(json.dumps(find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment")))
    (pool,) = listing(environment, "spec.nodePools")
    pool |= {"maxNodeCount": 8, **fields}
    return write(folder, environment)


def propose(*options: str) -> tuple[Manifest, list[Manifest]]:
    """Return the data for the only model, and its pools."""
    (data,) = json.loads(output_of("size", *LOAD, *options, "-o", "json"))
    return data, listing(data, "pools")


def test_proposes_the_fewest_gpus(plan_with: Callable[..., Planner], tmp_path: Path) -> None:
    planner = plan_with(h200_sxm=QWEN_ROWS)
    data, (pool,) = propose("--hub", QWEN, "-f", pool_of(tmp_path))
    (question,) = planner.questions
    assert question == {
        "model_path": QWEN, "system": "h200_sxm", "backend": "vllm", "target_request_rate": 5.0, "isl": 4000,
        "osl": 500, "ttft": 2000.0, "tpot": 30.0,
    }  # fmt: skip
    tokens = "4,000 input and 500 output tokens a request"
    assert data["target"] == f"5 requests per second with {tokens}, TTFT at most 2000 ms, ITL at most 30 ms"
    assert (pool["replicas"], pool["gpus"], pool["replica"]) == (6, 6, "1 node x 1 GPU")
    # Six replicas with 0.912 requests per second each.
    assert (pool["ttft"], pool["itl"], pool["requestsPerSecond"]) == (460, 29.8, 5.47)
    assert pool["engineVersion"] == "vllm 0.24.0"
    assert pool["obstacle"] == ""
    assert pool["profile"] == {
        "name": "h200",
        "replicaTopology": {
            "nodes": 1,
            "gpusPerNode": 1,
            "parallelism": {"tensor": 1, "pipeline": 1},
            "requires": {"acceleratorType": "nvidia-h200-141gb"},
        },
    }


def test_a_proposed_profile_is_valid_and_is_placed(plan_with: Callable[..., Planner], tmp_path: Path) -> None:
    plan_with(h200_sxm=DEEPSEEK_ROWS)
    files = pool_of(tmp_path)
    shown = output_of("size", *LOAD, "--hub", "deepseek-ai/DeepSeek-V3", "-f", files)
    assert "its own report" not in shown
    table, profile = shown.partition("\n\n")[2].split("\n\n# For 4 replicas, as predicted for vllm 0.24.0. ")
    assert cells(table)[0][:6] == ["h200-east", "h200", "4", "1 node x 8 GPUs", "32", "776"]
    (proposed,) = yaml.safe_load(profile.partition("\n")[2])
    assert proposed["replicaTopology"]["parallelism"] == {"tensor": 2, "data": 4, "dataLocal": 4}
    proposed["engine"]["image"] = "vllm/vllm-openai:v0.24.0"
    model: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ClusterModel",
        "metadata": {"name": "deepseek"},
        "spec": {
            "model": {"name": "deepseek-ai/DeepSeek-V3"},
            "huggingFace": {"repo": "deepseek-ai/DeepSeek-V3"},
            "resources": {"disk": "700Gi"},
            "serving": [proposed],
        },
    }
    deployment: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "deepseek", "namespace": "team"},
        "spec": {
            "modelRef": {"name": "deepseek"},
            "modelCache": {"type": "PVC"},
            "scaling": {"fixed": {"replicas": 4}},
        },
    }
    (plan,) = json.loads(output_of("plan", "-q", "-f", files, "-f", write(tmp_path, model, deployment), "-o", "json"))
    assert [placement["replicas"] for placement in plan["placements"]] == [4]


@pytest.mark.parametrize(
    ("rows", "fields", "obstacle"),
    [
        (SLOW_ROWS, {}, "at best TTFT 1088 ms and ITL 98.1 ms"),
        (None, {}, "aiconfigurator finds no configuration"),
        ((), {}, "aiconfigurator finds no configuration"),
        (ValueError("no data\nfor this"), {}, "aiconfigurator: no data for this"),
        (KeyError(), {}, "aiconfigurator: KeyError"),
        (DEEPSEEK_ROWS, {"maxNodeCount": 3}, "32 GPUs needed, the pool has 24"),
        (DEEPSEEK_ROWS, {"acceleratorCount": 3}, "replicas of 8 GPUs have no shape on nodes of the pool"),
        (DEEPSEEK_ROWS, {"acceleratorType": "acme-1"}, "aiconfigurator has not measured acme-1"),
    ],
)
def test_says_why_a_pool_has_no_proposal(
    rows: object, fields: dict[str, Any], obstacle: str, plan_with: Callable[..., Planner], tmp_path: Path
) -> None:
    plan_with(h200_sxm=rows)
    _, (pool,) = propose("--hub", QWEN, "-f", pool_of(tmp_path, **fields))
    assert pool["obstacle"] == obstacle
    shown = output_of("size", *LOAD, "--hub", QWEN, "-f", pool_of(tmp_path, **fields))
    assert obstacle in shown
    assert "# For " not in shown


@pytest.mark.parametrize(
    ("values", "fields", "parallelism"),
    [
        # Two nodes: one pipeline stage on each, or all GPUs in one tensor, or data on each.
        ({"tp": 8, "pp": 2}, {}, {"tensor": 8, "pipeline": 2}),
        ({"tp": 16}, {}, {"tensor": 16, "pipeline": 1}),
        ({"tp": 2, "dp": 8}, {}, {"tensor": 2, "data": 8, "dataLocal": 4}),
        ({"tp": 1, "dp": 16, "moe_ep": 16}, {}, {"tensor": 1, "data": 16, "dataLocal": 8, "expert": "enabled"}),
        ({"tp": 4, "pp": 4}, {}, None),  # two stages on a node
        ({"tp": 2, "pp": 2, "dp": 4}, {}, None),
        ({"tp": 16, "dp": 1}, {"capabilities": {"multiNodeCapable": False}}, None),
    ],
)
def test_shapes_over_nodes(
    values: dict[str, object], fields: dict[str, Any], parallelism: Manifest | None,
    plan_with: Callable[..., Planner], tmp_path: Path,
) -> None:  # fmt: skip
    common = {"num_total_gpus": 16, "ttft": 1.0, "tpot": 1.0, "concurrency": 1, "request_rate": 5.0}
    plan_with(h200_sxm=[row(**common, replicas_needed=1, total_gpus_needed=16, **values)])
    _, (pool,) = propose("--hub", QWEN, "-f", pool_of(tmp_path, **fields))
    if parallelism is None:
        assert pool["obstacle"] == "replicas of 16 GPUs have no shape on nodes of the pool"
        return
    profile: Any = pool["profile"]
    assert profile["replicaTopology"]["parallelism"] == parallelism
    assert (profile["replicaTopology"]["nodes"], profile["replicaTopology"]["gpusPerNode"]) == (2, 8)


def test_computes_each_kind_of_gpu_once(plan_with: Callable[..., Planner]) -> None:
    planner = plan_with(h100_sxm=QWEN_ROWS, a100_sxm=SLOW_ROWS)
    files = ("-f", "examples/two-environments/environment.yaml", "-f", "examples/canary/environment.yaml")
    done = run("size", *LOAD, "--hub", QWEN, *files, "-o", "json")
    (data,) = json.loads(done.stdout)
    # One A100 pool and three pools with H100.
    assert [(pool["system"], pool.get("gpus")) for pool in data["pools"]] == [
        ("a100_sxm", None), ("h100_sxm", 6), ("h100_sxm", 6), ("h100_sxm", 6),
    ]  # fmt: skip
    assert [question["system"] for question in planner.questions] == ["a100_sxm", "h100_sxm"]
    assert done.stderr.splitlines() == [
        f"computing {system}, which takes about half a minute" for system in ("a100_sxm", "h100_sxm")
    ]


def test_takes_models_and_engines_of_files(plan_with: Callable[..., Planner]) -> None:
    planner = plan_with(h200_sxm=QWEN_ROWS, h100_sxm=QWEN_ROWS, a100_sxm=QWEN_ROWS)
    run("size", *LOAD, "-q", "-f", "examples/llama-405b-sglang", "-o", "json")
    assert {(question["backend"], question["model_path"]) for question in planner.questions} == {
        ("sglang", "meta-llama/Llama-3.1-405B-Instruct")
    }


def test_reads_the_config_of_a_folder(plan_with: Callable[..., Planner], tmp_path: Path) -> None:
    planner = plan_with(h200_sxm=QWEN_ROWS)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    propose("--hub", "owner/own", "--config", str(folder / "config.json"), "-f", pool_of(tmp_path))
    assert planner.questions[0]["model_path"] == str(folder)


@pytest.mark.parametrize("missing", ["--ttft", "--itl", "--requests-per-second"])
def test_needs_the_whole_target(missing: str) -> None:
    options = list(LOAD)
    del options[options.index(missing) : options.index(missing) + 2]
    done = run("size", *options, "--hub", QWEN)
    assert (done.returncode, done.stderr) == (2, "error: give --ttft, --itl and --requests-per-second together\n")


def test_needs_a_model_of_hugging_face() -> None:
    done = run("size", *LOAD, "--params", "7B", "--precision", "bf16")
    assert done.returncode == 2
    assert "name a model of Hugging Face" in done.stderr


def test_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "aiconfigurator.cli.api", None)
    done = run("size", *LOAD, "--hub", QWEN, "-f", pool_of(tmp_path))
    assert done.returncode == 3
    assert "pip install 'function-modelplane[planner]'" in done.stderr


@pytest.mark.parametrize(
    ("type_", "interconnect", "system"),
    [
        ("nvidia-h100-80gb", "nvswitch", "h100_sxm"),
        ("nvidia-h100-80gb", None, "h100_sxm"),
        ("nvidia-h100-80gb", "pcie", "h100_pcie"),
        ("nvidia-l4-24gb", "pcie", "l4"),
        ("amd-mi300x-192gb", "xgmi", ""),
    ],
)
def test_names_of_systems(type_: str, interconnect: str | None, system: str) -> None:
    pool = Pool(name="p", gpus_per_node=8, max_nodes=1, accelerator_type=type_, interconnect=interconnect)
    assert find_system(pool) == system
