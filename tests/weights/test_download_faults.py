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
    Files("sharded", "all shards of the index exist", weights.SHARDED, {}),
    Files("one-file", "the only file of the weights exists", weights.SINGLE, {}),
    Files("torch", "all torch shards of the index exist", weights.TORCH, {}),
    Files("gguf", "a GGUF file needs no config.json", weights.QUANTISED, {}, "model-q4.gguf"),
    Files("gguf-of-several", "engines do not open a folder of GGUF files", weights.QUANTISED, {"": NO_MODEL}),
    Files("gguf-missing",
        "the GGUF file that the engine opens must exist",
        weights.QUANTISED, {"q8/m.gguf": OPENS}, "q8/m.gguf"),
    Files("gguf-series", "all parts of the GGUF series exist", SERIES, {}, "m-00001-of-00002.gguf"),
    Files("gguf-beside-a-damaged-one",
        "a damaged GGUF file that the engine does not open is no fault",
        {**SERIES, "a.gguf": b"x"}, {}, "m-00001-of-00002.gguf"),
    Files("adapter", "no engine starts from an adapter alone", weights.ADAPTER, {"": NO_MODEL}),
    Files("adapter-beside-a-model", "an adapter beside a model is no fault", {**weights.ADAPTER, **weights.SINGLE}, {}),
    Files("mistral",
        "params.json describes a Mistral model",
        {"params.json": b"{}", "consolidated.00.pth": weights.torch()}, {}),
    Files("old-torch",
        "old torch weights are pickles and no archives",
        {"config.json": b"{}", "pytorch_model.bin": b"\x80\x02}q\x00."}, {}),
    Files(
        "foreign-records",
        "the files of the hub's client and of the script are not checked",
        {**weights.SINGLE, ".cache/huggingface/x.safetensors": b"", ".modelplane/failures-x": b"."},
        {},
    ),
    Files("empty", "an empty directory holds no model", {}, {"": NO_MODEL}),
    Files("description-only", "a config.json alone is no model", {"config.json": b"{}"}, {"": NO_MODEL}),
    Files("torch-alone",
        "weights without a config.json are no model",
        {"pytorch_model.bin": weights.torch()}, {"": NO_MODEL}),
    Files(
        "partial-files",
        "partial files of the hub's client are no fault, because another Job may be writing them",
        {**weights.SINGLE, ".cache/huggingface/download/x.1.incomplete": b"x"},
        {},
    ),
    Files(
        "shard-missing",
        "a shard that the index names must exist",
        without(weights.SHARDED, weights.SECOND),
        {weights.SECOND: "is missing, model.safetensors.index.json promises it"},
    ),
    Files(
        "torch-shard-missing",
        "a shard that an index of torch weights names must exist",
        without(weights.TORCH, weights.TORCH_SHARDS[0]),
        {weights.TORCH_SHARDS[0]: f"is missing, {weights.TORCH_INDEX} promises it"},
    ),
    Files(
        "torch-shard-missing-beside-safetensors",
        "engines that find safetensors read neither the torch index nor its shards",
        without({**weights.TORCH, **weights.SINGLE}, weights.TORCH_SHARDS[0]),
        {},
    ),
    Files(
        "series-member-missing",
        "without an index, the names of a series tell how many parts must exist",
        without(SERIES, "m-00002-of-00002.gguf"),
        {"m-00002-of-00002.gguf": "is missing, m-00001-of-00002.gguf promises it"},
        "m-00001-of-00002.gguf",
    ),
    Files(
        "index-unreadable",
        "an index that is no JSON is a fault",
        {**weights.SINGLE, "model.safetensors.index.json": b"{"},
        {"model.safetensors.index.json": "is no index of files in its directory"},
    ),
    Files(
        "shard-empty",
        "a shard is empty if its node was lost before it wrote",
        {**weights.SHARDED, weights.SECOND: b""},
        {weights.SECOND: "is empty"},
    ),
    Files(
        "shard-cut-in-its-data",
        "a shard that is shorter than its header says is truncated",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:-1]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-cut-in-its-header",
        "a header that is shorter than its first 8 bytes say is truncated",
        {**weights.SHARDED, weights.SECOND: weights.SHARDED[weights.SECOND][:20]},
        {weights.SECOND: "is truncated"},
    ),
    Files(
        "shard-of-zeros",
        "a file is all zeros if its node was lost before it flushed",
        {**weights.SINGLE, "model.safetensors": bytes(100)},
        {"model.safetensors": "has no readable header"},
    ),
    Files(
        "torch-cut",
        "a torch archive without the directory at its end is truncated",
        {"config.json": b"{}", "pytorch_model.bin": weights.torch(5000)[:-30]},
        {"pytorch_model.bin": "is truncated"},
    ),
    Files(
        "other-weights-empty",
        "weights of other formats must not be empty",
        {**weights.TORCH, "model.onnx": b""},
        {"model.onnx": "is empty"},
    ),
    Files("other-weights",
        "weights of other formats are only checked for being empty",
        {**weights.TORCH, "model.onnx": b"x"}, {}),
    Files("other-weights-alone",
        "no engine loads ONNX weights alone",
        {"config.json": b"{}", "model.onnx": b"x"}, {"": NO_MODEL}),
    Files(
        "lightning-cut",
        "a .ckpt file without the directory at its end is truncated",
        {"config.json": b"{}", "model.ckpt": weights.torch(5000)[:-30]},
        {"model.ckpt": "is truncated"},
    ),
    Files("lightning-alone",
        "a .ckpt file without a config.json is no model",
        {"model.ckpt": weights.torch()}, {"": NO_MODEL}),
    Files(
        "empty-beside-safetensors",
        "engines that find safetensors open no weights of other formats",
        {**weights.SINGLE, **dict.fromkeys((*IGNORED, *(f"original/{name}" for name in IGNORED)), b"")},
        {},
    ),
    Files(
        "empty-above-safetensors",
        "safetensors in a subfolder do not replace the weights above, because an engine reads one directory",
        {"config.json": b"{}", "pytorch_model.bin": b"", "other/model.safetensors": weights.safetensors()},
        {"pytorch_model.bin": "is empty"},
    ),
    Files(
        "description-cut",
        "an empty config.json is a fault, because engines read it first",
        {**weights.SINGLE, "config.json": b""},
        {"config.json": "is no JSON object"},
    ),
    Files(
        "description-list",
        "a config.json must be a JSON object",
        {**weights.SINGLE, "config.json": b"[1]"},
        {"config.json": "is no JSON object"},
    ),
    Files("one-file-alone",
        "no engine starts from weights without a config.json",
        without(weights.SINGLE, "config.json"), {"": NO_MODEL}),
    Files("in-a-folder",
        "a model in a folder is no model if the engine opens the root",
        in_folder("fp8", weights.SINGLE), {"": NO_MODEL}),
    Files("in-the-folder-that-is-opened",
        "a model in a folder is complete if the engine opens this folder",
        in_folder("fp8", weights.SHARDED), {}, "fp8"),
    Files("described-above",
        "a config.json above the folder of the weights does not describe them",
        {**in_folder("fp8", without(weights.SINGLE, "config.json")),
        "config.json": b"{}"}, {"": NO_MODEL}),
    Files("folder-missing",
        "the folder that the engine opens must hold the model",
        in_folder("a", weights.SINGLE), {"fp8": NO_MODEL},
        "fp8"),
    Files(
        "shard-missing-in-a-folder",
        "a shard that an index in the opened folder names must exist",
        without(in_folder("fp8", weights.SHARDED), f"fp8/{weights.SECOND}"),
        {f"fp8/{weights.SECOND}": "is missing, model.safetensors.index.json promises it"},
        "fp8",
    ),
    Files("pipeline", "a pipeline has several models, each in a folder", {"model_index.json": b"{}",
        **in_folder("transformer", weights.SINGLE)}, {}),
    Files("stray-shard", "a shard that a complete index does not name is no fault", {**weights.SHARDED,
        "model-00001-of-00003.safetensors": weights.safetensors()}, {}),
    Files("stray-checkpoint",
        "incomplete weights in another folder are no fault",
        {**weights.SHARDED, **without(in_folder("checkpoint-500",
        weights.SHARDED), f"checkpoint-500/{weights.SECOND}")}, {}),
    Files("stray-empty", "an empty file that no engine opens is no fault", {**weights.TORCH, "aux/state.bin": b""}, {}),
    Files("stray-index", "an index without its files is no fault beside a complete index", {**weights.SHARDED,
        "consolidated.safetensors.index.json": weights.index("consolidated-1.safetensors")}, {}),
    Files("shard-missing-beside-another-index", "engines use the index named model, so that its shards must exist", {
        **without(weights.SHARDED, weights.SECOND), **CONSOLIDATED},
        {weights.SECOND: "is missing, model.safetensors.index.json promises it"}),
    Files("index-cut-beside-another", "engines read the index named model first, so that it must be readable", {
        **weights.SHARDED, "model.safetensors.index.json": b'{"weight_map": {', **CONSOLIDATED},
        {"model.safetensors.index.json": "is no index of files in its directory"}),
    Files("stray-shard-beside-an-incomplete-index", "without a complete index, the names of all series count as well", {
        **without(weights.SHARDED, weights.SECOND), "model-00001-of-00003.safetensors": weights.safetensors()},
        {weights.SECOND: "is missing, model.safetensors.index.json promises it",
         "model-00002-of-00003.safetensors": "is missing, model-00001-of-00003.safetensors promises it",
         "model-00003-of-00003.safetensors": "is missing, model-00001-of-00003.safetensors promises it"}),
    Files(
        "sharded-without-description",
        "no engine loads shards with an index, but without a config.json",
        without(weights.SHARDED, "config.json"),
        {"": NO_MODEL},
    ),
    Files(
        "series-without-description",
        "no engine loads shards without index and config.json",
        {name: weights.SHARDED[name] for name in (weights.FIRST, weights.SECOND)},
        {"": NO_MODEL},
    ),
    Files(
        "index-of-one-without-description",
        "no engine loads the shards of an index without a config.json, whatever their names are",
        {"model.safetensors.index.json": weights.index("a.safetensors"), "a.safetensors": weights.safetensors()},
        {"": NO_MODEL},
    ),
    Files(
        "gguf-beside-undescribed-shards",
        "a GGUF file needs no config.json, even beside shards that lack it",
        {**without(weights.SHARDED, "config.json"), **weights.QUANTISED},
        {},
        "model-q4.gguf",
    ),
    Files(
        "sharded-with-params",
        "params.json describes shards as config.json does",
        {**without(weights.SHARDED, "config.json"), "params.json": b"{}"},
        {},
    ),
    Files(
        "own-incomplete",
        "a file of the repository may end in .incomplete; the client keeps its partial files elsewhere",
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
    File("whole", "the file ends at the last offset of its tensors", offsets("[0, 3]", b"abc"), ""),
    File("no-tensors", "a file may have metadata and no tensors", headed(b'{"__metadata__": {"format": "pt"}}'), ""),
    File("padded", "spaces may pad the header", headed(b"{}      "), ""),
    File("no-length", "a file of 7 bytes lacks a part of the header's length", b"\0" * 7, "is truncated"),
    File("empty-tensor", "a tensor may have no elements", offsets("[0, 0]"), ""),
    File("no-header", "a header of 0 bytes is no JSON", long(0), UNREADABLE),
    File(
        "cut-in-a-short-header",
        "a header that has four of its ten bytes is truncated",
        long(10) + b"{}  ",
        "is truncated",
    ),
    File("cut", "a file that lacks the last byte of its data is truncated", offsets("[0, 3]", b"ab"), "is truncated"),
    File(
        "longer", "the library refuses a file to which another writer has appended", offsets("[0, 3]", b"abcd"), LONGER
    ),
    File("nan", "NaN is no offset", offsets("[0, NaN]"), UNREADABLE),
    File("infinite", "infinity is no offset", offsets("[0, Infinity]"), UNREADABLE),
    File("text", "a text is no offset", offsets('["0", "3"]'), UNREADABLE),
    File("letters", "a text of two characters is no pair of offsets", offsets('"03"'), UNREADABLE),
    File("fraction", "a fraction is no offset", offsets("[0, 3.0]", b"abc"), UNREADABLE),
    File("truth", "a boolean is no offset", offsets("[false, true]", b"a"), UNREADABLE),
    File("negative", "a negative number is no offset", offsets("[-3, 0]"), UNREADABLE),
    File("backwards", "a tensor cannot end before it begins", offsets("[3, 0]", b"abc"), UNREADABLE),
    File("one-offset", "a tensor has two offsets, not one", offsets("[3]", b"abc"), UNREADABLE),
    File("three-offsets", "a tensor has two offsets, not three", offsets("[0, 1, 3]", b"abc"), UNREADABLE),
    File("null", "the offsets of a tensor must not be null", offsets("null"), UNREADABLE),
    File("no-offsets", "the description of a tensor must be a JSON object", headed(b'{"w": []}'), UNREADABLE),
    File("list", "the header must be a JSON object", headed(b"[]"), UNREADABLE),
    File("nested", "a header that is nested too deeply for the parser is unreadable", headed(DEEP), UNREADABLE),
    File(
        "digits",
        "an offset of 5000 digits is longer than Python can convert",
        offsets("[0, " + "9" * 5000 + "]"),
        UNREADABLE,
    ),
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
    File("whole", "a complete file with a tensor of 100 bytes has no fault", WHOLE, ""),
    File("version-2", "version 2 has the same layout as version 3", weights.gguf(version=2), ""),
    File("every-kind-of-value", "all 13 types of values are read", weights.gguf(100, *PAIRS), ""),
    File("aligned",
        "the alignment in the header tells where the data begins",
        weights.gguf(100, ALIGNED, alignment=64), ""),
    File("no-tensors", "the first part of a split model may have no tensors", b"GGUF" + word(3) + long(0) * 2, ""),
    File("f16", "an f16 value takes two bytes", weights.gguf(200, tensor=tensor(1, 0, 10, 10)), ""),
    File("q4-k", "a q4_K block of 256 weights takes 144 bytes", weights.gguf(288, tensor=tensor(12, 0, 256, 2)), ""),
    File("new-type",
        "the size of a tensor of an unknown type is not checked",
        weights.gguf(33, tensor=tensor(99, 32, 256)), ""),
    File("no-magic", "a file without the magic is no GGUF file", b"GG", UNREADABLE),
    File("magic-alone", "a file that ends after the magic has no header", b"GGUF", UNREADABLE),
    File("version-1", "version 1 has shorter counts, and no engine reads it", weights.gguf(version=1), UNREADABLE),
    File("big-endian", "a big-endian file is unreadable", b"GGUF" + (3).to_bytes(4, "big") + long(0) * 2, UNREADABLE),
    File("cut-in-its-keys",
        "a header that ends within a value is unreadable",
        weights.gguf(0, pair(8, long(9) + b"llama")), UNREADABLE),
    File("cut-in-its-tensors",
        "a header that ends within the name of a tensor is unreadable",
        WHOLE[: HEADER - 40], UNREADABLE),
    File("cut-before-its-data", "a file without its data is truncated", WHOLE[:HEADER], "is truncated"),
    File("cut-in-its-data", "a file that lacks the last byte of its data is truncated", WHOLE[:-1], "is truncated"),
    File("cut-in-an-aligned",
        "a file whose data begins before the declared alignment is truncated",
        weights.gguf(100, ALIGNED), "is truncated"),
    File("f16-cut",
        "99.5 of 100 f16 values are truncated",
        weights.gguf(199, tensor=tensor(1, 0, 10, 10)), "is truncated"),
    File("q4-k-cut",
        "one and a half of two q4_K blocks are truncated",
        weights.gguf(216, tensor=tensor(12, 0, 256, 2)), "is truncated"),
    File("new-type-cut",
        "a tensor of an unknown type must begin before the end of the file",
        weights.gguf(32, tensor=tensor(99, 32, 256)), "is truncated"),
    File("unknown-value",
        "a value of an unknown type makes the header unreadable",
        weights.gguf(100, pair(13, b"1")), UNREADABLE),
    File("unknown-items",
        "an array of an unknown type makes the header unreadable",
        weights.gguf(100, pair(9, word(13) + long(2) + b"12")), UNREADABLE),
    File("endless-keys",
        "a header with more keys than the file can hold is unreadable",
        WHOLE[:16] + b"\xff" * 8 + bytes(100), UNREADABLE),
    File("endless-text",
        "a text that is longer than any header is unreadable",
        weights.gguf(100, pair(8, b"\xff" * 8)), UNREADABLE),
    File("endless-array",
        "an array that is longer than any header is unreadable",
        weights.gguf(100, pair(9, word(10) + b"\xff" * 8)), UNREADABLE),
    File("nested",
        "arrays that are nested too deeply are unreadable",
        weights.gguf(1, pair(9, (word(9) + long(1)) * 100_000)), UNREADABLE),
    File("q4-k-one-short",
        "a file that lacks one of the 288 bytes of its blocks is truncated",
        weights.gguf(287, tensor=tensor(12, 0, 256, 2)), "is truncated"),
    File("four-dimensions",
        "a tensor may have four dimensions",
        weights.gguf(16, tensor=tensor(24, 0, 2, 2, 2, 2)), ""),
    File("dimensions",
        "a tensor has at most four dimensions",
        weights.gguf(100, tensor=tensor(0, 0, *[1] * 5)), UNREADABLE),
    File("alignment-0",
        "an alignment of 0 is invalid",
        weights.gguf(100, pair(4, word(0), b"general.alignment")), UNREADABLE),
)  # fmt: skip


def test_gguf_of_two_tensors(tmp_path: Path) -> None:
    """The tensors have 32 and 16 bytes of data, after a header of 24 + 33 + 33 bytes, which is padded to 96."""
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
