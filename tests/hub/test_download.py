"""The download Job run for real: our script around KServe's storage-initializer, against a hub on loopback.

Every test runs twice: with the package versions of the pinned image, and with the newest that dev.txt locks.
"""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

from function.domain.model import DownloadedSource, SecretKey, UriSource
from function.kube import manifests
from function.weights.scripts import download_script as script
from function.weights.scripts.download_script import MARKER, Exit
from tests.hub import weights
from tests.hub.container import SOURCE, Container, Initializer, downloading
from tests.hub.hub import COMMIT, Hub, serving
from tests.support.flock import fail_flock

pytestmark = pytest.mark.conformance
TOKEN = "hf_a_token_that_must_not_be_seen"
Start = Callable[..., Container]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(files=dict(weights.SHARDED))) as found:
        yield found


@pytest.fixture(scope="module", params=["image", "newest"])
def initializer(request: pytest.FixtureRequest) -> Initializer:
    return Initializer() if request.param == "image" else Initializer(python=Path(sys.executable))


@pytest.fixture
def container(hub: Hub, initializer: Initializer, tmp_path: Path) -> Start:
    """The container of a Job for a source; every one of a test writes to the same claim."""
    claim = tmp_path / "claim"
    (claim / "lost+found").mkdir(parents=True, mode=0o700)

    def compose(
        source: DownloadedSource = SOURCE,
        *,
        retry: str = "",
        backoff: int = 6,
        variables: Mapping[str, str] = MappingProxyType({}),
        parts: int = 1,
    ) -> Container:
        env = {"HF_ENDPOINT": hub.endpoint, **variables}
        return downloading(claim, initializer, source, env=env, retry=retry, backoff=backoff, token=TOKEN, parts=parts)

    return compose


def own(directory: Path) -> dict[str, bytes]:
    """The model's files, without the client's and our own records."""
    found = {p.relative_to(directory).as_posix(): p for p in directory.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".")}


def test_downloads_everything_and_a_second_run_asks_for_nothing(hub: Hub, container: Start) -> None:
    job_container = container()
    assert job_container.run()[0] == 0
    assert own(job_container.directory) == weights.SHARDED
    assert (job_container.directory / MARKER).is_file()
    assert (job_container.claim / "lost+found").is_dir(), "what the file system put there stays"
    hub.requests.clear()
    assert container(retry="again").run()[0] == 0
    assert hub.requests == []


def test_downloads_in_parts_of_which_the_last_completes_the_directory(hub: Hub, container: Start) -> None:
    shards = [f"model-0000{number}-of-00004[1].safetensors" for number in range(1, 5)]
    hub.files = {"config.json": b"{}", **dict.fromkeys(shards, weights.safetensors())}
    job_container = container(parts=3)
    job_container.scripts["data"] = {
        name: text.replace("LARGE, NAMES = 64 * 2**20", "LARGE, NAMES = 100")
        for name, text in manifests.strings(job_container.scripts, "data").items()
    }
    fetched = []
    for completion in range(3):
        hub.requests.clear()
        assert replace(job_container, completion=completion).run()[0] == 0
        fetched.append(hub.fetched())
        assert (job_container.directory / MARKER).is_file() == (completion == 2)
    assert fetched == [shards[:2], shards[2:3], ["config.json", *shards[3:]]]
    assert own(job_container.directory) == hub.files


@dataclass(frozen=True)
class Kind:
    id: str
    files: dict[str, bytes]
    file: str = ""


KINDS = (
    Kind("one-safetensors", weights.SINGLE),
    Kind("torch-shards", weights.TORCH),
    Kind("gguf", weights.QUANTISED, "model-q4.gguf"),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.id)
def test_every_kind_of_repository_is_complete(hub: Hub, container: Start, kind: Kind) -> None:
    hub.files = kind.files
    found = container(replace(SOURCE, file=kind.file))
    code, said = found.run()
    assert code == 0, said
    assert own(found.directory) == kind.files


def test_adapter_alone_is_incomplete(hub: Hub, container: Start) -> None:
    hub.files = weights.ADAPTER
    code, said = container().run()
    assert code == Exit.INCOMPLETE, said


def test_model_in_a_folder(hub: Hub, container: Start) -> None:
    hub.files = {**weights.SINGLE, **{f"fp8/{name}": data for name, data in weights.SHARDED.items()}}
    found = container(replace(SOURCE, path="fp8", allow=("fp8/*",)))
    code, said = found.run()
    assert code == 0, said
    assert own(found.directory / "fp8") == weights.SHARDED


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_downloads_to_storage_without_flock(container: Start, number: int) -> None:
    found = replace(container(), before=partial(fail_flock, number))
    for _ in range(2):
        code, said = found.run()
        assert code == 0, said
        assert own(found.directory) == weights.SHARDED
        (found.directory / MARKER).unlink()


