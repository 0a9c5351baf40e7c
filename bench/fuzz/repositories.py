"""Repositories and directories that mean harm, and whether there is a model in them that an engine would load."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from function.weights.scripts.download_script import MARKER, PARTIALS
from tests.hub import weights

Files = dict[str, bytes]
# A marker that stood there before anything of ours ran; it says nothing until the script has looked at it.
FORGED = b'{"uri": "hf://owner/model", "key": "forged"}'
KINDS: dict[str, Files] = {
    "sharded": weights.SHARDED,
    "single": {**weights.SINGLE, "tokenizer.json": b"{}"},
    "torch": weights.TORCH,
    "mistral": {"params.json": b"{}", "consolidated.safetensors": weights.safetensors()},
    "adapter": {**weights.ADAPTER, **weights.SINGLE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What a hub offers. `sound`: an engine can load it; `what`: what was done to it."""

    files: Files
    sound: bool
    what: tuple[str, ...] = field(default=())


def _weights(files: Files) -> str:
    return max(name for name in files if name.endswith((".safetensors", ".bin", ".gguf")))


_HARMLESS: dict[str, Callable[[Random], Files]] = {
    "own-incomplete": lambda _: {"x.incomplete": b"x", "sub/y.incomplete": b"y"},
    "odd-names": lambda _: {"-rf": b"x", "a b.txt": b"x", "$(id).txt": b"x", "ü/ß.json": b"x", "%2e%2e.txt": b"x"},
    "empty-text": lambda _: {"notes.txt": b"", "sub/empty.json": b""},
    "many": lambda random: {f"part/{n}.txt": random.randbytes(50) for n in range(40)},
    "marker": lambda _: {MARKER: b'{"uri": "hf://owner/model", "key": "x"}'},
    "state": lambda _: {".modelplane/failures-x": b"." * 100, ".modelplane/notes": b"x"},
    "records": lambda _: {f"{PARTIALS}/zzz.incomplete": b"x", f"{PARTIALS}/other.metadata": b"x\ny\n1"},
    "deep": lambda _: {f"{'d/' * 40}x.txt": b"x"},
}
_BROKEN: dict[str, Callable[[Files, Random], Files]] = {
    "cut": lambda files, random: {_weights(files): files[_weights(files)][: random.randrange(60)]},
    "one-byte-short": lambda files, _: {_weights(files): files[_weights(files)][:-1]},
    "empty-weights": lambda files, _: {_weights(files): b""},
    "index-outside": lambda _, __: {"model.safetensors.index.json": weights.index("/etc/passwd")},
    "index-above": lambda _, __: {"model.safetensors.index.json": weights.index("../../x.safetensors")},
    "index-deep": lambda _, __: {"model.safetensors.index.json": b'{"weight_map": ' + b"[" * 50_000},
    "index-of-nothing": lambda _, __: {"model.safetensors.index.json": weights.index("absent.safetensors")},
    # An index whose files are all there would count, and the shard would not.
    "series": lambda files, _: {
        "m-00001-of-00003.safetensors": weights.safetensors(),
        **{name: weights.index("m-00002-of-00003.safetensors") for name in files if name.endswith(".index.json")},
    },
    "description": lambda _, random: {"config.json": random.choice((b"", b"[", b"[]", b"{" * 50_000, b"\xff\xfe"))},
    "header": lambda _, random: {
        "x.safetensors": random.choice((b"\xff" * 64, weights.long(2) + b"{}x", b'\x08\0\0\0\0\0\0\0{"a": 1}'))
    },
    "gguf-magic": lambda _, __: {"x.gguf": b"GGUF"},
}


def repository(random: Random) -> Repository:
    """Return a repository: sound in three of four."""
    kind = random.choice([*KINDS])
    files, what = dict(KINDS[kind]), [kind]
    for name in random.sample([*_HARMLESS], random.choice((0, 1, 1, 2))):
        files |= _HARMLESS[name](random)
        what.append(name)
    sound = random.random() < 0.75
    if not sound:
        name = random.choice([*_BROKEN])
        if (name in ("cut", "one-byte-short") or name.startswith("index-")) and kind == "torch":
            name = "empty-weights"  # an old torch file has no end that could be missed, and its own index is complete
        files |= _BROKEN[name](files, random)
        what.append(name)
    names = [*files]
    random.shuffle(names)
    return Repository(files={name: files[name] for name in names}, sound=sound, what=tuple(what))


def own(files: Files) -> Files:
    """Return the model's own files: not those that pretend to be ours or the client's."""
    return {name: data for name, data in files.items() if not name.startswith((".cache/", ".modelplane/"))}


def litter(root: Path, found: Repository, random: Random, outside: Path) -> str:
    """Leave something in the directory before anything is downloaded; return what."""
    files = own(found.files)
    names = random.sample([*files], random.randrange(len(files) + 1))
    what = random.choice(("nothing", "nothing", "some", "cut", "zeros", "links", "marker", "foreign"))
    for name in names if what in ("some", "cut", "zeros", "links") else ():
        path, data = root / name, files[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "links":
            path.symlink_to(random.choice((outside, root / "nowhere")))
        else:
            cut = data[: random.randrange(len(data) + 1)] if what == "cut" else bytes(len(data))
            path.write_bytes(data if what == "some" else cut)
    if what == "marker":  # over weights that were lost
        (root / MARKER).parent.mkdir(parents=True)
        (root / MARKER).write_bytes(FORGED)
    if what == "foreign":
        root.mkdir(parents=True, exist_ok=True)
        (root / "foreign.safetensors").write_bytes(weights.safetensors()[:-5])
        (root / "foreign.gguf").write_bytes(b"GG")
    return what
