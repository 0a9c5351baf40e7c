"""Manifests from files, folders and standard input, read as Kubernetes reads YAML: one that cannot be read is named."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from function.cli.errors import CliError
from function.kube.manifests import JSON, Manifest, listing, text

_SUFFIXES = (".yaml", ".yml", ".json")
_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(_Base):  # type: ignore[misc, valid-type]  # libyaml's where it was built in, which is ten times as fast
    """A time is text, as it is in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # yaml's own class attribute
        first: [(tag, regexp) for tag, regexp in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest and the file that it stands in."""

    manifest: Manifest
    file: str


def read(paths: Iterable[str]) -> list[Found]:
    """Return the manifests of files, in their order."""
    return [
        Found(manifest, name) for path in paths for name, said in _contents(path) for manifest in _items(name, said)
    ]


def _contents(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    files = [Path(path)]
    if files[0].is_dir():
        files = sorted(file for file in files[0].rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        if not files:
            raise CliError(f"{path}: the folder holds no {', '.join(_SUFFIXES)}. Name another")
    for file in files:
        try:
            yield str(file), file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CliError(f"cannot read {file}: {reason}. Name a file, a folder or -") from error


def _items(name: str, said: str) -> Iterator[Manifest]:
    try:
        documents = list(yaml.load_all(said, _Loader))  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise CliError(f"{name}{where}: {problem}. Correct the YAML") from error
    for document in documents:
        if document is None:
            continue
        manifest = whole(document)
        if not isinstance(manifest, dict) or not text(manifest, "kind"):
            raise CliError(f"{name}: a document is not a Kubernetes manifest (it has no kind). Correct or remove it")
        if text(manifest, "kind").endswith("List") and "items" in manifest:
            yield from listing(manifest, "items")
        else:
            yield manifest


def whole(value: JSON) -> JSON:
    """Return a value with whole floats as integers and text for keys, as JSON has them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value
