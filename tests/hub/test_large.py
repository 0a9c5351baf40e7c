"""The large files of a hub: valid by their own headers, and sent no faster than allowed."""

import time
import urllib.request
from pathlib import Path

from function.weights.scripts.download_script import check_safetensors
from tests.hub.hub import serving
from tests.hub.large import HEAD_BYTES, LargeFile, LargeHandler, LargeHub, Limit

SIZE = 3 * 2**20 + 5
NAME = "model.safetensors"


def _hub(speed: int) -> LargeHub:
    return LargeHub(files={"config.json": b"{}"}, large={NAME: LargeFile(SIZE)}, limit=Limit(speed))


def test_sends_a_valid_file_from_any_byte_on(tmp_path: Path) -> None:
    with serving(_hub(10**9), handler=LargeHandler) as hub:
        url = f"{hub.endpoint}/owner/model/resolve/main/{NAME}"
        with urllib.request.urlopen(url) as answer:
            found = answer.read()
        for start in (7, HEAD_BYTES, SIZE - 1):
            request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"})
            with urllib.request.urlopen(request) as answer:
                assert answer.read() == found[start:]
    assert len(found) == SIZE
    path = tmp_path / NAME
    path.write_bytes(found)
    assert check_safetensors(path) == ""


def test_speed_is_limited() -> None:
    with serving(_hub(10 * 2**20), handler=LargeHandler) as hub:
        start = time.monotonic()
        with urllib.request.urlopen(f"{hub.endpoint}/owner/model/resolve/main/{NAME}") as answer:
            answer.read()
    assert time.monotonic() - start > 0.25, "3 MiB at 10 MiB per second"