def test_patterns_drop_files_and_are_not_missed(hub: Hub, container: Start) -> None:
    hub.files = {**weights.SHARDED, **weights.TORCH, "original/consolidated.00.pth": b"twice the space"}
    ignoring = container(replace(SOURCE, ignore=("original/*", "*.bin")))
    code, said = ignoring.run()
    assert code == 0, said
    index = {weights.TORCH_INDEX: weights.TORCH[weights.TORCH_INDEX]}
    assert own(ignoring.directory) == {**weights.SHARDED, **index}, "an index of dropped shards promises nothing"


@pytest.mark.usefixtures("hub")
def test_two_models_on_one_claim_do_not_meet(container: Start) -> None:
    first, second = container(), container(replace(SOURCE, repo="owner/other"))
    assert first.run()[0] == second.run()[0] == 0
    assert first.directory != second.directory
    assert own(first.directory) == own(second.directory) == weights.SHARDED
    assert sorted(p.name for p in first.claim.iterdir()) == ["lost+found", "models"]


@dataclass(frozen=True)
class Refusal:
    id: str
    reason: str
    status: int
    want: Exit


REFUSALS = (
    Refusal("unauthorised", "no retry finds a token", 401, Exit.UNAUTHORISED),
    Refusal("forbidden", "no retry opens a gate", 403, Exit.UNAUTHORISED),
    Refusal("not-found", "no retry creates a repository", 404, Exit.NOT_FOUND),
    Refusal("rate-limited", "later is better", 429, Exit.RATE_LIMITED),
    Refusal("broken", "later is better", 500, Exit.UNREACHABLE),
)


@pytest.mark.parametrize("case", REFUSALS, ids=lambda c: c.id)
def test_refusal_over_existing_files_is_no_success(hub: Hub, container: Start, case: Refusal) -> None:
    """The program itself exits 0 here, whatever is missing."""
    directory = container().directory
    directory.mkdir(parents=True)
    for name in ("config.json", weights.FIRST):
        (directory / name).write_bytes(weights.SHARDED[name])
    hub.statuses = {"/api/": case.status}
    code, said = container().run()
    assert "remote repo cannot be accessed" in said, "the case under test is that the program exits 0"
    assert code == case.want, case.reason
    assert not (directory / MARKER).exists(), case.reason


def test_refused_at_first_then_over_what_came_then_complete(hub: Hub, container: Start) -> None:
    hub.statuses = {f"/resolve/{COMMIT}/{weights.SECOND}": 404}
    assert container().run()[0] == Exit.NOT_FOUND
    hub.statuses = {"/api/": 500}
    assert container().run()[0] == Exit.UNREACHABLE
    hub.statuses = {}
    hub.requests.clear()
    assert container().run()[0] == 0
    assert own(container().directory) == weights.SHARDED
    assert weights.FIRST not in hub.fetched(), "what came is kept"


def test_a_repositorys_own_files_under_names_of_ours_prove_nothing(hub: Hub, container: Start) -> None:
    hub.files = {**weights.SINGLE, MARKER: b"{}", f"{script.PARTIALS}/x.incomplete": b"x"}
    hub.statuses = {f"/resolve/{COMMIT}/config.json": 404}
    assert container().run()[0] == Exit.NOT_FOUND
    assert not (container().directory / MARKER).exists(), "only the script says that it is complete"
    hub.statuses = {}
    code, said = container().run()
    assert code == 0, said
    assert own(container().directory) == weights.SINGLE


def test_unreachable_hub_over_complete_files_is_no_proof(hub: Hub, container: Start) -> None:
    assert container().run()[0] == 0
    (container().directory / MARKER).unlink()
    hub.statuses = {"/api/": 503}
    assert container().run()[0] == Exit.UNREACHABLE


def test_last_attempt_says_that_it_gives_up(hub: Hub, container: Start) -> None:
    hub.statuses = {"/api/": 429}
    codes = [container(backoff=1).run()[0] for _ in range(2)]
    assert codes == [Exit.RATE_LIMITED, Exit.RATE_LIMITED.gave_up], "two attempts are all it has"
    assert container(backoff=1, retry="1").run()[0] == Exit.RATE_LIMITED, "a new Job counts from one"


FILE_ANSWERS = (
    Refusal("gated-file", "no retry opens a gate", 403, Exit.UNAUTHORISED),
    Refusal("file-not-found", "no retry creates a file", 404, Exit.NOT_FOUND),
    Refusal("rate-limited", "later is better", 429, Exit.RATE_LIMITED),
    Refusal("broken", "later is better", 503, Exit.UNREACHABLE),
)


