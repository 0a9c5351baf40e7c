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
from contextlib import suppress
from enum import IntEnum
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
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
HEADER, SHARDS, NAMED, LINE = 100_000_000, 10_000, 5, 2000
# Fields of the configuration that make it more than a plain LoRA, which engines ignore or refuse.
EXTRAS = (
    *("use_dora", "use_qalora", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication"),
    *("alora_invocation_tokens", "trainable_token_indices", "megatron_config", "eva_config", "corda_config"),
)
INITIALISED = re.compile(r"pissa|olora|loftq|corda", re.IGNORECASE)  # which changes the model's own weights, too
TENSOR = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_(?:embedding_)?([AB])(?:\.[A-Za-z0-9_-]+)?(?:\.weight)?")
LAYER = re.compile(r"(?:^|.*\.)(?=[A-Za-z_]+\.\d+\.)")
FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
Shape = tuple[int, ...]


def check(root: Path, base: Path, max_rank: int) -> None:
    """Check the adapter in this folder.

    Raises:
        RefusedError: Engines cannot serve it.
    """
    rank = check_config(read_json(root / CONFIG), max_rank)
    modules = read_modules(root / WEIGHTS, rank)
    known = read_model(base)
    faults = [*find_strangers(modules, known)] if known else []
    if faults:
        why = f"{len(faults)} of {len(modules)} modules do not fit the model: {'; '.join(faults[:NAMED])}"
        raise RefusedError(AdapterExit.ADAPTER_OF_OTHER_MODEL, why)
    say(f"rank {rank}, {len(modules)} modules, {'which fit the model' if known else 'and the model could not be read'}")


def check_config(config: dict[str, Any], max_rank: int) -> int:
    """Return the rank that the configuration states."""
    rank, alpha, targets = (config.get(name) for name in ("r", "lora_alpha", "target_modules"))
    kind = config.get("peft_type")
    if kind != "LORA":
        raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, f"its peft_type is {quote(kind)}, not LORA")
    if type(rank) is not int or rank < 1 or type(alpha) not in (int, float) or not targets:
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
    for name, shape, _ in read_tensors(path):
        match = TENSOR.fullmatch(name)
        if not match:
            raise RefusedError(AdapterExit.ADAPTER_UNSUPPORTED, f"it has a tensor {quote(name)}, which is none of LoRA")
        halves.setdefault(match[1], {})[match[2]] = shape
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


def find_strangers(modules: dict[str, Shape], known: dict[str, set[Shape]]) -> Iterator[str]:
    """Yield the modules that the model does not have, or not in this shape.

    A matrix outside of the layers may be missing because it is tied to another, and experts may be merged.
    """
    for name, shape in sorted(modules.items()):
        shapes = known.get(shorten_path(name))
        if shapes is None:
            if re.search(r"\.\d+\.", name) and ".experts." not in name:
                yield f"{quote(name)} is not in the model"
        elif shapes and not shapes & {shape, shape[::-1]}:
            yield f"{quote(name)} is {[*shape]}, in the model {[*min(shapes)]}"


def read_model(base: Path) -> dict[str, set[Shape]]:
    """Return the modules of a model, each with the shapes of its matrix; without a shape where it is quantised.

    Nothing is known of a model whose files cannot be read, or that has the names of its vendor.
    """
    known: dict[str, set[Shape]] = {}
    shards = [path for path in sorted(base.glob("*.safetensors")) if not path.name.startswith("consolidated")]
    for path in shards[:SHARDS]:
        with suppress(RefusedError):
            for name, shape, kind in read_tensors(path):
                module, _, last = name.rpartition(".")
                found = known.setdefault(shorten_path(module), set())
                if last == "weight" and len(shape) == 2 and kind in FLOATS:
                    found.add(shape)
    return known


def shorten_path(module: str) -> str:
    """Return the name of a module from its layer on: what comes before depends on who has written the file."""
    return LAYER.sub("", module)


def read_tensors(path: Path) -> Iterator[tuple[str, Shape, str]]:
    """Yield name, shape and type of each tensor of a file of safetensors, from its header alone."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, HEADER))
        header: dict[str, Any] = json.loads(text if len(text) == length else b"")
        for name, entry in header.items():
            if name != "__metadata__":
                yield str(name), tuple(int(size) for size in entry["shape"]), str(entry["dtype"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError(AdapterExit.ADAPTER_UNDESCRIBED, f"{path.name} cannot be read") from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(HEADER))
    except (OSError, ValueError, RecursionError) as error:
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
        return error.cause
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
