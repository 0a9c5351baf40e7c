"""The files of a repository that engines load; the layouts are those of real repositories, with rounded sizes."""

from dataclasses import dataclass, field, replace

import pytest

from function.domain.files import Files, is_fetched, lacks_all, split_files
from function.domain.model import HuggingFaceSource

SOURCE = HuggingFaceSource(repo="owner/model")
SHARDS = {f"model-0000{n}-of-00002.safetensors": 50_000 for n in (1, 2)}
SMALL = {"config.json": 1, "tokenizer.json": 20, "model.safetensors.index.json": 3}
CONSOLIDATED = {"consolidated.safetensors": 100_000, "params.json": 1, "tekken.json": 15}
QUANTISED = {"m-Q4_K_M.gguf": 20_000, "m-Q8_0-00001-of-00002.gguf": 25_000, "m-Q8_0-00002-of-00002.gguf": 15_000}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    sizes: dict[str, int]
    weights: int
    copies: dict[str, int] = field(default_factory=dict)
    variants: dict[str, int] = field(default_factory=dict)
    source: HuggingFaceSource = SOURCE
    consolidated: bool = False


CASES = (
    Case("sharded", "the repository has one copy of the weights", {**SMALL, **SHARDS}, 100_000),
    Case("mistral", "the repository has the same weights in two layouts", {**SMALL, **SHARDS, **CONSOLIDATED}, 100_000,
         {"consolidated*": 100_000}),
    Case("mistral-in-its-own-layout", "--load-format=mistral reads the layout of Mistral",
         {**SMALL, **SHARDS, **CONSOLIDATED},
         100_000, {"model-*.safetensors": 100_000}, consolidated=True),
    Case("mistral-alone", "the layout of Mistral is the only one in the repository", CONSOLIDATED, 100_000),
    Case("no-such-layout", "without the requested layout, all files count",
         {**SMALL, **SHARDS}, 100_000, consolidated=True),
    Case("llama", "a folder has a copy in the layout of the authors",
         {**SMALL, **SHARDS, "original/consolidated.00.pth": 99_000,
         "original/params.json": 1}, 100_000, {"original/*": 99_000}),
    Case("gpt-oss", "two folders have further copies of the weights",
         {**SMALL, **SHARDS, "original/model.safetensors": 99_000, "metal/model.bin": 98_000},
         100_000, {"metal/*": 98_000, "original/*": 99_000}),
    Case("torch-beside-safetensors", "the torch files are a copy from before the conversion to safetensors",
         {**SMALL, **SHARDS,
         "pytorch_model-00001-of-00001.bin": 100_000, "tf_model.h5": 100_000}, 100_000,
         {"*.bin": 100_000, "*.h5": 100_000}),
    Case("bge", "torch, with heads that are small and modules of sentence-transformers", {"config.json": 1,
         "pytorch_model.bin": 100_000, "sparse_linear.pt": 4, "onnx/model.onnx_data": 100_000,
         "2_Dense/model.safetensors": 9_000}, 100_000, {"onnx/*": 100_000}),
    Case("gguf", "an engine opens only one of the GGUF files", {"README.md": 5, **QUANTISED}, 40_000,
         variants={"m-Q4_K_M.gguf": 20_000, "m-Q8_0-00001-of-00002.gguf": 40_000}),
    Case("gguf-one", "the repository has only one GGUF file", {"m.gguf": 20_000, "README.md": 5}, 20_000),
    Case("gguf-named", "the named GGUF file is loaded with all its parts",
         {k: v for k, v in QUANTISED.items() if "Q8" in k}, 40_000,
         source=replace(SOURCE, file="m-Q8_0-00001-of-00002.gguf")),
    Case("gguf-named-among-others", "the patterns of the author also admit other GGUF files", QUANTISED, 20_000,
         {"m-Q8_0-00001-of-00002.gguf": 25_000, "m-Q8_0-00002-of-00002.gguf": 15_000},
         source=replace(SOURCE, file="m-Q4_K_M.gguf", allow=("*.gguf",))),
    Case("pipeline", "each model of a pipeline has a folder",
         {"model_index.json": 1, "transformer/a.safetensors": 70_000,
         "vae/b.safetensors": 3_000, "vae/b.bin": 3_000}, 73_000, {"vae/b.bin": 3_000}),
    Case("folder", "files outside of the chosen folder are not loaded",
         {"fp8/config.json": 1, "fp8/model.safetensors": 50_000,
         "fp8/onnx/model.onnx": 9_000, "fp8/x.bin": 8_000}, 50_000, {"fp8/onnx/*": 9_000, "fp8/*.bin": 8_000},
         source=replace(SOURCE, path="fp8", allow=("fp8/*",))),
    Case("unknown", "no kind that is known", {"weights.xyz": 7}, 7),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_tells_weights_from_files(case: Case) -> None:
    disk = sum(case.sizes.values())
    want = Files(disk=disk, weights=case.weights, copies=case.copies, variants=case.variants)
    assert split_files(case.sizes, case.source, consolidated=case.consolidated) == want, case.reason


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_proposed_patterns_leave_what_engines_load(case: Case) -> None:
    source = replace(case.source, ignore=(*case.source.ignore, *case.copies))
    rest = {path: size for path, size in case.sizes.items() if is_fetched(path, source)}
    left = split_files(rest, source, consolidated=case.consolidated)
    assert (left.weights, left.copies) == (case.weights, {})


@pytest.mark.parametrize(
    ("source", "want"),
    [
        (SOURCE, False),
        (replace(SOURCE, allow=("*.safetensors",)), True),
        (replace(SOURCE, allow=("*.safetensors", "config.json")), False),
        (replace(SOURCE, ignore=("*.json",)), True),
        (replace(SOURCE, path="fp8", allow=("fp8/",)), False),
        (replace(SOURCE, path="fp8", allow=("*.safetensors", "config.json")), True),
    ],
)
def test_knows_what_patterns_let_through(source: HuggingFaceSource, *, want: bool) -> None:
    assert lacks_all(("config.json", "params.json"), source) is want
