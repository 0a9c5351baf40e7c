"""The image's layer follows from names and contents alone; who built it, when and with which umask leaves no trace."""

import io
import os
import tarfile
from pathlib import Path

from tools import image

SITE = Path(image.SITE)


def _tree(root: Path, *, umask: int, time: int) -> Path:
    """Lay out the same files in the manner of one builder."""
    files = {SITE / "module.py": "x = 1\n", Path("usr/local/bin/program"): "#!/usr/bin/python3.11\n"}
    for path, content in sorted(files.items(), reverse=bool(umask & 0o070)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
        (root / path).chmod((0o777 if "bin" in path.parts else 0o666) & ~umask)
        os.utime(root / path, (time, time))
    (root / "lib").symlink_to("usr/lib")
    (root / SITE / "bin").mkdir()
    (root / SITE / "bin" / "program").write_text("#!/elsewhere/python\n")
    return root


def test_two_builders_make_the_same_layer(tmp_path: Path) -> None:
    one = image._layer(_tree(tmp_path / "one", umask=0o022, time=1))  # noqa: SLF001  # a whole image takes mmdebstrap
    other = image._layer(_tree(tmp_path / "other", umask=0o077, time=2_000_000_000))  # noqa: SLF001  # likewise
    assert one == other


def test_a_layer_holds_what_runs_and_nothing_of_the_builder(tmp_path: Path) -> None:
    layer = image._layer(_tree(tmp_path, umask=0o077, time=7))  # noqa: SLF001  # likewise
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        found = {m.name: (oct(m.mode), m.uid, m.gid, m.mtime) for m in files if not m.isdir()}
        folders = {m.name: oct(m.mode) for m in files if m.isdir()}
    assert found == {
        "lib": ("0o755", 0, 0, 0),  # a link, whose mode counts for nothing
        f"{SITE}/module.py": ("0o644", 0, 0, 0),
        "usr/local/bin/program": ("0o755", 0, 0, 0),
    }
    assert folders.pop("tmp") == "0o1777"
    assert set(folders.values()) == {"0o755"}
