"""The function's runtime image without a container engine: Debian's Python, the locked wheels and our own; one layer.

mmdebstrap takes the packages of Debian apart, pip the wheels that `requirements/runtime.txt` names by hash; what is
kept of them is written as the archive that `docker save` would write, which `crossplane xpkg build` embeds.
Everything in it follows from its inputs (files in order, no time, no owner but root), so the same inputs make the same
digest. There is no shell, no package manager and no pip in it; what is in it stands
in `usr/share/sbom`.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tools import debian, sbom
from tools.programs import BuildError

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME, VERSION = PROJECT["name"], PROJECT["version"]
SUITE, PYTHON = "bookworm", "python3.11"
PACKAGES = f"{PYTHON}-minimal,lib{PYTHON}-stdlib,libstdc++6"
SITE = f"usr/local/lib/{PYTHON}/dist-packages"
# Of Debian's files: Python, libraries and licences. The rest is for people and for installing.
_KEPT = re.compile(rf"(lib|lib64|usr/lib)/.*|usr/bin/{PYTHON}|usr/share/doc/[^/]+/copyright")
_LEFT_OUT = re.compile(r"lib/systemd/.*|usr/lib/[^/]+/gconv/.*|usr/lib/(binfmt[.]d|dpkg|mime|tmpfiles[.]d|valgrind)/.*")
# Packages that come along and of which no program is kept.
_TOOLS = {"dpkg", "tar"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# An ordinary user is root in a namespace of his own; root needs none, and a container's build has no right to make one.
_ROOT_USER = () if os.geteuid() == 0 else ("unshare", "--map-root-user")
_KEYRING = Path("usr/share/keyrings/debian-archive-keyring.gpg")


def build(target: Path, source: Path = ROOT) -> str:
    """Build the image of a source tree into a file and return its digest."""
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-image-") as folder:
        tree = Path(folder) / "root"
        archives = _debian(tree)
        _wheels(tree, source)
        _contents(tree, archives)
        _compile(tree)
        layer = _layer(tree)
    config = json.dumps(_config(layer, source), sort_keys=True).encode()
    digest = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{digest}.json", "RepoTags": [f"{NAME}:v{VERSION}"], "Layers": ["layer.tar"]}]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in (
            (f"{digest}.json", config),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            _add(archive, name, content)
    return f"sha256:{digest}"


def _debian(tree: Path) -> list[str]:
    """Unpack Debian's packages without special rights, and return the names of their archives."""
    archive, names = tree.with_suffix(".tar"), tree.with_suffix(".txt")
    mirror = [os.environ["DEBIAN_MIRROR"]] if "DEBIAN_MIRROR" in os.environ else []
    noted = f'--extract-hook=cd "$1"/var/cache/apt/archives && ls *.deb > "{names}"'
    trusted = (Path("/") if (Path("/") / _KEYRING).exists() else debian.unpacked("debian-archive-keyring")) / _KEYRING
    how = ("--quiet", "--mode=chrootless", "--variant=extract", f"--keyring={trusted}", f"--include={PACKAGES}", noted)
    _run(str(debian.path("mmdebstrap")), *how, SUITE, str(archive), *mirror)
    with tarfile.open(archive) as files:
        files.extraction_filter = lambda member, _: member  # Python 3.11.2 knows no other way to say which
        for member in files:
            member.name = member.name.removeprefix("./")
            if _KEPT.fullmatch(member.name) and not _LEFT_OUT.fullmatch(member.name):
                files.extract(member, tree)
    return [name for name in names.read_text().split() if name.partition("_")[0] not in _TOOLS]


def _wheels(tree: Path, source: Path) -> None:
    """Install the locked wheels of the image's platform, and our own."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    machine = platform.machine()
    platforms = (f"--platform=manylinux{version}_{machine}" for version in ("2014", "_2_17", "_2_28"))
    target = (f"--target={tree / SITE}", "--no-compile", "--no-deps")
    locked = (f"--python-version={PYTHON.removeprefix('python')}", "--only-binary=:all:", "--require-hashes")
    _run(*pip, "install", *target, *platforms, *locked, f"--requirement={source / 'requirements/runtime.txt'}")
    with tempfile.TemporaryDirectory() as wheels:
        _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", f"--wheel-dir={wheels}", str(source))
        _run(*pip, "install", "--upgrade", *target, "--no-index", f"--find-links={wheels}", NAME)
    _program(tree)


def _program(tree: Path) -> None:
    """Leave one of the programs that pip made, with the image's Python; in all of them stands the builder's."""
    scripts, program = tree / SITE / "bin", tree / "usr/local/bin" / NAME
    program.parent.mkdir(parents=True)
    program.write_text("\n".join((f"#!/usr/bin/{PYTHON}", *(scripts / NAME).read_text().splitlines()[1:], "")))
    program.chmod(0o755)
    shutil.rmtree(scripts)
    for record in (tree / SITE).glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")))


def _contents(tree: Path, archives: list[str]) -> None:
    file = tree / f"usr/share/sbom/{NAME}.cdx.json"
    file.parent.mkdir(parents=True)
    file.write_text(sbom.document(NAME, VERSION, archives, tree / SITE, SUITE))


def _compile(tree: Path) -> None:
    """Compile what is there with its own Python; such bytecode is never checked against its source."""
    # -B: what compileall itself loads would be cached by time, and then left as it is.
    command = ("-B", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", f"/usr/lib/{PYTHON}", f"/{SITE}")
    _run(*_ROOT_USER, "chroot", str(tree), f"/usr/bin/{PYTHON}", *command)


def _layer(tree: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            member = archive.gettarinfo(path, str(path.relative_to(tree)))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            # What a umask of the builder took or gave is no part of the image.
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
        _add(archive, "tmp", None)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes | None) -> None:
    """Add a file, or an empty folder that every user may write to."""
    member = tarfile.TarInfo(name)
    if content is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o1777
    else:
        member.size = len(content)
    archive.addfile(member, io.BytesIO(content or b""))


def _config(layer: bytes, source: Path) -> Mapping[str, object]:
    """Return the image's configuration: what `Dockerfile` says too."""
    commit = ("git", "-C", str(source), "rev-parse", "HEAD")
    said = subprocess.run(commit, capture_output=True, text=True, check=False).stdout if shutil.which("git") else ""
    labels = {
        "title": NAME,
        "description": PROJECT["description"],
        "version": VERSION,
        "licenses": PROJECT["license"],
        "revision": said.strip(),
    }
    return {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": "2000:2000",
            "Entrypoint": [f"/usr/local/bin/{NAME}"],
            "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"],
            "ExposedPorts": {"9443/tcp": {}},
            "Labels": {f"org.opencontainers.image.{key}": value for key, value in labels.items()},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "tools/image.py"}],
    }


def _run(*command: str) -> None:
    # Only root has chroot on its PATH.
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    # Bytecode and wheels hold hashes and times of files by default.
    environment = os.environ | {"PATH": path, "SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0"}
    subprocess.run(command, env=environment, check=True)


def main() -> None:
    """Build the image into a file and print its digest."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=main.__doc__)
    parser.add_argument("file", type=Path)
    try:
        print(build(parser.parse_args().file))
    except BuildError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
