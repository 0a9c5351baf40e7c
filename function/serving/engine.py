"""How an engine starts: its command and its arguments, on the leader and on the workers of a replica.

| mode | vLLM | SGLang |
|---|---|---|
| one node | KServe's preset | own command |
| pipeline or tensor over nodes | own command: Ray, or vLLM's own flags for several nodes | own command |
| data over nodes | KServe's preset; own command where that cannot start this version | cannot |

A preset serves a directory, so weights in one file need a command of our own in every mode.

KServe's presets pass `args` through `eval`, so each argument is quoted once for a shell. Flags that the presets render
themselves (served names, tensor, and over nodes also data and expert parallelism) are not repeated. In our own
commands, no shell parses the arguments, and the author's arguments come last, because the last of two flags counts.

`$(NAME)` in an author's arguments means what it means in any pod: the value of a variable of the container. Nothing
else is expanded. In our own commands, the kubelet replaces `$(NAME)`. For a preset's shell, it is written as a variable
of the shell: if the kubelet replaced it within quotes, a quote in the value would end them.
"""

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import assert_never

from function.domain.engines import (
    ADDRESS,
    BACKEND,
    DATA,
    DATA_LOCAL,
    ENGINES,
    EXPERT,
    MOUNT,
    MULTIPROCESSING,
    PIPELINE,
    PORT,
    RAY,
    SERVED_NAME,
    TENSOR,
    Ability,
    drop_repeated_flags,
    get_last_value,
    has_ability,
    parse_parallel_flags,
    uses_ray,
)
from function.domain.model import Engine, EngineName, Mode, Shape, find_single_file
from function.kube.manifests import text
from function.serving.digest import ServingRequest

CERTIFICATES = "/var/run/kserve/tls"  # where KServe's presets mount the certificate of a service
_ADAPTERS_MOUNT = "/mnt/lora"
_SHUTDOWN_TIMEOUT = "--shutdown-timeout"
_NODE_FLAGS = ("--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)")  # of every engine
_DRAIN_SECONDS = 40  # what KServe's presets leave of a minute for this
# What the kubelet replaces: `$$` by a dollar sign, and `$(NAME)`, here only with names that are valid in a shell, too.
_EXPANSION = re.compile(r"(\$\$)|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", re.ASCII)
_MAX_DIGITS = 5  # of a number of seconds
JOIN_SECONDS = 1800  # for nodes that scale from zero and pull an image
_POLL_SECONDS = 5
_JOIN_ATTEMPTS = JOIN_SECONDS // _POLL_SECONDS

# Scripts for the pods of a group that vLLM or KServe's preset cannot connect.
#
# The scripts are constants. Values reach them as arguments or variables, the kubelet expands nothing in them, and
# KServe's Go template finds nothing to replace. A shell that is the first process of a container dies only of signals
# that it traps. It runs no trap while it waits for a program in the foreground, so `attend` starts the program in the
# background and waits for it.
#
# Waiting is bounded. LeaderWorkerSet restarts a container that exits with its whole group, and the log says why it did.
_BEGIN = """\
command -v ray >/dev/null || { echo "This image has no Ray: no program called ray is in it" >&2; exit 127; }
trap 'kill "$child" 2>/dev/null; exit 143' TERM
attend() { "$@" & child=$!; wait "$child"; }
"""

# The leader is the head of a Ray cluster and starts the engine once every pod of the group has joined.
RAY_LEADER = f"""\
{_BEGIN}\
attend ray start --head --port=6379 || exit 1
for attempt in {{1..{_JOIN_ATTEMPTS}}}; do
  if attend python3 -c 'import os, ray
ray.init(address="auto", log_to_driver=False)
raise SystemExit(sum(node["Alive"] for node in ray.nodes()) < int(os.environ["LWS_GROUP_SIZE"]))'; then
    trap - TERM
    exec "$@"
  fi
  echo "Waiting until $LWS_GROUP_SIZE nodes have joined Ray"
  attend sleep {_POLL_SECONDS}
done
echo "Fewer than $LWS_GROUP_SIZE nodes have joined Ray" >&2
exit 1
"""

RAY_WORKER = f"""\
{_BEGIN}\
for attempt in {{1..{_JOIN_ATTEMPTS}}}; do
  attend ray start --address="$LWS_LEADER_ADDRESS:6379" --block && exit 0
  echo "Waiting for Ray on $LWS_LEADER_ADDRESS"
  attend sleep {_POLL_SECONDS}
done
echo "No Ray on $LWS_LEADER_ADDRESS" >&2
exit 1
"""

RANKS_PORT = 5555  # of the handshake, as in KServe's preset

