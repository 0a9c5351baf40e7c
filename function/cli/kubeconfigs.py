"""What the caller's kubeconfig says, as far as one must know it to complete a context or to say what is missing."""

import os
from pathlib import Path

import yaml

from function.kube.manifests import JSON, listing, text


def named(given: str | None) -> str:
    """Return the kubeconfigs that count, as kubectl finds them; the system's separator stands between several."""
    return given or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def contexts(files: str) -> list[str]:
    """Return the names of all contexts; files that cannot be read have none."""
    return [text(entry, "name") for content in _read(files) for entry in listing(content, "contexts")]


def fault(files: str, context: str | None) -> str:
    """Return what is missing in kubeconfigs for a context, else for the current one; empty where nothing is."""
    if not any(Path(file).is_file() for file in files.split(os.pathsep)):
        return f"there is no kubeconfig {files}"
    known, current = contexts(files), any(text(content, "current-context") for content in _read(files))
    if not known:
        return f"the kubeconfig {files} holds no context"
    if context and context not in known:
        return f"the kubeconfig {files} holds no context {context}, but {', '.join(known)}"
    return "" if context or current else f"the kubeconfig {files} says of no context that it is the current one"


def _read(files: str) -> list[JSON]:
    found: list[JSON] = []
    for file in files.split(os.pathsep):
        try:
            found.append(yaml.safe_load(Path(file).read_text()))
        except (OSError, ValueError, yaml.YAMLError):
            continue
    return found
