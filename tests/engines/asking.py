"""Asks the real parser of one version of an engine about many command lines at once."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import Manifest, mapping
from tools import engines
from tools.engines import Release

INSIDE = Path(__file__).parent / "inside"
_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine made of one command line."""

    error: str  # of the parser; empty if it took every argument
    refused: str  # why no configuration could be made; empty if one was
    role: str  # which way to start it takes: `server`, `servers` or `headless`
    args: Manifest
    config: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one version of an engine says."""

    options: frozenset[str]  # every flag of its parser
    choices: Manifest  # the values that a flag may have, where the parser has a list of them
    texts: Manifest  # the help of each flag whose value may be any text
    answers: tuple[Answer, ...]
    failure: str = ""  # how its program ended; empty if it answered


def ask(release: Release, commands: Sequence[Sequence[str]], model: Path, gpus: int) -> Answers:
    """Returns what a version makes of command lines, in their order."""
    folder = engines.install(release)
    asked = {"commands": [list(c) for c in commands], "model": str(model), "gpus": gpus}
    done = subprocess.run(
        [str(engines.python()), str(INSIDE / f"{release.package}_parser.py")],
        input=json.dumps(asked),
        env=_environment(folder, model),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    said = json.loads(done.stdout or "{}")
    return Answers(
        options=frozenset(said.get("options", [])),
        choices=mapping(said, "choices"),
        texts=mapping(said, "texts"),
        answers=tuple(_read(answer) for answer in said.get("answers", [])),
        failure=done.stderr[-4000:] if done.returncode else "",
    )


def _read(said: Manifest) -> Answer:
    texts = {key: str(said.get(key, "")) for key in ("error", "refused", "role")}
    return Answer(**texts, args=mapping(said, "args"), config=mapping(said, "config"))


def _environment(folder: Path, model: Path) -> Mapping[str, str]:
    home = model.parent / "home"
    return {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }
