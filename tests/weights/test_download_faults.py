"""What the script finds in a directory: by the formats' own specifications, and by what an engine would load."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from tests.hub import weights
from tests.hub.weights import long, text, word
from tests.weights.directories import fill, without


@dataclass(frozen=True)
class Files:
    id: str
    reason: str
    files: dict[str, bytes]
    want: dict[str, str]
    opened: str = ""  # below the model's directory


NO_MODEL = "holds no model: no config.json or params.json with safetensors or torch weights beside it"
IGNORED = ("a.pt", "a.pth", "a.bin", "a.h5", "a.msgpack", "a.onnx", "a.ckpt")
SERIES = {"m-00001-of-00002.gguf": weights.gguf(), "m-00002-of-00002.gguf": weights.gguf()}
CONSOLIDATED = {
    "consolidated.safetensors.index.json": weights.index("consolidated-1.safetensors"),
    "consolidated-1.safetensors": weights.safetensors(),
}

OPENS = "is missing, and the engine opens it"


def in_folder(name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}/{path}": data for path, data in files.items()}


FILES = (
    Files("sharded", "all there", weights.SHARDED, {}),
    Files("one-file", "all there", weights.SINGLE, {}),
    Files("torch", "all there", weights.TORCH, {}),
    Files("gguf", "needs no description", weights.QUANTISED, {}, "model-q4.gguf"),
    Files("gguf-of-several", "engines open no folder of them", weights.QUANTISED, {"": NO_MODEL}),
    Files("gguf-missing", "the engine opens it", weights.QUANTISED, {"q8/m.gguf": OPENS}, "q8/m.gguf"),
    Files("gguf-series", "all parts", SERIES, {}, "m-00001-of-00002.gguf"),
    Files("gguf-beside-a-damaged-one", "it is not opened", {**SERIES, "a.gguf": b"x"}, {}, "m-00001-of-00002.gguf"),
    Files("adapter", "no engine starts from it", weights.ADAPTER, {"": NO_MODEL}),
    Files("adapter-beside-a-model", "as some come", {**weights.ADAPTER, **weights.SINGLE}, {}),
    Files("mistral", "params.json describes it", {"params.json": b"{}", "consolidated.00.pth": weights.torch()}, {}),
    Files("old-torch", "a pickle is no archive", {"config.json": b"{}", "pytorch_model.bin": b"\x80\x02}q\x00."}, {}),
    Files(
        "foreign-records",
        "the client's own files are not the model's",
        {**weights.SINGLE, ".cache/huggingface/x.safetensors": b"", ".modelplane/failures-x": b"."},
        {},
    ),
    Files("empty", "nothing is no model", {}, {"": NO_MODEL}),
    Files("description-only", "no weights", {"config.json": b"{}"}, {"": NO_MODEL}),
    Files("torch-alone", "its kind is unknown", {"pytorch_model.bin": weights.torch()}, {"": NO_MODEL}),
    Files(
        "partial-files",
        "the client's partial files are not the model's: another Job may be writing them",
        {**weights.SINGLE, ".cache/huggingface/download/x.1.incomplete": b"x"},
        {},
    ),
    Files(
        "shard-missing",
        "the index names it, and so does its series",
        without(weights.SHARDED, weights.SECOND),
        {weights.SECOND: "is missing, model.safetensors.index.json promises it"},
    ),
    Files(
        "torch-shard-missing",
        "the other kind of index counts as well",
        without(weights.TORCH, weights.TORCH_SHARDS[0]),
        {weights.TORCH_SHARDS[0]: f"is missing, {weights.TORCH_INDEX} promises it"},
    ),
    Files(
        "torch-shard-missing-beside-safetensors",
        "left behind when the weights were converted: engines read nothing of it, neither index nor shard",
        without({**weights.TORCH, **weights.SINGLE}, weights.TORCH_SHARDS[0]),
        {},
    ),
    Files(
        "series-member-missing",
        "without an index the names say how many there are",
        without(SERIES, "m-00002-of-00002.gguf"),
        {"m-00002-of-00002.gguf": "is missing, m-00001-of-00002.gguf promises it"},
        "m-00001-of-00002.gguf",
    ),
    Files(
        "index-unreadable",
        "an index must name shards",
        {**weights.SINGLE, "model.safetensors.index.json": b"{"},
        {"model.safetensors.index.json": "is no index of files in its directory"},
    ),
    Files(
        "shard-empty",
        "a node that was lost before it wrote",
        {**weights.SHARDED, weights.SECOND: b""},
        {weights.SECOND: "is empty"},
    ),
    Files(
        "shard-cut-in-its-data",
        "the header says how long it is",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:-1]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-cut-in-its-header",
        "the first 8 bytes say how long the header is",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:20]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-of-zeros",
        "a node that was lost before it flushed",
        {**weights.SINGLE, "model.safetensors": bytes(100)},
        {"model.safetensors": "has no readable header"},
    ),
    Files(
        "torch-cut",
        "an archive's directory stands at its end",
        {"config.json": b"{}", "pytorch_model.bin": weights.torch(5000)[:-30]},
        {"pytorch_model.bin": "is truncated"},
    ),
    Files(
        "other-weights-empty",
        "nothing is known but that they must not be empty",
        {**weights.TORCH, "model.onnx": b""},
        {"model.onnx": "is empty"},
    ),
    Files("other-weights", "of this format no more is known", {**weights.TORCH, "model.onnx": b"x"}, {}),
    Files("other-weights-alone", "no engine loads them", {"config.json": b"{}", "model.onnx": b"x"}, {"": NO_MODEL}),
    Files(
        "lightning-cut",
        "a .ckpt is an archive like other torch weights",
        {"config.json": b"{}", "model.ckpt": weights.torch(5000)[:-30]},
        {"model.ckpt": "is truncated"},
    ),
    Files("lightning-alone", "its kind is unknown", {"model.ckpt": weights.torch()}, {"": NO_MODEL}),
    Files(
        "empty-beside-safetensors",
        "engines take the safetensors and open none of these",
        {**weights.SINGLE, **dict.fromkeys((*IGNORED, *(f"original/{name}" for name in IGNORED)), b"")},
        {},
    ),
    Files(
        "empty-above-safetensors",
        "an engine reads one directory, and here it is the upper one",
        {"config.json": b"{}", "pytorch_model.bin": b"", "other/model.safetensors": weights.safetensors()},
        {"pytorch_model.bin": "is empty"},
    ),
    Files(
        "description-cut",
        "engines read it first, and a lost node leaves small files empty",
        {**weights.SINGLE, "config.json": b""},
        {"config.json": "is no JSON object"},
    ),
    Files(
        "description-list",
        "engines read a map",
        {**weights.SINGLE, "config.json": b"[1]"},
        {"config.json": "is no JSON object"},
    ),
    Files("one-file-alone", "no engine starts from it", without(weights.SINGLE, "config.json"), {"": NO_MODEL}),
    Files("in-a-folder", "the engine opens the root", in_folder("fp8", weights.SINGLE), {"": NO_MODEL}),
    Files("in-the-folder-that-is-opened", "all there", in_folder("fp8", weights.SHARDED), {}, "fp8"),
    Files("described-above", "as some repositories do", {**in_folder("fp8", without(weights.SINGLE, "config.json")),
        "config.json": b"{}"}, {"": NO_MODEL}),
    Files("folder-missing", "the patterns let another one through", in_folder("a", weights.SINGLE), {"fp8": NO_MODEL},
        "fp8"),
    Files(
        "shard-missing-in-a-folder",
        "as at the root",
        without(in_folder("fp8", weights.SHARDED), f"fp8/{weights.SECOND}"),
        {f"fp8/{weights.SECOND}": "is missing, model.safetensors.index.json promises it"},
        "fp8",
    ),
    Files("pipeline", "of several models, each in a folder", {"model_index.json": b"{}",
        **in_folder("transformer", weights.SINGLE)}, {}),
    Files("stray-shard", "the index is complete, and engines go by it", {**weights.SHARDED,
        "model-00001-of-00003.safetensors": weights.safetensors()}, {}),
    Files("stray-checkpoint", "the same, in a folder", {**weights.SHARDED, **without(in_folder("checkpoint-500",
        weights.SHARDED), f"checkpoint-500/{weights.SECOND}")}, {}),
    Files("stray-empty", "no engine opens it", {**weights.TORCH, "aux/state.bin": b""}, {}),
    Files("stray-index", "without its files, beside one with all of its", {**weights.SHARDED,
        "consolidated.safetensors.index.json": weights.index("consolidated-1.safetensors")}, {}),
    Files("shard-missing-beside-another-index", "engines go by the one named model unless a flag says otherwise", {
        **without(weights.SHARDED, weights.SECOND), **CONSOLIDATED},
        {weights.SECOND: "is missing, model.safetensors.index.json promises it"}),
    Files("index-cut-beside-another", "engines read it first", {
        **weights.SHARDED, "model.safetensors.index.json": b'{"weight_map": {', **CONSOLIDATED},
        {"model.safetensors.index.json": "is no index of files in its directory"}),
    Files("stray-shard-beside-an-incomplete-index", "no index can be relied on", {
        **without(weights.SHARDED, weights.SECOND), "model-00001-of-00003.safetensors": weights.safetensors()},
        {weights.SECOND: "is missing, model.safetensors.index.json promises it",
         "model-00002-of-00003.safetensors": "is missing, model-00001-of-00003.safetensors promises it",
         "model-00003-of-00003.safetensors": "is missing, model-00001-of-00003.safetensors promises it"}),
    Files(
        "sharded-without-description",
        "no engine can load an index and shards alone",
        without(weights.SHARDED, "config.json"),
        {"": NO_MODEL},
    ),
    Files(
        "series-without-description",
        "nor shards that have no index",
        {name: weights.SHARDED[name] for name in (weights.FIRST, weights.SECOND)},
        {"": NO_MODEL},
    ),
    Files(
        "index-of-one-without-description",
        "an index stands for shards, however they are called",
        {"model.safetensors.index.json": weights.index("a.safetensors"), "a.safetensors": weights.safetensors()},
        {"": NO_MODEL},
    ),
    Files(
        "gguf-beside-undescribed-shards",
        "a GGUF file describes itself",
        {**without(weights.SHARDED, "config.json"), **weights.QUANTISED},
        {},
        "model-q4.gguf",
    ),
    Files(
        "sharded-with-params",
        "any of the known descriptions will do",
        {**without(weights.SHARDED, "config.json"), "params.json": b"{}"},
        {},
    ),
    Files(
        "own-incomplete",
        "a repository may call a file so: the client keeps its partial files elsewhere",
        {**weights.SINGLE, "x.incomplete": b"x"},
        {},
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", FILES, ids=lambda c: c.id)
def test_faults(root: Path, case: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPLANE_MODEL_PATH", case.opened)
    fill(root, case.files)
    assert script.faults(root) == {root / name: fault for name, fault in case.want.items()}, case.reason


def test_ignores_missing_files_excluded_by_patterns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = {"model.pt": weights.torch()}
    fill(root, {**without(weights.TORCH, *weights.TORCH_SHARDS), **torch})
    assert len(script.faults(root)) == 2
    monkeypatch.setenv("STORAGE_IGNORE_PATTERNS", "*.bin")
    assert script.faults(root) == {}


NO_INDEX = "is no index of files in its directory"
INDEX_NAMES = (
    ("absolute", "/etc/passwd"),
    ("above", "../model.safetensors"),
    ("above-further-in", "sub/../../model.safetensors"),
)


@pytest.mark.parametrize("name", [name for _, name in INDEX_NAMES], ids=[id_ for id_, _ in INDEX_NAMES])
def test_an_index_that_points_outside_is_not_followed(root: Path, name: str) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors.index.json": weights.index(name, "model.safetensors")})
    fill(root, {"../model.safetensors": weights.safetensors()})
    assert script.faults(root) == {root / "model.safetensors.index.json": NO_INDEX}


DEEP = b"[" * 100_000
INDEXES = (
    ("text", b"{"),
    ("list", b"[]"),
    ("list-of-something", b"[1]"),
    ("no-map", b"{}"),
    ("map-is-a-list", b'{"weight_map": []}'),
    ("map-is-empty", b'{"weight_map": {}}'),
    ("number", b'{"weight_map": {"w": 1}}'),
    ("nested", b'{"weight_map": ' + DEEP),
    ("not-utf8", b'{"weight_map": {"w": "\xff"}}'),
)


@pytest.mark.parametrize("data", [data for _, data in INDEXES], ids=[id_ for id_, _ in INDEXES])
def test_an_index_must_be_readable(root: Path, data: bytes) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors.index.json": data})
    assert script.faults(root) == {root / "model.safetensors.index.json": NO_INDEX}


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", ".", "sub/absent"])
def test_tolerates_invalid_file_names_in_index(root: Path, name: str) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors.index.json": weights.index(name)})
    assert [*script.faults(root).values()] == ["is missing, model.safetensors.index.json promises it"]


@dataclass(frozen=True)
class File:
    id: str
    reason: str
    data: bytes
    want: str


def headed(header: bytes, data: bytes = b"") -> bytes:
    return long(len(header)) + header + data


def offsets(value: str, data: bytes = b"") -> bytes:
    return headed(f'{{"w": {{"dtype": "U8", "shape": [1], "data_offsets": {value}}}}}'.encode(), data)


UNREADABLE, LONGER = "has no readable header", "is longer than its header says"
SAFETENSORS = (
    File("whole", "the last offset is where the file ends", offsets("[0, 3]", b"abc"), ""),
    File("no-tensors", "metadata alone is allowed", headed(b'{"__metadata__": {"format": "pt"}}'), ""),
    File("padded", "writers align the data with spaces", headed(b"{}      "), ""),
    File("no-length", "a header's length has 8 bytes", b"\0" * 7, "is truncated"),
    File("empty-tensor", "a tensor may have no elements", offsets("[0, 0]"), ""),
    File("no-header", "nor is there a header in no bytes", long(0), UNREADABLE),
    File("cut-in-a-short-header", "four of ten bytes", long(10) + b"{}  ", "is truncated"),
    File("cut", "one byte of the data is missing", offsets("[0, 3]", b"ab"), "is truncated"),
    File("longer", "two writers appended; the library refuses it", offsets("[0, 3]", b"abcd"), LONGER),
    File("nan", "an offset is a number", offsets("[0, NaN]"), UNREADABLE),
    File("infinite", "of bytes", offsets("[0, Infinity]"), UNREADABLE),
    File("text", "and no text", offsets('["0", "3"]'), UNREADABLE),
    File("letters", "however short", offsets('"03"'), UNREADABLE),
    File("fraction", "and whole", offsets("[0, 3.0]", b"abc"), UNREADABLE),
    File("truth", "JSON's true is no 1", offsets("[false, true]", b"a"), UNREADABLE),
    File("negative", "and not below zero", offsets("[-3, 0]"), UNREADABLE),
    File("backwards", "a tensor ends behind its begin", offsets("[3, 0]", b"abc"), UNREADABLE),
    File("one-offset", "there are two", offsets("[3]", b"abc"), UNREADABLE),
    File("three-offsets", "and no more", offsets("[0, 1, 3]", b"abc"), UNREADABLE),
    File("null", "the end is not known", offsets("null"), UNREADABLE),
    File("no-offsets", "some other JSON", headed(b'{"w": []}'), UNREADABLE),
    File("list", "a header is an object", headed(b"[]"), UNREADABLE),
    File("nested", "deeper than any parser goes", headed(DEEP), UNREADABLE),
    File("digits", "longer than Python turns into a number", offsets("[0, " + "9" * 5000 + "]"), UNREADABLE),
)


@pytest.mark.parametrize("case", SAFETENSORS, ids=lambda c: c.id)
def test_safetensors(tmp_path: Path, case: File) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(case.data)
    assert script.damage(path) == case.want, case.reason


def test_a_header_beyond_the_formats_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write(long(100_000_001))
        file.truncate(200_000_000)
    assert script.damage(path) == UNREADABLE


@pytest.mark.parametrize(("limit", "want"), [(8, ""), (7, UNREADABLE)])
def test_a_header_as_long_as_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, want: str
) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(headed(b"{}      "))
    monkeypatch.setattr(script, "HEADER", limit)
    assert script.damage(path) == want


def tensor(kind: int, offset: int, *shape: int, name: bytes = b"w") -> bytes:
    sizes = b"".join(long(size) for size in shape)
    return text(name) + word(len(shape)) + sizes + word(kind) + long(offset)


def pair(kind: int, value: bytes, key: bytes = b"general.x") -> bytes:
    return text(key) + word(kind) + value


PAIRS = (
    pair(0, b"1"), pair(1, b"1"), pair(2, b"12"), pair(3, b"12"), pair(4, word(1)), pair(5, word(1)), pair(6, word(1)),
    pair(7, b"1"), pair(8, text(b"llama")), pair(10, long(1)), pair(11, long(1)), pair(12, long(1)),
    pair(9, word(4) + long(3) + word(1) * 3), pair(9, word(8) + long(2) + text(b"a") + text(b"")),
    pair(9, word(9) + long(1) + word(0) + long(2) + b"12"),
)  # fmt: skip
ALIGNED = pair(4, word(64), b"general.alignment")
WHOLE = weights.gguf()
HEADER = len(WHOLE) - 100

GGUF = (
    File("whole", "a tensor of 100 bytes", WHOLE, ""),
    File("version-2", "the same layout", weights.gguf(version=2), ""),
    File("every-kind-of-value", "the specification has 13", weights.gguf(100, *PAIRS), ""),
    File("aligned", "the header says where its data begins", weights.gguf(100, ALIGNED, alignment=64), ""),
    File("no-tensors", "the first part of a split may have none", b"GGUF" + word(3) + long(0) * 2, ""),
    File("f16", "two bytes each", weights.gguf(200, tensor=tensor(1, 0, 10, 10)), ""),
    File("q4-k", "256 weights in 144 bytes", weights.gguf(288, tensor=tensor(12, 0, 256, 2)), ""),
    File("new-type", "what a later type takes is not known", weights.gguf(33, tensor=tensor(99, 32, 256)), ""),
    File("no-magic", "some other file", b"GG", UNREADABLE),
    File("magic-alone", "cut behind the magic", b"GGUF", UNREADABLE),
    File("version-1", "its counts are shorter, and no engine reads it", weights.gguf(version=1), UNREADABLE),
    File("big-endian", "for other machines", b"GGUF" + (3).to_bytes(4, "big") + long(0) * 2, UNREADABLE),
    File("cut-in-its-keys", "a value without its end", weights.gguf(0, pair(8, long(9) + b"llama")), UNREADABLE),
    File("cut-in-its-tensors", "a name without its end", WHOLE[: HEADER - 40], UNREADABLE),
    File("cut-before-its-data", "the offset points behind the end", WHOLE[:HEADER], "is truncated"),
    File("cut-in-its-data", "one byte is missing", WHOLE[:-1], "is truncated"),
    File("cut-in-an-aligned", "32 bytes are missing", weights.gguf(100, ALIGNED), "is truncated"),
    File("f16-cut", "99 numbers", weights.gguf(199, tensor=tensor(1, 0, 10, 10)), "is truncated"),
    File("q4-k-cut", "a block and a half", weights.gguf(216, tensor=tensor(12, 0, 256, 2)), "is truncated"),
    File("new-type-cut", "it begins where the file ends", weights.gguf(32, tensor=tensor(99, 32, 256)), "is truncated"),
    File("unknown-value", "no such type", weights.gguf(100, pair(13, b"1")), UNREADABLE),
    File("unknown-items", "nor in arrays", weights.gguf(100, pair(9, word(13) + long(2) + b"12")), UNREADABLE),
    File("endless-keys", "more than the file holds", WHOLE[:16] + b"\xff" * 8 + bytes(100), UNREADABLE),
    File("endless-text", "longer than any header", weights.gguf(100, pair(8, b"\xff" * 8)), UNREADABLE),
    File("endless-array", "8 bytes times 2^64", weights.gguf(100, pair(9, word(10) + b"\xff" * 8)), UNREADABLE),
    File("nested", "arrays of arrays", weights.gguf(1, pair(9, (word(9) + long(1)) * 100_000)), UNREADABLE),
    File("q4-k-one-short", "of 288 bytes", weights.gguf(287, tensor=tensor(12, 0, 256, 2)), "is truncated"),
    File("four-dimensions", "are allowed", weights.gguf(16, tensor=tensor(24, 0, 2, 2, 2, 2)), ""),
    File("dimensions", "there are four at most", weights.gguf(100, tensor=tensor(0, 0, *[1] * 5)), UNREADABLE),
    File("alignment-0", "nothing lies on it", weights.gguf(100, pair(4, word(0), b"general.alignment")), UNREADABLE),
)  # fmt: skip


def test_gguf_of_two_tensors(tmp_path: Path) -> None:
    """32 bytes, then 16 of the last: 48 of data behind a header of 24 + 33 + 33 bytes, which is filled up to 96."""
    header = b"GGUF" + word(3) + long(2) + long(0) + tensor(24, 0, 32) + tensor(24, 32, 16)
    path = tmp_path / "x.gguf"
    for size, want in ((48, ""), (47, "is truncated")):
        path.write_bytes(header.ljust(96, b"\0") + b"x" * size)
        assert script.damage(path) == want


@pytest.mark.parametrize("case", GGUF, ids=lambda c: c.id)
def test_gguf(tmp_path: Path, case: File) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(case.data)
    assert script.damage(path) == case.want, case.reason


def test_gives_up_on_endless_gguf_header(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + word(3) + long(0) + long(1) + pair(8, long(150_000_000)))
        file.truncate(200_000_000)
    assert script.damage(path) == UNREADABLE
