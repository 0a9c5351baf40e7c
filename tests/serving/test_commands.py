"""Every command that starts a container, run as a container would, with stand-ins for engines, Ray and DNS.

The kubelet replaces `$(NAME)` where the container has such a variable and passes everything else on; a preset's
command is a shell's. A stand-in prints its arguments and sleeps; stopped, it prints that and ends. A shell that is the
first process of a container dies of no signal by itself: what it traps ends with 143, what kills it with -15.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from function.domain.model import Engine, Shape
from function.domain.pods import PodAdditions
from function.domain.settings import Kserve
from function.kube.manifests import Manifest
from function.serving.engine import Group, Launch, start_group, wrap_in_shell
from tests.serving.test_engine import AS_PRESET, AWKWARD
from tests.support.builders import HUB
from tests.support.serving_requests import (
    DATA,
    FRONTIER,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    TENSOR,
    VLLM_NEW,
    VLLM_OLD,
    VLLM_RANKS,
    engine,
    request,
)

ENGINE = """\
import json, os, signal, sys, time
def stop(*_):
    os.write(1, b"stopped\\n")  # a signal may come in the middle of a print
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
print(json.dumps(sys.argv[1:]), flush=True)
time.sleep(30)
"""
# Ray's own program forks and ends; `--block` stays.
RAY = """\
import signal, sys, time
print("ray", *sys.argv[1:], flush=True)
if "--block" in sys.argv:
    time.sleep(30)
"""
NODES = """\
import os
def init(**options): pass
def nodes(): return [{"Alive": True}] * int(os.environ["JOINED"])
"""
GETENT = 'import os, sys\naddress = os.environ["ADDRESS"]\nprint(f"{address} {sys.argv[2]}" if address else "", end="")'
SLEEP = 'import time\nprint("waiting", flush=True)\ntime.sleep(30)'
PROGRAMS = {"vllm": ENGINE, "ray": RAY, "getent": GETENT, "sleep": SLEEP}


@dataclass(frozen=True)
class Place:
    """Where programs are looked for, and the variables of a pod."""

    directory: Path

    def variables(self, index: int, **more: str) -> dict[str, str]:
        """Return the variables of the pod with this index in its group."""
        return {
            "PATH": f"{self.directory / 'bin'}:{os.defpath}",
            "PYTHONPATH": str(self.directory),
            "PYTHONUTF8": "1",
            "LWS_GROUP_SIZE": "2",
            "LWS_WORKER_INDEX": str(index),
            "LWS_LEADER_ADDRESS": "kimi-0.kimi.team",
            "JOINED": "2",
            "ADDRESS": "10.0.0.7",
            **more,
        }

    def begin(self, launch: Launch, index: int, **more: str) -> "subprocess.Popen[str]":
        """Start the container of one pod; who begins it ends it."""
        env = self.variables(index, **more)
        command = launch.command or ("/bin/bash", "-c", AS_PRESET, "--")
        return subprocess.Popen(
            [_expanded(word, env) for word in (*command, *launch.args)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def without(self, program: str) -> None:
        """Remove a program."""
        (self.directory / "bin" / program).unlink()


def _expanded(word: str, env: dict[str, str]) -> str:
    """Returns what the kubelet makes of a word: `$$` is a dollar sign, and a variable without a value stays."""

    def expand(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", expand, word)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in PROGRAMS.items():
        (bin_ / name).write_text(f"#!{sys.executable} -S\n{text}\n")
        (bin_ / name).chmod(0o755)
    (bin_ / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin_ / "python3").chmod(0o755)
    (tmp_path / "ray.py").write_text(NODES)
    server = tmp_path / "sglang"
    server.mkdir()
    (server / "__init__.py").write_text("")
    (server / "launch_server.py").write_text(ENGINE)
    return Place(tmp_path)


@pytest.fixture
def running() -> Iterator[list["subprocess.Popen[str]"]]:
    """Containers of a test, which are stopped after the test in any case."""
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@dataclass(frozen=True)
class Case:
    id: str
    shape: Shape
    engine: Engine
    file: str = ""
    tls: bool = False

    def group(self, *args: str) -> Group:
        """Return how its pods start with an author's arguments."""
        given = engine(*args, image=self.engine.image)
        source = replace(HUB, file=self.file)
        return start_group(request(self.shape, given, source=source, kserve=Kserve(tls=self.tls)))


