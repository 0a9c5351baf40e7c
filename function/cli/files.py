"""Manifests from files, folders and standard input, read as Kubernetes reads YAML: one that cannot be read is named."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from function.cli.options import CliError
from function.kube.manifests import JSON, Manifest, get, text

_SUFFIXES = (".yaml", ".yml", ".json")
_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_TWICE = "Put --- between objects, or leave one out"


class _Loader(_Base):  # type: ignore[misc, valid-type]  # libyaml's where it was built in, which is ten times as fast
    """A time is text, as it is in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # yaml's own class attribute
        first: [(tag, regexp) for tag, regexp in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002  # yaml's signature
        """Return a map, none of whose own keys is given twice: YAML forbids it, and the first would vanish."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line
            if key.value in lines:
                message = f"{key.value} is given already in line {lines[key.value] + 1}"
                raise yaml.MarkedYAMLError(problem=f"{message}. {_TWICE}", problem_mark=key.start_mark)
            lines[key.value] = line
        found: dict[object, object] = super().construct_mapping(node, deep)
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest and the file that it was read from."""

    manifest: Manifest
    file: str


def read(paths: Iterable[str]) -> list[Found]:
    """Return the manifests of files, in their order."""
    return [found for path in paths for name, said in _read_contents(path) for found in _read_items(name, said)]


def _read_contents(path: str) -> Iterator[tuple[str, str]]:
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


def _read_items(name: str, said: str) -> Iterator[Found]:
    for line, document in _read_documents(name, said):
        where = f"{name} line {line}"
        if not isinstance(document, dict) or not text(document, "kind"):
            raise CliError(f"{where}: the document is not a Kubernetes manifest (it has no kind). Correct or remove it")
        if not text(document, "kind").endswith("List") or "items" not in document:
            yield Found(document, name)
            continue
        items = get(document, "items")
        for index, item in enumerate(items if isinstance(items, list) else []):
            if not isinstance(item, dict) or not text(item, "kind"):
                raise CliError(f"{where}: items[{index}] has no kind. Correct or remove it")
            yield Found(item, name)


def _read_documents(name: str, said: str) -> Iterator[tuple[int, JSON]]:
    """Return every document that is not empty, with the line on which it starts."""
    loader, line = _Loader(said), 1
    try:
        while loader.check_node():
            node = loader.get_node()
            line = node.start_mark.line + 1
            document = whole(loader.construct_document(node))
            if document is not None:
                yield line, document
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it is not YAML"
        advice = "" if _TWICE in problem else ". Correct the YAML"
        raise CliError(f"{name} line {mark.line + 1 if mark else line}: {problem}{advice}") from error
    except RecursionError as error:
        raise CliError(f"{name} line {line}: it is nested too deeply, or contains itself. Correct the YAML") from error
    finally:
        loader.dispose()


def whole(value: JSON) -> JSON:
    """Return a value with whole floats as integers and text for keys, as JSON has them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value
