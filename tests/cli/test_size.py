"""`size`: the arithmetic from parameters to nodes."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.cli.init import KINDS
from function.cli.size import read_attention
from function.domain.model import DISK_HEADROOM
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example
from tests.cli.process import ROOT, cells, output_of, run, write
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
        reason="671e9 bytes are 624.92 Gi; 10 % more is 687.41; x 1.2 / 0.9 = 833.2; its files have 688 GB = 641 Gi",
        params="671B",
        precision="fp8",
        disk="688Gi",
        vram="834Gi",
    ),
    Case(
        id="llama",
        reason="405e9 x 2 bytes are 810 GB = 754.37 Gi, as its files have; x 1.1 = 829.8; x 1.2 / 0.9 = 1005.8",
        params="405B",
        precision="bf16",
        disk="830Gi",
        vram="1006Gi",
    ),
    Case(
        id="gpt-oss",
        reason="120e9 x 4.25 bits (4, and 8 for 32 of them) are 63.75 GB = 59.37 Gi; x 1.1 = 65.3; x 1.2 / 0.9 = 79.2",
        params="120B",
        precision="mxfp4",
        disk="66Gi",
        vram="80Gi",
    ),
    Case(
        id="gguf",
        reason="7e9 x 4.84 bits are 4.235 GB = 3.944 Gi, x 1.1 = 4.34, x 1.2 / 0.9 = 5.26",
        params="7B",
        precision="Q4_K_M",
        disk="5Gi",
        vram="6Gi",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_sizes_by_parameters(case: Case) -> None:
    (found,) = json.loads(output_of("size", "--params", case.params, "--precision", case.precision, "-o", "json"))
    assert (found["disk"], found["vram"]) == (case.disk, case.vram), case.reason


def test_shows_the_arithmetic_for_each_kind_of_node() -> None:
    shown = output_of("size", "--params", "671B", "--precision", "fp8")
    assert "671B parameters x 8 bits (fp8) = 671.0 GB = 624.9Gi" in shown
    rows = [line for line in shown.splitlines() if "8 x nvidia-h100-80gb" in line]
    # 834 / 80 = 10.4, so 11 GPUs, more than a node of 8 has: two whole nodes.
    assert "834Gi / 80Gi = 11 GPUs, 16 as whole nodes" in rows[0]
    assert "2 nodes x 8 GPUs" in rows[0]


def test_takes_the_headroom_option() -> None:
    (found,) = json.loads(output_of("size", "--params", "100B", "--precision", "fp8", "--headroom", "0", "-o", "json"))
    assert found["vram"] == "104Gi", "100e9 / 2^30 / 0.9 = 103.48"


def test_never_fits_what_needs_more_than_engines_use() -> None:
    """1T in fp8 are 932Gi; with the headroom 1118Gi, more than 0.9 of the 1128Gi of eight H200."""
    (found,) = json.loads(output_of("size", "--params", "1T", "--precision", "fp8", "-o", "json"))
    (h200,) = [pool for pool in found["pools"] if pool["pool"] == "8 x nvidia-h200-141gb"]
    assert (found["vram"], h200["nodes"]) == ("1242Gi", 2), "931.3 x 1.2 / 0.9 = 1241.8"


def _list_obstacles(tmp_path: Path, profile: Manifest, adapters: int) -> set[str]:
    """Sizes a model with this profile for the usual nodes, and a deployment of it with so many adapters."""
    named: list[JSON] = [{"name": f"a{number}", "huggingFace": {"repo": "o/a"}} for number in range(adapters)]
    engine: Manifest = {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0"}
    topology: Manifest = {"nodes": 1, "gpusPerNode": 1}
    serving: Manifest = {"name": "one", "replicaTopology": topology, "engine": engine, **profile}
    specs: dict[str, Manifest] = {
        "ClusterModel": {"model": {"name": "o/m"}, "huggingFace": {"repo": "o/m"}, "serving": [serving]},
        "ModelDeployment": {"modelRef": {"name": "m"}, "modelCache": {"type": "PVC"}, "adapters": named},
    }
    file = tmp_path / "m.json"
    manifests = [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": kind,
            "metadata": {"name": "m", "namespace": "t"},
            "spec": spec,
        }
        for kind, spec in specs.items()
    ]
    file.write_text(yaml.safe_dump_all(manifests))
    (found,) = json.loads(output_of("size", "-f", str(file), "-o", "json"))
    return {pool["obstacle"] for pool in found["pools"]}


def test_usual_nodes_have_an_endpoint_picker(tmp_path: Path) -> None:
    """Nothing is known of their cluster, so its settings are no obstacle."""
    assert _list_obstacles(tmp_path, {"routing": "PrefixAware"}, adapters=0) == {""}


def test_knows_the_adapters_of_a_deployment(tmp_path: Path) -> None:
    profile: Manifest = {"lora": {"maxAdapters": 2}}
    assert _list_obstacles(tmp_path, profile, adapters=2) == {""}
    (obstacle,) = _list_obstacles(tmp_path, profile, adapters=3)
    assert "allows 2 LoRA adapters (lora.maxAdapters), and the deployment has 3" in obstacle


def test_refuses_parameters_without_a_unit() -> None:
    done = run("size", "--params", "27", "--precision", "bf16")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --params 27 has no unit; was 27B meant?\n"


def test_sizes_a_declared_model_on_given_pools() -> None:
    shown = output_of("size", "-f", "examples/kimi-k26-vram")
    (row,) = cells(shown.partition("\n\n")[2])
    # The design's own figures: 1200Gi on nodes of 4 x 80Gi are 4 nodes of 4.
    assert row[:3] == ["yes", "gke-us-central1", "a100"]
    assert "4 nodes x 4 GPUs" in row


def test_names_obstacles() -> None:
    shown = output_of(
        "size", "-f", "examples/kimi-k2-two-nodes/model.yaml", "-f", "examples/two-environments/environment.yaml"
    )
    assert shown.count("environmentSelector requires modelplane.ai/tier=production") == 2


def test_reads_file_sizes_from_the_hub(tmp_path: Path) -> None:
    model: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ClusterModel",
        "metadata": {"name": "model"},
        "spec": {
            "model": {"name": "owner/model"},
            "huggingFace": {"repo": "owner/model", "ignorePatterns": ["tokenizer*"]},
            "serving": [
                {"name": "one", "replicaTopology": {"gpusPerNode": 1}, "engine": {"name": "vLLM", "image": "engine:1"}}
            ],
        },
    }
    weights = sum(len(data) for name, data in SHARDED.items() if name.endswith(".safetensors"))
    everything = sum(len(data) for name, data in SHARDED.items() if not name.startswith("tokenizer"))
    with serving(Hub(files={**SHARDED, "original/copy.safetensors": b"x"})) as hub:
        shown = output_of("size", "-f", write(tmp_path, model), "--hub", HF_ENDPOINT=hub.endpoint)
    assert hub.fetched() == [], "sizes are read, not files"
    assert f"in {len(SHARDED)} files" in shown, "the copy counts, the tokenizer does not"
    assert f"weights: {weights / 10**9:,.1f} GB" in shown
    assert everything > weights


def test_proposes_what_saves_disk() -> None:
    """A repository that holds its model twice fits where one copy does."""
    files = {**SHARDED, "consolidated.safetensors": b"x" * 300, "params.json": b"{}"}
    with serving(Hub(files=files)) as hub:
        shown = output_of("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint)
        (found,) = json.loads(output_of("size", "--hub", "owner/model", "-o", "json", HF_ENDPOINT=hub.endpoint))
    assert "of the disk are copies that engines do not load: ignorePatterns: [consolidated*]" in shown
    assert found["weights"] == sum(len(data) for name, data in SHARDED.items() if name.endswith(".safetensors"))
    assert (found["ignorePatterns"], found["files"]) == (["consolidated*"], [])


def test_keeps_the_layout_that_a_profile_reads(tmp_path: Path) -> None:
    engine: Manifest = {"name": "vLLM", "image": "engine:1", "args": ["--load-format=mistral"]}
    model: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ClusterModel",
        "metadata": {"name": "model"},
        "spec": {
            "model": {"name": "owner/model"},
            "huggingFace": {"repo": "owner/model"},
            "serving": [{"name": "one", "replicaTopology": {"gpusPerNode": 1}, "engine": engine}],
        },
    }
    with serving(Hub(files={**SHARDED, "consolidated.safetensors": b"x" * 300})) as hub:
        shown = output_of("size", "-f", write(tmp_path, model), "--hub", "-o", "json", HF_ENDPOINT=hub.endpoint)
    (found,) = json.loads(shown)
    assert (found["weights"], found["ignorePatterns"]) == (300, ["model-*.safetensors"])


def test_proposes_one_of_several_gguf_files() -> None:
    with serving(Hub(files={"m-Q4.gguf": b"x" * 4, "m-Q8.gguf": b"x" * 8})) as hub:
        shown = output_of("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint)
        (found,) = json.loads(output_of("size", "--hub", "owner/model", "-o", "json", HF_ENDPOINT=hub.endpoint))
    assert "name one in huggingFace.file, such as m-Q4.gguf" in shown.replace("\n    ", " ")
    assert (found["weights"], found["files"]) == (8, ["m-Q4.gguf", "m-Q8.gguf"])


def test_weights_that_fit_are_not_refused_for_the_disk() -> None:
    """Two copies of 300 GB: 8 x 80Gi hold one, with 20 % and in 0.9 of the memory."""
    sizes = {"config.json": 1, "model.safetensors": 300 * 10**9, "consolidated.safetensors": 300 * 10**9}
    with serving(Hub(files=dict.fromkeys(sizes, b""), sizes=sizes)) as hub:
        (found,) = json.loads(output_of("size", "--hub", "owner/model", "-o", "json", HF_ENDPOINT=hub.endpoint))
    (h100,) = [pool for pool in found["pools"] if pool["pool"] == "8 x nvidia-h100-80gb"]
    assert (found["disk"], h100["obstacle"]) == ("615Gi", ""), "600e9 / 2^30 = 558.8, x 1.1 = 614.7"


@pytest.mark.parametrize(("status", "code"), [(401, 3), (404, 4), (503, 3)])
def test_hub_errors_are_one_line(status: int, code: int) -> None:
    with serving(Hub(files={}, statuses={"/api/": status})) as hub:
        done = run("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1


def test_sends_the_token() -> None:
    with serving(Hub(files=SHARDED, token="let-me-in")) as hub:
        output_of("size", "--hub", "owner/model", HF_ENDPOINT=hub.endpoint, HF_TOKEN="let-me-in")


def test_uses_nine_tenths_of_gpu_memory(tmp_path: Path) -> None:
    """4 nodes x 4 GPUs x 80Gi are 1280Gi, of which engines take 1152Gi; `vram` counts all, as the scheduler does."""
    (row,) = json.loads(output_of("size", "-f", "examples/kimi-k26-vram", "-o", "json"))[0]["pools"]
    assert (row["memory"], row["usableMemory"], row["obstacle"]) == ("1280Gi", "1152Gi", "")
    text = (ROOT / "examples/gemma-one-gpu/model.yaml").read_text()
    large = tmp_path / "model.yaml"
    large.write_text(text.replace("  serving:\n", "  resources: {disk: 75Gi}\n  serving:\n"))
    shown = output_of("size", "-f", str(large), "-f", "examples/gemma-one-gpu/environment.yaml")
    assert "1 GPU of 80Gi can hold 72Gi of weights, and spec.resources.disk is 75Gi" in shown, "80 x 0.9"


QWEN3_235B: Manifest = {
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "hidden_size": 4096,
}
DEEPSEEK_V3: Manifest = {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
LLAMA_405B: Manifest = {
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "hidden_size": 16384,
}


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A model's config, how it is split, and the bytes of one token on one GPU."""

    id: str
    reason: str
    config: Manifest
    tensor: int = 1
    stages: int = 1
    want: int


