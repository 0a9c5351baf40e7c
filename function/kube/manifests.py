"""Reading nested manifests by dotted path, and their size on the wire.

Every reader returns an empty value of its own type where the path is absent or has another type: the shape of what a
remote cluster or an older object wrote is never trusted.
"""

import marshal
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


def list_texts(manifest: JSON, path: str) -> tuple[str, ...]:
    """Returns the strings of the list at `path`, without anything else."""
    found = get(manifest, path)
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def strings(manifest: JSON, path: str) -> dict[str, str]:
    """Return the string entries of the map at `path` (labels, annotations, data)."""
    return {key: value for key, value in mapping(manifest, path).items() if isinstance(value, str)}


def condition(manifest: JSON, type_: str) -> Manifest:
    """Return the entry of `status.conditions` with this type, or an empty map."""
    return next((c for c in listing(manifest, "status.conditions") if c.get("type") == type_), {})


def copy_manifest(manifest: Manifest) -> Manifest:
    """Return a manifest that shares nothing with this one; a fifth of what copy.deepcopy takes."""
    return {key: _copied(value) for key, value in manifest.items()}


def _copied(value: JSON) -> JSON:
    if isinstance(value, dict):
        return copy_manifest(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value


def prune(manifest: Mapping[str, JSON]) -> Manifest:
    """Return the map without its entries that are None, so that optional fields read as one literal."""
    return {key: value for key, value in manifest.items() if value is not None}


_TAG = 1
_NUMBER = 8  # a double
# Format 2 of marshal writes each value in full: 1 byte for a boolean, which takes 4 in a list of a Struct, and at least
# 5 for anything else besides the characters of a text, which takes 11 at most.
_FORMAT, _MOST_PER_BYTE = 2, 4


def wire_bytes(manifest: Manifest) -> int:
    """Return the size of a manifest as a Struct, without the field that holds it."""
    total = 0
    for key, value in manifest.items():
        total += _field(_field(len(key.encode())) + _field(_value(value)))
    return total


def max_wire_bytes(manifest: Manifest) -> int:
    """Returns a size that a manifest does not exceed as a Struct; much cheaper than its exact size."""
    return _MOST_PER_BYTE * len(marshal.dumps(manifest, _FORMAT))


def _value(value: JSON) -> int:
    match value:
        case str():
            return _field(len(value.encode()))
        case dict():
            return _field(wire_bytes(value))
        case list():
            return _field(sum(_field(_value(item)) for item in value))
        case None | bool():
            return _TAG + 1
        case _:
            return _TAG + _NUMBER


def _field(size: int) -> int:
    """Return the size of a field with so many bytes of content: its tag, its length and the content."""
    return _TAG + max(1, -(-size.bit_length() // 7)) + size
