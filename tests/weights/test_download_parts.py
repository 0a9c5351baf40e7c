"""Downloads in parts: what each completion of an Indexed Job fetches, and who completes the directory."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from function.weights.scripts.download_script import MARKER, Exit, divide
from tests.hub import weights
from tests.hub.hub import Hub, serving
from tests.weights.directories import Program, fill

PARTS = 3
TOKEN = "hf_a_token_of_a_test"
URI = "hf://owner/model:main"
# Copies the allowed files of a directory, and reports the patterns; as the initializer does, with fnmatch.
FETCH = """import json, os, pathlib, sys
from fnmatch import fnmatch
source, log = map(pathlib.Path, sys.argv[1:3])
target = pathlib.Path(sys.argv[4])
allowed = json.loads(os.environ.get("STORAGE_ALLOW_PATTERNS") or '["*"]')
with log.open("a") as file:
    file.write(json.dumps(allowed) + "\\n")
for path in filter(pathlib.Path.is_file, source.rglob("*")):
    name = path.relative_to(source).as_posix()
    if any(fnmatch(name, pattern) for pattern in allowed):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(path.read_bytes())
"""
ALL = ["*"]
SHARDS = [f"model-0000{number}-of-00004.safetensors" for number in range(1, 5)]
MODEL = {
    "config.json": b"{}",
    "model.safetensors.index.json": weights.index(*SHARDS),
    **dict.fromkeys(SHARDS, weights.safetensors(500)),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(files=dict(MODEL))) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.endpoint)
        monkeypatch.setenv("MODELPLANE_PARTS", str(PARTS))
        monkeypatch.setattr(script, "LARGE", len(found.files[SHARDS[0]]))
        yield found


@pytest.fixture
def run(hub: Hub, root: Path, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Runner":
    """Runs completions over one directory."""
    fill(tmp_path / "source", hub.files)
    (tmp_path / "fetch.py").write_text(FETCH)
    program(f'exec {sys.executable} {tmp_path}/fetch.py {tmp_path}/source {tmp_path}/log "$@"')
    return Runner(root, tmp_path / "log", monkeypatch)


class Runner:
    def __init__(self, root: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._log, self._monkeypatch = root, log, monkeypatch

    def __call__(self, index: int) -> tuple[int, list[list[str]]]:
        """Returns the exit code of a completion, and the patterns of each run of the initializer."""
        self._log.unlink(missing_ok=True)
        self._monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
        code = script.main(URI, str(self.root))
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return code, [json.loads(line) for line in lines]

    @property
    def is_complete(self) -> bool:
        return (self.root / MARKER).is_file()


@pytest.mark.parametrize(
    ("sizes", "count", "want"),
    [
        ({}, 2, [[], []]),
        ({"a": 1}, 3, [["a"], [], []]),
        ({"b": 1, "a": 1}, 2, [["a"], ["b"]]),
        ({"a": 3, "b": 1}, 2, [["a"], ["b"]]),
        ({"a": 1, "b": 3}, 2, [["a", "b"], []]),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, 2, [["a", "b"], ["c", "d"]]),
        ({"a": 1, "tiny": 0, "z": 1}, 2, [["a"], ["z"]]),
    ],
)
def test_divides_by_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], count: int, want: list[list[str]]
) -> None:
    monkeypatch.setattr(script, "LARGE", 1)
    assert [[*part] for part in divide(sizes, count)] == want


@pytest.mark.parametrize("count", range(1, 9))
def test_first_parts_have_at_least_their_share(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(script, "LARGE", 1)
    sizes = {f"{number:03}": 1 + number * 7919 % 97 for number in range(60)}
    parts = divide(sizes, count)
    assert {name: size for part in parts for name, size in part.items()} == sizes
    for done in range(count + 1):
        bytes_done = sum(sum(part.values()) for part in parts[:done])
        assert bytes_done * count >= sum(sizes.values()) * done


def test_last_part_completes_the_directory(run: Runner, hub: Hub) -> None:
    assert run(0) == (0, [SHARDS[:2]])
    assert run(1) == (0, [SHARDS[2:3]])
    assert {path.name for path in run.root.rglob("*") if path.is_file()} == {*SHARDS[:3]}, "and no marker"
    assert run(PARTS - 1) == (0, [ALL])
    assert run.is_complete
    assert {name: (run.root / name).read_bytes() for name in hub.files} == hub.files


def test_part_of_complete_weights_downloads_nothing(run: Runner, hub: Hub) -> None:
    assert run(PARTS - 1) == (0, [ALL]), "whichever completion runs first, the last one needs no other"
    hub.requests.clear()
    assert [run(index) for index in range(PARTS)] == [(0, [])] * PARTS
    assert hub.requests == []


def test_part_without_files_downloads_nothing(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_ALLOW_PATTERNS", json.dumps(SHARDS[:1]))
    assert [run(index) for index in range(PARTS - 1)] == [(0, [SHARDS[:1]]), (0, [])]
    assert not run.is_complete


@pytest.mark.parametrize("status", [401, 404, 500])
def test_part_without_a_listing_downloads_everything(run: Runner, hub: Hub, status: int) -> None:
    hub.statuses["/api/models/"] = status
    assert run(0) == (0, [ALL])
    assert run.is_complete
    assert run(1) == (0, [])


def test_part_of_too_many_names_downloads_everything(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "NAMES", 10)
    assert run(0) == (0, [ALL])
    assert run.is_complete


def test_part_downloads_everything_if_a_file_is_not_as_listed(run: Runner, hub: Hub) -> None:
    hub.sizes[SHARDS[0]] = 10 * len(hub.files[SHARDS[0]])
    code, calls = run(0)
    assert code == 0
    assert calls[-1] == ALL
    assert run.is_complete, "the files are as their own headers say"


def test_failed_part_has_the_code_of_its_cause(run: Runner, program: Program) -> None:
    program("echo 'HTTPError: 403 Client Error'; exit 1")
    assert run(0) == (Exit.UNAUTHORISED, [])
    assert run(PARTS - 1) == (Exit.UNAUTHORISED, [])


def test_listing_is_filtered_and_asked_for_with_the_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = TOKEN
    hub.files[".cache/x"] = b"x"
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}\n")
    monkeypatch.setenv("STORAGE_IGNORE_PATTERNS", json.dumps(SHARDS[:1]))
    want = {name: len(data) for name, data in MODEL.items() if name != SHARDS[0]}
    assert script.list_files("hf://owner/model:refs/pr/1") == want
    assert hub.requests == ["GET /api/models/owner/model/revision/refs/pr/1"]


def test_names_are_no_patterns(run: Runner, hub: Hub, tmp_path: Path) -> None:
    odd = "a[1].safetensors"
    hub.files[odd] = hub.files[SHARDS[0]]
    fill(tmp_path / "source", {odd: hub.files[odd], "a1.safetensors": b"x"})
    assert run(0)[0] == 0
    assert (run.root / odd).is_file()
    assert not (run.root / "a1.safetensors").exists()


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/", "./.modelplane/failures", "", "a//b"])
def test_no_name_of_a_listing_leads_out_of_the_directory(run: Runner, hub: Hub, name: str) -> None:
    """A part removes what is damaged, and another model's weights may lie beside the directory."""
    other = run.root.parent / "other" / "model.safetensors"
    other.parent.mkdir()
    other.write_bytes(b"damaged")
    listed = str(other) if name == "/" else name
    hub.files[listed], hub.sizes[listed] = b"", 10**9
    assert run(0) == (0, [ALL]), "the listing is not believed"
    assert other.read_bytes() == b"damaged"


def test_sound_files_stay_if_the_listing_is_wrong(run: Runner, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are there without a marker, and the listing calls each a byte longer than it is."""
    assert run(PARTS - 1) == (0, [ALL])
    (run.root / MARKER).unlink()
    removed: list[Path] = []

    def clear(paths: set[Path]) -> bool:
        removed.extend(paths)
        return bool(paths)

    monkeypatch.setattr(script, "clear", clear)
    hub.sizes |= {name: len(content) + 1 for name, content in hub.files.items()}
    code, calls = run(0)
    assert (code, calls[-1], removed) == (0, ALL, [])
    assert run.is_complete


def test_names_that_are_too_long_for_a_file_system_do_not_fail_the_job(run: Runner, hub: Hub) -> None:
    hub.files["x" * 300], hub.sizes["x" * 300] = b"", 10**9
    assert run(PARTS - 2)[0] == 0


def test_an_undivided_download_does_not_read_the_index(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Secret may hold a variable of this name."""
    monkeypatch.setenv("MODELPLANE_PARTS", "1")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "odd")
    assert script.main(URI, str(run.root)) == 0
