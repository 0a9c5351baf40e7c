"""The engines whose real parsers `make engines` asks, each version in a folder of its own in the cache.

requirements/engines.txt is the table of versions: to add one, add its line. Of vLLM's source distribution and SGLang's
wheel only the Python package, its metadata and its requirements are kept; nothing is compiled. All versions share one
environment with torch and what their imports need (requirements/engines-env.txt).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.programs import CACHE, ROOT, BuildError, lock, say

VERSIONS = ROOT / "requirements" / "engines.txt"
ENVIRONMENT = ROOT / "requirements" / "engines-env.txt"
HOME = CACHE / "engines"
NEEDED_GIB = 9
_LINE = re.compile(r"(?P<package>vllm|sglang)==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})")
_CUDA = "12.4"
_SETUP = {
    "torch/__init__.py": f'class version: cuda, hip, xpu = "{_CUDA}", None, None\n__version__ = "2.13.0"\n',
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": 'import os\nCUDA_HOME, ROCM_HOME = os.environ["CUDA_HOME"], None\n',
    # Older versions compare with a constant of their own instead of the variable.
    "bin/nvcc": "#!/bin/sh\n"
    """own=$(sed -n 's/^MAIN_CUDA_VERSION = "\\(.*\\)"$/\\1/p' setup.py)\n"""
    f'echo "release ${{own:-{_CUDA}}}, V1"\n',
}
_KEPT = re.compile(r"[^/]+/(?P<path>(?:vllm|requirements|[a-z]+\.egg-info)/.*)")
_KEPT_OF_WHEEL = re.compile(r"sglang/.*\.py|sglang-[^/]+/.*")
# vLLM's wheels are large, as they bring its kernels; SGLang's newer versions have no source distribution.
_FORMATS = {"vllm": "--no-binary", "sglang": "--only-binary"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of an engine."""

    package: str  # on PyPI
    version: str
    digest: str  # of the file that is unpacked

    @property
    def folder(self) -> Path:
        """Where it is unpacked; on the path of Python it is the package."""
        return HOME / f"{self.package}-{self.version}-{self.digest[:8]}"

    @property
    def number(self) -> tuple[int, ...]:
        """The version in numbers, to compare."""
        return tuple(map(int, re.findall(r"\d+", self.version)))


def list_releases(package: str) -> tuple[Release, ...]:
    """Returns the versions of an engine, the oldest first."""
    found = [Release(**match.groupdict()) for match in _LINE.finditer(VERSIONS.read_text())]
    return tuple(sorted((r for r in found if r.package == package), key=lambda release: release.number))


def python() -> Path:
    """Returns the interpreter of the environment that all versions share, installed first if it is missing.

    Raises:
        BuildError: It cannot be installed.
    """
    home = HOME / f"env-{hashlib.sha256(ENVIRONMENT.read_bytes()).hexdigest()[:16]}"
    program = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        with lock("engines"):
            if not done.exists():
                _check_disk()
                say(f"engines: installing torch and what engines import into {home}, minutes")
                shutil.rmtree(home, ignore_errors=True)
                venv.create(home, with_pip=True)
                _pip(program, "install", "--no-compile", "--no-deps", "--require-hashes", "-r", str(ENVIRONMENT))
                done.touch()
    return program


def install(release: Release) -> Path:
    """Returns the folder of a version, fetched first if it is missing.

    Raises:
        BuildError: It cannot be fetched.
    """
    interpreter, folder = python(), release.folder
    if not folder.exists():
        with lock("engines"):
            if not folder.exists():
                say(f"engines: fetching {release.package} {release.version}")
                _unpack(_download(interpreter, release), folder)
    return folder


def _download(interpreter: Path, release: Release) -> Path:
    """Downloads the file of a version."""
    target = HOME / "downloads"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    wanted = target / "wanted.txt"
    wanted.write_text(f"{release.package}=={release.version} --hash=sha256:{release.digest}\n")
    format_ = (_FORMATS[release.package], release.package)
    options = ("--no-deps", "--no-build-isolation", "--require-hashes", *format_)
    _pip(interpreter, "download", *options, "--dest", str(target), "-r", str(wanted))
    (found,) = (path for path in target.iterdir() if path != wanted)
    return found


def _write_setup_stand_ins() -> Path:
    """Writes what vLLM's setup.py asks for its version, so that pip gets its metadata without torch and CUDA."""
    folder = HOME / "setup"
    for name, text in _SETUP.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _KEPT_OF_WHEEL.fullmatch(name):
                    wheel.extract(name, partial)
    else:
        with tarfile.open(archive) as source:
            source.extractall(partial, members=_keep(source), filter="data")
    archive.unlink()
    partial.rename(folder)


def _keep(source: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in source:
        match = _KEPT.fullmatch(member.name)
        if match and member.isfile():
            member.name = match["path"]
            yield member


def _pip(interpreter: Path, *arguments: str) -> None:
    command = (str(interpreter), "-m", "pip", "--disable-pip-version-check", "-q", *arguments)
    folder = _write_setup_stand_ins()
    added = {
        "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "CUDA_HOME": str(folder),
        "VLLM_TARGET_DEVICE": "cuda",
        "VLLM_MAIN_CUDA_VERSION": _CUDA,
    }
    done = subprocess.run(command, env=os.environ | added, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def _check_disk() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(HOME).free >> 30
    if free < NEEDED_GIB:
        raise BuildError(f"{HOME} has {free} GiB free; at least {NEEDED_GIB} GiB are needed for the engines")


def main() -> int:
    """Install every version."""
    try:
        python()
        for package in _FORMATS:
            for release in list_releases(package):
                print(install(release))
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
