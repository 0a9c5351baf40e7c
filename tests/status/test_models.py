"""What is no fault of a model and worth knowing."""

from dataclasses import dataclass, replace

import pytest

from function.domain.model import Model, OciSource, Spread
from function.status.cluster_model import build_model_valid, list_notes, note_insufficient_memory
from tests.support.builders import GIB, HUB, model, profile, requires, shape
from tests.support.serving_requests import SGLANG, engine

VLLM = engine()
UNKNOWN = engine(image="vllm/vllm-openai@sha256:00ff")
FILE = replace(HUB, file="kimi.gguf")
WHERE = "spec.serving[default]."
NEWEST = f"{WHERE}engine.image: does not show the engine's version, so the newest is assumed; set engine.version"
TOKENIZER = f"{WHERE}engine.args: engines do not read the tokenizer in kimi.gguf well"
SHARE = "replicaTopology.placement.podsAcrossNodes: is none: two pods may share a node, but each is charged a whole one"
BEYOND = (
    "16 GPUs of 80Gi can hold 1152Gi of weights, and spec.resources.disk is 1153Gi; if engines do not load all of it, "
    "set spec.resources.vram"
)
NO_CONFIG = "lets through neither config.json nor params.json, and no engine starts without one"
MISTRAL = "--load-format=mistral reads consolidated*.safetensors, which the patterns do not let through"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    model: Model
    want: tuple[str, ...] = ()


def one(**fields: object) -> Model:
    """Return a model with one profile of two nodes, unless something else is said."""
    return model(replace(profile(shape=shape(2, 8), engine=VLLM), **fields))  # type: ignore[arg-type]  # fields vary


TOKEN = "has a Hugging Face token in plain text; name its Secret in spec.huggingFace.secretRef"
CASES = [
    Case("nothing", "all is said", one()),
    Case("version", "several nodes depend on it", one(engine=UNKNOWN), (NEWEST,)),
    Case("version-said", "the field tells", one(engine=replace(UNKNOWN, version="0.20.0"))),
    Case("version-on-one-node", "nothing depends on it", one(engine=UNKNOWN, shape=shape(1, 8))),
    Case("version-of-any-shape", "it may span nodes", one(engine=UNKNOWN, shape=None), (NEWEST,)),
    Case("tag", "what a tag names may change", replace(one(), source=OciSource(image="models/kimi:1")),
         ("spec.oci.image: names a tag, which may move; a digest always means the same weights",)),
    Case("none", "obeyed, and each pod is charged a node nevertheless", one(pods_across_nodes=Spread.NONE),
         (f"{WHERE}{SHARE}",)),
    Case("none-on-one-node", "there is one pod", one(pods_across_nodes=Spread.NONE, shape=shape(1, 8))),
    Case("token", "everybody who reads the model reads it",
         one(engine=replace(engine(), env=({"name": "HF_TOKEN", "value": "hf_abc"},))),
         (f"{WHERE}engine.env: {TOKEN}",)),
    Case("tokenizer", "of a file of weights", replace(one(), source=FILE),
         (f"{TOKENIZER}; name another with --tokenizer",)),
    Case("tokenizer-said", "the author's", replace(one(engine=engine("--tokenizer=org/base")), source=FILE)),
    Case("tokenizer-sglang", "by another flag", replace(one(engine=engine(image=SGLANG)), source=FILE),
         (f"{TOKENIZER}; name another with --tokenizer-path",)),
    Case("fits", "16 x 80 x 0.9 = 1152", replace(one(requires=requires(memory="80Gi")), disk=1152 * GIB)),
    Case("does-not-fit", "one byte more", replace(one(requires=requires(memory="80Gi")), disk=1152 * GIB + 1),
         (f"{WHERE}replicaTopology: {BEYOND}",)),
    Case("two-copies", "what fits 1200Gi of GPU memory is at most 1080Gi",
         replace(one(requires=requires(memory="80Gi")), disk=2000 * GIB, vram=1200 * GIB)),
    Case("vram-alone", "other checks compare it", replace(one(requires=requires(memory="80Gi")), vram=2000 * GIB)),
    Case("no-config", "no engine starts", replace(one(), source=replace(HUB, allow=("*.safetensors",))),
         (f"spec.huggingFace.allowPatterns: {NO_CONFIG}",)),
    Case("no-tokenizer", "it would be missed at the first request",
         replace(one(), source=replace(HUB, ignore=("tok*", "vocab*", "tekken*", "tiktoken*", "*piece*"))),
         ("spec.huggingFace.ignorePatterns: lets through no tokenizer, such as tokenizer.json or tekken.json",)),
    Case("all-let-through", "as most patterns do",
         replace(one(), source=replace(HUB, allow=("*.safetensors", "*.json")))),
    Case("folder", "it is let through", replace(one(), source=replace(HUB, path="fp8", allow=("fp8/*",)))),
    Case("quantised", "a folder of GGUF files is no model",
         replace(one(), source=replace(HUB, repo="Qwen/Qwen3-32B-GGUF")),
         ("spec.huggingFace.file: is not set, and engines open one GGUF file of Qwen/Qwen3-32B-GGUF; name it",)),
    Case("mistral", "it reads what is left out",
         replace(one(engine=engine("--load-format=mistral")), source=replace(HUB, ignore=("consolidated*",))),
         (f"{WHERE}engine.args: {MISTRAL}",)),
    Case("mistral-let-through", "it is there", one(engine=engine("--load-format", "mistral"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_remarks(case: Case) -> None:
    assert tuple(map(str, list_notes(case.model))) == case.want, case.reason
    assert build_model_valid(case.model).message == "; ".join(["1 profile can be served", *case.want])


def test_known_weights_count_and_not_the_disk() -> None:
    twice = model(profile(shape=shape(1, 8), engine=VLLM))
    twice = replace(twice, disk=1000 * GIB)
    assert note_insufficient_memory(twice, shape(1, 8), 80 * GIB, 500 * GIB) == ""
    assert note_insufficient_memory(twice, shape(1, 8), 80 * GIB, 600 * GIB) == (
        "8 GPUs of 80Gi can hold 576Gi of weights, and the weights take 600Gi"
    )
