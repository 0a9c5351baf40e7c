"""The cache key: which bytes these are.

The key is the first 16 hex digits of the SHA-256 of the normalised source: a JSON array of the URI without
revision, the revision ("" where the source has none) and the allow and the ignore patterns, each sorted and
without repetition, in the compact form and in this order. Names, tokens and mirrors are not part of it: the
same bytes have the same key for every model that points to them. Another revision or pattern is another
key.
"""

import hashlib
import json

from function.domain.model import HuggingFaceSource, UriSource


def key(source: HuggingFaceSource | UriSource) -> str:
    """Return the cache key of a source that is downloaded."""
    if isinstance(source, HuggingFaceSource):
        parts = [f"hf://{source.repo}", source.revision, sorted({*source.allow}), sorted({*source.ignore})]
    else:
        parts = [source.uri.rstrip("/"), "", [], []]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:16]


def uri(source: HuggingFaceSource | UriSource) -> str:
    """Return the URI that the storage-initializer downloads."""
    return f"hf://{source.repo}:{source.revision}" if isinstance(source, HuggingFaceSource) else source.uri


def directory(source: HuggingFaceSource | UriSource) -> str:
    """Return where the bytes lie on a claim: never its root, which belongs to everybody."""
    return f"models/{key(source)}"
