"""The image's layer follows from names and contents alone; who built it, when and with which umask leaves no trace."""

import io
import json
import os
import tarfile
import tomllib
from pathlib import Path

import pytest

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


def test_an_engine_builds_the_same_image_by_the_same_code() -> None:
    steps = [line.partition(" ") for line in (image.ROOT / "Dockerfile").read_text().splitlines() if line[:1].isalpha()]
    last = max(place for place, (word, _, _) in enumerate(steps) if word == "FROM")
    assert any(word == "RUN" and said.startswith("make image ") for word, _, said in steps[:last])
    config = image._config(b"", image.ROOT)["config"]  # noqa: SLF001  # what both must say
    assert isinstance(config, dict)
    assert [(word, said) for word, _, said in steps[last:]] == [
        ("FROM", "scratch"),
        ("COPY", "--from=build /image /"),
        ("ENV", " ".join(config["Env"])),
        ("USER", config["User"]),
        ("EXPOSE", *config["ExposedPorts"]),
        ("ENTRYPOINT", json.dumps(config["Entrypoint"])),
    ]


def test_an_engine_is_given_what_the_image_is_built_from() -> None:
    kept = {line[1:] for line in (image.ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    project = tomllib.loads((image.ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = {*wheel["packages"], project["project"]["readme"], *project["project"]["license-files"]}
    assert kept == named | {"Makefile", "pyproject.toml", "requirements", "tools"}


@pytest.mark.parametrize("python", ["/one/bin/python", "/some/longer/bin/python"])
def test_the_builders_python_stands_nowhere(tmp_path: Path, python: str) -> None:
    scripts, metadata = tmp_path / SITE / "bin", tmp_path / SITE / "function.dist-info"
    scripts.mkdir(parents=True)
    metadata.mkdir()
    for name in (image.NAME, "modelplane"):
        (scripts / name).write_text(f"#!{python}\nimport sys\n")
    digests = f"../../bin/{image.NAME},sha256={len(python)},1\n../../bin/modelplane,sha256={len(python)},2\n"
    (metadata / "RECORD").write_text(f"{digests}function/__init__.py,,\nfunction.dist-info/RECORD,,\n")
    image._program(tmp_path)  # noqa: SLF001  # likewise
    files = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {
        f"usr/local/bin/{image.NAME}": "#!/usr/bin/python3.11\nimport sys\n",
        f"{SITE}/function.dist-info/RECORD": "function/__init__.py,,\nfunction.dist-info/RECORD,,\n",
    }


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
