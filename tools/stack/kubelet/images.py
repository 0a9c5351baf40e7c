"""What stands in for container images: this machine's files, with the programs of one environment first on PATH."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools import initializer, vllm

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a container starts from."""

    programs: Path  # the folder that is first on PATH
    entry_point: tuple[str, ...]
    user: int = 0
    home: str = "/root"
    files: Path | None = None  # a tree that is copied over the root
    variables: Mapping[str, str] = field(default_factory=dict)

    def list_variables(self) -> dict[str, str]:
        """Returns the variables of every container."""
        return {"PATH": f"{self.programs}:{_SYSTEM}", "HOME": self.home, **self.variables}


def find_image(reference: str, folder: Path) -> Image | None:
    """Returns the image of a reference, or None for one that has no stand-in. `folder` takes what it is made of."""
    repository, _, tag = reference.rpartition(":")
    if repository == vllm.REPOSITORY and tag == f"v{vllm.VERSION}":
        return Image(programs=vllm.install().parent, entry_point=("vllm", "serve"))
    if repository == "kserve/storage-initializer":
        return _make_initializer(folder / "storage-initializer")
    return None


def _make_initializer(tree: Path) -> Image:
    """Makes KServe's image: its entry point as user 1000, who owns /mnt."""
    python = initializer.install_image_packages()
    program = tree / initializer.PROGRAM.removeprefix("/")
    if not program.exists():
        partial = tree.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        written = partial / initializer.PROGRAM.removeprefix("/")
        written.parent.mkdir(parents=True)
        initializer.write_program(written, python, initializer.find_sources())
        partial.rename(tree)
    entry_point = (initializer.PROGRAM,)
    return Image(programs=python.parent, entry_point=entry_point, user=1000, home="/home/kserve", files=tree)