@pytest.mark.parametrize("case", FILE_ANSWERS, ids=lambda c: c.id)
def test_reports_why_one_file_was_refused(hub: Hub, container: Start, case: Refusal) -> None:
    hub.statuses = {f"/resolve/{COMMIT}/{weights.SECOND}": case.status}
    code, said = container().run()
    assert code == case.want, f"{case.reason}: {said}"
    assert not (container().directory / MARKER).exists()


def test_refusal_by_the_content_delivery_network_is_retried(hub: Hub, container: Start) -> None:
    """The hub signs links for a limited time; a retry gets another link."""
    hub.redirects = {weights.SECOND}
    hub.statuses = {"/cdn/": 403}
    code, said = container().run()
    assert code == Exit.UNREACHABLE, said
    hub.statuses = {}
    assert container().run()[0] == 0


def test_bucket_that_nobody_serves_is_unreachable(container: Start) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        code, said = container(UriSource(uri="s3://bucket/model"), variables=variables).run()
    assert code == Exit.UNREACHABLE, said


def test_breaking_off_is_unreachable_and_keeps_what_came(hub: Hub, container: Start) -> None:
    hub.cut = {weights.SECOND: 60}
    assert container().run()[0] == Exit.UNREACHABLE
    assert (container().directory / weights.FIRST).read_bytes() == weights.SHARDED[weights.FIRST]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_half_way_and_continued(hub: Hub, container: Start, number: signal.Signals) -> None:
    hub.cut, hub.hold = {weights.SECOND: 60}, threading.Event()
    process, directory = container().start(), container().directory
    whole = {weights.FIRST, "config.json", "tokenizer.json"}
    wait(process, lambda: whole <= {*own(directory)} and any(directory.rglob("*.incomplete")))
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    partial = {*directory.rglob("*.incomplete")}
    if number is signal.SIGKILL:
        os.kill(child, signal.SIGKILL)
        assert finish(process) == Exit.KILLED
        assert partial <= {*script.inspect(directory, set())}, "its own file is absent"
    else:
        process.terminate()
        assert finish(process) == 128 + signal.SIGTERM
        assert not Path(f"/proc/{child}").exists(), "the signal reaches the initializer"
    hub.hold.set()
    hub.cut = {}
    hub.requests.clear()
    code, said = container().run()
    assert code == 0, said
    assert weights.FIRST not in hub.fetched(), "what was there is not fetched again"
    assert weights.SECOND in hub.fetched()
    # The image's client goes on with a partial file; a newer one names its process in it and begins another.
    abandoned = {path for path in partial if path.name.count(".") == 3} if number is signal.SIGKILL else set()
    assert {*directory.rglob("*.incomplete")} == abandoned, "what it had open when we stopped it was ours"
    assert script.inspect(directory, set()) == {}, "the client names a partial file after its file"


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("marked", [True, False])
def test_truncated_shard_on_the_claim_is_fetched_again(container: Start, *, marked: bool) -> None:
    assert container().run()[0] == 0
    shard, marker = container().directory / weights.SECOND, container().directory / MARKER
    written = shard.stat().st_mtime
    shard.write_bytes(shard.read_bytes()[:-10])
    os.utime(shard, (written, written))
    if not marked:
        marker.unlink()
    code, said = container().run()
    assert f"{shard}: is truncated" in said
    assert code == 0
    assert own(container().directory) == weights.SHARDED
    assert marker.is_file()


def test_truncated_shard_in_the_repository_is_refused(hub: Hub, container: Start) -> None:
    hub.files[weights.SECOND] = weights.SHARDED[weights.SECOND][:-10]
    code, said = container().run()
    assert code == Exit.INCOMPLETE
    assert f"{weights.SECOND}: is truncated" in said
    assert not (container().directory / MARKER).exists()


def test_index_naming_a_file_that_is_not_there_is_refused(hub: Hub, container: Start) -> None:
    del hub.files[weights.SECOND]
    code, said = container().run()
    assert code == Exit.INCOMPLETE
    assert f"{weights.SECOND}: is missing" in said


def test_token_reaches_only_the_hub(hub: Hub, container: Start) -> None:
    hub.token = TOKEN
    assert container().run()[0] == Exit.UNAUTHORISED
    gated = replace(SOURCE, secret=SecretKey(name="hf", namespace="modelplane-system", key="HF_TOKEN"))
    code, said = container(gated).run()
    assert code == 0, said
    assert TOKEN not in said
    assert TOKEN not in str(container(gated).job)


def wait(process: "subprocess.Popen[str]", done: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not done():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            pytest.fail(f"it never came to that: {process.communicate()[0]}")
        time.sleep(0.05)


def finish(process: "subprocess.Popen[str]") -> int:
    process.communicate(timeout=20)
    return process.returncode