KEPT = (
    Kept(id="latent", reason="published: 70,272 B (arXiv 2505.09343)", config=DEEPSEEK_V3, want=70_272),
    Kept(id="latent-is-not-split", reason="every GPU keeps it whole", config=DEEPSEEK_V3, tensor=8, want=70_272),
    Kept(id="grouped", reason="published: 516,096 B (arXiv 2505.09343)", config=LLAMA_405B, want=516_096),
    Kept(id="split", reason="2 x 94 x 1 x 128 x 2", config=QWEN3_235B, tensor=4, want=48_128),
    Kept(id="one-head-at-least", reason="eight GPUs share four heads", config=QWEN3_235B, tensor=8, want=48_128),
    Kept(id="stages", reason="47 of 94 layers", config=QWEN3_235B, tensor=4, stages=2, want=24_064),
    Kept(id="text-config", reason="of a model that sees", config={"text_config": LLAMA_405B}, want=516_096),
)


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.id)
def test_bytes_of_a_token(case: Kept) -> None:
    attention = read_attention(case.config, "config.json")
    assert attention.bytes(1, case.tensor, case.stages) == case.want, case.reason


def test_sliding_layers_keep_their_window() -> None:
    types: list[JSON] = [*["sliding_attention"] * 5, "full_attention"]
    config: Manifest = {"num_hidden_layers": 6, "num_attention_heads": 8, "head_dim": 128, "sliding_window": 1024}
    attention = read_attention({**config, "layer_types": types}, "config.json")
    assert attention.bytes(10_000, 1, 1) == (10_000 + 5 * 1024) * 8 * 2 * 128 * 2