CASES = [
    Case("preset", ONE_GPU, engine(image=VLLM_NEW)),
    Case("preset-data", DATA, engine(image=VLLM_NEW)),
    Case("one-file", ONE_NODE, engine(image=VLLM_NEW), "Q4/kimi.gguf"),
    Case("pipeline", PIPELINE, engine(image=VLLM_RANKS)),
    Case("tensor", TENSOR, engine(image=VLLM_RANKS)),
    Case("ranks", DATA, engine(image=VLLM_RANKS)),
    Case("ray", PIPELINE, engine(image=VLLM_OLD)),
    Case("sglang", ONE_GPU, engine(image=SGLANG)),
    Case("sglang-pipeline", PIPELINE, engine(image=SGLANG)),
    Case("sglang-tensor", TENSOR, engine(image=SGLANG)),
    Case("ray-tls", PIPELINE, engine(image=VLLM_OLD), tls=True),
    Case("ranks-tls", DATA, engine(image=VLLM_RANKS), tls=True),
]
PODS = [
    pytest.param(case, index, id=f"{case.id}-{('leader', 'worker')[index]}")
    for case in CASES
    for index in range(min(case.shape.nodes, 2))
]


def _launch(group: Group, index: int) -> Launch:
    launch = group.worker if index else group.leader
    assert launch
    return launch


def _line(process: "subprocess.Popen[str]", wanted: str) -> str:
    """Return the first line with this prefix."""
    assert process.stdout
    for line in process.stdout:
        if line.startswith(wanted):
            return line.rstrip("\n")
    raise AssertionError(f"no line {wanted!r}")


@pytest.mark.parametrize(("case", "index"), PODS)
def test_engine_gets_arguments_unchanged_and_is_stopped(
    case: Case, index: int, place: Place, running: list["subprocess.Popen[str]"]
) -> None:
    process = place.begin(_launch(case.group(*AWKWARD), index), index)
    running.append(process)
    if case.id.startswith("ray") and index:
        assert _line(process, "ray") == "ray start --address=kimi-0.kimi.team:6379 --block"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM, "the shell that waits for Ray receives the signal"
        return
    given = json.loads(_line(process, "["))
    whole = [given[i : i + len(AWKWARD)] for i in range(len(given))]
    assert list(AWKWARD) in whole, "an argument of the author must not change"
    assert not [word for word in given if "$(LWS" in word], "the pod does not have this variable"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0, "the engine receives the signal itself, because no shell runs before it"
    assert _line(process, "stopped")


TEMPLATE = """{% if message['role'] == "user" %}{{ '$(id) `id` $HOME' }}
\\ it's{% endif %}"""
VARIABLE_ARGS = ("--chat-template=$(TEMPLATE)", "--a", "x'$(TEMPLATE)'$(POOL)", "$$(TEMPLATE)", "$(NOBODYS)", "$(A.B)")


@pytest.mark.parametrize(("case", "index"), [pod for pod in PODS if not str(pod.id).startswith("ray")])
def test_variable_of_container_reaches_engine_unchanged(
    case: Case, index: int, place: Place, running: list["subprocess.Popen[str]"]
) -> None:
    """For example a template of a ConfigMap: its quotes must survive the shell of KServe's presets."""
    source: Manifest = {"configMapKeyRef": {"name": "templates", "key": "chat"}}
    env: tuple[Manifest, ...] = ({"name": "TEMPLATE", "valueFrom": source}, {"name": "A.B", "value": "dots"})
    pool = replace(FRONTIER, pod=PodAdditions(env=({"name": "POOL", "value": "a b"},)))
    author = engine(*VARIABLE_ARGS, image=case.engine.image, env=env)
    asked = request(case.shape, author, source=replace(HUB, file=case.file), pool=pool, kserve=Kserve(tls=case.tls))
    process = place.begin(_launch(start_group(asked), index), index, TEMPLATE=TEMPLATE, POOL="a b", **{"A.B": "dots"})
    running.append(process)
    given = json.loads(_line(process, "["))
    expected = [f"--chat-template={TEMPLATE}", "--a", f"x'{TEMPLATE}'a b", "$(TEMPLATE)", "$(NOBODYS)", "dots"]
    assert expected in [given[i : i + len(expected)] for i in range(len(given))]


