"""How an engine is started: whose command, which arguments, on leader and on worker.

| mode | vLLM | SGLang |
|---|---|---|
| one node | KServe's preset | own command |
| pipeline over nodes | own command: Ray, or vLLM's own flags for several nodes | own command |
| data over nodes | KServe's preset | cannot |

KServe's presets pass `args` through `eval`, so each one is quoted once for a shell; what they render
themselves (served names, tensor, and over nodes also data and expert parallelism) is not repeated. In a
command of our own nothing is parsed by a shell, ours comes first and the author's after it, because the last
of two flags counts.

Authors' `$(NAME)` means what it means in any pod: the kubelet replaces it where the container has such a
variable, also within the quotes of a preset's argument, and nothing else expands it.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from function.domain.engine_args import DATA, EXPERT, PIPELINE, TENSOR, parallel_flags
from function.domain.model import Engine, EngineName, Shape
from function.serving import ray
from function.serving.arguments import MOUNT, last_value

PORT = 8000  # KServe's Service and routes know no other
SERVED_NAME = "--served-model-name"
_BACKEND = "--distributed-executor-backend"
_SIZES: Mapping[EngineName, Mapping[str, str]] = {
    EngineName.VLLM: {
        TENSOR: "--tensor-parallel-size",
        PIPELINE: "--pipeline-parallel-size",
        DATA: "--data-parallel-size",
    },
    EngineName.SGLANG: {TENSOR: "--tp-size", PIPELINE: "--pp-size", DATA: "--dp-size"},
}


class Mode(StrEnum):
    """How one replica is spread over pods."""

    SINGLE = "single"
    PIPELINE = "pipeline"
    DATA = "data"


def mode_of(shape: Shape) -> Mode:
    """Return the mode of a shape."""
    if shape.nodes == 1:
        return Mode.SINGLE
    return Mode.PIPELINE if shape.parallelism.data is None else Mode.DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be started: an engine whose `args` no longer name weights, as `names`, in this shape."""

    engine: Engine
    shape: Shape
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The start of one container. No command = the preset's."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pods of one replica: the leader, which serves, and its workers, if there are any."""

    leader: Launch
    worker: Launch | None = None


def start(run: Run) -> Group:
    """Return how the pods of one replica start."""
    match run.engine.name, mode_of(run.shape):
        case EngineName.VLLM, Mode.SINGLE:
            return Group(leader=_by_preset(*_parallel(run, DATA, EXPERT), *run.engine.args))
        case EngineName.VLLM, Mode.DATA:
            launch = _by_preset(*run.engine.args)
            return Group(leader=launch, worker=launch)
        case EngineName.VLLM, _:
            return _vllm_group(run)
        case _, Mode.SINGLE:
            return Group(leader=_sglang(run, *_parallel(run, TENSOR, DATA, EXPERT)))
        case _:
            launch = _sglang(
                run,
                *_parallel(run, TENSOR, PIPELINE, EXPERT),
                "--nnodes=$(LWS_GROUP_SIZE)",
                "--node-rank=$(LWS_WORKER_INDEX)",
                "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000",
            )
            return Group(leader=launch, worker=launch)


def _by_preset(*args: str) -> Launch:
    return Launch(args=tuple(shlex.quote(arg) for arg in args))


def _vllm_group(run: Run) -> Group:
    backend = last_value(run.engine.args, _BACKEND)
    by_ray = ray.needed(run.engine.image, backend)
    serve = (
        MOUNT,
        *(() if last_value(run.engine.args, SERVED_NAME) else (SERVED_NAME, *run.names)),
        f"--port={PORT}",
        *_parallel(run, TENSOR, PIPELINE, EXPERT),
        *(() if backend else (f"{_BACKEND}={'ray' if by_ray else 'mp'}",)),
    )
    if by_ray:
        return Group(
            leader=Launch(
                command=("/bin/bash", "-c", ray.LEADER, "leader"), args=("vllm", "serve", *serve, *run.engine.args)
            ),
            worker=Launch(command=("/bin/bash", "-c", ray.WORKER)),
        )
    nodes = ("--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)")
    command = ("vllm", "serve")
    return Group(
        leader=Launch(command=command, args=(*serve, *nodes, *run.engine.args)),
        worker=Launch(command=command, args=(*serve, *nodes, "--headless", *run.engine.args)),
    )


def _sglang(run: Run, *flags: str) -> Launch:
    # SGLang takes one served name and answers to any, hence also to the one that KServe's router asks for.
    return Launch(
        command=("python3", "-m", "sglang.launch_server"),
        args=(
            f"--model-path={MOUNT}",
            *(() if last_value(run.engine.args, SERVED_NAME) else (f"{SERVED_NAME}={run.names[0]}",)),
            "--host=0.0.0.0",
            f"--port={PORT}",
            *flags,
            *run.engine.args,
        ),
    )


def _parallel(run: Run, *fields: str) -> tuple[str, ...]:
    """Return the flags for these parts of the shape that the author has not given; a size of 1 needs none."""
    engine, split = run.engine, run.shape.parallelism
    sizes = {TENSOR: split.tensor, PIPELINE: split.pipeline, DATA: split.data or 1}
    flags = {field: f"{_SIZES[engine.name][field]}={size}" for field, size in sizes.items() if size > 1}
    if split.expert:
        vllm = engine.name is EngineName.VLLM
        flags[EXPERT] = "--enable-expert-parallel" if vllm else f"--ep-size={split.tensor}"
    given = parallel_flags(engine.name, engine.args).values
    return tuple(flags[field] for field in fields if field in flags and field not in given)