def test_adds_the_kv_cache_of_requests(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(QWEN3_235B))
    asked = ("size", "--params", "235B", "--precision", "fp8", "--config", str(config), "--context-length", "32768")
    (few,) = json.loads(output_of(*asked, "-o", "json"))
    # 235e9 B are 218.9 Gi; 32,768 x 192,512 B are 5.9 Gi; together / 0.9 are 249.7 Gi.
    assert (few["vram"], few["arithmetic"][2]) == (
        "250Gi",
        "KV cache: 192,512 bytes a token in full layers, 1 x 32,768 tokens = 5.9Gi",
    )
    (many,) = json.loads(output_of(*asked, "--concurrency", "64", "-o", "json"))
    # 64 times 5.875 Gi are 376 Gi; (218.9 + 376) / 0.9 = 661.
    assert many["vram"] == "661Gi"
    obstacles = {pool["pool"]: pool["obstacle"] for pool in many["pools"]}
    # A replica on 9 GPUs of 80Gi is two nodes of 8: 72 - 8 - 13.7 Gi of each GPU are left, and one of 8 ranks with its
    # half of the layers takes 64 x 32,768 x 24,064 B = 47 Gi.
    assert obstacles["8 x nvidia-h100-80gb"] == ""


def test_reads_the_config_from_the_hub() -> None:
    files = {**SHARDED, "config.json": json.dumps(LLAMA_405B).encode()}
    with serving(Hub(files=files)) as hub:
        shown = output_of("size", "--hub", "owner/model", "--context-length", "1000", HF_ENDPOINT=hub.endpoint)
    assert "KV cache: 516,096 bytes a token in full layers, 1 x 1,000 tokens = 0.5Gi" in shown


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('{"num_hidden_layers": 4, "layer_types": ["linear_attention"]}', "keeps a state instead of tokens"),
        ("{}", "does not say num_hidden_layers and head_dim"),
        ("[", "is not JSON"),
    ],
)
def test_refuses_incomplete_configs(config: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(config)
    done = run("size", "--params", "1B", "--precision", "fp8", "--config", str(file), "--context-length", "1000")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_names_profiles_that_require_more_gpu_memory(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    for manifest in manifests:
        for pool in listing(manifest, "spec.nodePools"):
            mapping(pool, "capabilities")["memoryPerGpu"] = "80Gi"
    shown = output_of("size", "-f", write(tmp_path, *manifests))
    assert "pool h200 has memoryPerGpu 80Gi, 141Gi required (61Gi missing)" in shown


@pytest.mark.parametrize(
    ("capabilities", "obstacle"),
    [
        ({"memoryPerGpu": "40Gi", "precisionSupport": ["bf16"]}, ""),
        ({"memoryPerGpu": "40Gi"}, "pool a100 does not declare precisionSupport, bf16 required"),
    ],
)
def test_agrees_with_plan(capabilities: Manifest, obstacle: str, tmp_path: Path) -> None:
    """A model that requires 24Gi of each GPU, on an A100 of 40Gi."""
    for kind in KINDS:
        (tmp_path / f"{kind}.yaml").write_text(output_of("init", kind))
    environment = yaml.safe_load((tmp_path / "environment.yaml").read_text())
    (pool,) = environment["spec"]["nodePools"]
    pool |= {"name": "a100", "acceleratorType": "nvidia-a100-40gb", "capabilities": capabilities}
    (tmp_path / "environment.yaml").write_text(yaml.safe_dump(environment))
    (sized,) = json.loads(output_of("size", "-f", str(tmp_path), "-o", "json"))
    (planned,) = json.loads(run("plan", "-f", str(tmp_path), "-o", "json").stdout)
    assert [pool["obstacle"] for pool in sized["pools"]] == [obstacle]
    assert planned["placed"] is (obstacle == "")
    assert [candidate["message"] for candidate in planned["candidates"]] == [obstacle]


def test_the_arithmetic_can_be_followed() -> None:
    """7e9 x 16 bits are 14e9 bytes = 13.04 Gi, x 1.1 = 14.34, x 1.2 / 0.9 = 17.38."""
    shown = output_of("size", "--params", "7B", "--precision", "bf16")
    assert "disk: 13.0Gi + 10 % = 14.3Gi, rounded up to 15Gi  (spec.resources.disk)" in shown
    assert "(13.0Gi + 20 % for KV cache and activations) / 0.9 = 17.4Gi, rounded up to 18Gi" in shown


def test_documents_name_the_same_headroom() -> None:
    for page in ("docs/storage.md", "docs/cli.md"):
        assert f"{DISK_HEADROOM} %" in (ROOT / page).read_text(), page


@pytest.mark.parametrize("config", [{**QWEN3_235B}, {"text_config": QWEN3_235B}], ids=["text", "multimodal"])
def test_warns_of_a_context_beyond_the_positions_of_the_model(config: Manifest, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    text_config = mapping(config, "text_config") or config
    asked = ("size", "--params", "235B", "--precision", "fp8", "--config", str(file), "--context-length", "32768")
    for positions, warned in ((32768, ""), (32767, "32768 is more than the 32767 positions of ")):
        file.write_text(json.dumps({**config, "text_config": {**text_config, "max_position_embeddings": positions}}))
        done = run(*asked)
        assert (done.returncode, bool(done.stderr), warned in done.stderr) == (0, bool(warned), True)
