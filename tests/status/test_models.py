"""Notes about a model, which are not faults."""

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
ARGS = f"{WHERE}engine.args: "
STOCK = "vllm/vllm-openai:v0.20.0"
NO_START = "vLLM does not start with a flag that it does not know"
SHARE_FLAG = "--mem-fraction-static"
A_SHARE = "must be a share of the GPU's memory, more than 0 and at most 1"
MOVES = f"{WHERE}engine.image: has no tag or the tag latest, so pods may run different versions; name a tag or a digest"
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
    Case("nothing", "a complete model has no notes", one()),
    Case("version", "the version determines how replicas span nodes", one(engine=UNKNOWN), (NEWEST,)),
    Case("version-said", "the field engine.version declares the version",
         one(engine=replace(UNKNOWN, version="0.20.0"))),
    Case("version-on-one-node", "a replica of one node does not depend on the version",
         one(engine=UNKNOWN, shape=shape(1, 8))),
    Case("version-of-any-shape", "a computed shape may span nodes", one(engine=UNKNOWN, shape=None), (NEWEST,)),
    Case("image-without-tag", "two pods of one service may run different images",
         one(engine=engine(image="vllm/vllm-openai"), shape=shape(1, 8)), (MOVES,)),
    Case("image-latest", "latest means another image tomorrow",
         one(engine=engine(image="mirror.local:5000/vllm/vllm-openai:latest"), shape=shape(1, 8)), (MOVES,)),
    Case("image-of-a-registry-with-a-port", "the port is no tag",
         one(engine=engine(image="mirror.local:5000/vllm/vllm-openai"), shape=shape(1, 8)), (MOVES,)),
    Case("misspelt-flag", "one letter is missing", one(engine=engine("--max-modl-len=8192")),
         (f"{ARGS}--max-modl-len is not a flag of vLLM that is known here; did you mean --max-model-len?",)),
    Case("misspelt-flag-of-sglang", "each engine has its own flags",
         one(engine=engine("--mem-fraction-statics=0.9", image=SGLANG)),
         (f"{ARGS}--mem-fraction-statics is not a flag of SGLang that is known here; did you mean {SHARE_FLAG}?",)),
    Case("flags-as-parsers-take-them", "a beginning, --no- before a switch, and a key after a dot are no slips",
         one(engine=engine("--max-model=1", "--no-enable-prefix-caching", "--speculative-config.model=x"))),
    Case("unknown-flag", "a stock image knows no such flag", one(engine=engine("--my-own-flag=1", image=STOCK)),
         (f"{ARGS}--my-own-flag is not a flag of vLLM 0.8.5 to 0.33.0; {NO_START}",)),
    Case("unknown-flag-of-a-custom-image", "a custom image may know any flag",
         one(engine=engine("--my-own-flag=1", image="registry.example.com/vllm:v0.20.0"))),
    Case("unknown-flag-of-a-later-version", "a later version may have more flags",
         one(engine=engine("--my-own-flag=1", image="vllm/vllm-openai:v0.34.0"))),
    Case("negative-number", "the value of a flag is no flag", one(engine=engine("--max-model-len", "-1", image=STOCK))),
    Case("rare-flag", "a flag that authors seldom write", one(engine=engine("--cpu-offload-gb=4", image=STOCK))),
    Case("no-number", "the context is a number of tokens", one(engine=engine("--max-model-len=abc")),
         (f"{ARGS}--max-model-len=abc; must be a whole number, or a rounded one such as 32k",)),
    Case("no-number-at-all", "the number is missing", one(engine=engine("--max-num-seqs")),
         (f"{ARGS}--max-num-seqs; must be a whole number",)),
    Case("numbers", "numbers as the parsers take them",
         one(engine=engine("--max-model-len=32k", "--max-num-seqs=256", "--max-num-batched-tokens", "8_192"))),
    Case("percent", "the share of memory is no percentage", one(engine=engine("--gpu-memory-utilization=95")),
         (f"{ARGS}--gpu-memory-utilization=95; {A_SHARE}",)),
    Case("no-share", "the share is a number", one(engine=engine("--gpu-memory-utilization=all")),
         (f"{ARGS}--gpu-memory-utilization=all; {A_SHARE}",)),
    Case("known-dtype", "engines know this type", one(engine=engine("--dtype=half"))),
    Case("share", "the whole memory is allowed", one(engine=engine("--gpu-memory-utilization", "1"))),
    Case("dtype", "engines know no such type", one(engine=engine("--dtype=float8")),
         (f"{ARGS}--dtype=float8; must be one of auto, bfloat16, float, float16, float32, half",)),
    Case("tag", "a tag may later name another image", replace(one(), source=OciSource(image="models/kimi:1")),
         ("spec.oci.image: names a tag, which may move; a digest always means the same weights",)),
    Case("none", "pods may share nodes, but each pod is charged a node", one(pods_across_nodes=Spread.NONE),
         (f"{WHERE}{SHARE}",)),
    Case("none-on-one-node", "a replica of one node has only one pod",
         one(pods_across_nodes=Spread.NONE, shape=shape(1, 8))),
    Case("token", "a token in plain text is visible to all readers of the model",
         one(engine=replace(engine(), env=({"name": "HF_TOKEN", "value": "hf_abc"},))),
         (f"{WHERE}engine.env: {TOKEN}",)),
    Case("tokenizer", "a single file of weights needs a tokenizer from elsewhere", replace(one(), source=FILE),
         (f"{TOKENIZER}; name another with --tokenizer",)),
    Case("tokenizer-said", "the author names a tokenizer",
         replace(one(engine=engine("--tokenizer=org/base")), source=FILE)),
    Case("tokenizer-sglang", "SGLang has another flag for the tokenizer",
         replace(one(engine=engine(image=SGLANG)), source=FILE),
         (f"{TOKENIZER}; name another with --tokenizer-path",)),
    Case("fits", "the weights just fit: 16 x 80 x 0.9 = 1152",
         replace(one(requires=requires(memory="80Gi")), disk=1152 * GIB)),
    Case("does-not-fit", "the weights are one byte too large",
         replace(one(requires=requires(memory="80Gi")), disk=1152 * GIB + 1),
         (f"{WHERE}replicaTopology: {BEYOND}",)),
    Case("two-copies", "the weights are at most 1080Gi of the 1200Gi of vram, so disk has two copies",
         replace(one(requires=requires(memory="80Gi")), disk=2000 * GIB, vram=1200 * GIB)),
    Case("vram-alone", "vram is compared by other checks",
         replace(one(requires=requires(memory="80Gi")), vram=2000 * GIB)),
    Case("no-config", "no engine starts without config.json",
         replace(one(), source=replace(HUB, allow=("*.safetensors",))),
         (f"spec.huggingFace.allowPatterns: {NO_CONFIG}",)),
    Case("no-tokenizer", "a missing tokenizer fails at the first request",
         replace(one(), source=replace(HUB, ignore=("tok*", "vocab*", "tekken*", "tiktoken*", "*piece*"))),
         ("spec.huggingFace.ignorePatterns: lets through no tokenizer, such as tokenizer.json or tekken.json",)),
    Case("all-let-through", "the usual patterns admit all necessary files",
         replace(one(), source=replace(HUB, allow=("*.safetensors", "*.json")))),
    Case("folder", "the patterns admit the whole folder",
         replace(one(), source=replace(HUB, path="fp8", allow=("fp8/*",)))),
    Case("quantised", "engines cannot load a repository of GGUF files",
         replace(one(), source=replace(HUB, repo="Qwen/Qwen3-32B-GGUF")),
         ("spec.huggingFace.file: is not set, and engines open one GGUF file of Qwen/Qwen3-32B-GGUF; name it",)),
    Case("mistral", "the layout of Mistral needs files that the patterns exclude",
         replace(one(engine=engine("--load-format=mistral")), source=replace(HUB, ignore=("consolidated*",))),
         (f"{WHERE}engine.args: {MISTRAL}",)),
    Case("mistral-let-through", "the files for the layout of Mistral are admitted",
         one(engine=engine("--load-format", "mistral"))),
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
