"""What the script finds in an adapter, with a file of the model beside it, and with the real download script."""

import json
import runpy
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest
from function.weights.job import ADAPTER_SCRIPT_FILES, SCRIPT_FILES, JobFailure, find_failure
from function.weights.scripts import adapter_script as script
from function.weights.scripts.adapter_script import AdapterExit, RefusedError
from function.weights.scripts.download_script import Exit, faults
from function.weights.scripts.prepare_script import REFUSED
from tests.weights.directories import Program, fill

RANK, HIDDEN, INNER = 8, 64, 128
PEFT = "base_model.model.model."
# As peft 0.18 writes it, with the fields that it leaves at their defaults.
CONFIG: Manifest = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "up_proj"],
    "bias": "none",
    "use_dora": False,
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
    "lora_bias": False,
    "init_lora_weights": True,
    "base_model_name_or_path": "somebody/a-quantised-copy",
}
ADAPTER = {
    f"{PEFT}layers.0.self_attn.q_proj.lora_A.weight": [RANK, HIDDEN],
    f"{PEFT}layers.0.self_attn.q_proj.lora_B.weight": [HIDDEN, RANK],
    f"{PEFT}layers.0.mlp.up_proj.lora_A.weight": [RANK, HIDDEN],
    f"{PEFT}layers.0.mlp.up_proj.lora_B.weight": [INNER, RANK],
}
MODEL = {
    "model.embed_tokens.weight": [100, HIDDEN],
    "model.layers.0.self_attn.q_proj.weight": [HIDDEN, HIDDEN],
    "model.layers.0.mlp.up_proj.weight": [INNER, HIDDEN],
    "model.layers.0.mlp.experts.gate_up_proj": [4, HIDDEN, INNER],
    "model.layers.0.input_layernorm.weight": [HIDDEN],
}


def _write(path: Path, tensors: dict[str, list[int]], kind: str = "F32") -> None:
    entries: dict[str, JSON] = {}
    end = 0
    for name, shape in tensors.items():
        size = 4
        for number in shape:
            size *= number
        entries[name] = {"dtype": kind, "shape": [*shape], "data_offsets": [end, end + size]}
        end += size
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(end))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    cause: AdapterExit | None
    words: str = ""
    config: Manifest = field(default_factory=lambda: CONFIG)
    adapter: dict[str, list[int]] = field(default_factory=lambda: ADAPTER)
    model: dict[str, list[int]] = field(default_factory=lambda: MODEL)
    model_kind: str = "BF16"
    model_file: str = "model.safetensors"


def _renamed(tensors: dict[str, list[int]], before: str, after: str) -> dict[str, list[int]]:
    return {name.replace(before, after): shape for name, shape in tensors.items()}