# Ranks of data parallelism over several pods. Leader and workers run the same script: the first argument is the number
# of ranks on each pod, the rest the command. The script adds the leader's address as a number, because vLLM binds to it
# and resolves no name, and the first rank of a worker. The leader gets no rank, which would select another balancer.
# The leader's name is published before its pod is ready, but not at once.
RANKS = f"""\
trap 'exit 143' TERM
declare -i rank="LWS_WORKER_INDEX * $1"
shift
for attempt in {{1..{_JOIN_ATTEMPTS}}}; do
  read -r address _ < <(getent hosts "$LWS_LEADER_ADDRESS")
  if [ -n "$address" ]; then
    [ "$rank" = 0 ] || set -- "$@" --data-parallel-start-rank="$rank"
    exec "$@" --data-parallel-address="$address"
  fi
  echo "Waiting for the address of $LWS_LEADER_ADDRESS"
  sleep {_POLL_SECONDS} &
  wait "$!"
done
echo "$LWS_LEADER_ADDRESS has no address" >&2
exit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How one container starts. If `command` is empty, KServe's preset has the command."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pods of one replica: the leader, which serves, and its workers, if there are any."""

    leader: Launch
    worker: Launch | None = None


def start_group(request: ServingRequest) -> Group:
    match request.profile.engine.name:
        case EngineName.VLLM:
            return _start_vllm(request)
        case EngineName.SGLANG:
            return _start_sglang(request)
        case name:
            assert_never(name)


def is_started_by_preset(engine: Engine, shape: Shape, file: str = "") -> bool:
    """Tells whether KServe's preset has the command; `file`: the weights are this one file."""
    if engine.name is not EngineName.VLLM or file:
        return False
    return shape.mode is Mode.SINGLE or (shape.mode is Mode.DATA and has_ability(engine, Ability.KSERVE_RANKS))


def drain_seconds(engine: Engine) -> int:
    """Returns for how many seconds a stopped leader may finish its requests; 0: it cannot finish them."""
    if not has_ability(engine, Ability.DRAIN):
        return 0
    value = get_last_value(engine.args, _SHUTDOWN_TIMEOUT) or ""
    is_number = value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS
    return int(value) if is_number else _DRAIN_SECONDS


def wrap_in_shell(launch: Launch, line: str) -> Launch:
    """Returns a start whose shell reads a line first; the engine then takes the place of the shell."""
    return Launch(command=("/bin/bash", "-c", f'{line}\nexec "$@"', "engine"), args=(*launch.command, *launch.args))


def _start_vllm(request: ServingRequest) -> Group:
    """Starts vLLM by the preset, or by a command of ours: on one node, as ranks of data parallelism, or over nodes."""
    engine = request.profile.engine
    shape = request.shape
    author_args = (*_list_adapter_args(request), *_list_author_args(request))
    if is_started_by_preset(engine, shape, find_single_file(request.model.source)):
        flags = _list_parallel_flags(request, DATA, EXPERT) if shape.mode is Mode.SINGLE else ()
        variables = _list_variable_names(request)
        launch = Launch(args=tuple(_quote_for_preset(arg, variables) for arg in (*flags, *author_args)))
        return Group(leader=launch, worker=launch if shape.nodes > 1 else None)
    command = ENGINES[engine.name].command
    args = _list_vllm_args(request)
    if shape.mode is Mode.SINGLE:
        args += _list_parallel_flags(request, TENSOR, DATA, EXPERT)
    elif shape.mode is Mode.DATA:
        flags = _list_parallel_flags(request, TENSOR, DATA, DATA_LOCAL, EXPERT)
        args = (*command, *args, *flags, f"--data-parallel-rpc-port={RANKS_PORT}")
        command = ("/bin/bash", "-c", RANKS, "ranks", str(shape.parallelism.data_local or 1))
    else:
        by_ray = uses_ray(engine)
        args += _list_parallel_flags(request, TENSOR, PIPELINE, EXPERT)
        if not get_last_value(author_args, BACKEND):
            args += (f"{BACKEND}={RAY if by_ray else MULTIPROCESSING}",)
        if by_ray:
            leader = Launch(command=("/bin/bash", "-c", RAY_LEADER, "leader"), args=(*command, *args, *author_args))
            return Group(leader=leader, worker=Launch(command=("/bin/bash", "-c", RAY_WORKER)))
        args += (*_list_join_flags(engine), *_NODE_FLAGS, "--master-addr=$(LWS_LEADER_ADDRESS)")
    leader = Launch(command=command, args=(*args, *author_args))
    worker = Launch(command=command, args=(*args, "--headless", *author_args))
    return Group(leader=leader, worker=worker if shape.nodes > 1 else None)


def _list_variable_names(request: ServingRequest) -> frozenset[str]:
    """Returns the names of the variables that the author and the pool give the engine's container."""
    additions = request.pool.pod_overrides(request.shape.nodes)
    return frozenset(text(entry, "name") for entry in (*additions.env, *request.profile.engine.env))


