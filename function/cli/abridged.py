"""Manifests for people: the download script, which every Job carries whole, stands as one line that tells which it is.

The line is Python that fails with what it says: a Job that was applied with it downloads nothing and calls that no
success.
"""

import hashlib

from function.kube.manifests import JSON
from function.storage.job import SCRIPT, literal

_WHOLE = literal(SCRIPT)


def abridged(value: JSON) -> JSON:
    """Return a value with a line for each download script in it."""
    if isinstance(value, dict):
        return {key: abridged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [abridged(item) for item in value]
    return _line() if value == _WHOLE else value


def _line() -> str:
    said = SCRIPT.encode()
    digest = hashlib.sha256(said).hexdigest()
    about = f"{len(said):,} bytes, sha256:{digest}"
    return f"raise SystemExit('the download script, {about}: left out without --full')"
