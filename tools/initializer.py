"""The storage-initializer that download Jobs run: KServe's own entry point with the packages that its image has.

KServe's Go module ships the initializer's sources and the `uv.lock` from which its image is built. The packages of that
lock go into an environment of their own in the cache, 158 MiB.
"""

import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Any

from tools.programs import CACHE, lock, module_dir, output, say

PROGRAM = "/storage-initializer/scripts/initializer-entrypoint"  # in the image
_PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes", "--no-deps", "-r")


def find_sources() -> Path:
    """Returns the folder of KServe's Python sources.

    Raises:
        BuildError: KServe's module cannot be had.
    """
    return module_dir("kserve", "github.com/kserve/kserve") / "python"


def install_image_packages() -> Path:
    """Returns a Python that has the packages of the image, installed first where they are missing.

    Raises:
        BuildError: KServe's module or a package cannot be had.
    """
    locked = (find_sources() / "storage" / "uv.lock").read_text()
    home = CACHE / "initializer" / hashlib.sha256((locked + sys.version).encode()).hexdigest()[:16]
    python, installed = home / "bin" / "python", home / "installed"
    with lock("initializer"):
        if not installed.exists():
            say("storage-initializer: installing the packages of its image")
            output((sys.executable, "-m", "venv", "--clear", str(home)), Path.cwd())
            requirements = home / "requirements.txt"
            requirements.write_text(_format_requirements(tomllib.loads(locked)["package"]))
            output((str(python), *_PIP, str(requirements)), home)
            installed.touch()
    return python


def write_program(program: Path, python: Path, sources: Path) -> None:
    """Writes KServe's entry point as a program for this Python, which imports KServe's own storage program."""
    entry = sources / "storage-initializer" / "scripts" / "initializer-entrypoint"
    storage = f"import sys; sys.path.insert(0, {str(sources / 'storage')!r})"
    program.write_text(f"#!{python}\n{storage}\n{entry.read_text()}")
    program.chmod(0o755)


def _format_requirements(packages: list[dict[str, Any]]) -> str:
    """Returns the locked packages as pip's requirements: one line each, with the hashes of every file."""
    lines = []
    for package in packages:
        files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        if "registry" in package["source"]:
            hashes = " ".join(f"--hash={file['hash']}" for file in files)
            lines.append(f"{package['name']}=={package['version']} {hashes}")
    return "\n".join(lines)
