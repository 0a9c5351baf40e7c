"""Download a LoRA adapter, and prove that engines can load it beside its model.

The image's own python runs this file, hence the standard library only. The download is download.py's, with all of its
exit codes. What is proven afterwards is what engines find out only when they start, where one bad adapter ends the
model too, and what they never find out: a tensor of another model, or a scale that does not belong to the tensors.
Names of base models prove nothing, because many adapters name a quantised copy of the model that they are for. So the
tensors are compared with those of the model, whose weights are on the same claim, as far as both can be read.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from pathlib import Path
from subprocess import Popen
from typing import Any


class AdapterExit(IntEnum):
    """Exit codes that no retry cures, besides those of download.py and prepare.py."""

    ADAPTER_RANK_TOO_HIGH = 47
    ADAPTER_OF_OTHER_MODEL = 48
    ADAPTER_UNSUPPORTED = 49
    ADAPTER_UNDESCRIBED = 50


class RefusedError(Exception):
    """The adapter cannot be served, and why."""

    def __init__(self, cause: AdapterExit, why: str) -> None:
        super().__init__(why)
        self.cause = cause


MAX_RANK, BASE = "MODELPLANE_MAX_RANK", "MODELPLANE_ADAPTER_BASE"  # BASE: the folder of the model
FOLDER = "MODELPLANE_MODEL_PATH"  # of the adapter, below the directory of the download
MARKER = Path(".modelplane", "complete.json")  # of download.py
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
HEADER, SHARDS, NAMED, LINE, NAME, LARGEST = 100_000_000, 10_000, 5, 2000, 1000, 2**40
# Fields of the configuration that make it more than a plain LoRA, which engines ignore or refuse.
EXTRAS = (
    *("use_dora", "use_qalora", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication"),
    *("alora_invocation_tokens", "trainable_token_indices", "megatron_config", "eva_config", "corda_config"),
)
INITIALISED = re.compile(r"pissa|olora|loftq|corda", re.IGNORECASE)  # which changes the model's own weights, too
HALF = re.compile(r"lora_(?:embedding_)?([AB])")
# Bytes of a number by its type; only of a model, an unknown type is of no interest.
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
# Matrices outside of the layers, which may be tied to each other; their adapters are transposed, as those of GPT-2 are.
OUTSIDE = {"lm_head", "embed_tokens", "wte", "wpe", "embed_in", "embed_out", "shared", "tok_embeddings", "output"}
TRANSPOSED = ("c_attn", "c_proj", "c_fc")
UNREADABLE = (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError)
Shape = tuple[int, ...]


@dataclass
class Modules:
    """The modules of a model, by their whole names and by what follows the prefix of their layers."""

    exact: dict[str, set[Shape]] = field(default_factory=dict)
    short: dict[str, set[Shape]] = field(default_factory=dict)

    def add(self, name: str, shape: Shape | None) -> None:
        """Add a module; without a shape where it is quantised."""
        for known, key in ((self.exact, name), (self.short, shorten_path(name))):
            shapes = known.setdefault(key, set())
            if shape:
                shapes.add(shape)

    def find(self, name: str) -> set[Shape] | None:
        """Return the shapes of a module; None if the model does not have it."""
        exact = self.exact.get(name)
        return self.short.get(shorten_path(name)) if exact is None else exact

    @property
    def has_layers(self) -> bool:
        """Whether any module is in a numbered layer: otherwise the files are not those of the model's layers."""
        return any(is_in_layer(name) for name in self.short)

    @property
    def has_single_experts(self) -> bool:
        """Whether experts have tensors of their own."""
        return any(".experts.0." in name for name in self.short)


def check(root: Path, base: Path, max_rank: int) -> None:
    """Check the adapter in this folder.

    Raises:
        RefusedError: Engines cannot serve it.
    """
    rank = check_config(read_json(root / CONFIG), max_rank)
    modules = read_modules(root / WEIGHTS, rank)
    known = read_model(base)
    faults = [*find_strangers(modules, known)] if known.has_layers else []
    if faults:
        why = f"{len(faults)} of {len(modules)} modules do not fit the model: {'; '.join(faults[:NAMED])}"
        raise RefusedError(AdapterExit.ADAPTER_OF_OTHER_MODEL, why)
    compared = "which fit the model" if known.has_layers else "and the model could not be read"
    say(f"rank {rank}, {len(modules)} modules, {compared}")


