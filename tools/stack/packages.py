"""Our packages as users get them: built with the Crossplane CLI, and the manifests that one holds.

A package is an image tarball; one of its layers holds package.yaml, which Crossplane's package manager
installs.
"""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import yaml

from function.kube.manifests import Manifest
from tools import programs


def build(root: Path, file: Path) -> list[Manifest]:
    """Build the package of a folder and return what is in it, its own metadata first."""
    file.unlink(missing_ok=True)
    subprocess.run(
        (
            str(programs.path("crossplane")),
            "xpkg",
            "build",
            f"--package-root={root}",
            f"--package-file={file}",
            "--examples-root=none",
        ),
        check=True,
        capture_output=True,
        text=True,
    )
    return [doc for doc in yaml.safe_load_all(_content(file)) if doc]


def _content(file: Path) -> bytes:
    with tarfile.open(file) as image:
        index = json.loads(_member(image, "manifest.json"))
        for layer in index[0]["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(_member(image, layer))) as files:
                if "package.yaml" in files.getnames():
                    return _member(files, "package.yaml")
    raise LookupError(f"{file} holds no package.yaml")


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(name)
    if found is None:
        raise LookupError(name)
    return found.read()
