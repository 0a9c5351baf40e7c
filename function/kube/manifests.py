"""Reading nested manifests by dotted path without caring what is missing on the way.

Every reader returns an empty value of its own type where the path is absent or of another type: what a
remote cluster or an older object wrote is never trusted to have a shape.
"""

from collections.abc import Mapping
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Manifest: TypeAlias = dict[str, JSON]


def get(manifest: JSON, path: str) -> JSON:
    """Return what stands at `path` (`status.phase`), or None."""
    found = manifest
    for key in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


def text(manifest: JSON, path: str) -> str:
    """Return the string at `path`, or an empty one."""
    found = get(manifest, path)
    return found if isinstance(found, str) else ""


def integer(manifest: JSON, path: str, default: int = 0) -> int:
    """Return the whole number at `path`, or the default."""
    found = get(manifest, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def flag(manifest: JSON, path: str) -> bool:
    """Return whether true stands at `path`."""
    return get(manifest, path) is True


def mapping(manifest: JSON, path: str) -> Manifest:
    """Return the map at `path`, or an empty one."""
    found = get(manifest, path)
    return found if isinstance(found, dict) else {}


def listing(manifest: JSON, path: str) -> list[Manifest]:
    """Return the maps of the list at `path`, leaving out anything else."""
    found = get(manifest, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def strings(manifest: JSON, path: str) -> dict[str, str]:
    """Return the string entries of the map at `path` (labels, annotations, data)."""
    return {key: value for key, value in mapping(manifest, path).items() if isinstance(value, str)}


def condition(manifest: JSON, type_: str) -> Manifest:
    """Return the entry of `status.conditions` with this type, or an empty map."""
    return next((c for c in listing(manifest, "status.conditions") if c.get("type") == type_), {})


def copied(manifest: Manifest) -> Manifest:
    """Return a manifest that shares nothing with this one; a fifth of what copy.deepcopy takes."""
    return {key: _copied(value) for key, value in manifest.items()}


def _copied(value: JSON) -> JSON:
    if isinstance(value, dict):
        return copied(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value


def prune(manifest: Mapping[str, JSON]) -> Manifest:
    """Return the map without its entries that are None, so that optional fields read as one literal."""
    return {key: value for key, value in manifest.items() if value is not None}