def check_config(config: dict[str, Any], max_rank: int) -> int:
    """Return the rank that the configuration states."""
    rank, alpha, targets = config.get("r"), config.get("lora_alpha"), config.get("target_modules")
    kind = config.get("peft_type")
    if kind != "LORA":
        raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, f"its peft_type is {quote(kind)}, not LORA")
    is_scale = isinstance(alpha, int | float) and alpha is not True and 0 < alpha < LARGEST
    names = targets if isinstance(targets, list) else [targets]
    is_target = bool(names) and all(isinstance(name, str) and name for name in names)
    if type(rank) is not int or rank < 1 or not is_scale or not is_target:
        why = f"r, lora_alpha or target_modules is missing or no value: {quote([rank, alpha, targets])}"
        raise RefusedError(AdapterExit.ADAPTER_UNDESCRIBED, why)
    if rank > max_rank:
        raise RefusedError(AdapterExit.ADAPTER_RANK_TOO_HIGH, f"its rank is {rank}, and maxRank is {max_rank}")
    found = [name for name in EXTRAS if config.get(name)]
    found += ["bias"] if config.get("bias", "none") not in ("none", None) else []
    found += ["init_lora_weights"] if INITIALISED.search(str(config.get("init_lora_weights"))) else []
    if found:
        raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, f"its configuration has {', '.join(found)}")
    return rank


def read_modules(path: Path, rank: int) -> dict[str, Shape]:
    """Return the modules that the adapter changes, each with the shape of the matrix that it adds."""
    halves: dict[str, dict[str, Shape]] = {}
    end = 0
    for tensor in sorted(read_tensors(path), key=lambda tensor: tensor.begin):
        module, half = parse_name(tensor.name)
        if not half or half in halves.setdefault(module, {}):
            why = f"it has a tensor {quote(tensor.name)}, which is none of LoRA, or there twice"
            raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, why)
        size = BYTES.get(tensor.kind, 0) * prod(tensor.shape)
        if tensor.begin != end or tensor.end != end + size or not size:
            raise RefusedError(
                AdapterExit.ADAPTER_UNSUPPORTED, f"{quote(tensor.name)} has no numbers, or not as many as said"
            )
        end = tensor.end
        halves[module][half] = tensor.shape
    modules: dict[str, Shape] = {}
    for name, pair in halves.items():
        inner, outer = pair.get("A", ()), pair.get("B", ())
        if len(inner) != 2 or len(outer) != 2 or inner[0] != rank or outer[1] != rank:
            why = f"{quote(name)} has the shapes {[*inner]} and {[*outer]}, not [{rank}, in] and [out, {rank}]"
            raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, why)
        modules[name] = (outer[0], inner[1])
    if not modules:
        raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, "it has no tensors")
    return modules


def parse_name(name: str) -> tuple[str, str]:
    """Return the module of a tensor, and which half of its matrix it is; empty if it is none."""
    parts = name.removeprefix("base_model.model.").removesuffix(".weight").split(".")
    for index in (-1, -2):  # an adapter may have a name of its own at the end
        match = HALF.fullmatch(parts[index]) if len(parts) > -index else None
        if match:
            return ".".join(parts[:index]), match[1]
    return "", ""


def find_strangers(modules: dict[str, Shape], known: Modules) -> Iterator[str]:
    """Yield the modules that the model does not have, or not in this shape.

    A matrix outside of the layers may be tied to another, and experts may be merged.
    """
    for name, shape in sorted(modules.items()):
        shapes, last = known.find(name), name.rpartition(".")[2]
        if shapes is None:
            is_merged = ".experts." in name and is_in_layer(name) and not known.has_single_experts
            if not is_merged and not (last in OUTSIDE and not is_in_layer(name)):
                yield f"{quote(name)} is not in the model"
        elif shapes and not shapes & ({shape, shape[::-1]} if last in OUTSIDE or last in TRANSPOSED else {shape}):
            yield f"{quote(name)} is {[*shape]}, in the model {[*min(shapes)]}"


