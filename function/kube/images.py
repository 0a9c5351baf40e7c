"""References of images, as in github.com/distribution/reference: what the kubelet cannot parse it never pulls."""

import re

LONGEST = 255  # characters of the repository's path

_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
# Without a dot, a port or a capital the first part is a host only where it is localhost.
_IS_HOST = r"(?=localhost/|[^/]*[.:A-Z])"
_REFERENCE = re.compile(
    rf"(?:{_IS_HOST}{_HOST}/)?(?P<path>{_PART}(?:/{_PART})*)(?::\w[\w.-]{{0,127}})?(?:@(?:{_DIGEST}))?", re.ASCII
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


def is_image(text: str) -> bool:
    """Tell whether the kubelet can parse the reference of an image; a bare identifier of 64 digits it refuses."""
    found = None if _IDENTIFIER.fullmatch(text) else _REFERENCE.fullmatch(text)
    return found is not None and len(found["path"]) + (0 if "/" in text else len("library/")) <= LONGEST
