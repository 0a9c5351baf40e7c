"""Adapters for the model that is served, and the answers that transformers computes with each of them merged."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import Manifest
from tests.answers.model import MESSAGES, REPOSITORY, TinyModel
from tools import vllm

FOLDER = "adapters"  # in the repository of the model
_BUILD = Path(__file__).parent / "inside" / "tiny_adapters.py"
_SECONDS = 300
_MARGIN = 0.01  # as of the model (model.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyAdapters:
    """Sound adapters and broken ones."""

    files: Mapping[str, bytes]  # of the hub's repository
    tokens: Mapping[str, tuple[int, ...]]  # of the answer to MESSAGES, by the name of a sound adapter


def build_adapters(model: TinyModel, folder: Path) -> TinyAdapters:
    """Builds the adapters in a folder."""
    source, target = folder / "model", folder / FOLDER
    source.mkdir()
    for name, data in model.files.items():
        (source / name).write_bytes(data)
    done = subprocess.run(
        [str(vllm.install()), str(_BUILD), str(source), str(target)],
        input=json.dumps(MESSAGES),
        env={"PATH": os.defpath, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert not done.returncode, done.stderr[-4000:]
    answers = json.loads(done.stdout)
    tokens = {name: tuple(answer["tokens"]) for name, answer in answers.items()}
    assert len({model.tokens, *tokens.values()}) == 1 + len(tokens), "each has an answer of its own"
    assert all(answer["margin"] > _MARGIN for answer in answers.values()), answers
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(target.rglob("*")) if p.is_file()}
    return TinyAdapters(files=files, tokens=tokens)


def name_adapter(name: str) -> Manifest:
    """Returns an adapter of a deployment, from its folder in the repository."""
    return {"name": name, "huggingFace": {"repo": REPOSITORY, "path": f"{FOLDER}/{name}"}}
