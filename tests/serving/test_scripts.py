"""The two scripts of Ray, run by bash with stand-ins for ray, vllm and sleep."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from function.serving import engine as scripts


@pytest.mark.parametrize("script", [scripts.RAY_LEADER, scripts.RAY_WORKER, scripts.RANKS])
def test_scripts_contain_nothing_that_others_expand(script: str) -> None:
    assert "{{" not in script, "KServe's Go template would replace this text"
    assert "$(" not in script, "the kubelet would replace this text"
    assert "$$" not in script, "the kubelet would treat this text as an escape"


RAY = """\
calls = pathlib.Path("calls")
seen = calls.read_text().splitlines() if calls.exists() else []
calls.write_text("\\n".join([*seen, " ".join(sys.argv[1:])]))
raise SystemExit(len(seen) < int(os.environ["FAILURES"]))
"""
VLLM = "print(json.dumps(sys.argv))"
RAY_MODULE = """\
import pathlib
def init(**options):
    assert options["address"] == "auto"
def nodes():
    asked = pathlib.Path("asked")
    asked.write_text(asked.read_text() + "." if asked.exists() else ".")
    return [{"Alive": True}, {"Alive": False}, {"Alive": len(asked.read_text()) > 2}]
"""


@pytest.fixture
def run(tmp_path: Path) -> "Run":
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in {"ray": RAY, "vllm": VLLM, "sleep": ""}.items():
        (bin_ / name).write_text(f"#!{sys.executable} -S\nimport json, os, pathlib, sys\n{text}\n")
        (bin_ / name).chmod(0o755)
    (bin_ / "python3").symlink_to(sys.executable)
    (tmp_path / "ray.py").write_text(RAY_MODULE)
    return Run(tmp_path)


class Run:
    """Runs a script as a container would."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, script: str, *args: str, failures: int = 0, size: int = 2) -> tuple[int, str]:
        """Return the exit code and the last line of output; three attempts instead of 360."""
        done = subprocess.run(
            ["/bin/bash", "-c", script.replace("{1..360}", "{1..3}"), "start", *args],
            cwd=self.directory,
            env={
                "PATH": f"{self.directory / 'bin'}:{os.defpath}",
                "PYTHONPATH": str(self.directory),
                "LWS_GROUP_SIZE": str(size),
                "LWS_LEADER_ADDRESS": "kimi-0.kimi.team",
                "FAILURES": str(failures),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, (done.stdout.splitlines() or [""])[-1]

    @property
    def calls(self) -> list[str]:
        """What ray was asked to do."""
        return (self.directory / "calls").read_text().splitlines()


def test_leader_starts_engine_when_all_nodes_joined(run: Run) -> None:
    args = ("vllm", "serve", "/mnt/models", '--x={"a b": $HOME}', "")
    code, last = run(scripts.RAY_LEADER, *args)
    assert code == 0, last
    assert json.loads(last)[1:] == list(args[1:])
    assert (run.directory / "asked").read_text() == "...", (
        "the script asks for the nodes until the second node has joined"
    )
    assert run.calls == ["start --head --port=6379"]


def test_leader_fails_after_timeout(run: Run) -> None:
    assert run(scripts.RAY_LEADER, "vllm", size=3) == (1, "Fewer than 3 nodes have joined Ray")


def test_leader_fails_when_ray_does_not_start(run: Run) -> None:
    assert run(scripts.RAY_LEADER, "vllm", failures=1) == (1, "")


def test_worker_waits_for_head(run: Run) -> None:
    code, _ = run(scripts.RAY_WORKER, failures=2)
    assert code == 0
    assert run.calls == ["start --address=kimi-0.kimi.team:6379 --block"] * 3


def test_worker_fails_after_timeout(run: Run) -> None:
    assert run(scripts.RAY_WORKER, failures=9) == (1, "No Ray on kimi-0.kimi.team")
