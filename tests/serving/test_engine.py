"""How engines start: who brings the command, which flags are added, and that a preset's shell changes nothing.

KServe v0.20's presets for one node and for data parallelism end in `eval "exec vllm serve … $@"` after `bash -c … --`,
so a shell parses every argument once more. The test runs such a line with a stand-in for vllm.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.domain.model import Engine, Mode, Parallelism, Shape
from function.serving import engine as scripts
from function.serving.engine import Group, Launch, start_group
from tests.support.builders import HUB, shape
from tests.support.serving_requests import (
    DATA,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    TENSOR,
    VLLM_DRAINS,
    VLLM_OLD,
    VLLM_RANKS,
    engine,
    request,
)

NAMES = ("org/kimi", "publishers/team/models/org/kimi")
EXPERT = shape(1, 8, Parallelism(tensor=8, expert=True))
DATA_ON_ONE = shape(1, 8, Parallelism(tensor=2, data=4, data_local=4))
SGLANG_SERVER = ("python3", "-m", "sglang.launch_server")
SGLANG_ARGS = ("--model-path=/mnt/models", "--served-model-name=org/kimi", "--host=0.0.0.0", "--port=8000")
SGLANG_NODES = (
    "--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000",
    "--dist-timeout=1800",
)  # fmt: skip
JOIN = "--distributed-timeout-seconds=1800"  # half an hour, as probes and scripts allow
SERVE = ("/mnt/models", "--served-model-name", *NAMES, "--port=8000")
SPLIT = ("--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--enable-expert-parallel")
NODES = (
    "--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)",
)  # fmt: skip
RAY_WORKER = Launch(command=("/bin/bash", "-c", scripts.RAY_WORKER))
BY_RAY = "--distributed-executor-backend=ray"


def by_ray(*args: str) -> Group:
    leader = Launch(command=("/bin/bash", "-c", scripts.RAY_LEADER, "leader"), args=("vllm", "serve", *args))
    return Group(leader=leader, worker=RAY_WORKER)


def by_nodes(*args: str, own: tuple[str, ...] = ()) -> Group:
    vllm = ("vllm", "serve")
    return Group(
        leader=Launch(command=vllm, args=(*args, *NODES, *own)),
        worker=Launch(command=vllm, args=(*args, *NODES, "--headless", *own)),
    )


def by_ranks(local: int, *args: str, own: tuple[str, ...] = ()) -> Group:
    command = ("/bin/bash", "-c", scripts.RANKS, "ranks", str(local))
    return Group(
        leader=Launch(command=command, args=("vllm", "serve", *args, *own)),
        worker=Launch(command=command, args=("vllm", "serve", *args, "--headless", *own)),
    )


def sglang(*args: str) -> Launch:
    return Launch(command=SGLANG_SERVER, args=args)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    want: Group


CASES = [
    Case("one-gpu", "the preset has every argument for one GPU", ONE_GPU, engine(), Group(leader=Launch())),
    Case("one-node", "the preset renders the tensor parallelism", ONE_NODE, engine("--max-model-len=8"),
         Group(leader=Launch(args=("--max-model-len=8",)))),
    Case("one-node-quoted",
        "the arguments are quoted once, for the preset's shell",
        ONE_GPU, engine('--x={"temperature": 0.6}', "it's", ""),
         Group(leader=Launch(args=("'--x={\"temperature\": 0.6}'", "'it'\"'\"'s'", "''")))),
    Case("one-node-expert",
        "no preset for one node renders expert parallelism, so that a flag is added",
        EXPERT, engine("--a"),
         Group(leader=Launch(args=("--enable-expert-parallel", "--a")))),
    Case("one-node-expert-given",
        "a flag that the author sets is not added a second time",
        EXPERT, engine("-ep"), Group(leader=Launch(args=("-ep",)))),
    Case("one-node-data",
        "no preset for one node renders data parallelism, so that a flag is added",
        DATA_ON_ONE, engine(),
         Group(leader=Launch(args=("--data-parallel-size=4",)))),
    Case("data", "the preset renders the data parallelism over nodes", DATA, engine("--a b"),
         Group(leader=Launch(args=("'--a b'",)), worker=Launch(args=("'--a b'",)))),
    Case("pipeline",
        "vLLM finds its nodes itself, and arguments are not quoted without a shell",
        PIPELINE, engine("--a b"),
         by_nodes(*SERVE, *SPLIT, "--distributed-executor-backend=mp", own=("--a b",))),
    Case("pipeline-flags-given", "flags that the author sets are not added a second time", PIPELINE,
         engine("-tp", "8", "--pipeline_parallel_size=2", "--enable-expert-parallel"),
         by_nodes(*SERVE, "--distributed-executor-backend=mp",
                  own=("-tp", "8", "--pipeline_parallel_size=2", "--enable-expert-parallel"))),
    Case("tensor-over-nodes", "tensor parallelism over nodes needs no pipeline stages", TENSOR, engine("--a b"),
         by_nodes(*SERVE, "--tensor-parallel-size=16", "--distributed-executor-backend=mp", own=("--a b",))),
    Case("pipeline-drains",
        "vLLM finishes its requests before it stops since 0.18",
        PIPELINE, engine(image=VLLM_DRAINS),
         by_nodes(*SERVE, "--shutdown-timeout=40", *SPLIT, "--distributed-executor-backend=mp", JOIN)),
    Case("pipeline-drain-said",
        "the author's --shutdown-timeout takes precedence",
        PIPELINE, engine("--shutdown-timeout=7", image=VLLM_DRAINS),
         by_nodes(*SERVE, *SPLIT, "--distributed-executor-backend=mp", JOIN, own=("--shutdown-timeout=7",))),
    Case("data-new",
        "vLLM's own balancer serves, because the preset would start another one",
        DATA, engine("--a b", image=VLLM_RANKS),
         by_ranks(2, *SERVE, "--shutdown-timeout=40", "--tensor-parallel-size=4", "--data-parallel-size=4",
                  "--data-parallel-size-local=2", "--enable-expert-parallel", "--data-parallel-rpc-port=5555",
                  own=("--a b",))),
    Case("data-one-rank", "without the number of its own ranks, the leader would start all of them",
         shape(2, 8, Parallelism(tensor=8, data=2, data_local=1)), engine(image=VLLM_RANKS),
         by_ranks(1, *SERVE, "--shutdown-timeout=40", "--tensor-parallel-size=8", "--data-parallel-size=2",
                  "--data-parallel-size-local=1", "--data-parallel-rpc-port=5555")),
    Case("data-one-rank-given", "the author's number of local ranks is not added a second time",
         shape(2, 8, Parallelism(tensor=8, data=2, data_local=1)), engine("-dpl=1", image=VLLM_RANKS),
         by_ranks(1, *SERVE, "--shutdown-timeout=40", "--tensor-parallel-size=8", "--data-parallel-size=2",
                  "--data-parallel-rpc-port=5555", own=("-dpl=1",))),
    Case("pipeline-old", "vLLM before 0.11.1 needs Ray for several nodes", PIPELINE, engine("--a b", image=VLLM_OLD),
         by_ray(*SERVE, *SPLIT, BY_RAY, "--a b")),
    Case("pipeline-ray",
        "the author requests Ray in one argument",
        PIPELINE, engine(BY_RAY), by_ray(*SERVE, *SPLIT, BY_RAY)),
    Case("pipeline-ray-apart",
        "the author requests Ray in two arguments",
        PIPELINE, engine("--distributed-executor-backend", "ray"),
         by_ray(*SERVE, *SPLIT, "--distributed-executor-backend", "ray")),
    Case("pipeline-mp",
        "the author requests mp, although the version of vLLM would use Ray",
        PIPELINE, engine("--distributed_executor_backend=mp", image=VLLM_OLD),
         by_nodes(*SERVE, *SPLIT, own=("--distributed_executor_backend=mp",))),
    Case("sglang-one-gpu", "vLLM's preset cannot start SGLang", ONE_GPU, engine(image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS))),
    Case("sglang-one-node",
        "SGLang starts without a shell, so that arguments are not quoted",
        ONE_NODE, engine("--a b", image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp-size=8", "--a b"))),
    Case("sglang-expert", "SGLang's flag for expert parallelism has a size", EXPERT, engine(image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp-size=8", "--ep-size=8"))),
    Case("sglang-data", "SGLang serves data parallelism on one node", DATA_ON_ONE, engine(image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp-size=2", "--dp-size=4"))),
    Case("sglang-given",
        "SGLang flags that the author sets are not added a second time",
        EXPERT, engine("--tp", "8", "--ep=8", image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp", "8", "--ep=8"))),
    Case("sglang-tensor-over-nodes",
        "SGLang's tensor parallelism over nodes needs no pipeline stages",
        TENSOR, engine(image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp-size=16", *SGLANG_NODES),
               worker=sglang(*SGLANG_ARGS, "--tp-size=16", *SGLANG_NODES))),
    Case("sglang-pipeline", "SGLang has the same arguments on every pod", PIPELINE, engine("--a", image=SGLANG),
         Group(leader=sglang(*SGLANG_ARGS, "--tp-size=8", "--pp-size=2", "--ep-size=8", *SGLANG_NODES, "--a"),
               worker=sglang(*SGLANG_ARGS, "--tp-size=8", "--pp-size=2", "--ep-size=8", *SGLANG_NODES, "--a"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_start(case: Case) -> None:
    assert start_group(request(case.shape, case.engine)) == case.want, case.reason


FILE = "Q4/kimi.gguf"
SERVE_FILE = (f"/mnt/models/{FILE}", *SERVE[1:])


@pytest.mark.parametrize(
    ("reason", "shape", "engine", "want"),
    [
        ("a preset serves a directory, so that a single file needs a command", EXPERT, engine("--a b"),
         Group(leader=Launch(command=("vllm", "serve"),
                             args=(*SERVE_FILE, "--tensor-parallel-size=8", "--enable-expert-parallel", "--a b")))),
        ("a single file is named for data parallelism as well", DATA, engine(),
         by_ranks(2, *SERVE_FILE, "--tensor-parallel-size=4", "--data-parallel-size=4",
                  "--data-parallel-size-local=2", "--enable-expert-parallel", "--data-parallel-rpc-port=5555")),
        ("the function's own command names the file", PIPELINE, engine(),
         by_nodes(*SERVE_FILE, *SPLIT, "--distributed-executor-backend=mp")),
        ("the command of SGLang names the file", ONE_GPU, engine(image=SGLANG),
         Group(leader=sglang(f"--model-path=/mnt/models/{FILE}", *SGLANG_ARGS[1:]))),
    ],
)  # fmt: skip
def test_starts_with_weights_of_one_file(reason: str, shape: Shape, engine: Engine, want: Group) -> None:
    assert start_group(request(shape, engine, source=replace(HUB, file=FILE))) == want, reason


@pytest.mark.parametrize(
    ("shape", "want"),
    [(ONE_NODE, Mode.SINGLE), (DATA_ON_ONE, Mode.SINGLE), (PIPELINE, Mode.PIPELINE), (DATA, Mode.DATA)],
)
def test_mode(shape: Shape, want: Mode) -> None:
    assert shape.mode is want


AS_PRESET = 'eval "exec vllm serve /mnt/models --port 8000 --served-model-name "org/kimi" \\\n ${EXTRA} $@"'


@pytest.fixture(scope="module")
def path_with_vllm(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("bin")
    vllm: Path = directory / "vllm"
    vllm.write_text(f"#!{sys.executable} -S\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    vllm.chmod(0o755)
    return f"{directory}:{os.defpath}"


def through_preset(path: str, shape: Shape, *args: str) -> list[str]:
    """Return what vllm is given where the preset runs these arguments of an author."""
    launch = start_group(request(shape, engine(*args))).leader
    done = subprocess.run(
        ["/bin/bash", "-c", AS_PRESET, "--", *launch.args],
        env={"PATH": path, "PYTHONUTF8": "1", "EXTRA": "--of-preset"},
        stdout=subprocess.PIPE,
        check=True,
    )
    ours = ["serve", "/mnt/models", "--port", "8000", "--served-model-name", "org/kimi", "--of-preset"]
    given: list[str] = json.loads(done.stdout)
    assert given[: len(ours)] == ours
    return given[len(ours) :]


AWKWARD = (
    '--override-generation-config={"temperature": 0.6}',
    "",
    "two words",
    "it's",
    '"',
    "$HOME ${HOME} `id` $(id)",
    "back\\slash\\",
    "line\nbreak",
    "--a=b;c&d|e>f<g",
    "*?[a]{b,c}~!#",
    "größer",
)


@pytest.mark.parametrize("mode", [ONE_GPU, DATA], ids=["one-node", "data"])
def test_preset_shell_keeps_special_characters(path_with_vllm: str, mode: Shape) -> None:
    assert through_preset(path_with_vllm, mode, *AWKWARD) == list(AWKWARD)


TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20).filter(
    # These the commands have already (`drop_repeated_flags`).
    lambda arg: arg.partition("=")[0] not in {"--served-model-name", "--model"}
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(args=st.lists(TEXT, max_size=4))
def test_preset_shell_keeps_any_argument(path_with_vllm: str, args: list[str]) -> None:
    assert through_preset(path_with_vllm, ONE_GPU, *args) == args
