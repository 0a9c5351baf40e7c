"""Progress of a download: its parts, its figures, and how often the status changes."""

from dataclasses import replace

import pytest

from function.domain.cache import CacheEntry, CreatedStorage
from function.domain.model import Source, UriSource
from function.domain.records.weights import DownloadProgress, DownloadRecord, build_download, parse_download
from function.kube.manifests import Manifest, format_time, integer, parse_time, text
from function.reasons import Phase
from function.status.weights import describe_storage
from function.weights import progress
from function.weights.progress import count_parts, follow_progress
from function.weights.request import WeightsRequest
from function.weights.state import WeightsFinding, describe_cache
from tests.support.weights_requests import CACHE, GIB, KIMI, MULTI, model
from tests.support.weights_scene import (
    COMPLETE,
    DESCRIBED,
    SILENT,
    observe_started,
    reconcile_observed,
    with_job_status,
    with_sync_error,
)

START = "2026-01-01T00:00:00Z"
MINUTE = 60
BEGIN = parse_time(START) or 0
KIMI_600 = replace(MULTI, choice=CreatedStorage(), model=model(disk=600 * GIB))


@pytest.mark.parametrize(
    ("source", "disk", "vram", "want"),
    [
        (KIMI, None, None, 1),
        (KIMI, 31, None, 1),
        (KIMI, 32, None, 4),
        (KIMI, 60, None, 4),
        (KIMI, 255, None, 4),
        (KIMI, 256, None, 8),
        (KIMI, 960, None, 8),
        (KIMI, 20, 960, 1),
        (KIMI, None, 100, 4),
        (UriSource(uri="s3://bucket/kimi"), 960, None, 1),
    ],
)
def test_large_downloads_from_the_hub_are_divided(
    source: Source, disk: int | None, vram: int | None, want: int
) -> None:
    sizes = {"disk": disk and disk * GIB, "vram": vram and vram * GIB}
    assert count_parts(model(source, **sizes)) == want


def _job(done: int | None = None, parts: int = 8, started_at: str = START) -> Manifest:
    status: Manifest = {"startTime": started_at, "active": 1}
    return {"spec": {"completions": parts}, "status": status if done is None else {**status, "succeeded": done}}


def _at(minutes: int, done: int, speed: int = 0, left: int = 0) -> DownloadProgress:
    return DownloadProgress(
        parts=8,
        parts_done=done,
        bytes_total=600 * GIB,
        changed_at=format_time(BEGIN + minutes * MINUTE),
        bytes_per_second=speed,
        expected_at=format_time(BEGIN + (minutes + left) * MINUTE) if left else "",
    )


def _follow(recorded: DownloadProgress | None, job: Manifest, minutes: float) -> DownloadProgress | None:
    return follow_progress(recorded, job, 600 * GIB, BEGIN + minutes * MINUTE + 0.5)


PART = 75 * GIB  # of eight parts