@pytest.mark.parametrize(("case", "index"), [pod for pod in PODS if "preset" not in str(pod.id)])
def test_start_line_of_preset_keeps_arguments(
    case: Case, index: int, place: Place, running: list["subprocess.Popen[str]"]
) -> None:
    (place.directory / "profile.sh").write_text("export NCCL_NET=gIB\n")
    line = f"source {place.directory / 'profile.sh'}"
    process = place.begin(wrap_in_shell(_launch(case.group(*AWKWARD), index), line), index)
    running.append(process)
    if case.id.startswith("ray") and index:
        assert _line(process, "ray") == "ray start --address=kimi-0.kimi.team:6379 --block"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM, (
            "the script replaces the shell of the line, so that it receives the signal"
        )
        return
    given = json.loads(_line(process, "["))
    assert list(AWKWARD) in [given[i : i + len(AWKWARD)] for i in range(len(given))]
    environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert b"NCCL_NET=gIB" in environment, "the engine is the first process, with the variables that the line has set"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("index", [0, 1])
def test_ranks_get_leader_address_and_first_rank(
    index: int, place: Place, running: list["subprocess.Popen[str]"]
) -> None:
    process = place.begin(_launch(Case("", DATA, engine(image=VLLM_RANKS)).group(), index), index)
    running.append(process)
    given = json.loads(_line(process, "["))
    first = [] if index == 0 else ["--data-parallel-start-rank=2"]
    assert given[-1 - len(first) :] == [*first, "--data-parallel-address=10.0.0.7"], "each pod has 2 ranks"
    assert ("--headless" in given) is (index == 1)
    assert not any(argument.startswith("--api-server-count") for argument in given), (
        "vLLM starts one API server for each rank"
    )


@pytest.mark.parametrize(
    ("case", "index", "more"),
    [
        (Case("ray", PIPELINE, engine(image=VLLM_OLD)), 0, {"JOINED": "1"}),
        (Case("ranks", DATA, engine(image=VLLM_RANKS)), 0, {"ADDRESS": ""}),
        (Case("ranks", DATA, engine(image=VLLM_RANKS)), 1, {"ADDRESS": ""}),
    ],
    ids=["ray-leader", "ranks-leader", "ranks-worker"],
)
def test_waiting_script_ends_on_signal(
    case: Case, index: int, more: dict[str, str], place: Place, running: list["subprocess.Popen[str]"]
) -> None:
    process = place.begin(_launch(case.group(), index), index, **more)
    running.append(process)
    assert _line(process, "waiting")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM


@pytest.mark.parametrize("index", [0, 1])
def test_image_without_ray_fails_at_once(index: int, place: Place) -> None:
    place.without("ray")
    process = place.begin(_launch(Case("", PIPELINE, engine(image=VLLM_OLD)).group(), index), index)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (127, "")
    assert err == "This image has no Ray: no program called ray is in it\n"


def test_ranks_fail_after_timeout(place: Place) -> None:
    launch = _launch(Case("", DATA, engine(image=VLLM_RANKS)).group(), 1)
    (place.directory / "bin" / "sleep").write_text("#!/bin/sh\n")
    shorter = Launch(command=tuple(word.replace("{1..360}", "{1..3}") for word in launch.command), args=launch.args)
    process = place.begin(shorter, 1, ADDRESS="")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "kimi-0.kimi.team has no address\n")
    assert out == "Waiting for the address of kimi-0.kimi.team\n" * 3
