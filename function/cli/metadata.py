"""Checks names, namespaces and labels as the API server does; the function's own parser never sees what it refuses."""

import re
from collections.abc import Iterator, Mapping

from function.api.common import find_invalid_label
from function.api.problems import invalid_value
from function.cli.store import is_ours
from function.domain.model import Problem
from function.kube.manifests import Manifest, get, listing, strings

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_MAX_NAME_LENGTH = 253
_MAX_LABEL_LENGTH = 63
_MAX_COMPOSITE_NAME_LENGTH = 63  # Crossplane sets it in the CRDs that it generates from XRDs
_NODE_LABELS = tuple(f"spec.{block}nodePools" for block in ("", "cluster.existing.", "cluster.gke."))


def find_invalid_name(name: object, longest: int = _MAX_COMPOSITE_NAME_LENGTH) -> Problem | None:
    """Returns why an object cannot have a name, by default an object of this project's kinds; None if it can."""
    if name is None:
        return Problem("metadata.name", "is required")
    if isinstance(name, str) and len(name) <= longest and _NAME.fullmatch(name):
        return None
    allowed = f"lower-case letters, digits, - and ., {longest} at most" if isinstance(name, str) else "text"
    return invalid_value("metadata.name", name, allowed)


def find_metadata_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yields what the API server refuses in the metadata of an object, and labels that no node can have."""
    longest = _MAX_COMPOSITE_NAME_LENGTH if is_ours(manifest) else _MAX_NAME_LENGTH
    if problem := find_invalid_name(get(manifest, "metadata.name"), longest):
        yield problem
    namespace = get(manifest, "metadata.namespace")
    is_label = isinstance(namespace, str) and len(namespace) <= _MAX_LABEL_LENGTH and _NAMESPACE.fullmatch(namespace)
    if namespace not in (None, "") and not is_label:
        is_text = isinstance(namespace, str)
        allowed = f"lower-case letters, digits and -, {_MAX_LABEL_LENGTH} at most" if is_text else "text"
        yield invalid_value("metadata.namespace", namespace, allowed)
    labels = get(manifest, "metadata.labels")
    if isinstance(labels, dict):
        yield from _find_invalid_labels(labels, "metadata.labels")
    elif labels is not None:
        yield invalid_value("metadata.labels", labels, "a map")
    for path in _NODE_LABELS if is_ours(manifest) else ():
        for index, pool in enumerate(listing(manifest, path)):
            yield from _find_invalid_labels(strings(pool, "labels"), f"{path}[{index}].labels")


def _find_invalid_labels(labels: Mapping[str, object], path: str) -> Iterator[Problem]:
    problems = (find_invalid_label(key, value, f"{path}[{key}]") for key, value in labels.items())
    yield from filter(None, problems)
