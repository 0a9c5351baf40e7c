"""Requests whose choices are bytes, of which libFuzzer (atheris) keeps those that reach new code (`make fuzz-guided`).

corpus.txt has what earlier runs kept, a line in hexadecimal each. A run goes on from there and from random ones, and
writes back the smallest set that reaches as much.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random

import click

CORPUS = Path(__file__).with_name("corpus.txt")
# Choices: a request takes some forty bytes, and beyond these libFuzzer only repeats itself.
_MOST_BYTES, _MOST_MEGABYTES, _FRESH = 256, 2048, 1000


class Chosen(Random):
    """Chooses as bytes say, and the first of everything when there are none left."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._next = data, 0

    def random(self) -> float:
        """Return a number from 0 to less than 1."""
        return self.getrandbits(16) / 2**16

    def getrandbits(self, k: int, /) -> int:
        """Return so many bits."""
        length = (k + 7) // 8
        taken = self._data[self._next : self._next + length]
        self._next += length
        return int.from_bytes(taken.ljust(length, b"\0")) >> (8 * length - k)


def corpus() -> list[bytes]:
    """Return what is known to reach something of its own."""
    return [bytes.fromhex(line) for line in CORPUS.read_text().split()]


@click.command(help=__doc__)
@click.option("--seconds", default=600, show_default=True, help="So long.")
def main(seconds: int) -> None:
    """Look for what must never happen; ends with an error where it was found."""
    random = Random()  # noqa: S311  # others each time
    with tempfile.TemporaryDirectory() as folder:
        known, smallest = Path(folder) / "known", Path(folder) / "smallest"
        smallest.mkdir()
        _write(known, [*corpus(), *(random.randbytes(_MOST_BYTES // 4) for _ in range(_FRESH))])
        failed = _libfuzzer(known, f"-max_total_time={seconds}", f"-artifact_prefix={folder}/")
        failed = _libfuzzer("-merge=1", smallest, known) or failed
        lines = sorted(path.read_bytes().hex() for path in smallest.iterdir())
    click.echo(f"{len(lines)} kept")
    if not failed:
        CORPUS.write_text("".join(f"{line}\n" for line in lines if line))
    sys.exit(failed)


def _write(folder: Path, found: Iterable[bytes]) -> None:
    folder.mkdir()
    for number, data in enumerate(found):
        (folder / str(number)).write_bytes(data)


def _libfuzzer(*arguments: object) -> int:
    limits = (f"-max_len={_MOST_BYTES}", f"-rss_limit_mb={_MOST_MEGABYTES}")
    command = (sys.executable, "-m", "bench.fuzz.target", *map(str, arguments), *limits)
    return subprocess.run(command, check=False).returncode  # noqa: S603  # this interpreter


if __name__ == "__main__":
    main()
