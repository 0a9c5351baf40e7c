"""Everything in which the engines differ, as data: one `EngineSpec` per engine.

To add an engine, add it to `EngineName`, give it a row in `ENGINES`, and write how it starts (`serving/engine.py`,
where mypy demands a branch). tests/domain/test_engine_spec.py asks every table for every engine.

Numbers and flags are those of the engines' source at the named releases (docs/facts.md, Engines).

The version of an engine is `engine.version`, else the one in the image's tag where the image's own name contains the
engine's (llm-d's images, for example, have versions of their own). An engine without either counts as the newest, and
the condition ModelValid says so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from function.domain.model import Engine, EngineName

# The fields of `Parallelism` that flags set.
TENSOR, PIPELINE, DATA, DATA_LOCAL, EXPERT = "tensor", "pipeline", "data", "data_local", "expert"

PORT = 8000  # KServe's Service and routes know no other
ADDRESS = "0.0.0.0"  # noqa: S104  # a pod answers on every address it has
MOUNT = "/mnt/models"  # where KServe mounts every model, whatever its source
SERVED_NAME = "--served-model-name"
BACKEND = "--distributed-executor-backend"  # vLLM's: `ray` or `mp`, which is vLLM itself


class Version(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


class Ability(Enum):
    """Something that some versions can do and others cannot."""

    NODES = "span nodes without Ray"
    RAY = "bring Ray"
    RANKS_OVER_NODES = "spread data parallelism over nodes"
    KSERVE_RANKS = "start under KServe's preset for data parallelism"
    JOIN_TIMEOUT = "be told how long the ranks of a group wait for each other"
    DRAIN = "finish its requests when it is stopped"
    GGUF = "read GGUF files"
    GGUF_PARTS = "read a GGUF file in several parts"
    STREAM = "load safetensors by several threads at once"
    PREFETCH = "read safetensors ahead"
    TLS = "serve HTTPS"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    since: Version = Version(0, 0, 0)  # first version that can
    until: Version | None = None  # first version that cannot; None: all later versions can
    stock_only: bool = False  # only the stock image lacks it outside these versions; any other image counts as able


ALWAYS, NEVER = VersionRange(), VersionRange(until=Version(0, 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedFlags:
    """Flags of one meaning that this function sets itself, so that an author may only repeat their value."""

    names: tuple[str, ...]  # a name that ends in `*` is every flag that begins so
    reason: str
    value: str = ""  # the value that may be repeated; empty: none may be given

    def covers(self, name: str) -> bool:
        return any(name == n or (n.endswith("*") and name.startswith(n[:-1])) for n in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    stock_image: str  # repository of the engine's own image, from whichever registry
    command: tuple[str, ...]  # starts the server
    abilities: Mapping[Ability, VersionRange]

    # The flags for each field of `Parallelism`; the first is the one we write.
    size_flags: Mapping[str, tuple[str, ...]]
    switch_flags: Mapping[str, int]  # flags without a value that switch expert parallelism on (1) or off (0)
    expert_flag: str  # switches expert parallelism on; `{tensor}` stands for the tensor size
    shared_ranks_flag: str  # with it, data ranks share the GPUs of the tensor ranks; empty: there is none
    join_timeout_flag: str  # seconds that the ranks of a group wait for each other
    data_spans_nodes: bool  # whether data parallelism may span nodes

    weights_flags: tuple[str, ...]  # every spelling of the flag for the model's directory
    positional_weights: bool  # whether the first argument may be the model
    managed_flags: tuple[ManagedFlags, ...]
    author_flags: tuple[str, ...]  # further known flags, which belong to the author
    tokenizer_flag: str
    context_flag: str  # tokens of the longest request with its answer
    tls_flags: tuple[str, ...]  # besides certificate and key

    health_path: str  # that KServe asks for the engine's health
    health_timeout: int  # seconds
    has_api_servers: bool  # whether it starts several API servers where ranks hold copies of a model

    def find_size_field(self, flag: str) -> str | None:
        """Returns the field of `Parallelism` that a flag sizes; None for any other flag."""
        return next((field for field, flags in self.size_flags.items() if flag in flags), None)


_ADDRESS = ManagedFlags(names=("--host",), reason=f"the engine answers on {ADDRESS}", value=ADDRESS)
_PORT = ManagedFlags(names=("--port",), reason=f"KServe knows port {PORT} only", value=str(PORT))
_TLS = ManagedFlags(names=("--ssl-*", "--enable-ssl-refresh"), reason="TLS is the cluster's")
_FILE = ManagedFlags(names=("--config",), reason="a file hides flags from every check")
_HTTP = f"KServe asks for HTTP on port {PORT} at /"
_RANK = "the pod's place in its group decides"

_VLLM = EngineSpec(
    stock_image="vllm/vllm-openai",
    command=("vllm", "serve"),
    abilities={
        Ability.NODES: VersionRange(since=Version(0, 11, 1)),
        Ability.RAY: VersionRange(until=Version(0, 18, 0), stock_only=True),
        Ability.RANKS_OVER_NODES: VersionRange(since=Version(0, 9, 1)),
        # A start rank of 0 on the leader is ignored before, and asks for another balancer since.
        Ability.KSERVE_RANKS: VersionRange(until=Version(0, 28, 0)),
        # The flag is known to be there in 0.18; ranks give up after torch's ten minutes without it.
        Ability.JOIN_TIMEOUT: VersionRange(since=Version(0, 18, 0)),
        Ability.DRAIN: VersionRange(since=Version(0, 18, 0)),
        Ability.GGUF: VersionRange(until=Version(0, 24, 0), stock_only=True),
        Ability.GGUF_PARTS: VersionRange(since=Version(0, 20, 0), stock_only=True),
        Ability.STREAM: ALWAYS,
        Ability.PREFETCH: VersionRange(since=Version(0, 18, 0)),
        Ability.TLS: ALWAYS,
    },
    size_flags={
        TENSOR: ("--tensor-parallel-size", "-tp"),
        PIPELINE: ("--pipeline-parallel-size", "-pp"),
        DATA: ("--data-parallel-size", "-dp"),
        DATA_LOCAL: ("--data-parallel-size-local", "-dpl"),
    },
    # vLLM derives the width of expert parallelism itself.
    switch_flags={
        "--enable-expert-parallel": 1,
        "-ep": 1,
        "--no-enable-expert-parallel": 0,
        "--disable-expert-parallel": 0,
    },
    expert_flag="--enable-expert-parallel",
    shared_ranks_flag="",
    join_timeout_flag="--distributed-timeout-seconds",
    data_spans_nodes=True,
    weights_flags=("--model",),
    positional_weights=True,
    managed_flags=(
        _ADDRESS,
        _PORT,
        ManagedFlags(names=("--uds", "--root-path", "--grpc*"), reason=_HTTP),
        _TLS,
        _FILE,
        ManagedFlags(names=("--api-server-count", "-asc", "--headless"), reason="the first pod of a group serves"),
        ManagedFlags(names=("--nnodes", "-n", "--node-rank", "-r", "--master-*"), reason=_RANK),
        ManagedFlags(names=("--data-parallel-*", "-dp*"), reason=_RANK),
        ManagedFlags(
            names=("--prefill-context-parallel-size", "-pcp"), reason="it multiplies the GPUs of a replica", value="1"
        ),
    ),
    author_flags=(BACKEND,),
    tokenizer_flag="--tokenizer",
    context_flag="--max-model-len",
    tls_flags=("--enable-ssl-refresh",),  # reads a renewed certificate again
    health_path="/health",
    health_timeout=5,
    has_api_servers=True,
)

_SGLANG = EngineSpec(
    stock_image="lmsysorg/sglang",
    command=("python3", "-m", "sglang.launch_server"),
    abilities={
        Ability.NODES: ALWAYS,
        Ability.RAY: NEVER,
        Ability.RANKS_OVER_NODES: NEVER,
        Ability.KSERVE_RANKS: NEVER,
        Ability.JOIN_TIMEOUT: ALWAYS,
        Ability.DRAIN: NEVER,
        Ability.GGUF: ALWAYS,
        Ability.GGUF_PARTS: ALWAYS,
        Ability.STREAM: VersionRange(since=Version(0, 5, 10)),
        Ability.PREFETCH: NEVER,
        Ability.TLS: VersionRange(since=Version(0, 5, 10)),
    },
    size_flags={
        TENSOR: ("--tp-size", "--tensor-parallel-size", "--tp"),
        PIPELINE: ("--pp-size", "--pipeline-parallel-size", "--pp"),
        DATA: ("--dp-size", "--data-parallel-size", "--dp"),
        # SGLang wants a width, which counts as expert parallelism on (more than 1) or off.
        EXPERT: ("--expert-parallel-size", "--ep-size", "--ep"),
    },
    switch_flags={"--enable-ep-moe": 1},
    expert_flag="--ep-size={tensor}",
    shared_ranks_flag="--enable-dp-attention",
    join_timeout_flag="--dist-timeout",
    data_spans_nodes=False,
    weights_flags=("--model-path", "--model"),
    positional_weights=False,
    managed_flags=(
        _ADDRESS,
        _PORT,
        ManagedFlags(names=("--grpc-mode",), reason=_HTTP),
        _TLS,
        _FILE,
        ManagedFlags(names=("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"), reason=_RANK),
    ),
    author_flags=(),
    tokenizer_flag="--tokenizer-path",
    context_flag="--context-length",
    tls_flags=(),
    # `/health` answers in all ranks alike, in old releases also with a dead one among them; `/health_generate` makes a
    # token, for which it takes up to twenty seconds of its own.
    health_path="/health_generate",
    health_timeout=25,
    has_api_servers=False,
)

ENGINES: Mapping[EngineName, EngineSpec] = {EngineName.VLLM: _VLLM, EngineName.SGLANG: _SGLANG}

_VERSION = r"v?(?P<major>[0-9])\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,4}))?(?![0-9])"
_TAGS: Mapping[EngineName, re.Pattern[str]] = {
    name: re.compile(rf"(?:^|/)[^/:@]*{name.lower()}[^/:@]*:{_VERSION}", re.ASCII) for name in EngineName
}
_GIVEN = re.compile(_VERSION, re.ASCII)


def get_version(engine: Engine) -> Version | None:
    """Returns the version of an engine; None if neither `engine.version` nor the tag of the image has it."""
    match = _GIVEN.fullmatch(engine.version) if engine.version else _TAGS[engine.name].search(engine.image)
    return Version(int(match["major"]), int(match["minor"]), int(match["patch"] or 0)) if match else None


def is_stock(engine: Engine) -> bool:
    """Tells whether an image is the stock image of its engine, from any registry."""
    repository = re.sub(r"(:[^/@]*)?(@.*)?$", "", engine.image)
    return f"/{repository}".endswith(f"/{ENGINES[engine.name].stock_image}")


def has_ability(engine: Engine, ability: Ability) -> bool:
    """Tells whether the engine of this image has an ability; an unknown version counts as the newest."""
    span = ENGINES[engine.name].abilities[ability]
    if span.stock_only and not is_stock(engine):
        return True
    known = get_version(engine)
    return span.until is None if known is None else span.since <= known and (span.until is None or known < span.until)
