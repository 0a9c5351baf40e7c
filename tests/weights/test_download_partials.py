"""Partial files of the hub's client: whose they are, which are faults, and which may be removed."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from function.weights.scripts.download_script import Exit
from tests.hub import weights
from tests.weights.directories import Program, fill

URI = "hf://owner/model:main"
PLACE = ".cache/huggingface/download"


def partial(name: str, process: str = "") -> str:
    """The client's rule: a hash of its record's name, the file's version and, in later releases, the process."""
    folder, _, file = name.rpartition("/")
    hashed = base64.urlsafe_b64encode(hashlib.sha1(f"{file}.metadata".encode()).digest()).decode()
    return "/".join(part for part in (PLACE, folder, f"{hashed}.etag{process}.incomplete") if part)


FINISHED, ABSENT, DEEPER = (
    partial("model.safetensors"),
    partial("absent.safetensors"),
    partial("sub/a.txt", ".1234abcd"),
)


@dataclass(frozen=True)
class Left:
    id: str
    reason: str
    before: tuple[str, ...]
    written: tuple[str, ...]
    want: int


LEFT = (
    Left(
        "foreign",
        "a partial file that existed before is no fault, because another Job may be writing it",
        (ABSENT,),
        (),
        0,
    ),
    Left(
        "foreign-of-another-client",
        "a partial file that existed before is no fault, even if its model file is unknown",
        (f"{PLACE}/x.incomplete",),
        (),
        0,
    ),
    Left(
        "ours-of-a-finished-file",
        "a new partial file of a complete file is no fault, because another Job may have begun it",
        (),
        (FINISHED,),
        0,
    ),
    Left(
        "ours-of-an-absent-file",
        "a new partial file of an absent file means that the download is incomplete",
        (),
        (ABSENT,),
        Exit.INCOMPLETE,
    ),
    Left(
        "ours-further-in-finished", "the folder of a partial file tells the folder of its model file", (), (DEEPER,), 0
    ),
    Left(
        "ours-elsewhere",
        "a file of the same name in another folder does not complete a partial file",
        (),
        (partial("sub/model.safetensors"),),
        Exit.INCOMPLETE,
    ),
    Left(
        "ours-of-another-client",
        "a new partial file whose model file is unknown means that the download is incomplete",
        (),
        (f"{PLACE}/x.incomplete",),
        Exit.INCOMPLETE,
    ),
    Left("repository's", "a file of the model may end in .incomplete", (), ("x.incomplete", "sub/y.incomplete"), 0),
)


@pytest.mark.parametrize("case", LEFT, ids=lambda c: c.id)
def test_keeps_partial_files_and_reports_new_ones_without_their_file(
    root: Path, program: Program, capsys: pytest.CaptureFixture[str], case: Left
) -> None:
    fill(root, {**weights.SINGLE, "sub/a.txt": b"x", **dict.fromkeys(case.before, b"x")})
    program(
        "\n".join(f'mkdir -p "$(dirname "$2/{name}")"; echo x > "$2/{name}"' for name in (PLACE, *case.written)[1:])
    )
    assert script.main(URI, str(root)) == case.want, case.reason
    assert all((root / name).is_file() for name in (*case.before, *case.written)), (
        "the partial files of other processes stay"
    )
    said = [f"{root / name}: is partial" for name in case.written] if case.want else []
    assert [line for line in capsys.readouterr().out.splitlines() if line.endswith("partial")] == said


@pytest.mark.parametrize("said", ["[Errno 28] No space left on device", "503 Server Error", "401 Client Error"])
def test_keeps_partial_files_after_failure(root: Path, program: Program, said: str) -> None:
    fill(root, {ABSENT: b"x"})
    program(f'echo . >> {root}/../runs; echo x > "$2/{FINISHED}"; echo "{said}"; exit 1')
    assert script.main(URI, str(root)) > 40
    assert (root.parent / "runs").read_text() == ".\n"
    assert (root / ABSENT).is_file(), "the partial file stays, because another Job may be writing it"
    assert (root / FINISHED).is_file(), "the partial file stays, because the next attempt may continue it"


def test_removes_files_its_own_process_had_open_when_stopped(root: Path, program: Program) -> None:
    opened, resumable = partial("a.safetensors", ".0123abcd"), partial("b.safetensors")
    foreign = partial("a.safetensors", ".4567abcd")
    fill(root, {foreign: b"x"})
    program(f'exec 3>"$2/{opened}" 4>"$2/{resumable}"; sleep 0.3; kill -TERM $PPID; sleep 10 & wait')
    assert script.main(URI, str(root)) == 143
    assert {path.relative_to(root).as_posix() for path in script.partials(root)} == {foreign, resumable}, (
        "a partial file that only this process uses is removed"
    )


def test_tolerates_files_another_job_removed_first(tmp_path: Path) -> None:
    assert script.clear({tmp_path / "gone"}), "the program runs again to fetch the missing file"


@pytest.mark.parametrize("number", [1, 2])
def test_removes_damaged_file_and_keeps_foreign_partial_files(root: Path, program: Program, number: int) -> None:
    fill(root, {**weights.SINGLE, "model.safetensors": b"cut" * number, FINISHED: b"x"})
    (root.parent / "whole").write_bytes(weights.safetensors())
    program(f"[ -e {root}/model.safetensors ] || cp {root}/../whole {root}/model.safetensors")
    assert script.main(URI, str(root)) == 0
    assert (root / FINISHED).is_file()
