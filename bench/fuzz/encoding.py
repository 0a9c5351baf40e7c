"""A mutated request on the wire, and bytes that are no request."""

from random import Random

from bench import wire
from function.kube.manifests import JSON, Manifest, mapping

CONTEXT, INPUT = 5, 4
# Text that protobuf's library would not write, as long as its mark, and more levels than it reads.
_MARK, _NO_TEXT, _LEVELS = "no text as it is", b"\xc3\x28\xff no UTF-8 at", 200


def encoded(parts: Manifest, random: Random | None = None) -> bytes:
    """Return a request, its maps in a random order; what is no map where one must be is left out: no bytes say it."""
    manifests = {key: value for key, value in mapping(parts, "observed").items() if isinstance(value, dict)}
    required = {
        name: [item for item in items if isinstance(item, dict)]
        for name, items in mapping(parts, "required").items()
        if isinstance(items, list)
    }
    data = wire.request(mapping(parts, "xr"), required, random or Random(0), manifests)  # noqa: S311  # any order
    for number, part in ((INPUT, "input"), (CONTEXT, "context")):
        data += wire.field(number, _payload(mapping(parts, part)))
    return data


def damaged(data: bytes, random: Random) -> bytes:
    """Return a request with a byte replaced or taken away: it may still be one."""
    cut = random.randrange(len(data))
    return data[:cut] + random.choice((b"", b"\xff", b"\xc3\x28")) + data[cut + 1 :]


def malformed(parts: Manifest, random: Random) -> bytes:
    """Return what is certainly no request: text that is no UTF-8, or nesting beyond protobuf's limit, in any part."""
    part = random.choice(("xr", "observed", "required", "input", "context"))
    bad: JSON = _MARK
    if random.random() < 0.5:
        for _ in range(_LEVELS):
            bad = {"a": bad} if random.random() < 0.5 else [bad]
    manifest: Manifest = {"metadata": {"name": "x", "annotations": {"a": bad}}}
    there: JSON = {"anything": manifest} if part == "observed" else manifest
    there = {"anything": [manifest]} if part == "required" else there
    return encoded({**parts, part: there}, random).replace(_MARK.encode(), _NO_TEXT)


def _payload(manifest: Manifest) -> bytes:
    """Return a Struct: a Resource without its first field's number and length."""
    whole = wire.resource(manifest)
    length = 1
    while whole[length] & 0x80:
        length += 1
    return whole[length + 1 :]
