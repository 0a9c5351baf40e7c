"""Writes the folder from which a package is built: the YAML of its source folder, with the annotations for people.

What both packages say is in one place: the licence and the maintainers in pyproject.toml, and the introduction of
README.md. The description of each package is in its own `crossplane.yaml`. The address of the source is known to who
builds: the variable REPOSITORY, as for the site. Crossplane's package specification lists the annotations; the format
has no place for architectures but the configuration of the image, which is that of the embedded runtime image.
"""

import argparse
import os
import re
import shutil
import tomllib
from pathlib import Path

import yaml

from tools.documents import document

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "meta.crossplane.io/"
META = "crossplane.yaml"
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https:)[^)]*\)")


def annotations(source: Path = ROOT, repository: str = "") -> dict[str, str]:
    """Return the annotations that both packages of a source tree have, by the part of their key after the prefix."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    found = {
        "maintainer": ", ".join(each["name"] for each in project["maintainers"]),
        "license": project["license"],
        "readme": introduction((source / "README.md").read_text()),
    }
    return found | ({"source": repository} if repository else {})


def introduction(readme: str) -> str:
    """Return what stands before the first section of the README, without pictures and links into the tree."""
    opening = readme.partition("\n## ")[0].strip() + "\n"
    return _LINK.sub(r"\1", _PICTURE.sub("", opening))


def write(folder: Path, target: Path, repository: str = "", source: Path = ROOT) -> Path:
    """Write the package root of a folder of a source tree, and return it."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    meta = document(target / META)
    own = meta["metadata"].setdefault("annotations", {})
    own |= {f"{PREFIX}{key}": value for key, value in annotations(source, repository).items()}
    (target / META).write_text(yaml.safe_dump(meta, sort_keys=False))
    return target


def main() -> None:
    """Write the roots of both packages into a folder, below the names of their source folders."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_roots", description=main.__doc__)
    parser.add_argument("target", type=Path)
    target = parser.parse_args().target
    for name in ("package", "apis"):
        write(ROOT / name, target / name, os.environ.get("REPOSITORY", ""))


if __name__ == "__main__":
    main()
