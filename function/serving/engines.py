"""How an engine is started: whose command, which arguments, on leader and on worker.

| mode | vLLM | SGLang |
|---|---|---|
| one node | KServe's preset | own command |
| pipeline or tensor over nodes | own command: Ray, or vLLM's own flags for several nodes | own command |
| data over nodes | KServe's preset; own command where that cannot start this version | cannot |

A preset serves a directory, so weights of one file mean a command of our own in every mode.

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

from function.domain.engine_args import DATA, DATA_LOCAL, EXPERT, PIPELINE, TENSOR, parallel_flags
from function.domain.engine_versions import Ability, can
from function.domain.executor import BACKEND, ITSELF, RAY, by_ray
from function.domain.flags import last_value
from function.domain.model import Engine, EngineName, Shape
from function.domain.settled_flags import ADDRESS, MOUNT, PORT, SERVED_NAME
from function.serving import ranks, ray, tls

SHUTDOWN = "--shutdown-timeout"
_DRAIN = 40  # seconds, what KServe's presets leave of a minute
DRAINING = f"{SHUTDOWN}={_DRAIN}"
_DIGITS = 6
_API_SERVERS = 8  # as KServe's preset for data parallelism
_SIZES: Mapping[EngineName, Mapping[str, str]] = {
    EngineName.VLLM: {
        TENSOR: "--tensor-parallel-size",
        PIPELINE: "--pipeline-parallel-size",
        DATA: "--data-parallel-size",
        DATA_LOCAL: "--data-parallel-size-local",
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
    """What is to be started: an engine whose `args` repeat nothing that is settled, as `names`, in this shape.

    `file` is the path of weights that are one file, below where they are mounted. `tls`: KServe's is on.
    """

    engine: Engine
    shape: Shape
    names: tuple[str, ...]
    file: str = ""
    tls: bool = False

    @property
    def weights(self) -> str:
        """Where the engine finds them."""
        return f"{MOUNT}/{self.file}" if self.file else MOUNT


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
    mode = mode_of(run.shape)
    if run.engine.name is EngineName.SGLANG:
        return _sglang_group(run)
    match mode:
        case Mode.SINGLE if run.file:
            flags = _parallel(run, TENSOR, DATA, EXPERT)
            return Group(leader=Launch(command=("vllm", "serve"), args=(*_serve(run), *flags, *run.engine.args)))
        case Mode.SINGLE:
            return Group(leader=_by_preset(*_parallel(run, DATA, EXPERT), *run.engine.args))
        case Mode.DATA if run.file or not can(run.engine, Ability.KSERVE_RANKS):
            return _ranks_group(run)
        case Mode.DATA:
            launch = _by_preset(*run.engine.args)
            return Group(leader=launch, worker=launch)
        case _:
            return _vllm_group(run)


def several_api_servers(run: Run) -> bool:
    """Tell whether more than one process answers requests, which vLLM starts where ranks hold copies of a model."""
    return run.engine.name is EngineName.VLLM and (run.shape.parallelism.data or 1) > 1


def drain(engine: Engine) -> int:
    """Return for how many seconds a leader may finish its requests after it was told to stop; 0: it cannot."""
    if engine.name is not EngineName.VLLM or not can(engine, Ability.DRAIN):
        return 0
    said = last_value(engine.args, SHUTDOWN)
    return int(said) if said and said.isascii() and said.isdecimal() and len(said) < _DIGITS else _DRAIN


def _by_preset(*args: str) -> Launch:
    return Launch(args=tuple(shlex.quote(arg) for arg in args))


def _serve(run: Run) -> tuple[str, ...]:
    """Return what every `vllm serve` of our own is given first."""
    draining = (DRAINING,) if drain(run.engine) and last_value(run.engine.args, SHUTDOWN) is None else ()
    return (run.weights, SERVED_NAME, *run.names, f"--port={PORT}", *draining, *_tls(run))


def _tls(run: Run) -> tuple[str, ...]:
    return tls.flags(run.engine.name) if run.tls else ()


def _vllm_group(run: Run) -> Group:
    ray_spans = by_ray(run.engine)
    backend = () if last_value(run.engine.args, BACKEND) else (f"{BACKEND}={RAY if ray_spans else ITSELF}",)
    serve = (*_serve(run), *_parallel(run, TENSOR, PIPELINE, EXPERT), *backend)
    if ray_spans:
        return Group(
            leader=Launch(
                command=("/bin/bash", "-c", ray.LEADER, "leader"), args=("vllm", "serve", *serve, *run.engine.args)
            ),
            worker=Launch(command=("/bin/bash", "-c", ray.WORKER)),
        )
    nodes = ("--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)")
    return Group(
        leader=Launch(command=("vllm", "serve"), args=(*serve, *nodes, *run.engine.args)),
        worker=Launch(command=("vllm", "serve"), args=(*serve, *nodes, "--headless", *run.engine.args)),
    )


def _ranks_group(run: Run) -> Group:
    command = ("/bin/bash", "-c", ranks.SCRIPT, "ranks", str(run.shape.parallelism.data_local or 1))
    flags = _parallel(run, TENSOR, DATA, DATA_LOCAL, EXPERT)
    serve = ("vllm", "serve", *_serve(run), *flags, f"--data-parallel-rpc-port={ranks.PORT}")
    return Group(
        leader=Launch(command=command, args=(*serve, f"--api-server-count={_API_SERVERS}", *run.engine.args)),
        worker=Launch(command=command, args=(*serve, "--headless", *run.engine.args)),
    )


def _sglang_group(run: Run) -> Group:
    if mode_of(run.shape) is Mode.SINGLE:
        return Group(leader=_sglang(run, *_parallel(run, TENSOR, DATA, EXPERT)))
    launch = _sglang(
        run,
        *_parallel(run, TENSOR, PIPELINE, EXPERT),
        "--nnodes=$(LWS_GROUP_SIZE)",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000",
    )
    return Group(leader=launch, worker=launch)


def _sglang(run: Run, *flags: str) -> Launch:
    # SGLang takes one served name and answers to any, hence also to the one that KServe's router asks for.
    return Launch(
        command=("python3", "-m", "sglang.launch_server"),
        args=(
            f"--model-path={run.weights}",
            f"{SERVED_NAME}={run.names[0]}",
            f"--host={ADDRESS}",
            f"--port={PORT}",
            *_tls(run),
            *flags,
            *run.engine.args,
        ),
    )


def _parallel(run: Run, *fields: str) -> tuple[str, ...]:
    """Return the flags for these parts of the shape that the author has not given; a size of 1 needs none."""
    engine, split = run.engine, run.shape.parallelism
    local = split.data_local or 1
    sizes = {TENSOR: split.tensor, PIPELINE: split.pipeline, DATA: split.data or 1, DATA_LOCAL: local}
    flags = {field: f"{name}={sizes[field]}" for field, name in _SIZES[engine.name].items() if sizes[field] > 1}
    if split.expert:
        vllm = engine.name is EngineName.VLLM
        flags[EXPERT] = "--enable-expert-parallel" if vllm else f"--ep-size={split.tensor}"
    given = parallel_flags(engine.name, engine.args).values
    return tuple(flags[field] for field in fields if field in flags and field not in given)
