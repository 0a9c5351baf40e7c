"""Files of a Hugging Face repository: which are fetched, which of them an engine loads, and which are other copies.

All files that are fetched need disk; an engine loads the weights alone. From a folder, the engine loads safetensors
files, else torch files; of GGUF files, it loads the named file. Repositories often hold the same weights in other
formats, in the layout of their authors (`consolidated*`, `original/*`) or in several quantisations.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from function.domain.model import GGUF, PART, HuggingFaceSource

DESCRIPTIONS = ("config.json", "params.json", "model_index.json")  # engines open one of them first
TOKENIZERS = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tekken.json", "tiktoken.model", "vocab.json",
    "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "tok.model",
)  # fmt: skip
CONSOLIDATED = "consolidated*"  # the layout that vLLM's --load-format=mistral reads
_LOADED = (".safetensors", ".bin", ".pt", ".pth")  # the first kind that exists
_OTHERS = (GGUF, ".ckpt", ".h5", ".msgpack", ".onnx", ".onnx_data", ".ot", ".tflite", ".npz")
_PIPELINE = "model_index.json"
_MODULE = re.compile(r"[0-9]+_[A-Za-z]+")  # a folder of sentence-transformers, which belongs to the model
_WORTH, _PROPOSALS = 100, 8  # a proposal saves at least 1/_WORTH of the download; at most _PROPOSALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that a source fetches, in bytes."""

    disk: int  # of all of them
    weights: int  # of the files that an engine loads; of the largest GGUF file, if none is named
    copies: Mapping[str, int] = field(default_factory=dict)  # patterns that leave out weights no engine loads
    variants: Mapping[str, int] = field(default_factory=dict)  # GGUF files of which an engine opens one, by first part


def is_fetched(path: str, source: HuggingFaceSource) -> bool:
    """Tells whether the source's patterns let a file through; for Hugging Face's client a folder is all files in it."""
    allow, ignore = ([f"{p}*" if p.endswith("/") else p for p in ps] for ps in (source.allow or ("*",), source.ignore))
    return any(fnmatchcase(path, p) for p in allow) and not any(fnmatchcase(path, p) for p in ignore)


def lacks_all(names: Iterable[str], source: HuggingFaceSource) -> bool:
    """Tells whether the source's patterns let none of these files of the model's folder through."""
    return not any(is_fetched(f"{_find_base(source)}{name}", source) for name in names)


def split_files(sizes: Mapping[str, int], source: HuggingFaceSource, *, consolidated: bool = False) -> Files:
    """Splits the files that a source fetches into what an engine loads and other copies.

    `consolidated`: the engine reads the layout of --load-format=mistral.
    """
    base = _find_base(source)
    disk = sum(sizes.values())
    own = {path: size for path, size in sizes.items() if path.startswith(base)}
    loaded = _find_loaded(own, source, consolidated=consolidated)
    variants: dict[str, int] = {}
    if not loaded:
        for path, size in sorted(own.items()):
            first = PART.sub(r"-00001-of-\2.gguf", path)
            if path.endswith(GGUF):
                variants[first] = variants.get(first, 0) + size
    if len(variants) > 1:
        return Files(disk=disk, weights=max(variants.values()), variants=variants)
    weights = sum(sizes[path] for path in loaded) or sum(variants.values()) or disk
    copies: dict[str, int] = {}
    for path, size in sorted(own.items() if loaded else ()):
        if path not in loaded and (pattern := _find_pattern(path, base)):
            chosen = path if any(fnmatchcase(name, pattern) for name in loaded) else pattern
            copies[chosen] = copies.get(chosen, 0) + size
    largest = sorted(copies.items(), key=lambda item: -item[1])[:_PROPOSALS]
    return Files(disk=disk, weights=weights, copies={p: n for p, n in largest if n * _WORTH >= disk})


def _find_base(source: HuggingFaceSource) -> str:
    return f"{source.path}/" if source.path else ""


def _find_loaded(sizes: Mapping[str, int], source: HuggingFaceSource, *, consolidated: bool) -> set[str]:
    """Finds the files that an engine loads; empty where they are GGUF files, or not known."""
    base = _find_base(source)
    if source.file:
        all_parts = PART.sub(r"-*-of-\2.gguf", source.file)
        return {path for path in sizes if fnmatchcase(path, all_parts)}
    top = [path for path in sizes if "/" not in path.removeprefix(base)]
    is_pipeline = f"{base}{_PIPELINE}" in top
    candidates = [*sizes] if is_pipeline else top
    in_layout = {path for path in candidates if fnmatchcase(path, f"{base}{CONSOLIDATED}")}
    for suffix in _LOADED:
        paths = {path for path in candidates if path.endswith(suffix)}
        others = paths - in_layout
        if paths:
            return paths & in_layout if (consolidated and paths & in_layout) or not others else others
    return set()


def _find_pattern(path: str, base: str) -> str:
    """Finds the pattern that leaves out a file of weights, and files like it; empty for other files."""
    folder, slash, _ = path.removeprefix(base).partition("/")
    if not path.endswith((*_LOADED, *_OTHERS)) or (slash and _MODULE.fullmatch(folder)):
        return ""
    if slash:
        return f"{base}{folder}/*"
    if fnmatchcase(folder, CONSOLIDATED):
        return f"{base}{CONSOLIDATED}"
    stem, dot, suffix = folder.rpartition(".")
    if suffix == "safetensors":  # of the layout that is not read
        return f"{base}{re.sub('[0-9]+-of-[0-9]+$', '*', stem)}{dot}{suffix}"
    return f"{base}*{dot}{suffix}"
