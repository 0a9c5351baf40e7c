"""Reads from the model hub what a repository holds: sizes of its files, without downloading any."""

import fnmatch
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, HTTPMessage
from urllib.parse import quote

from function.cli.options import CliError, Code
from function.domain.model import HuggingFaceSource
from function.kube.manifests import JSON, integer, listing, mapping, text

_SECONDS = 30
# What an engine loads: the first kind that exists, without the copy in the layout of its authors.
_WEIGHTS, _COPIES = ("*.safetensors", "*.gguf", "*.bin", "*.pt", "*.pth"), "consolidated*"
_NEXT_PAGE = re.compile(r'<([^>]+)>;\s*rel="next"')


def fetch_sizes(source: HuggingFaceSource) -> dict[str, int]:
    """Return the bytes of every file that the initializer would fetch, by path."""
    url = f"{_model_url(source)}/tree/{quote(source.revision, safe='')}?recursive=true"
    sizes = {path: n for path, n in _list_files(url, source.repo) if _is_wanted(path, source)}
    if not sizes:
        raise CliError(f"{source.repo} holds no file that the model's patterns admit. Correct them", Code.REFUSED)
    return sizes


def fetch_parameters(source: HuggingFaceSource) -> list[tuple[str, int]]:
    """Return the number of parameters by number format, as far as the hub knows it."""
    counted = mapping(_read_about(source), "safetensors.parameters")
    return sorted((name, n) for name, n in counted.items() if isinstance(n, int))


def _model_url(source: HuggingFaceSource) -> str:
    """Return the address of a repository; HF_ENDPOINT names a mirror."""
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/api/models/{quote(source.repo)}"


def _read_about(source: HuggingFaceSource) -> JSON:
    return _fetch(f"{_model_url(source)}/revision/{quote(source.revision, safe='')}", source.repo)[0]


def fetch_config(source: HuggingFaceSource) -> JSON:
    """Return the config.json of a repository."""
    commit = quote(text(_read_about(source), "sha") or source.revision, safe="")
    return _fetch(f"{_model_url(source).replace('/api/models/', '/')}/resolve/{commit}/config.json", source.repo)[0]


def _list_files(url: str, repo: str) -> Iterator[tuple[str, int]]:
    """Return every file of a repository with its bytes, page by page."""
    while url:
        page, headers = _fetch(url, repo)
        for entry in listing({"page": page}, "page"):
            if text(entry, "type") == "file":
                yield text(entry, "path"), integer(entry, "size")
        following = _NEXT_PAGE.search(headers.get("Link", ""))
        url = following[1] if following else ""


def _is_wanted(path: str, source: HuggingFaceSource) -> bool:
    """Tell whether the initializer would fetch a file. As for the hub's client, a folder stands for all in it."""
    allowed, ignored = (
        any(fnmatch.fnmatch(path, f"{p}*" if p.endswith("/") else p) for p in patterns)
        for patterns in (source.allow, source.ignore)
    )
    return (allowed or not source.allow) and not ignored


def sum_weights(sizes: dict[str, int]) -> int:
    """Return the bytes that an engine loads."""
    # An engine reads what lies at the top; deeper folders hold copies.
    top = {path: n for path, n in sizes.items() if "/" not in path and not fnmatch.fnmatch(path, _COPIES)}
    kinds = ([n for path, n in top.items() if fnmatch.fnmatch(path, pattern)] for pattern in _WEIGHTS)
    return sum(next(filter(None, kinds), sizes.values()))


def _fetch(url: str, repo: str) -> tuple[JSON, HTTPMessage]:
    """Return a page of the hub and its headers; HF_TOKEN opens what is not public."""
    host = url.partition("/api/")[0]
    if not url.startswith(("http://", "https://")):
        raise CliError(f"HF_ENDPOINT must be an address of http or https, not {host}")
    token = os.environ.get("HF_TOKEN")
    headers = {"User-Agent": "modelplane"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # http and https only
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  # likewise
            return json.load(response), response.headers
    except urllib.error.HTTPError as error:
        raise _refuse(error.code, repo) from error
    except (OSError, HTTPException, ValueError) as error:
        message = f"cannot reach the hub at {host} ({error}). Set HF_ENDPOINT to a mirror, or give --params"
        raise CliError(message, Code.UNREACHABLE) from error


def _refuse(status: int, repo: str) -> CliError:
    if status in (401, 403):
        return CliError(f"the hub refuses {repo}: set HF_TOKEN to a token that may read it", Code.UNREACHABLE)
    if status == 404:  # HTTP
        return CliError(f"the hub does not know {repo} or its revision. Correct spec.huggingFace", Code.NOT_FOUND)
    return CliError(f"the hub answered {status} for {repo}. Try again later, or give --params", Code.UNREACHABLE)
