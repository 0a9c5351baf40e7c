"""KEDA's programs, built from their Go module with the two scalers that a deployment by load uses.

All of KEDA's scalers together are 3,700 Go packages (a third of them are Elasticsearch's), which take half an hour to
build. So the module is copied without the other scalers; everything else is KEDA's own. `-overlay`
cannot do this below the module cache.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.programs import CACHE, GO_ENVIRONMENT, BuildError, find_go, lock, output, say

MODULE = "github.com/kedacore/keda/v2@v2.21.0"
SUM = "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps="
# The queue of Azure has a constant that the other scalers use.
_FILES = {"scaler.go", "prometheus_scaler.go", "cron_scaler.go", "cpu_memory_scaler.go", "azure_queue_scaler.go"}
_TRIGGERS = {"prometheus", "cron", "cpu", "memory", "azure-queue"}
_COMMANDS = {
    "keda-operator": "./cmd/operator",
    "keda-adapter": "./cmd/adapter",
    "keda-admission-webhooks": "./cmd/webhooks",
}
_HOME = CACHE / "keda" / re.sub(r"[^A-Za-z0-9]", "", SUM)[:16]


def module_dir() -> Path:
    """Return the folder of KEDA's module, with its CRDs and roles.

    Raises:
        BuildError: It cannot be had, or is not what this file pins.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    found = json.loads(output((find_go(), "mod", "download", "-json", MODULE), CACHE))
    if found["Sum"] != SUM:
        raise BuildError(f"{MODULE} has the sum {found['Sum']}, not {SUM}")
    return Path(found["Dir"])


def path(name: str) -> Path:
    """Return one of KEDA's programs, built first where it is missing.

    Raises:
        BuildError: It cannot be built.
    """
    target = _HOME / name
    with lock("build"):
        if not target.exists():
            source = _copy(module_dir())
            say(f"{name}: building, about 6 min when cold")
            command = (find_go(), "build", "-ldflags", "-s -w", "-o", str(target), _COMMANDS[name])
            built = subprocess.run(
                command, cwd=source, env=os.environ | GO_ENVIRONMENT, capture_output=True, text=True, check=False
            )
            if built.returncode:
                raise BuildError(f"{name} cannot be built:\n{built.stderr[-4000:]}")
    return target


def prepare() -> tuple[Path, ...]:
    """Build what is missing, and return all programs.

    Raises:
        BuildError: One cannot be built.
    """
    return tuple(path(name) for name in _COMMANDS)


def _copy(module: Path) -> Path:
    """Return a copy of the module with fewer scalers."""
    source = _HOME / "source"
    if source.exists():
        return source
    partial = _HOME / ".source.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(module, partial, copy_function=shutil.copyfile)
    for file in (partial / "pkg/scalers").glob("*.go"):
        if file.name not in _FILES:
            file.unlink()
    builder = partial / "pkg/scaling/scalers_builder.go"
    head, *cases = re.split(r"(?=\n\tcase \")", builder.read_text())
    last, rest = re.split(r"(?=\n\tdefault:)", cases[-1], maxsplit=1)
    kept = [case for case in (*cases[:-1], last) if case.split('"')[1] in _TRIGGERS]
    builder.write_text("".join((head, *kept, rest)))
    partial.rename(source)
    return source


if __name__ == "__main__":
    for each in prepare():
        print(each)