def _quote_for_preset(arg: str, variables: Collection[str]) -> str:
    """Quotes an argument for the shell of a preset, which then expands only these variables within the argument."""
    quoted = list[str]()
    end = 0
    for match in _EXPANSION.finditer(arg):
        if match[2] in variables:
            before = arg[end : match.start()]
            quoted += [shlex.quote(before) if before else "", f'"${{{match[2]}}}"']
            end = match.end()
    if arg[end:] or not quoted:
        quoted.append(shlex.quote(arg[end:]))
    return "".join(quoted)


def _list_vllm_args(request: ServingRequest) -> tuple[str, ...]:
    """Returns the first arguments of every own vLLM command."""
    engine = request.profile.engine
    name = request.model.served_name
    names = (name, f"publishers/{request.namespace}/models/{name}")
    drains = drain_seconds(engine) and get_last_value(engine.args, _SHUTDOWN_TIMEOUT) is None
    draining = (f"{_SHUTDOWN_TIMEOUT}={_DRAIN_SECONDS}",) if drains else ()
    return (_find_weights(request), SERVED_NAME, *names, f"--port={PORT}", *draining, *_list_tls_flags(request))


def _start_sglang(request: ServingRequest) -> Group:
    engine = request.profile.engine
    spans_nodes = request.shape.nodes > 1
    args = (
        f"--model-path={_find_weights(request)}",
        # SGLang takes one served name and answers to any name, so also to the name that KServe's router asks for.
        f"{SERVED_NAME}={request.model.served_name}",
        f"--host={ADDRESS}",
        f"--port={PORT}",
        *_list_tls_flags(request),
        *_list_parallel_flags(request, TENSOR, PIPELINE if spans_nodes else DATA, EXPERT),
    )
    if spans_nodes:
        args += (*_NODE_FLAGS, "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000", *_list_join_flags(engine))
    author_args = (*_list_adapter_args(request), *_list_author_args(request))
    launch = Launch(command=ENGINES[engine.name].command, args=(*args, *author_args))
    return Group(leader=launch, worker=launch if spans_nodes else None)


def _list_author_args(request: ServingRequest) -> tuple[str, ...]:
    """Returns the author's arguments without the weights and the served name, which the commands have."""
    return drop_repeated_flags(request.profile.engine.name, request.profile.engine.args, request.model.source)


def _list_adapter_args(request: ServingRequest) -> tuple[str, ...]:
    """Returns the flags for adapters: the flag with one value for each adapter first, so that another flag ends it."""
    if request.lora is None:
        return ()
    flags = ENGINES[request.profile.engine.name].adapter_flags
    values = (
        f"{adapter.name}={path}" for adapter, path in zip(request.adapters, list_adapter_paths(request), strict=True)
    )
    slots = (f"{flags.slots}={request.lora.max_adapters}", f"{flags.rank}={request.lora.max_rank}")
    return (flags.adapters, *values, flags.enable, *slots)


def list_adapter_paths(request: ServingRequest) -> list[str]:
    """Returns where in the engine's container each adapter is mounted."""
    return [f"{_ADAPTERS_MOUNT}/{index}" for index, _ in enumerate(request.adapters)]


def _find_weights(request: ServingRequest) -> str:
    """Returns the path at which the engine finds its weights."""
    file = find_single_file(request.model.source)
    return f"{MOUNT}/{file}" if file else MOUNT


def _list_join_flags(engine: Engine) -> tuple[str, ...]:
    """Returns the flag that lets the ranks of a group wait for its last pod; without it they give up sooner."""
    flag = ENGINES[engine.name].join_timeout_flag
    return (f"{flag}={JOIN_SECONDS}",) if has_ability(engine, Ability.JOIN_TIMEOUT) else ()


def _list_tls_flags(request: ServingRequest) -> tuple[str, ...]:
    if not request.kserve.tls:
        return ()
    files = (f"--ssl-certfile={CERTIFICATES}/tls.crt", f"--ssl-keyfile={CERTIFICATES}/tls.key")
    return (*files, *ENGINES[request.profile.engine.name].tls_flags)


def _list_parallel_flags(request: ServingRequest, *fields: str) -> tuple[str, ...]:
    """Returns the flags for these parts of the shape that the author has not given.

    A size of 1 needs no flag, except for the ranks of a pod: without their number vLLM starts every rank on the leader.
    """
    engine = request.profile.engine
    spec = ENGINES[engine.name]
    split = request.shape.parallelism
    sizes = split.sizes
    needed = (field for field in spec.size_flags if sizes.get(field, 1) > 1 or field == DATA_LOCAL)
    flags = {field: f"{spec.size_flags[field][0]}={sizes[field]}" for field in needed}
    if split.expert:
        flags[EXPERT] = spec.expert_flag.format(tensor=split.tensor)
    given = parse_parallel_flags(engine.name, engine.args).values
    return tuple(flags[field] for field in fields if field in flags and field not in given)
