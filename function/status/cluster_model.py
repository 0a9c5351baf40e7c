"""Status of a ClusterModel or Model: whether it is valid, and the size of its profiles and weights."""

import re
from collections.abc import Iterator

from function.contract import Condition
from function.domain.engine_flags import list_flag_notes
from function.domain.engines import ENGINES, get_last_value, get_version
from function.domain.files import DESCRIPTIONS, TOKENIZERS, lacks_all
from function.domain.model import (
    GGUF,
    DownloadedSource,
    HuggingFaceSource,
    Model,
    OciSource,
    Problem,
    Profile,
    Shape,
    Spread,
    find_single_file,
    usable_memory,
)
from function.kube.manifests import JSON, Manifest, text
from function.kube.messages import format_count, truncate_middle
from function.kube.quantity import gib
from function.reasons import ConditionType, ModelValid, Status
from function.status.conditions import faulty
from function.weights.claim import compute_size
from function.weights.request import cache_key, source_uri

_PINNED = re.compile(r"@|:(?!latest$)[^/:@]+$")  # an image with a digest, or a tag other than `latest`


def build_model_valid(model: Model) -> Condition:
    if model.problems:
        return faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_PROFILE, model.problems)
    notes = map(str, list_notes(model))
    message = "; ".join([f"{format_count(len(model.profiles), 'profile')} can be served", *notes])
    return Condition(ConditionType.MODEL_VALID, Status.TRUE, ModelValid.VALID, message)


def list_notes(model: Model) -> list[Problem]:
    """Returns notes on settings that are valid but probably unintended, by field."""
    notes: list[Problem] = []
    if isinstance(model.source, OciSource) and "@sha256:" not in model.source.image:
        notes.append(Problem("spec.oci.image", "names a tag, which may move; a digest always means the same weights"))
    if isinstance(model.source, HuggingFaceSource):
        notes += _list_source_notes(model.source)
    for profile in model.profiles:
        fields = _list_profile_notes(profile, model)
        notes += [Problem(f"spec.serving[{profile.name}].{field}", message) for field, message in fields]
    return notes


def _list_source_notes(source: HuggingFaceSource) -> Iterator[Problem]:
    if not source.file and source.repo.lower().endswith("-gguf"):
        yield Problem("spec.huggingFace.file", f"is not set, and engines open one GGUF file of {source.repo}; name it")
        return
    field = "spec.huggingFace.allowPatterns" if source.allow else "spec.huggingFace.ignorePatterns"
    if not source.file and lacks_all(DESCRIPTIONS, source):
        yield Problem(field, "lets through neither config.json nor params.json, and no engine starts without one")
    elif not source.file and lacks_all(TOKENIZERS, source):
        yield Problem(field, "lets through no tokenizer, such as tokenizer.json or tekken.json")


def _list_profile_notes(profile: Profile, model: Model) -> Iterator[tuple[str, str]]:
    engine = profile.engine
    shape = profile.shape
    file = find_single_file(model.source)
    if (file or shape is None or shape.nodes > 1) and get_version(engine) is None:
        yield "engine.image", "does not show the engine's version, so the newest is assumed; set engine.version"
    elif not _PINNED.search(engine.image):
        yield "engine.image", "has no tag or the tag latest, so pods may run different versions; name a tag or a digest"
    for note in list_flag_notes(engine):
        yield "engine.args", note
    if shape and shape.nodes > 1 and profile.pods_across_nodes is Spread.NONE:
        field = "replicaTopology.placement.podsAcrossNodes"
        yield field, "is none: two pods may share a node, but each is charged a whole one"
    if any(text(entry, "value").startswith("hf_") for entry in engine.env):
        yield "engine.env", "has a Hugging Face token in plain text; name its Secret in spec.huggingFace.secretRef"
    source = model.source
    is_mistral = get_last_value(engine.args, "--load-format") == "mistral"
    if is_mistral and isinstance(source, HuggingFaceSource) and lacks_all(("consolidated.safetensors",), source):
        yield (
            "engine.args",
            "--load-format=mistral reads consolidated*.safetensors, which the patterns do not let through",
        )
    tokenizer = ENGINES[engine.name].tokenizer_flag
    if file.lower().endswith(GGUF) and get_last_value(engine.args, tokenizer) is None:
        yield "engine.args", f"engines do not read the tokenizer in {file} well; name another with {tokenizer}"
    if shape and (beyond := note_insufficient_memory(model, shape, profile.requires.memory_per_gpu)):
        yield "replicaTopology", beyond


def note_insufficient_memory(model: Model, shape: Shape, memory_per_gpu: int | None, weights: int | None = None) -> str:
    """Returns a note that the GPUs of a replica cannot hold the weights, all in bytes; empty if they can.

    `weights` is None if only the model's resources are known. `disk` may include files that no engine loads.
    """
    capacity = usable_memory(shape.gpus * (memory_per_gpu or 0))
    bound = model.weights_bound if model.disk else None  # vram alone is compared when a profile declares its shape
    if not memory_per_gpu or (weights or bound or 0) <= capacity:
        return ""
    room = f"{format_count(shape.gpus, 'GPU')} of {gib(memory_per_gpu)} can hold {gib(capacity)} of weights"
    if weights:
        return f"{room}, and the weights take {gib(weights)}"
    disk = f"spec.resources.disk is {gib(model.disk or 0)}"
    return f"{room}, and {disk}; if engines do not load all of it, set spec.resources.vram"


def build_status(model: Model) -> Manifest:
    """Returns profiles and storage; a shape that is computed from vram is in the status of each placement."""
    profiles: list[JSON] = [_build_profile(profile) for profile in model.profiles]
    profiles += [{"name": b.name, "message": truncate_middle("; ".join(map(str, b.problems)))} for b in model.broken]
    source = model.source
    size = compute_size(None, model, None)
    storage: Manifest = {"uri": source_uri(source)}
    if isinstance(source, DownloadedSource):
        storage["cacheKey"] = cache_key(source)
        storage |= {"size": gib(size.amount), "sizeFrom": size.source} if size else {}
    return {"profiles": profiles, "storage": storage}


def _build_profile(profile: Profile) -> Manifest:
    if profile.shape is None:
        return {"name": profile.name, "message": "Sized by spec.resources.vram, for each pool"}
    shape = profile.shape
    return {
        "name": profile.name,
        "nodes": shape.nodes,
        "gpusPerNode": shape.gpus_per_node,
        "totalGpus": shape.gpus,
        "multiNode": shape.nodes > 1,
    }
