"""Small models of every kind the initializer meets, valid down to the headers that the script reads."""

import io
import json
import zipfile


def safetensors(size: int = 100) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"x" * size


def torch(size: int = 100) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * size)
    return buffer.getvalue()


def index(*shards: str) -> bytes:
    return json.dumps({"metadata": {}, "weight_map": {f"layer.{shard}": shard for shard in shards}}).encode()


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def long(value: int) -> bytes:
    return value.to_bytes(8, "little")


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def gguf(size: int = 100, *pairs: bytes, tensor: bytes = b"", version: int = 3, alignment: int = 32) -> bytes:
    """One tensor of bytes (type 24, I8) unless another is described; `pairs` are keys with their values."""
    described = tensor or text(b"w") + word(1) + long(size) + word(24) + long(0)
    header = b"GGUF" + word(version) + long(1) + long(len(pairs)) + b"".join(pairs) + described
    return header + bytes(-len(header) % alignment) + b"x" * size


FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDED = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors.index.json": index(FIRST, SECOND),
    FIRST: safetensors(100),
    SECOND: safetensors(200),
}
SINGLE = {"config.json": b"{}", "model.safetensors": safetensors()}
TORCH_INDEX = "pytorch_model.bin.index.json"
TORCH_SHARDS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")
TORCH = {"config.json": b"{}", TORCH_INDEX: index(*TORCH_SHARDS), **dict.fromkeys(TORCH_SHARDS, torch())}
QUANTISED = {"README.md": b"# a model", "model-q4.gguf": gguf()}
ADAPTER = {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors()}