UNDESCRIBED, UNSUPPORTED = AdapterExit.ADAPTER_UNDESCRIBED, AdapterExit.ADAPTER_UNSUPPORTED
OTHER, HIGH = AdapterExit.ADAPTER_OF_OTHER_MODEL, AdapterExit.ADAPTER_RANK_TOO_HIGH
Q, UP = f"{PEFT}layers.0.self_attn.q_proj", f"{PEFT}layers.0.mlp.up_proj"
EXPERTS = {**MODEL, **{f"model.layers.0.mlp.experts.{number}.w1.weight": [INNER, HIDDEN] for number in range(2)}}
CASES = (
    Case(id="sound", cause=None),
    Case(id="rank-as-allowed", cause=None, config=CONFIG | {"r": 8}),
    Case(id="rank-too-high", cause=HIGH, config=CONFIG | {"r": 32}, words="its rank is 32, and maxRank is 16"),
    Case(id="no-rank", cause=UNDESCRIBED, config=CONFIG | {"r": None}, words="r, lora_alpha or target_modules"),
    Case(id="rank-true", cause=UNDESCRIBED, config=CONFIG | {"r": True}),
    Case(id="no-alpha", cause=UNDESCRIBED, config=CONFIG | {"lora_alpha": None}),
    Case(id="no-targets", cause=UNDESCRIBED, config=CONFIG | {"target_modules": []}),
    Case(id="ia3", cause=UNSUPPORTED, config=CONFIG | {"peft_type": "IA3"}, words="its peft_type is 'IA3', not LORA"),
    Case(id="no-type", cause=UNSUPPORTED, config=CONFIG | {"peft_type": None}),
    Case(id="dora", cause=UNSUPPORTED, config=CONFIG | {"use_dora": True}, words="its configuration has use_dora"),
    Case(id="saved-modules", cause=UNSUPPORTED, config=CONFIG | {"modules_to_save": ["lm_head"]}),
    Case(id="ranks-by-module", cause=UNSUPPORTED, config=CONFIG | {"rank_pattern": {"q_proj": 4}}),
    Case(id="bias", cause=UNSUPPORTED, config=CONFIG | {"bias": "all"}, words="its configuration has bias"),
    Case(id="pissa", cause=UNSUPPORTED, config=CONFIG | {"init_lora_weights": "pissa_niter_16"}),
    Case(
        id="rank-unlike-tensors",
        cause=UNSUPPORTED,
        config=CONFIG | {"r": 4},
        words="has the shapes [8, 64] and [64, 8], not [4, in] and [out, 4]",
    ),
    Case(
        id="half-a-module",
        cause=UNSUPPORTED,
        adapter={name: shape for name, shape in ADAPTER.items() if "q_proj.lora_B" not in name},
        words="has the shapes [8, 64] and [], not [8, in] and [out, 8]",
    ),
    Case(id="no-tensors", cause=UNSUPPORTED, adapter={}, words="it has no tensors"),
    Case(id="another-tensor", cause=UNSUPPORTED, adapter={**ADAPTER, f"{Q}.weight": [64, 64]}, words="none of LoRA"),
    Case(
        id="another-model",
        cause=OTHER,
        adapter={f"{Q}.lora_A.weight": [RANK, 4096], f"{Q}.lora_B.weight": [4096, RANK]},
        words="1 of 1 modules do not fit the model: "
        "'model.layers.0.self_attn.q_proj' is [4096, 4096], in the model [64, 64]",
    ),
    Case(
        id="more-layers",
        cause=OTHER,
        adapter=_renamed(ADAPTER, "layers.0", "layers.40"),
        words="'model.layers.40.mlp.up_proj' is not in the model",
    ),
    Case(id="unknown-module", cause=OTHER, adapter=_renamed(ADAPTER, "q_proj", "foo_proj")),
    Case(id="unknown-outside-the-layers", cause=OTHER, adapter=_renamed(ADAPTER, "model.layers.0.mlp.up_proj", "junk")),
    Case(
        id="transposed",
        cause=OTHER,
        adapter={f"{UP}.lora_A.weight": [RANK, INNER], f"{UP}.lora_B.weight": [HIDDEN, RANK]},
    ),
    Case(
        id="transposed-as-in-gpt-2",
        cause=None,
        adapter={
            "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight": [RANK, HIDDEN],
            "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight": [3 * HIDDEN, RANK],
        },
        model={"h.0.attn.c_attn.weight": [HIDDEN, 3 * HIDDEN]},
    ),
    Case(
        id="shape-of-the-vision-tower",
        cause=OTHER,
        adapter={f"{Q}.lora_A.weight": [RANK, 32], f"{Q}.lora_B.weight": [32, RANK]},
        model={**MODEL, "vision_tower.encoder.layers.0.self_attn.q_proj.weight": [32, 32]},
    ),
    *(
        Case(id=f"expert-{name}", cause=cause, adapter=_renamed(ADAPTER, "layers.0.mlp.up_proj", name), model=EXPERTS)
        for name, cause in {
            "layers.0.mlp.experts.1.w1": None,
            "layers.0.mlp.experts.77.w1": OTHER,
            "layers.99.mlp.experts.1.w1": OTHER,
            "layers.0.mlp.experts.1.w9": OTHER,
        }.items()
    ),
    Case(id="beside-an-own-adapter", cause=None, model=_renamed(MODEL, "proj.weight", "proj.base_layer.weight")),
    Case(id="torch-weights-and-a-side-file", cause=None, model={"mm_projector.weight": [64, 64]}),
    Case(id="another-scale", cause=UNDESCRIBED, config=CONFIG | {"lora_alpha": float("nan")}),
    Case(id="endless-scale", cause=UNDESCRIBED, config=CONFIG | {"lora_alpha": float("inf")}),
    Case(id="targets-of-another-type", cause=UNDESCRIBED, config=CONFIG | {"target_modules": 5}),
    Case(
        id="long-name",
        cause=UNDESCRIBED,
        adapter={"a." * 5000 + half: shape for half, shape in (("lora_A.weight", [8, 64]), ("lora_B.weight", [64, 8]))},
    ),
    Case(id="merged-experts", cause=None, adapter=_renamed(ADAPTER, "mlp.up_proj", "mlp.experts.3.up_proj")),
    Case(id="tied-head", cause=None, adapter=_renamed(ADAPTER, "model.layers.0.mlp.up_proj", "lm_head")),
    Case(id="prefix-of-images", cause=None, model=_renamed(MODEL, "model.layers", "model.language_model.layers")),
    Case(id="quantised-model", cause=None, model=_renamed(MODEL, "proj.weight", "proj.qweight"), model_kind="I32"),
    Case(id="names-of-the-vendor", cause=None, model={"layers.0.w": [1]}, model_file="consolidated.safetensors"),
    Case(
        id="embeddings",
        cause=None,
        adapter={
            "base_model.model.model.embed_tokens.lora_embedding_A": [RANK, 100],
            "base_model.model.model.embed_tokens.lora_embedding_B": [HIDDEN, RANK],
        },
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_refuses_what_engines_cannot_serve(tmp_path: Path, case: Case) -> None:
    adapter, base = tmp_path / "adapter", tmp_path / "base"
    _write(adapter / "adapter_model.safetensors", case.adapter)
    fill(adapter, {"adapter_config.json": json.dumps({k: v for k, v in case.config.items() if v is not None}).encode()})
    _write(base / case.model_file, case.model, case.model_kind)
    refused: RefusedError | None = None
    try:
        script.check(adapter, base, 16)
    except RefusedError as error:
        refused = error
    assert (refused.cause if refused else None) == case.cause
    assert case.words in str(refused)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"adapter_model.safetensors": b""}, "adapter_config.json is missing, or no JSON"),
        ({"adapter_config.json": b"{"}, "adapter_config.json is missing, or no JSON"),
        ({"adapter_config.json": b"[1]"}, "adapter_config.json is no JSON object"),
        (
            {"adapter_config.json": json.dumps(CONFIG).encode()},
            "adapter_model.safetensors is missing or cannot be read",
        ),
        (
            {"adapter_config.json": json.dumps(CONFIG).encode(), "adapter_model.safetensors": b"\xff" * 8 + b"{}"},
            "adapter_model.safetensors is missing or cannot be read",
        ),
    ],
)
def test_says_which_file_is_missing_or_damaged(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    fill(tmp_path, files)
    with pytest.raises(RefusedError, match=words) as refused:
        script.check(tmp_path, tmp_path / "no-model", 16)
    assert refused.value.cause is UNDESCRIBED


def _put(path: Path, header: bytes, data: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


@pytest.mark.parametrize(
    ("kind", "offsets"), [("F32", [0, 0]), ("WHAT", [0, 4]), ("F32", [0, 4])], ids=["no-bytes", "no-type", "overlap"]
)
def test_refuses_a_header_that_does_not_describe_its_bytes(tmp_path: Path, kind: str, offsets: list[int]) -> None:
    entries = {name: {"dtype": kind, "shape": shape, "data_offsets": offsets} for name, shape in ADAPTER.items()}
    _put(tmp_path / "adapter_model.safetensors", json.dumps(entries).encode(), bytes(offsets[1]))
    fill(tmp_path, {"adapter_config.json": json.dumps(CONFIG).encode()})
    with pytest.raises(RefusedError, match="has no numbers, or not as many as"):
        script.check(tmp_path, tmp_path / "no-model", 16)


@pytest.mark.parametrize("shape", ["[1e999,8]", "[true,8]", "[-1,8]", '["8",8]'])
def test_numbers_that_are_none_are_refused_and_end_nothing(tmp_path: Path, shape: str) -> None:
    header = f'{{"x.weight":{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}}}'.encode()
    adapter, base = tmp_path / "adapter", tmp_path / "base"
    fill(adapter, {"adapter_config.json": json.dumps(CONFIG).encode()})
    _put(adapter / "adapter_model.safetensors", header)
    with pytest.raises(RefusedError):
        script.check(adapter, base, 16)
    _write(adapter / "adapter_model.safetensors", ADAPTER)
    _put(base / "model.safetensors", header)
    script.check(adapter, base, 16)


def test_a_corrected_adapter_is_fetched_again(tmp_path: Path, root: Path, program: Program) -> None:
    """Its author corrects the repository, and the deployment gets another value of retry."""
    source, base = tmp_path / "source", tmp_path / "base"
    _write(source / "adapter_model.safetensors", ADAPTER)
    _write(base / "model.safetensors", MODEL)
    program(f'mkdir -p "$2"; cp -r {source}/. "$2"; echo Successfully copied')
    pod = _pod(tmp_path, root)
    codes = []
    for use_dora in (True, False):
        fill(source, {"adapter_config.json": json.dumps(CONFIG | {"use_dora": use_dora}).encode()})
        variables = {
            "initializer": str(tmp_path / "initializer"),
            "MODELPLANE_ADAPTER_BASE": str(base),
            "MODELPLANE_MAX_RANK": "16",
        }
        codes.append(pod.run(variables)[0])
    assert codes == [49, 0]


@dataclass(frozen=True, kw_only=True)
class Pod:
    """The scripts as a pod has them."""

    root: Path
    scripts: Path

    def run(self, variables: dict[str, str]) -> tuple[int, str]:
        environment = {"PATH": "/usr/bin:/bin", "MODELPLANE_INITIALIZER": variables.pop("initializer"), **variables}
        program = [sys.executable, str(self.scripts / "adapter.py"), "hf://owner/adapter:main", str(self.root)]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout


def _pod(tmp_path: Path, root: Path) -> Pod:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, text in {**SCRIPT_FILES, **ADAPTER_SCRIPT_FILES}.items():
        (scripts / name).write_text(text)
    return Pod(root=root, scripts=scripts)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    id: str
    rank: int
    is_truncated: bool = False
    code: int
    line: str


ATTEMPTS = (
    Attempt(id="sound", rank=8, code=0, line="rank 8, 2 modules, which fit the model"),
    Attempt(id="rank-too-high", rank=32, code=47, line="adapter refused: its rank is 32, and maxRank is 16"),
    Attempt(id="truncated", rank=8, is_truncated=True, code=45, line="adapter_model.safetensors: is truncated"),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_downloads_and_then_checks(tmp_path: Path, root: Path, program: Program, attempt: Attempt) -> None:
    source, base = tmp_path / "source", tmp_path / "base"
    weights = source / "adapter_model.safetensors"
    _write(weights, ADAPTER)
    if attempt.is_truncated:
        weights.write_bytes(weights.read_bytes()[:-100])
    fill(source, {"adapter_config.json": json.dumps(CONFIG | {"r": attempt.rank}).encode()})
    _write(base / "model.safetensors", MODEL)
    program(f'mkdir -p "$2"; cp -r {source}/. "$2"; echo Successfully copied')
    variables = {
        "initializer": str(tmp_path / "initializer"),
        "MODELPLANE_ADAPTER_BASE": str(base),
        "MODELPLANE_MAX_RANK": "16",
        "MODELPLANE_BACKOFF_LIMIT": "1",
    }
    found, said = _pod(tmp_path, root).run(variables)
    assert found == attempt.code, said
    assert attempt.line in said
    assert (root / ".modelplane" / "complete.json").is_file() is (not attempt.code), "else nothing is fetched again"


def test_passes_on_the_exit_code_of_the_download(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, with another download script."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setattr(script, "__file__", str(here / "adapter.py"))
    monkeypatch.setenv("MODELPLANE_ADAPTER_BASE", str(tmp_path / "base"))
    monkeypatch.setenv("MODELPLANE_MAX_RANK", "16")
    monkeypatch.setenv("MODELPLANE_MODEL_PATH", "v1")
    endings = {"raise SystemExit(41)": 41, "import os; os.kill(os.getpid(), 15)": 128 + 15, "": 50}
    for ending, code in endings.items():
        (here / "download.py").write_text(ending)
        assert script.main("hf://owner/adapter:main", str(root)) == code
    assert "adapter refused: adapter_config.json is missing, or no JSON" in capsys.readouterr().out
    fill(root / "v1", {"adapter_config.json": json.dumps(CONFIG).encode()})
    _write(root / "v1" / "adapter_model.safetensors", ADAPTER)
    assert script.main("hf://owner/adapter:main", str(root)) == 0
    assert "rank 8, 2 modules, and the model could not be read" in capsys.readouterr().out


def test_a_file_of_an_adapter_is_damaged_where_its_header_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPLANE_ADAPTER_BASE", "/mnt/models/models/0123")
    _write(root / "adapter_model.safetensors", ADAPTER)
    fill(root, {"adapter_config.json": b"{}", "README.md": b"x"})
    assert faults(root) == {}
    fill(root, {".gitkeep": b"", "optimizer.safetensors": b"x"})
    assert faults(root) == {}, "engines read nothing else"
    weights = root / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert faults(root) == {weights: "is truncated"}


def test_runs_as_a_program(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it in the repository there is no download.py, which Python says with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["adapter.py", "hf://owner/adapter:main", str(root)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script.__file__, run_name="__main__")
    assert ended.value.code == 2


def test_every_code_of_every_script_has_one_meaning() -> None:
    codes = [*AdapterExit, *Exit, *(cause.gave_up for cause in Exit if cause.gave_up != cause), REFUSED]
    assert len({*map(int, codes)}) == len(codes)
    causes = {cause: cause.name for cause in (*AdapterExit, *Exit)}
    for code, name in causes.items():
        assert find_failure(_failed_with(code)) in {JobFailure[name], JobFailure.UNKNOWN}
    for cause in AdapterExit:
        assert find_failure(_failed_with(cause)) is JobFailure[cause.name]


def _failed_with(code: int) -> Manifest:
    message = f"Container download for pod a/b failed with exit code {int(code)} matching FailJob rule at index 0"
    failed: Manifest = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": message}
    return {"status": {"conditions": [failed]}}
