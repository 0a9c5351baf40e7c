"""Writes the folder from which a package is built: the YAML of its source folder, with the annotations for people.

What both packages say is in one place: the licence and the maintainers in pyproject.toml, and the introduction of
README.md. The description of each package is in its own `crossplane.yaml`. The address of the source is known to who
builds: the variable REPOSITORY, as for the site. Crossplane's package specification lists the annotations; the format
has no place for architectures but the configuration of the image, which is that of the embedded runtime image.

With the variable REGISTRY, a third package is written: a Configuration that depends on the Function and on
provider-kubernetes, so that one command installs all of them (docs/decisions/0016-packages-under-their-own-names.md). A
dependency is installed under a name that Crossplane makes of its repository, so the Compositions of this package call
the Function by this name, and `settings.yaml` names both packages likewise.
"""

import argparse
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

from function.kube.manifests import Manifest
from tools.documents import document, documents

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "meta.crossplane.io/"
META = "crossplane.yaml"
BUNDLE = "modelplane"
FUNCTION = "function-modelplane"
PROVIDER = "provider-kubernetes"
PROVIDER_VERSIONS = ">=v1.2.0, <v2.0.0"  # docs/install.md, What each side needs
_DEPENDENCY = {"apiVersion": "pkg.crossplane.io/v1"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where the packages of a release are pulled from."""

    registry: str  # host, and a path if there is one
    provider_registry: str  # has crossplane-contrib/provider-kubernetes
    tag: str  # of the packages of this project

    @property
    def function(self) -> str:
        return f"{self.registry}/modelplane/{FUNCTION}"

    @property
    def provider(self) -> str:
        return f"{self.provider_registry}/crossplane-contrib/{PROVIDER}"


def name_dependency(repository: str) -> str:
    """Return the name under which Crossplane installs a dependency (ToDNSLabel in its package `xpkg`)."""
    path = repository.partition("/")[2][:63]
    return re.sub(r"[^a-z0-9-]", "", re.sub(r"[./:]", "-", path)).strip("-")


def write_bundle(target: Path, release: Release, repository: str = "", source: Path = ROOT) -> Path:
    """Write the root of the package that brings all others, and return it."""
    write(source / "apis", target, repository, source)
    meta = document(target / META)
    meta["metadata"]["name"] = BUNDLE
    meta["spec"]["dependsOn"] = [
        {**_DEPENDENCY, "kind": "Function", "package": release.function, "version": f"={release.tag}"},
        {**_DEPENDENCY, "kind": "Provider", "package": release.provider, "version": PROVIDER_VERSIONS},
    ]
    (target / META).write_text(yaml.safe_dump(meta, sort_keys=False))
    for path in target.glob("*/composition.yaml"):
        composition = document(path)
        for step in composition["spec"]["pipeline"]:
            step["functionRef"]["name"] = name_dependency(release.function)
        path.write_text(yaml.safe_dump(composition, sort_keys=False))
    shutil.copy(source / "install" / "activation.yaml", target)
    return target


def list_settings(release: Release, source: Path = ROOT) -> list[Manifest]:
    """Return what no package can bring: the namespace of Secrets, how both packages run, and rights of Crossplane."""
    folder = source / "install"
    _, provider_config = documents(folder / "provider.yaml")
    files = ("namespace", "runtime-config", "gateway-rbac", "keda-rbac")
    packages = (("Function", FUNCTION, release.function), ("Provider", PROVIDER, release.provider))
    return [
        *(manifest for name in files for manifest in documents(folder / f"{name}.yaml")),
        provider_config,
        *(
            {
                "apiVersion": _DEPENDENCY["apiVersion"],
                "kind": kind,
                "metadata": {"name": name_dependency(package)},
                "spec": {"runtimeConfigRef": {"name": config}},
            }
            for kind, config, package in packages
        ),
    ]


def main() -> None:
    """Write the roots of the packages into a folder, below the names of their source folders."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_roots", description=main.__doc__)
    parser.add_argument("target", type=Path)
    target = parser.parse_args().target
    given = os.environ
    repository = given.get("REPOSITORY", "")
    for name in ("package", "apis"):
        write(ROOT / name, target / name, repository)
    if registry := given.get("REGISTRY", ""):
        provider_registry = given.get("PROVIDER_REGISTRY") or registry.partition("/")[0]
        release = Release(registry=registry, provider_registry=provider_registry, tag=given["TAG"])
        write_bundle(target / BUNDLE, release, repository)
        (target / "settings.yaml").write_text(yaml.safe_dump_all(list_settings(release), sort_keys=False))


if __name__ == "__main__":
    main()
