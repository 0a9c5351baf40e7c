"""What a repository of the model hub really holds: sizes of its files, without downloading any.

Only what the initializer would fetch counts, by the model's own patterns. HF_ENDPOINT names a mirror, HF_TOKEN opens
what is not public.
"""

import fnmatch
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from urllib.parse import quote

from function.cli.options import CliError, Code
from function.domain.model import HuggingFaceSource
from function.kube.manifests import JSON, integer, mapping, text

ENDPOINT = "https://huggingface.co"
_SECONDS = 30
# What an engine loads, the first kind that is there.
_WEIGHTS = ("*.safetensors", "*.gguf", "*.bin", "*.pt", "*.pth")
# The same weights once more, in the layout of their authors.
_COPIES = "consolidated*"
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Bytes of what would be downloaded, and of the weights among it. `parameters` by number format, if it says."""

    downloaded: int
    weights: int
    files: int
    parameters: tuple[tuple[str, int], ...] = ()


def measure(source: HuggingFaceSource) -> Repository:
    """Return what a repository holds."""
    base = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    model = f"{base}/api/models/{quote(source.repo)}"
    revision = quote(source.revision, safe="")
    sizes = {
        path: size
        for path, size in _tree(f"{model}/tree/{revision}?recursive=true", source.repo)
        if _wanted(path, source)
    }
    if not sizes:
        raise CliError(f"{source.repo} holds no file that the model's patterns admit. Correct them", Code.REFUSED)
    about, _ = _get(f"{model}/revision/{revision}", source.repo)
    counted = mapping(about, "safetensors.parameters")
    return Repository(
        downloaded=sum(sizes.values()),
        weights=_weights(sizes),
        files=len(sizes),
        parameters=tuple(sorted((name, n) for name, n in counted.items() if isinstance(n, int))),
    )


def read_config(source: HuggingFaceSource) -> JSON:
    """Return the config.json of a repository."""
    base = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    about, _ = _get(f"{base}/api/models/{quote(source.repo)}/revision/{quote(source.revision, safe='')}", source.repo)
    commit = text(about, "sha") or source.revision
    found, _ = _get(f"{base}/{quote(source.repo)}/resolve/{quote(commit, safe='')}/config.json", source.repo)
    return found


def _tree(url: str, repo: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    while url:
        page, headers = _get(url, repo)
        entries = page if isinstance(page, list) else []
        found += [(text(e, "path"), integer(e, "size")) for e in entries if text(e, "type") == "file"]
        following = _NEXT.search(headers.get("Link", ""))
        url = following[1] if following else ""
    return found


def _wanted(path: str, source: HuggingFaceSource) -> bool:
    return (not source.allow or _any(path, source.allow)) and not _any(path, source.ignore)


def _any(path: str, patterns: Sequence[str]) -> bool:
    # The hub's own client reads a folder as everything in it.
    return any(fnmatch.fnmatch(path, f"{p}*" if p.endswith("/") else p) for p in patterns)


def _weights(sizes: dict[str, int]) -> int:
    # An engine reads what lies at the top; deeper folders hold copies.
    top = {path: size for path, size in sizes.items() if "/" not in path and not fnmatch.fnmatch(path, _COPIES)}
    for pattern in _WEIGHTS:
        found = [size for path, size in top.items() if fnmatch.fnmatch(path, pattern)]
        if found:
            return sum(found)
    return sum(sizes.values())


def _get(url: str, repo: str) -> tuple[JSON, HTTPMessage]:
    if not url.startswith(("http://", "https://")):
        raise CliError(f"HF_ENDPOINT must be an address of http or https, not {url.partition('/api/')[0]}")
    token = os.environ.get("HF_TOKEN")
    headers = {"User-Agent": "modelplane"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # http and https only
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  # likewise
            return json.load(response), response.headers
    except urllib.error.HTTPError as error:
        raise _refused(error.code, repo) from error
    except (OSError, HTTPException, ValueError) as error:
        host = url.partition("/api/")[0]
        message = f"cannot reach the hub at {host} ({error}). Set HF_ENDPOINT to a mirror, or give --params"
        raise CliError(message, Code.UNREACHABLE) from error


def _refused(status: int, repo: str) -> CliError:
    if status in (401, 403):
        return CliError(f"the hub refuses {repo}: set HF_TOKEN to a token that may read it", Code.UNREACHABLE)
    if status == 404:  # HTTP
        return CliError(f"the hub does not know {repo} or its revision. Correct spec.huggingFace", Code.NOT_FOUND)
    return CliError(f"the hub answered {status} for {repo}. Try again later, or give --params", Code.UNREACHABLE)
