"""Progress of downloads in `tree`, `cache list` and `cache preload --wait`."""

import copy
import sys
import time
from pathlib import Path

import pytest

from function.cli import tables
from function.cli.progress import format_progress
from function.kube.manifests import Manifest, format_time, listing, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import cells, output_of, run

GIB = 2**30
NOW = 1_800_000_000


def progress(done: int, seconds_left: int | None = None, total: int = 600 * GIB, now: float = NOW) -> Manifest:
    block: Manifest = {"parts": 8, "partsDone": done, "bytesTotal": total, "bytesDone": total * done // 8}
    if seconds_left is None:
        return block
    return {**block, "bytesPerSecond": 160 * 2**20, "expectedAt": format_time(int(now) + seconds_left)}


@pytest.mark.parametrize(
    ("blocks", "want"),
    [
        ([], ""),
        ([{}], ""),
        ([progress(0)], "[----------------] 0%, 0Gi of 600Gi"),
        ([progress(3, 2440)], "[######----------] 37%, 225Gi of 600Gi, 160Mi/s, about 40m left"),
        ([progress(3, -1)], "[######----------] 37%, 225Gi of 600Gi, 160Mi/s, later than expected"),
        ([progress(8)], "[################] 100%, 600Gi of 600Gi"),
        ([{"parts": 8, "partsDone": 2}], "[####------------] 25%"),
        ([progress(2, 60), progress(6, 600)], "[########--------] 50%, 600Gi of 1200Gi, 320Mi/s, about 10m left"),
        ([progress(2, 60), progress(0)], "[##--------------] 12%, 150Gi of 1200Gi, 160Mi/s"),
    ],
)
def test_formats_progress(monkeypatch: pytest.MonkeyPatch, blocks: list[Manifest], want: str) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    assert format_progress(blocks) == want


def test_tree_shows_the_progress_of_the_job(live: Live, kimi: list[Manifest]) -> None:
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    mapping(placement, "status.storage")["progress"] = progress(3)
    (job,) = [copy.deepcopy(m) for m in kimi if text(m, "spec.forProvider.manifest.kind") == "Job"]
    mapping(job, "status.atProvider.manifest")["status"] = {"active": 1, "succeeded": 3}
    shown = output_of("tree", "kimi-k2", *live(placement, job))
    rows = {row[0].lstrip(" │├└─").partition("/")[0]: row for row in cells(shown)}
    assert rows["Job"][4] == "running [######----------] 37%, 225Gi of 600Gi"
    assert [kind for kind, row in rows.items() if "37%" in row[-1]] == ["Job"]


@pytest.fixture
def options(server: ApiServer, cached: list[Manifest], tmp_path: Path) -> list[str]:
    server.put(copy.deepcopy(cached))
    return ["--kubeconfig", server.kubeconfig(tmp_path, "translation")]


def test_list_has_a_column_while_something_is_downloaded(server: ApiServer, options: list[str]) -> None:
    assert "PROGRESS" not in output_of("cache", "list", *options)
    cache = server.get("ModelCache", "translation", "qwen-weights")
    assert cache is not None
    row = listing(cache, "status.environments")[1]
    row |= {"phase": "Downloading", "progress": progress(4)}
    header, *lines = output_of("cache", "list", *options).splitlines()
    assert header.endswith("PROGRESS")
    assert [line.endswith("[########--------] 50%, 300Gi of 600Gi") for line in lines] == [False, True]


def test_wait_prints_each_message_once_without_a_terminal(server: ApiServer, options: list[str]) -> None:
    hydrated: Manifest = {"type": "Hydrated", "status": "False", "reason": "Downloading", "message": "3 of 8 parts"}

    def download(_: ApiServer, cache: Manifest) -> None:
        rows: Manifest = {"name": "h100-paris", "progress": progress(3)}
        cache["status"] = {"conditions": [hydrated], "environments": [rows]}

    server.controller = download
    done = run("cache", "preload", "qwen3-235b", "-e", "h100-paris", "--wait", "--timeout", "2", *options)
    assert done.stderr.splitlines()[0] == "3 of 8 parts"
    assert len(done.stderr.splitlines()) == 2
    assert "\r" not in done.stderr


def test_line_is_redrawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.draw_line("a bar")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "9")
    tables.draw_line("a bar that is too long")
    tables.draw_line("")
    assert capsys.readouterr().err == "\r\x1b[Ka bar th\r\x1b[K"
