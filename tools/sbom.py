"""The contents of the image, as CycloneDX: Debian's packages and Python's distributions, by name and version."""

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import quote, unquote


def document(name: str, version: str, archives: Iterable[str], site: Path, suite: str) -> str:
    """Return the bill of materials.

    `archives` are file names as apt writes them, `name_version_architecture.deb`; `site` is where Python looks.
    """
    components = [
        *(_debian(archive, suite) for archive in sorted(archives)),
        *sorted((_python(d.name, d.version) for d in distributions(path=[str(site)])), key=lambda c: c["name"]),
    ]
    said = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": components,
    }
    return json.dumps(said, indent=1) + "\n"


def _debian(archive: str, suite: str) -> Mapping[str, str]:
    name, version, rest = archive.removesuffix(".deb").split("_")
    purl = f"pkg:deb/debian/{name}@{quote(unquote(version))}?arch={rest}&distro={suite}"
    return {"type": "library", "name": name, "version": unquote(version), "purl": purl}


def _python(name: str, version: str) -> Mapping[str, str]:
    normal = name.lower().replace("_", "-").replace(".", "-")
    return {"type": "library", "name": normal, "version": version, "purl": f"pkg:pypi/{normal}@{version}"}
