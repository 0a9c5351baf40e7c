"""Scenario 43: a download of 50 GB at 90 MB/s: what users see minute by minute, and what it costs the control plane.

The Job is run by the Job controller, and its pods by the stand-in of the kubelet with KServe's own initializer. The hub
sends zeros, and the storage keeps none of them. A fleet of other deployments shows whether a download wakes those that
have nothing to do with it. What is measured is printed, and is in docs/storage.md.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby, pairwise

import pytest

from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, condition, get, integer, listing, parse_time, text
from function.kube.quantity import GIB
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import wait_for_rest
from tests.e2e.seen import (
    Look,
    Terminal,
    Version,
    Work,
    count_calls,
    count_work,
    keep_sparse,
    look,
    read_progress,
    record_versions,
    run_plugin,
)
from tests.e2e.world import World
from tests.hub import weights
from tests.hub.hub import serving
from tests.hub.large import LargeFile, LargeHandler, LargeHub, Limit
from tools.stack.kubelet import node
from tools.stack.kubelet.sandbox import NODE_ADDRESS
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, NAME, PLACE = "large", "large", "downloads"
OTHERS, OTHER_PLACE = "others", "others"
FLEET = [f"other-{number:02}" for number in range(20)]
# As Gemma 3 27B is on the hub: twelve files, and a few small ones. The model declares a fifth more than it has.
FILES, FILE_BYTES = 12, 4_166_666_667
TOTAL_BYTES = FILES * FILE_BYTES
DISK_GIB, PARTS = 56, 4
SPEED = 90_000_000  # bytes per second
SHARE_SECONDS = TOTAL_BYTES / PARTS / SPEED  # of one part
POD_SECONDS = 30  # to start the pod of a part, list the files, and observe its end
QUIET_SECONDS = 180
# Core calls the function for each composite after this time, of which it takes up to a tenth off.
SHORTEST_RESYNC = BUILT_IN.ttl_settled * 0.9
MOST_CHANGES = 10  # of a status, for each download
LABELS = {"modelplane.ai/pool": "downloads"}
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def hub(world: World) -> Iterator[LargeHub]:
    """A hub with the model, and the node on which the download runs."""
    world.stack.remote.apply(node.build_node("downloads-0", LABELS, {}))
    world.stack.processes.start(node.program(world.stack.home))

    def is_ready() -> bool:
        found = world.stack.remote.get("Node", "downloads-0") or {}
        return condition(found, "Ready").get("status") == "True"

    until("the node", is_ready)
    names = [f"model-{number:05}-of-{FILES:05}.safetensors" for number in range(1, FILES + 1)]
    file = LargeFile(FILE_BYTES)
    small = {"config.json": b"{}", "model.safetensors.index.json": weights.index(*names)}
    large = LargeHub(files=small, large=dict.fromkeys(names, file), limit=Limit(SPEED))
    assert file.sha256
    claims = world.stack.home.root / "kubelet" / "claims"
    try:
        with serving(large, NODE_ADDRESS, LargeHandler) as found, keep_sparse(claims, smallest=2**26):
            yield found
    finally:
        shutil.rmtree(claims, ignore_errors=True)


@pytest.fixture(scope="module")
def fleet(world: World) -> None:
    """Deployments that serve on another environment, and have nothing to do with the download."""
    world.team(OTHERS)
    world.apply(environment(OTHER_PLACE, pool("gpus", maxNodeCount=3)), model("other"))
    world.wait("InferenceEnvironment", OTHER_PLACE, "Ready", "True")
    world.apply(*(deployment(OTHERS, name, "other", on=OTHER_PLACE) for name in FLEET))
    for name in FLEET:
        world.ready(OTHERS, name)


def test_download_of_50_gb(world: World, hub: LargeHub, fleet: None, record_property: Record) -> None:  # noqa: ARG001  # the fleet runs
    world.team(TEAM)
    download: Manifest = {"env": [{"name": "HF_ENDPOINT", "value": hub.endpoint}], "nodeSelector": {**LABELS}}
    medium = pool("gpus", labels={"modelplane.ai/pool": "medium"})
    world.apply(
        environment(PLACE, medium, storage={"storageClassName": "shared-vast", "download": download}),
        model(NAME, huggingFace={"repo": "owner/model"}, resources={"disk": f"{DISK_GIB}Gi"}),
    )
    world.wait("InferenceEnvironment", PLACE, "Ready", "True")
    wait_for_rest(world)
    quiet = count_work(world)
    time.sleep(QUIET_SECONDS)
    before = count_work(world)
    with record_versions(world, TEAM, ("ModelCache", "ModelPlacement", "ModelDeployment")) as versions:
        started = time.time()
        terminal = Terminal(world, "cache", "preload", NAME, "-e", PLACE, "-n", TEAM, "--wait", "--timeout", "1800")
        until("the ModelCache", lambda: world.stack.hub.get("ModelCache", NAME, TEAM))
        world.apply(deployment(TEAM, NAME, NAME, on=PLACE, modelCache={"name": NAME}))
        looks = [*_look_each_minute(world, terminal, started)]
        assert terminal.wait(60) == 0, terminal.lines
        ended = time.time()
        after = count_work(world)
        world.ready(TEAM, NAME)
    ready = time.time()
    during, idle = after.since(before), before.since(quiet)
    cache = versions["ModelCache"]
    changes = [v for v in cache.list_changes(started, ready) if read_progress(v) or _is_hydrated(v)]
    changes = changes[: [_is_hydrated(v) for v in changes].index(True) + 1]
    begin, end = changes[0].time, changes[-1].time
    written = {kind: len(found.list_changes(begin, end)) for kind, found in versions.items()}
    told = [each for each, _ in groupby(str(get(v.status, "environments")) for v in changes)]
    steady = count_calls(world, started + 60, end - 10)
    results = [
        *(("a minute", f"\n{each}") for each in looks),
        ("preload --wait", "\n    ".join(("", *terminal.lines))),
        ("changes of what the ModelCache tells of its environment", len(told)),
        ("writes of each status during the download", written),
        ("what the writes of the ModelCache changed", "; ".join(cache.list_changed_fields(begin, end))),
        (f"calls in {end - started - 70:.0f} s between the first minute and the end", dict(steady)),
        ("seconds until the weights are there", round(ended - started)),
        ("without a download", f"{idle}; the others: {_count(idle)}"),
        ("with a download", f"{during}; the others: {_count(during)}"),
    ]
    for name, value in results:
        record_property(name, value)
    # Properties are printed only if the scenario passes.
    (world.stack.home.logs / "progress.log").write_text("\n".join(f"{name}: {value}" for name, value in results))
    _check_texts(looks)
    _check_end(world, hub, terminal)
    assert len(told) <= MOST_CHANGES
    # Crossplane writes the fields of a status and its conditions one after the other.
    assert max(written.values()) <= 2 * MOST_CHANGES, written
    for line in _check_figures(changes):
        record_property("figures", line)
    _check_calls(idle, during)


def _look_each_minute(world: World, terminal: Terminal, started: float) -> Iterator[Look]:
    """Yields what users see, minute by minute, until the command that waits for the weights has ended."""
    for minute in range(1, 31):
        with suppress(TimeoutError):
            seconds = started + 60 * minute - time.time()
            until("the weights", lambda: terminal.process.poll() is not None, seconds=max(seconds, 0), every=0.5)
        yield look(world, TEAM, NAME, terminal, started)
        if terminal.process.poll() is not None:
            return


def _is_hydrated(version: Version) -> bool:
    return text(condition({"status": version.status}, "Hydrated"), "status") == "True"


def _check_texts(looks: list[Look]) -> None:
    """No text takes anything back, and all tell the progress while the download runs."""
    running = looks[:-1]
    for earlier, later in pairwise(each.percents for each in running):
        assert all(new >= old for old, new in zip(earlier, later, strict=True)), (earlier, later)
    for each in running:
        # A part may end between two texts.
        assert 0 <= max(each.percents) - min(each.percents) <= 100 // PARTS, str(each)
        assert min(each.percents) >= 0, str(each)
    assert len({max(each.percents) for each in running}) >= PARTS - 1, "each part lasts two minutes"


def _check_end(world: World, hub: LargeHub, terminal: Terminal) -> None:
    """The weights are complete and verified, every file was fetched once, and nothing says that it is downloaded."""
    cache = world.stack.hub.get("ModelCache", NAME, TEAM) or {}
    hydrated = condition(cache, "Hydrated")
    assert hydrated["status"] == "True"
    assert text(hydrated, "message") in terminal.lines
    (row,) = listing(cache, "status.environments")
    assert "progress" not in row
    assert "PROGRESS" not in run_plugin(world, "cache", "list", "-n", TEAM)
    (job,) = world.stack.remote.find("Job", TEAM)
    assert [get(job, f"status.{key}") for key in ("completedIndexes", "failed")] == [f"0-{PARTS - 1}", None]
    assert hub.fetched() == sorted((*hub.files, *hub.large))
    claim = world.stack.remote.get("PersistentVolumeClaim", text(row, "claimName"), TEAM) or {}
    folder = world.stack.home.root / "kubelet" / "claims" / text(claim, "spec.volumeName") / text(row, "path")
    assert {path.name: path.stat().st_size for path in folder.glob("*.safetensors")} == dict.fromkeys(
        hub.large, FILE_BYTES
    )
    for name, file in hub.large.items():
        with (folder / name).open("rb") as found:
            assert found.read(len(file.head)) == file.head
    assert (folder / ".modelplane" / "complete.json").exists()


def _check_figures(changes: list[Version]) -> Iterator[str]:
    """Yields what the status said of the speed and of the end, and checks both against the limit of the hub.

    A part stands for a share of the bytes that the model declares, and has a share of those that there are.
    """
    ended_at = parse_time(_completed_at(changes[-1])) or 0
    steps = {integer(step, "partsDone"): step for step in map(read_progress, changes[:-1])}
    assert [*steps][:PARTS] == [*range(PARTS)], "each part is seen"
    for earlier, later in pairwise([*steps.values()][:PARTS]):
        seconds = _read(later, "changedAt") - _read(earlier, "changedAt")
        speed, left = integer(later, "bytesPerSecond"), _read(later, "expectedAt") - _read(later, "changedAt")
        done = integer(later, "partsDone")
        assert SHARE_SECONDS - POD_SECONDS < seconds < SHARE_SECONDS + POD_SECONDS
        assert speed == DISK_GIB * GIB // PARTS // seconds
        assert left == seconds * (PARTS - done)
        error = _read(later, "expectedAt") - ended_at
        assert abs(error) < POD_SECONDS * (PARTS - done), "of each part that is left"
        real = TOTAL_BYTES / PARTS / seconds
        yield (
            f"part {done} of {PARTS} took {seconds} s, and {SHARE_SECONDS:.0f} s at the limit of the hub: "
            f"{speed / 10**6:.1f} MB/s of the declared bytes, {real / 10**6:.1f} MB/s of the real ones, "
            f"{left} s left, {error:+} s off the real end"
        )


def _completed_at(version: Version) -> str:
    (row,) = listing({"status": version.status}, "status.environments")
    return text(row, "completedAt")


def _read(step: Manifest, key: str) -> int:
    return int(parse_time(text(step, key)) or 0)


def _is_other(kind: str, name: str) -> bool:
    """Tells whether a composite serves others. Their environment is called whenever their nodes are looked at."""
    return kind != "InferenceEnvironment" and name.startswith("other")


def _count(work: Work) -> str:
    """Formats the calls for others, and those of the environments and of what is downloaded one by one."""
    others = sum(sum(names.values()) for names in work.select(_is_other).values())
    rest = work.select(lambda kind, name: not _is_other(kind, name))
    return f"{others}; each of the rest: { ({kind: dict(names) for kind, names in rest.items()}) }"


def _check_calls(idle: Work, during: Work) -> None:
    """Composites that have nothing to do with the download are called after their resync, and not because of it."""
    most = int(during.time / SHORTEST_RESYNC) + 1
    names = {name: number for found in during.select(_is_other).values() for name, number in found.items()}
    assert max(names.values(), default=0) <= most, names
    expected = idle.calls["InferenceEnvironment"][OTHER_PLACE] / idle.time * during.time
    assert during.calls["InferenceEnvironment"][OTHER_PLACE] <= 1.25 * expected + 10
