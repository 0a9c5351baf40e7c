"""The model that is served: its files, and the answer that transformers computes from them."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import JSON
from tools import vllm

REPOSITORY = "owner/model"  # the only one of the hub
MESSAGES: JSON = [{"role": "user", "content": "what does the quick brown fox do?"}]
_BUILD = Path(__file__).parent / "inside" / "tiny_model.py"
_SECONDS = 300
# Far more than what another order of sums in float32 makes of a logit.
_MARGIN = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A model of random weights."""

    files: Mapping[str, bytes]
    tokens: tuple[int, ...]  # of the answer to MESSAGES


def build_model(folder: Path) -> TinyModel:
    """Builds the model in a folder."""
    done = subprocess.run(
        [str(vllm.install()), str(_BUILD), str(folder)],
        input=json.dumps(MESSAGES),
        env={"PATH": os.defpath, "HOME": str(folder.parent), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert not done.returncode, done.stderr[-4000:]
    said = json.loads(done.stdout)
    assert said["margin"] > _MARGIN, f"the next token is only {said['margin']} behind"
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return TinyModel(files=files, tokens=tuple(said["tokens"]))
