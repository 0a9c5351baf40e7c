"""Reading nested manifests by dotted path, times in them, and their size on the wire.

Every reader returns an empty value of its own type if the path is absent or has another type: readers never trust the
structure of what a remote cluster or an older object contains.
"""

import marshal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Manifest: TypeAlias = dict[str, JSON]


def get(manifest: JSON, path: str) -> JSON:
    """Returns the value at a path such as `status.phase`, or None."""
    value = manifest
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(manifest: JSON, path: str) -> str:
    value = get(manifest, path)
    return value if isinstance(value, str) else ""


def integer(manifest: JSON, path: str, default: int = 0) -> int:
    value = get(manifest, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def flag(manifest: JSON, path: str) -> bool:
    return get(manifest, path) is True


def mapping(manifest: JSON, path: str) -> Manifest:
    value = get(manifest, path)
    return value if isinstance(value, dict) else {}


def listing(manifest: JSON, path: str) -> list[Manifest]:
    """Returns the maps in the list at `path`, and ignores all other items."""
    value = get(manifest, path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def list_texts(manifest: JSON, path: str) -> tuple[str, ...]:
    """Returns the strings in the list at `path`, and ignores all other items."""
    value = get(manifest, path)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def strings(manifest: JSON, path: str) -> dict[str, str]:
    """Returns the string entries of the map at `path` (labels, annotations, data)."""
    return {key: value for key, value in mapping(manifest, path).items() if isinstance(value, str)}


def condition(manifest: JSON, type_: str) -> Manifest:
    """Returns the entry of `status.conditions` with this type, or an empty map."""
    return next((c for c in listing(manifest, "status.conditions") if c.get("type") == type_), {})


def is_ready(manifest: JSON) -> bool:
    """Tells whether Crossplane reports Ready for the current spec."""
    return condition(manifest, "Ready").get("status") == "True" and is_condition_current(manifest)


def is_condition_current(manifest: JSON, type_: str = "Ready") -> bool:
    """Tells whether a condition is about the current generation; true if the condition or the object has none."""
    generation = get(manifest, "metadata.generation")
    return generation is None or condition(manifest, type_).get("observedGeneration", generation) == generation


def is_deleting(manifest: JSON) -> bool:
    return get(manifest, "metadata.deletionTimestamp") is not None


def find_controller(manifest: JSON, group: str = "", kind: str = "") -> str:
    """Returns the uid of the owner that controls an object; empty if there is none, or it is not of this kind."""
    owners = (owner for owner in listing(manifest, "metadata.ownerReferences") if flag(owner, "controller"))
    owner = next(owners, {})
    is_of_kind = not kind or (text(owner, "apiVersion").partition("/")[0], text(owner, "kind")) == (group, kind)
    return text(owner, "uid") if is_of_kind else ""


def prune(manifest: Mapping[str, JSON]) -> Manifest:
    """Returns the map without its entries that are None, so that a literal can have optional fields."""
    return {key: value for key, value in manifest.items() if value is not None}


# Times as Kubernetes writes them: RFC 3339, in UTC, to the second.
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def parse_time(value: str) -> int | None:
    """Returns a time in seconds since 1970; None if it is not in this format."""
    try:
        return int(datetime.strptime(value, _TIME_FORMAT).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_TIME_FORMAT)


_TAG = 1
_NUMBER = 8  # a double
# Format 2 of marshal writes each value in full: 1 byte for a boolean, which takes 4 bytes in a list of a Struct, and at
# least 5 bytes for any other value, plus the characters of a text. Such a value takes at most 11 bytes in a Struct.
_FORMAT, _MOST_PER_BYTE = 2, 4


def wire_bytes(manifest: Manifest) -> int:
    """Returns the size of a manifest as a google.protobuf.Struct, without the field that holds it."""
    total = 0
    for key, value in manifest.items():
        total += _field(_field(len(key.encode())) + _field(_value(value)))
    return total


def max_wire_bytes(manifest: Manifest) -> int:
    """Returns an upper bound of the size of a manifest as a Struct, much cheaper than the exact size."""
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
    """Returns the size of a field with its tag, its length and this number of bytes of content."""
    return _TAG + max(1, -(-size.bit_length() // 7)) + size
