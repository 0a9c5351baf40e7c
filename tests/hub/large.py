"""A hub with large files that take no space: a header and zeros, sent with a limited speed.

All files have the same bytes, so that their hash is computed once.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tests.hub.hub import COMMIT, Handler, Hub

HEAD_BYTES = 4096
_CHUNK = bytes(2**20)


@dataclass(frozen=True)
class LargeFile:
    """A safetensors file with one tensor of zeros."""

    size: int

    @cached_property
    def head(self) -> bytes:
        """The length of the header, and the header, which spaces may end."""
        numbers = self.size - HEAD_BYTES
        header = json.dumps({"zeros": {"dtype": "U8", "shape": [numbers], "data_offsets": [0, numbers]}})
        return (HEAD_BYTES - 8).to_bytes(8, "little") + header.encode().ljust(HEAD_BYTES - 8)

    @cached_property
    def sha256(self) -> str:
        found = hashlib.sha256()
        for chunk in self.read(0):
            found.update(chunk)
        return found.hexdigest()

    def read(self, start: int) -> Iterator[bytes]:
        """Yields the bytes from one on, a megabyte at most at once."""
        if start < HEAD_BYTES:
            yield self.head[start:]
            start = HEAD_BYTES
        for position in range(start, self.size, len(_CHUNK)):
            yield _CHUNK[: self.size - position]


class Limit:
    """A number of bytes per second, for all connections together."""

    def __init__(self, bytes_per_second: int) -> None:
        self._speed, self._lock, self._next = bytes_per_second, threading.Lock(), 0.0

    def take(self, size: int) -> None:
        """Waits until so many bytes may be sent."""
        with self._lock:
            self._next = max(self._next, time.monotonic()) + size / self._speed
            seconds = self._next - time.monotonic()
        time.sleep(max(0.0, seconds))


@dataclass
class LargeHub(Hub):
    """A hub with large files besides the others."""

    limit: Limit = field(kw_only=True)
    large: dict[str, LargeFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lists the large files as well."""
        self.sizes |= {name: file.size for name, file in self.large.items()}


class LargeHandler(Handler):
    """Sends large files piece by piece."""

    hub: LargeHub

    def _file(self, name: str, *, body: bool) -> None:
        file = self.hub.large.get(name)
        if file is None:
            super()._file(name, body=body)
            return
        start = self._start()
        self.send_response(206 if start else 200)
        headers = {"ETag": f'"{file.sha256}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{file.size - 1}/{file.size}"
        for key, value in {**headers, "Content-Length": str(file.size - start)}.items():
            self.send_header(key, value)
        self.end_headers()
        for chunk in file.read(start) if body else ():
            self.hub.limit.take(len(chunk))
            self.wfile.write(chunk)