def test_figures_come_from_the_last_change() -> None:
    first = _follow(None, _job(), 1)
    assert first == _at(0, 0)
    second = _follow(first, _job(1), 10)
    assert second == _at(10, 1, PART // (10 * MINUTE), 70)
    assert _follow(second, _job(1), 19) == second, "nothing changes with the time"
    third = _follow(second, _job(3), 20)
    assert third == _at(20, 3, 2 * PART // (10 * MINUTE), 25)
    assert _follow(third, _job(8), 45) == _at(45, 8)


def test_progress_of_an_earlier_job_does_not_count() -> None:
    again = _job(started_at=format_time(BEGIN + 30 * MINUTE))
    assert _follow(_at(0, 0), again, 31) == _at(30, 0)
    assert _follow(_at(10, 1, 5, 70), again, 31) == _at(30, 0)
    assert _follow(replace(_at(10, 1), parts=6), _job(1), 20) == _at(20, 1, PART // (20 * MINUTE), 140)
    assert _follow(replace(_at(10, 1), changed_at="soon"), _job(1), 20) == _at(20, 1, PART // (20 * MINUTE), 140)


def test_a_job_that_was_suspended_has_no_speed_until_its_next_part() -> None:
    """The Job controller sets a new start time, and counts the parts that are complete (Kubernetes 1.34)."""
    resumed = format_time(BEGIN + 30 * MINUTE)
    first = _follow(_at(20, 3, 5, 70), _job(3, started_at=resumed), 31)
    assert first == _at(31, 3)
    assert _follow(first, _job(4, started_at=resumed), 41) == _at(41, 4, PART // (10 * MINUTE), 40)


def test_a_start_long_ago_gives_no_speed() -> None:
    assert _follow(None, _job(1, started_at="0001-01-01T00:00:00Z"), 5) == _at(5, 1)


@pytest.mark.parametrize(("parts", "done"), [(8, 9), (8, -1), (0, 0), (-1, -1)])
def test_odd_records_are_none(parts: int, done: int) -> None:
    assert parse_download({"progress": {"parts": parts, "partsDone": done}}).progress is None


def test_older_view_of_the_job_takes_nothing_back() -> None:
    assert _follow(_at(40, 2), _job(1), 50) == _at(40, 2)


def test_clock_behind_the_cluster_gives_no_speed() -> None:
    assert _follow(None, _job(1), -5) == _at(0, 1)


@pytest.mark.parametrize("job", [{}, _job(parts=1), _job(started_at=""), {"spec": {}, "status": {"startTime": START}}])
def test_undivided_download_has_no_progress(job: Manifest) -> None:
    assert _follow(None, job, 1) is None


def test_progress_without_a_size_has_no_bytes() -> None:
    progress = follow_progress(None, _job(1), 0, BEGIN + 10 * MINUTE)
    record = DownloadRecord(claim="kimi", progress=progress)
    expected_at = format_time(BEGIN + 80 * MINUTE)
    block = {"parts": 8, "partsDone": 1, "changedAt": format_time(BEGIN + 10 * MINUTE), "expectedAt": expected_at}
    assert build_download(record) == {"claimName": "kimi", "progress": block}
    assert parse_download(build_download(record)) == record


@pytest.mark.parametrize(
    "request_", [KIMI_600, replace(CACHE, model=model(disk=600 * GIB))], ids=["placement", "cache"]
)
def test_status_changes_only_with_the_parts(request_: WeightsRequest) -> None:
    record = DownloadRecord()
    statuses: list[Manifest] = []
    messages: list[str] = []
    observed = observe_started(request_)
    for minute in range(81):
        done = minute // 10
        finished: Manifest = {**COMPLETE, "succeeded": 8, "startTime": START}
        has_pod = minute % 10 > 0
        running: Manifest = {
            "startTime": START,
            "succeeded": done,
            "active": int(has_pod),
            "ready": int(minute % 10 > 1),
        }
        if not done:
            running |= {"active": 1, "ready": 1}
        with_job_status(finished if done == 8 else running)(observed)
        found = reconcile_observed(request_, observed, record, now=BEGIN + minute * MINUTE)
        record = found.download
        statuses.append(build_download(record))
        messages.append(describe_storage(found.state))
        assert parse_download(statuses[-1]).progress == record.progress
    changes = [s for s, before in zip(statuses[1:], statuses, strict=False) if s != before]
    assert len(changes) == 8
    assert len(dict.fromkeys(messages)) == 9
    assert all(text(change, "claimName") for change in changes)
    name = found.job_name
    assert messages[0] == f"Job {name}: running; 0 of 8 parts are complete (about 0Gi of 600Gi)"
    assert messages[35] == (
        f"Job {name}: running; 3 of 8 parts are complete (about 225Gi of 600Gi), at 128Mi per second, "
        "all of them are expected by 2026-01-01T01:20:00Z"
    )
    assert statuses[35]["progress"] == {
        "parts": 8,
        "partsDone": 3,
        "bytesTotal": 600 * GIB,
        "bytesDone": 225 * GIB,
        "bytesPerSecond": 128 * 2**20,
        "changedAt": "2026-01-01T00:30:00Z",
        "expectedAt": "2026-01-01T01:20:00Z",
    }
    assert "progress" not in statuses[80]


def test_memory_is_no_size() -> None:
    request = replace(KIMI_600, model=model(vram=600 * GIB))
    observed = observe_started(request, with_job_status({"startTime": START, "succeeded": 3, "active": 1}))
    found = reconcile_observed(request, observed, now=BEGIN + 30 * MINUTE)
    assert describe_storage(found.state) == (
        f"Job {found.job_name}: running; 3 of 8 parts are complete, all of them are expected by 2026-01-01T01:20:00Z"
    )


def test_outage_keeps_the_progress() -> None:
    observed = observe_started(KIMI_600, with_job_status({"startTime": START, "succeeded": 3, "active": 1}))
    before = reconcile_observed(KIMI_600, observed, now=BEGIN + 30 * MINUTE).download
    with_sync_error("job-", SILENT)(observed)
    found = reconcile_observed(KIMI_600, observed, before, now=BEGIN + 90 * MINUTE)
    assert found.state.finding is WeightsFinding.UNKNOWN
    assert found.download == before
    assert before.progress
    assert before.progress.parts_done == 3


def test_earlier_completion_keeps_no_progress() -> None:
    observed = observe_started(KIMI_600, with_job_status({"startTime": START, "succeeded": 3, "active": 1}))
    record = reconcile_observed(KIMI_600, observed, now=BEGIN + 30 * MINUTE).download
    completed = replace(record, completed_at=START)
    assert reconcile_observed(KIMI_600, observed, completed).download.progress is None


def test_large_download_is_divided_by_its_plan() -> None:
    (job,) = (m for key, m in observe_started(KIMI_600).items() if key.startswith("job-"))
    assert integer(job, f"{DESCRIBED}.spec.completions") == 8


@pytest.mark.parametrize("earlier", [(), ((32 * GIB, 2),), ((32 * GIB, 8),)], ids=["undivided", "two", "eight"])
def test_running_download_keeps_its_number_of_parts(
    monkeypatch: pytest.MonkeyPatch, earlier: tuple[tuple[int, int], ...]
) -> None:
    """A release that divides downloads otherwise starts none of them again."""
    request = replace(KIMI_600, model=model(disk=60 * GIB))
    monkeypatch.setattr(progress, "PARTS_BY_SIZE", earlier)
    before = observe_started(request, with_job_status({"startTime": START, "active": 1}))
    monkeypatch.undo()
    (job,) = (key for key in before if key.startswith("job-"))
    found = reconcile_observed(request, before, now=BEGIN + MINUTE)
    composed = {key: item.manifest for key, item in found.composed.items() if key.startswith("job-")}
    assert composed.keys() == {job}
    completions = [integer(m[job], f"{DESCRIBED}.spec.completions", 1) for m in (before, composed)]
    assert completions == [earlier[0][1] if earlier else 1] * 2
    assert found.state.finding is WeightsFinding.JOB_RUNNING


def test_consumer_of_a_cache_reports_its_progress() -> None:
    entry = CacheEntry(
        environment="east", phase=Phase.DOWNLOADING, message="Job kimi: running; 3 of 8 parts are complete"
    )
    state = describe_cache(entry, "team")
    assert describe_storage(state) == "The ModelCache is downloading: Job kimi: running; 3 of 8 parts are complete"
