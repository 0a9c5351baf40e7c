"""The image's layer follows from names and contents alone; who built it, when and with which umask leaves no trace."""

import io
import json
import os
import tarfile
from pathlib import Path

from tools import image, sbom

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


def test_the_bill_of_materials_names_every_package_once(tmp_path: Path) -> None:
    metadata = tmp_path / "Some.Thing-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: Some.Thing\nVersion: 1.2\n")
    archives = ["libcrypt1_1%3a4.4.33-2_amd64.deb", "libbz2-1.0_1.0.8-5+b1_amd64.deb"]
    said = json.loads(sbom.document("function", "0.1.0", archives, tmp_path, "bookworm"))
    assert said["metadata"]["component"] == {"type": "container", "name": "function", "version": "0.1.0"}
    assert [(c["name"], c["version"], c["purl"]) for c in said["components"]] == [
        ("libbz2-1.0", "1.0.8-5+b1", "pkg:deb/debian/libbz2-1.0@1.0.8-5%2Bb1?arch=amd64&distro=bookworm"),
        ("libcrypt1", "1:4.4.33-2", "pkg:deb/debian/libcrypt1@1%3A4.4.33-2?arch=amd64&distro=bookworm"),
        ("some-thing", "1.2", "pkg:pypi/some-thing@1.2"),
    ]
