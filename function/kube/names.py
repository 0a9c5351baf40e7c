"""Names of remote and composed objects, and the labels and annotations that carry meaning.

A name is DNS-1035 (KServe refuses to start anything else), ends in a hash of everything that identifies the object, and
is never shortened without this hash: two long names with the same beginning stay different.

References of images follow github.com/distribution/reference: the kubelet never pulls one that it cannot parse.
"""

import hashlib
import re
from functools import lru_cache

GROUP = "modelplane.ai"
VERSION = f"{GROUP}/v1alpha1"
MANAGED_BY = {"app.kubernetes.io/managed-by": "modelplane"}
LABEL_DEPLOYMENT = f"{GROUP}/deployment"
LABEL_ENVIRONMENT = f"{GROUP}/environment"
LABEL_CACHE = f"{GROUP}/cache"
LABEL_OWNER = f"{GROUP}/owner"
LABEL_SERVICE = f"{GROUP}/service"
LABEL_CACHE_KEY = f"{GROUP}/cache-key"
LABEL_KEPT_FOR = f"{GROUP}/kept-for"  # on Objects of claims that are kept: a namespace of the control plane
LABEL_MODEL = f"{GROUP}/model"  # on claims and Jobs: the name of the source of the weights
ANNOTATION_VRAM = f"{GROUP}/vram"
ANNOTATION_PRICE = f"{GROUP}/price-per-gpu-hour"
ANNOTATION_DEPLOYMENT_CREATED = f"{GROUP}/deployment-created"
ANNOTATION_EXCLUSIVE_NODES = f"{GROUP}/exclusive-replica-nodes"
ANNOTATION_RETRY = f"{GROUP}/retry"
ANNOTATION_ADAPTERS = f"{GROUP}/adapters"
ANNOTATION_SPEC_DIGEST = f"{GROUP}/spec-digest"
COMPOSITION_KEY = "crossplane.io/composition-resource-name"
PAUSED = "crossplane.io/paused"
EXTERNAL_NAME = "crossplane.io/external-name"

# KServe adds prefixes and suffixes to the service's name; with a name of more than 40 characters, KServe's own children
# break (docs/facts.md, KServe).
PREFIXED_LIMIT = 35
_LABEL_LIMIT = 63
_HASH = 8


def hash_parts(*parts: str) -> str:
    """Returns 16 hex digits that identify the parts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=4096)  # every call of a composite builds the same names again
def build_name(stem: str, *identity: str, limit: int = PREFIXED_LIMIT) -> str:
    """Returns a DNS-1035 name of at most `limit` characters: the stem, truncated, and a hash of the identity."""
    readable = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not readable[:1].isalpha():
        readable = f"m-{readable}".rstrip("-")
    cut = readable[: limit - _HASH - 1].rstrip("-")
    return f"{cut}-{hash_parts(*identity)[:_HASH]}"


def label_value(name: str) -> str:
    """Returns the name of an object as a label value, which is limited to 63 characters, while names have up to 253."""
    return name if len(name) <= _LABEL_LIMIT else build_name(name, name, limit=_LABEL_LIMIT)


def clean_label_value(text: str) -> str:
    """Returns a text as a label value: other characters become `_`, and a long text gets a hash; may be empty."""
    return label_value(re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._-"))


MAX_PATH_LENGTH = 255  # characters of a repository

_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
# Without a dot, a port or a capital, the first part is a host only if it is localhost.
_IS_HOST = r"(?=localhost/|[^/]*[.:A-Z])"
_REFERENCE = re.compile(
    rf"(?:{_IS_HOST}{_HOST}/)?(?P<path>{_PART}(?:/{_PART})*)(?::\w[\w.-]{{0,127}})?(?:@(?:{_DIGEST}))?", re.ASCII
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


def is_image(text: str) -> bool:
    """Tells whether the kubelet can parse the reference of an image; it refuses a bare identifier of 64 digits."""
    match = None if _IDENTIFIER.fullmatch(text) else _REFERENCE.fullmatch(text)
    return match is not None and len(match["path"]) + (0 if "/" in text else len("library/")) <= MAX_PATH_LENGTH