def read_model(base: Path) -> Modules:
    """Return the modules of a model.

    Nothing is known of a model whose files cannot be read, or that has the names of its vendor.
    """
    known = Modules()
    shards = [path for path in sorted(base.glob("*.safetensors")) if not path.name.startswith("consolidated")]
    for path in shards[:SHARDS]:
        try:
            tensors = read_tensors(path)
        except RefusedError:
            return Modules()
        for tensor in tensors:
            module, _, last = tensor.name.rpartition(".")
            is_matrix = last == "weight" and len(tensor.shape) == 2 and tensor.kind in BYTES
            # Some models bring adapters of their own, beside which their layers have this suffix.
            known.add(module.removesuffix(".base_layer"), tensor.shape if is_matrix else None)
    return known


def shorten_path(module: str) -> str:
    """Return the name of a module from its layer on: what comes before depends on who has written the file."""
    parts = module.split(".")
    first = next((index for index, part in enumerate(parts) if index and part.isdecimal()), 1)
    return ".".join(parts[first - 1 :])


def is_in_layer(module: str) -> bool:
    return any(part.isdecimal() for part in module.split("."))


@dataclass(frozen=True)
class Tensor:
    """A tensor as the header of its file has it."""

    name: str
    shape: Shape
    kind: str
    begin: int
    end: int


def read_tensors(path: Path) -> list[Tensor]:
    """Return the tensors of a file of safetensors, from its header alone."""
    try:
        if not path.is_file():
            raise ValueError("no file")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, HEADER))
        header: dict[str, Any] = json.loads(text if len(text) == length else b"")
        return [parse_tensor(name, entry) for name, entry in header.items() if name != "__metadata__"]
    except UNREADABLE as error:
        raise RefusedError(AdapterExit.ADAPTER_UNDESCRIBED, f"{path.name} is missing or cannot be read") from error


def parse_tensor(name: str, entry: dict[str, Any]) -> Tensor:
    """Return a tensor; raises a ValueError if one of its numbers is none."""
    numbers = [*entry["shape"], *entry["data_offsets"]]
    if len(name) > NAME or any(type(number) is not int or not 0 <= number < LARGEST for number in numbers):
        raise ValueError("numbers")
    begin, end = entry["data_offsets"]
    return Tensor(name, tuple(entry["shape"]), str(entry["dtype"]), begin, end)


def read_json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise ValueError("no file")
        with path.open("rb") as file:
            found = json.loads(file.read(HEADER))
    except UNREADABLE as error:
        raise RefusedError(AdapterExit.ADAPTER_UNDESCRIBED, f"{path.name} is missing, or no JSON") from error
    if not isinstance(found, dict):
        raise RefusedError(AdapterExit.ADAPTER_UNDESCRIBED, f"{path.name} is no JSON object")
    return found


def quote(value: object) -> str:
    return repr(value)[:200]


def say(text: str) -> None:
    """Write one line of bounded length to the pod's log at once."""
    sys.stdout.write(f"{' '.join(text.splitlines())[:LINE]}\n")
    sys.stdout.flush()


def download(args: list[str]) -> int:
    """Run the download to its end, and return its exit code; a signal to end is passed on."""
    with Popen([sys.executable, str(Path(__file__).with_name("download.py")), *args]) as program:  # noqa: S603  # arguments, never a shell
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        return program.wait()


def main(*args: str) -> int:
    """Return the exit code of one attempt: the download's, or the cause for which the adapter is refused."""
    code = download([*args])
    if code:
        return code if code > 0 else 128 - code
    folder = Path(args[1], os.environ.get(FOLDER, ""))
    try:
        check(folder, Path(os.environ[BASE]), int(os.environ[MAX_RANK]))
    except RefusedError as error:
        say(f"adapter refused: {error}")
        # Without the marker of download.py, another value of retry fetches the files again.
        Path(args[1], MARKER).unlink(missing_ok=True)
        return error.cause
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
