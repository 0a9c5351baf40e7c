"""Both scripts on real directories, as the users and with the rights that a pod gives them.

That takes root, to be root and to become another user: for other users conftest.py leaves this file out.
"""

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from function.weights.job import DOWNLOAD, PREPARE, SCRIPT_FILES
from function.weights.scripts import prepare_script
from function.weights.scripts.download_script import MARKER, Exit
from function.weights.scripts.prepare_script import FULL, REFUSED, main
from tests.hub import weights

RIGHTS = "-all,+chown,+dac_override,+fowner"
USER = 1000
KEY, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def claim() -> Iterator[Path]:
    """A file system that belongs to root and that others may read, where the download's user can reach it."""
    path = Path(tempfile.mkdtemp(prefix="claim-", dir="/tmp"))  # pytest's own directory is closed to others
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def prepare(claim: Path, key: str = KEY, *, first: str = "") -> int:
    """Run the script as its container does: root with three rights; `first` is said to a shell in its own mounts."""
    script = [sys.executable, "-c", SCRIPT_FILES[PREPARE], str(claim), f"models/{key}", str(USER), str(USER)]
    limited = ["setpriv", f"--bounding-set={RIGHTS}", f"--inh-caps={RIGHTS}", *script]
    shell = ["unshare", "--mount", "sh", "-c", f'{first or ":"} && exec "$@"', "sh"]
    return subprocess.run([*shell, *limited], check=False, capture_output=True).returncode  # our own words


def download(claim: Path, key: str = KEY) -> int:
    """Run the download as its user, with a program that brings a model."""
    program = claim.parent / f"{claim.name}-initializer"
    source = claim.parent / f"{claim.name}-model"
    for name, data in weights.SINGLE.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    # What is refused it says as python does.
    program.write_text(f'#!/bin/sh\ncp -r {source}/. "$2" && exit\necho "[Errno 13] Permission denied"; exit 1\n')
    program.chmod(0o755)
    script = [sys.executable, "-c", SCRIPT_FILES[DOWNLOAD], "hf://owner/model:main", str(claim / "models" / key)]
    plain = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all", *script]
    environment = {"PATH": os.environ["PATH"], "MODELPLANE_INITIALIZER": str(program)}
    try:
        return subprocess.run(plain, check=False, capture_output=True, env=environment).returncode
    finally:
        program.unlink()
        shutil.rmtree(source)


def owners(path: Path) -> dict[str, int]:
    """Return who owns a directory and all below it."""
    return {str(p.relative_to(path.parent)): p.lstat().st_uid for p in (path, *path.rglob("*"))}


def test_one_failure_one_preparation_and_it_is_downloaded(claim: Path) -> None:
    assert download(claim) == Exit.NOT_WRITABLE
    assert prepare(claim) == 0
    assert download(claim) == 0
    assert (claim / "models" / KEY / MARKER).is_file()
    assert (claim.stat().st_uid, (claim / "models").stat().st_uid) == (0, 0), (
        "only the directory of the model changes its owner"
    )


def test_makes_existing_files_writable(claim: Path) -> None:
    made = claim / "models" / KEY
    (made / "deep").mkdir(parents=True, mode=0o555)
    (made / "deep" / "file").write_text("of another user")
    made.chmod(0o555)
    assert download(claim) == Exit.NOT_WRITABLE
    assert prepare(claim) == 0
    assert set(owners(made).values()) == {USER}
    assert download(claim) == 0
    assert prepare(claim) == 0, "the script may run again over complete files"


def test_prepares_only_the_directory_of_its_key(claim: Path) -> None:
    beside = claim / "models" / OTHER
    beside.mkdir(parents=True)
    (beside / "weights").write_text("of another user")
    os.chown(beside / "weights", 77, 77)
    before = owners(beside)
    assert prepare(claim) == 0
    assert owners(beside) == before
    assert prepare(claim, OTHER) == 0
    assert set(owners(beside).values()) == {USER}
    assert download(claim) == 0


def test_a_read_only_file_system_is_refused_with_a_code_of_its_own(claim: Path) -> None:
    mounted = f"mount --bind {claim} {claim} && mount -o remount,ro,bind {claim}"
    assert prepare(claim, first=mounted) == REFUSED
    assert prepare(claim) == 0
    (claim / "models" / KEY / "file").write_text("of root")
    assert prepare(claim, first=mounted) == REFUSED, (
        "existing files on a read-only file system cannot change their owner either"
    )


def test_a_full_file_system_is_full(claim: Path) -> None:
    assert prepare(claim, first=f"mount -t tmpfs -o nr_inodes=2 tmpfs {claim}") == FULL


def test_root_without_the_right_to_give_away_is_refused(claim: Path) -> None:
    """As on an NFS that squashes root."""
    script = [sys.executable, "-c", SCRIPT_FILES[PREPARE], str(claim), f"models/{KEY}", str(USER), str(USER)]
    squashed = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *script]
    assert subprocess.run(squashed, check=False, capture_output=True).returncode == REFUSED


@pytest.mark.parametrize("link", ["models", f"models/{KEY}"])
def test_follows_no_symbolic_link(claim: Path, link: str) -> None:
    elsewhere = claim / "elsewhere"
    elsewhere.mkdir()
    place = claim / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    assert prepare(claim) == REFUSED
    assert owners(elsewhere) == {"elsewhere": 0}


def test_changes_owner_of_links_and_not_of_their_targets(claim: Path) -> None:
    made = claim / "models" / KEY
    made.mkdir(parents=True)
    (claim / "target").write_text("of root")
    (made / "link").symlink_to(claim / "target")
    assert prepare(claim) == 0
    assert (made / "link").lstat().st_uid == USER
    assert (claim / "target").stat().st_uid == 0


def test_prepares_in_this_process(claim: Path) -> None:
    arguments = (f"models/{KEY}", str(USER), str(USER))
    assert main(str(claim), *arguments) == 0
    (claim / "models" / KEY).chmod(0o500)
    assert main(str(claim), *arguments) == 0
    assert (claim / "models" / KEY).stat().st_mode & 0o700 == 0o700
    assert set(owners(claim / "models" / KEY).values()) == {USER}
    assert main(str(claim / "absent"), *arguments) == 1, "unexpected"


def test_runs_as_a_script(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-c", str(claim), f"models/{KEY}", str(USER), str(USER)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(prepare_script.__file__, run_name="__main__")
    assert ended.value.code == 0
