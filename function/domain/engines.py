"""The engines: how they differ, as data, and which arguments of theirs contradict a model or the shape of a replica.

To add an engine, add it to `EngineName`, give it a row in `ENGINES`, and write how it starts (`serving/engine.py`,
where mypy demands a branch). tests/domain/test_engine_spec.py asks every table for every engine.

Numbers and flags are those of the engines' source at the named releases (docs/facts.md, Engines).

The version of an engine is `engine.version`, else the version in the image's tag, if the image's own name contains the
engine's name (llm-d's images, for example, have versions of their own). An engine without a version counts as the
newest, and the condition ModelValid says so.

As in the engines' own parsers, `--flag=v` and `--flag v` are equal, underscores equal dashes in flags of two dashes, a
letter and its number may be written together (`-n2`), and of two equal flags the last one counts.

An engine that listens elsewhere, reads other weights, joins other nodes or answers to another name cannot be reached,
and fails only after its weights were fetched. An author may therefore only repeat managed flags
(`EngineSpec.managed_flags`, also in docs/reference.md), and must write them in full: engines accept an unambiguous
beginning of a flag as the flag.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from function.domain.model import (
    GGUF,
    Engine,
    EngineName,
    HuggingFaceSource,
    Problem,
    Shape,
    Source,
    find_single_file,
    parse_part,
)

# The fields of `Parallelism` that flags set.
TENSOR, PIPELINE, DATA, DATA_LOCAL, EXPERT = "tensor", "pipeline", "data", "data_local", "expert"

PORT = 8000  # KServe's Service and routes know no other
ADDRESS = "0.0.0.0"  # noqa: S104  # a pod answers on every address it has
MOUNT = "/mnt/models"  # where KServe mounts every model, whatever its source
SERVED_NAME = "--served-model-name"
BACKEND = "--distributed-executor-backend"  # vLLM's: `ray` or `mp`, which is vLLM itself
RAY, MULTIPROCESSING = "ray", "mp"  # vLLM's executors that can span nodes: Ray, and vLLM itself
_NEGATIVE = re.compile(r"-[0-9.]+", re.ASCII)  # a value, as no flag looks like a number
_ATTACHED_NUMBER = re.compile(r"(-[a-z])([0-9]+)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_SECOND_FLAG = re.compile(r"\s--[a-z]")
_MAX_VALUE_LENGTH = 60  # characters of a value in messages


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

    names: tuple[str, ...]  # a name that ends in `*` stands for every flag that begins with it
    reason: str
    value: str = ""  # the value that may be repeated; empty: none may be given

    def covers(self, name: str) -> bool:
        return any(name == n or (n.endswith("*") and name.startswith(n[:-1])) for n in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFlags:
    """Flags for LoRA adapters, which the author must leave out where the profile allows adapters."""

    enable: str
    adapters: str  # with `name=path` of each adapter
    rank: str  # the highest
    slots: str  # adapters that one batch may use

    @property
    def names(self) -> tuple[str, ...]:
        return (self.enable, self.adapters, self.rank, self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    stock_image: str  # repository of the engine's own image, from whichever registry
    command: tuple[str, ...]  # starts the server
    abilities: Mapping[Ability, VersionRange]

    # The flags for each field of `Parallelism`; this function writes the first one.
    size_flags: Mapping[str, tuple[str, ...]]
    switch_flags: Mapping[str, int]  # flags without a value that switch expert parallelism on (1) or off (0)
    expert_flag: str  # switches expert parallelism on; `{tensor}` stands for the tensor size
    shared_ranks_flag: str = ""  # with it, data ranks share the GPUs of the tensor ranks; empty: there is none
    join_timeout_flag: str  # seconds that the ranks of a group wait for each other
    data_spans_nodes: bool  # whether data parallelism may span nodes

    weights_flags: tuple[str, ...]  # every spelling of the flag for the model's directory
    positional_weights: bool  # whether the first argument may be the model
    managed_flags: tuple[ManagedFlags, ...]
    author_flags: tuple[str, ...] = ()  # further known flags, which belong to the author
    common_flags: tuple[str, ...]  # others that authors often write, known only to notice a misspelt one
    # Flags that may name another repository than the model's, or let the engine look for one, in every spelling.
    repository_flags: tuple[str, ...]
    adapter_flags: AdapterFlags
    tokenizer_flag: str
    context_flag: str  # tokens of the longest request with its answer
    whole_number_flags: tuple[str, ...]  # common flags whose value every version reads as a whole number
    rounded_number_flags: tuple[str, ...] = ()  # likewise, or as 32k or 1.5M
    memory_share_flag: str  # the share of a GPU's memory that the engine uses
    tls_flags: tuple[str, ...] = ()  # besides certificate and key

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
        # Before this version, vLLM ignores a start rank of 0 on the leader; since then, it selects another balancer.
        Ability.KSERVE_RANKS: VersionRange(until=Version(0, 28, 0)),
        # Version 0.18 is known to have the flag; without it, ranks give up after torch's ten minutes.
        Ability.JOIN_TIMEOUT: VersionRange(since=Version(0, 18, 0)),
        Ability.DRAIN: VersionRange(since=Version(0, 18, 0)),
        Ability.GGUF: VersionRange(until=Version(0, 24, 0), stock_only=True),
        Ability.GGUF_PARTS: VersionRange(since=Version(0, 20, 0), stock_only=True),
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
    common_flags=(
        *("--max-num-seqs", "--max-num-batched-tokens", "--enable-chunked-prefill", "--enable-prefix-caching"),
        *("--quantization", "--kv-cache-dtype", "--load-format", "--enforce-eager", "--async-scheduling"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser", "--chat-template", "--enable-lora"),
        *("--max-loras", "--max-lora-rank", "--limit-mm-per-prompt", "--kv-transfer-config", "--compilation-config"),
        *("--ec-transfer-config", "--disable-auto-tool-choice"),
    ),
    repository_flags=(
        *("--tokenizer", "--hf-config-path", "--generation-config", "--trust-remote-code"),
        *("--speculative-config", "-sc", "--spec-model", "--speculative-model"),
        *("--lora-modules", "--default-mm-loras", "--prompt-adapters", "--qlora-adapter-name-or-path"),
    ),
    adapter_flags=AdapterFlags(
        enable="--enable-lora", adapters="--lora-modules", rank="--max-lora-rank", slots="--max-loras"
    ),
    tokenizer_flag="--tokenizer",
    context_flag="--max-model-len",
    whole_number_flags=("--max-num-seqs", "--max-loras", "--max-lora-rank"),
    rounded_number_flags=("--max-model-len", "--max-num-batched-tokens"),
    memory_share_flag="--gpu-memory-utilization",
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
    common_flags=(
        *("--max-running-requests", "--max-total-tokens", "--chunked-prefill-size", "--max-prefill-tokens"),
        *("--quantization", "--kv-cache-dtype", "--load-format", "--attention-backend", "--schedule-policy"),
        *("--tool-call-parser", "--reasoning-parser", "--chat-template", "--disable-radix-cache", "--enable-metrics"),
        *("--cuda-graph-max-bs", "--enable-torch-compile", "--speculative-algorithm", "--served-model-name"),
        *("--mm-attention-backend", "--moe-data-parallel-size", "--dcp-size", "--dwdp-size"),
    ),
    repository_flags=(
        *("--tokenizer-path", "--trust-remote-code", "--model-checksum"),
        *("--speculative-draft-model-path", "--speculative-draft-model", "--speculative-token-map"),
        *("--lora-paths", "--uno-lora-path"),
    ),
    adapter_flags=AdapterFlags(
        enable="--enable-lora", adapters="--lora-paths", rank="--max-lora-rank", slots="--max-loras-per-batch"
    ),
    tokenizer_flag="--tokenizer-path",
    context_flag="--context-length",
    whole_number_flags=("--max-running-requests", "--chunked-prefill-size"),
    rounded_number_flags=("--context-length", "--max-total-tokens", "--max-prefill-tokens"),
    memory_share_flag="--mem-fraction-static",
    # `/health` answers alike in all ranks; in old releases, it also answers if one of the ranks is dead.
    # `/health_generate` makes a token, for which it takes up to twenty seconds by itself.
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
    return find_stock_engine(engine.image) is engine.name


def find_stock_engine(image: str) -> EngineName | None:
    """Returns the engine whose stock image this is, from any registry; None if it is another image."""
    repository = re.sub(r"(:[^/@]*)?(@.*)?$", "", image)
    return next((name for name, spec in ENGINES.items() if f"/{repository}".endswith(f"/{spec.stock_image}")), None)


def has_ability(engine: Engine, ability: Ability) -> bool:
    """Tells whether the engine of this image has an ability; an unknown version counts as the newest."""
    span = ENGINES[engine.name].abilities[ability]
    if span.stock_only and not is_stock(engine):
        return True
    known = get_version(engine)
    return span.until is None if known is None else span.since <= known and (span.until is None or known < span.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    name: str  # with dashes
    index: int  # of its argument
    values: tuple[str, ...]  # all arguments that may be its values
    attached: bool  # the value is in the same argument

    @property
    def value(self) -> str:
        """The first value; empty if there is none."""
        return self.values[0] if self.values else ""

    @property
    def text(self) -> str:
        value = self.value if len(self.value) <= _MAX_VALUE_LENGTH else f"{self.value[:_MAX_VALUE_LENGTH]}…"
        return f"{self.name}={value}" if self.values else self.name


def parse_flags(args: tuple[str, ...]) -> Iterator[Flag]:
    """Yields every flag in order; a flag without `=` may have every argument up to the next flag as a value."""
    starts = [index for index, arg in enumerate(args) if arg.startswith("-") and not _NEGATIVE.fullmatch(arg)]
    for index, end in pairwise([*starts, len(args)]):
        name, equals, value = args[index].partition("=")
        attached_number = _ATTACHED_NUMBER.fullmatch(name)
        if attached_number:
            name, value = attached_number.groups()
        attached = bool(equals or attached_number)
        values = (value,) if attached else args[index + 1 : end]
        name = name.replace("_", "-") if name.startswith("--") else name
        yield Flag(name=name, index=index, values=values, attached=attached)


def get_last_value(args: tuple[str, ...], name: str) -> str | None:
    """Returns the last value of a flag, which is the one that counts; None if the flag is absent."""
    return next((flag.value for flag in reversed(tuple(parse_flags(args))) if flag.name == name), None)


def may_name_repository(engine: Engine) -> bool:
    """Tells whether an argument may name another repository than the model's.

    A key of a flag may follow after a dot (`--speculative-config.model`), and the beginning of a flag counts as the
    flag.
    """
    known = ENGINES[engine.name].repository_flags
    names = (re.split(r"[.\s]", flag.name, maxsplit=1)[0] for flag in parse_flags(engine.args))
    return any(
        name in known or (name.startswith("--") and any(flag.startswith(name) for flag in known)) for name in names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelFlags:
    """The last flag for each field of `Parallelism`, and the problems of flags whose value cannot be parsed."""

    values: Mapping[str, int]  # by field; 1 or 0 for `expert`
    flags: Mapping[str, Flag]  # by field
    problems: tuple[Problem, ...]


def parse_parallel_flags(engine: EngineName, args: tuple[str, ...], path: str = "engine.args") -> ParallelFlags:
    spec = ENGINES[engine]
    named = [(flag, flag.name.split(maxsplit=1)[0]) for flag in parse_flags(args)]
    shares_ranks = any(name == spec.shared_ranks_flag for _, name in named)
    values: dict[str, int] = {}
    flags: dict[str, Flag] = {}
    problems: list[Problem] = []
    for flag, name in named:
        field = EXPERT if name in spec.switch_flags else spec.find_size_field(name)
        if field is None or (field == DATA and shares_ranks):
            continue
        fault = _describe_value_fault(flag, name, args[flag.index], is_switch=name in spec.switch_flags)
        if fault:
            problems.append(Problem(f"{path}[{flag.index}]", fault))
            continue
        if name in spec.switch_flags:
            values[field] = spec.switch_flags[name]
        else:
            values[field] = int(flag.value) if field != EXPERT else int(int(flag.value) > 1)
        flags[field] = flag
    return ParallelFlags(values=values, flags=flags, problems=tuple(problems))


def _describe_value_fault(flag: Flag, name: str, arg: str, *, is_switch: bool) -> str:
    is_one_argument = name != flag.name
    if is_switch:
        return f"{arg!r} must be given without a value" if is_one_argument or flag.attached else ""
    if is_one_argument:
        return f"{arg!r} is one argument; must be {name}=N, or flag and number as two arguments"
    return "" if _NUMBER.fullmatch(flag.value) else f"{name} has {flag.value!r}; must be a whole number"


def find_managed_flag_faults(
    engine: EngineName, args: tuple[str, ...], source: Source, served_name: str, path: str
) -> tuple[Problem, ...]:
    """Returns a problem for each argument that contradicts a managed flag, with the value that may be repeated."""
    spec = ENGINES[engine]
    faults: list[Problem] = []
    # Only the first argument is certain not to be the value of a flag.
    is_positional = bool(args) and not args[0].startswith("-")
    if is_positional and not (spec.positional_weights and _names_weights(args[0], source)):
        message = f"{args[0]!r} is not a flag; must be left out: the source of the model has the weights"
        faults.append(Problem(f"{path}[0]", message))
    for flag in parse_flags(args):
        message = _describe_fault(spec, flag, source, served_name)
        if message:
            faults.append(Problem(f"{path}[{flag.index}]", message))
    return tuple(faults)


def drop_repeated_flags(engine: EngineName, args: tuple[str, ...], source: Source) -> tuple[str, ...]:
    """Returns the arguments without the weights and the served name, which would override the command's own."""
    dropped = {0} if args and _names_weights(args[0], source) else set()
    for flag in parse_flags(args):
        if flag.name in ENGINES[engine].weights_flags or flag.name == SERVED_NAME:
            dropped.update(range(flag.index, flag.index + 1 + (0 if flag.attached else len(flag.values))))
    return tuple(arg for index, arg in enumerate(args) if index not in dropped)


def _describe_fault(spec: EngineSpec, flag: Flag, source: Source, served_name: str) -> str:
    """Returns what is wrong with a flag; empty if it is allowed."""
    name, *rest = flag.name.split(maxsplit=1)
    if name in spec.weights_flags:
        if not rest and flag.values and _names_weights(flag.value, source):
            return ""
        return f"{flag.text} names other weights; must be left out: the weights of the model are at {MOUNT}"
    if name == SERVED_NAME:
        if not rest and flag.values == (served_name,):
            return ""
        return f"{name} has {' '.join(flag.values)!r}; must be left out or {served_name}, spec.model.name"
    is_parallel = name in spec.switch_flags or spec.find_size_field(name) is not None
    managed = next((row for row in spec.managed_flags if row.covers(name) and not is_parallel), None)
    if managed is None:
        is_one_argument = rest and name.startswith("--") and not is_parallel
        if is_one_argument:
            return f"{flag.text!r} is one argument; must be {name}=VALUE, or flag and value as two arguments"
        if flag.attached and _SECOND_FLAG.search(flag.value) and not flag.value.startswith(("{", "[")):
            return f"{flag.text!r} has two flags in one argument; must be one argument for each"
        return _describe_abbreviation(spec, name)
    if managed.value and not rest and flag.values == (managed.value,):
        return ""
    allowed = f" or set it to {managed.value}" if managed.value else ""
    return f"{flag.text} is managed by modelplane ({managed.reason}); remove it{allowed}"


def _describe_abbreviation(spec: EngineSpec, name: str) -> str:
    sizes = (flag for flags in spec.size_flags.values() for flag in flags)
    known = [*sizes, *spec.switch_flags, *spec.weights_flags, SERVED_NAME, *spec.author_flags]
    known += [n.rstrip("*-") for row in spec.managed_flags for n in row.names]
    if not name.startswith("--") or len(name) <= len("--x") or name in known:
        return ""
    full = next((flag for flag in known if flag.startswith(name)), "")
    return f"{name} is an abbreviation of {full}; must be written in full" if full else ""


def _names_weights(value: str, source: Source) -> bool:
    return value == MOUNT or (isinstance(source, HuggingFaceSource) and value == source.repo)


def find_model_faults(engine: Engine, source: Source, served_name: str, path: str) -> tuple[Problem, ...]:
    """Returns what in an engine contradicts the model; `path` is the path of the engine."""
    faults = find_managed_flag_faults(engine.name, engine.args, source, served_name, f"{path}.args")
    if find_single_file(source).lower().endswith(GGUF) and not has_ability(engine, Ability.GGUF):
        until = ENGINES[engine.name].abilities[Ability.GGUF].until
        why = f"{engine.image!r} cannot read GGUF files, which stock images support before {until}"
        remedy = "use an earlier image, or a custom image with vllm-gguf-plugin"
        return (*faults, Problem(f"{path}.image", f"{why}; {remedy}"))
    # Other sources fetch a single file, never parts.
    first, parts = parse_part(source.file if isinstance(source, HuggingFaceSource) else "")
    if first == 1 < parts and not has_ability(engine, Ability.GGUF_PARTS):
        why = f"{engine.image!r} reads only the first of {parts} parts"
        since = ENGINES[engine.name].abilities[Ability.GGUF_PARTS].since
        remedy = f"use {engine.name} {since} or later, or merge the parts"
        return (*faults, Problem(f"{path}.image", f"{why}; {remedy}"))
    return faults


def find_tls_faults(engine: Engine, path: str = "engine") -> tuple[Problem, ...]:
    """Returns why an engine cannot serve HTTPS, for a cluster that requires it; `path` is the path of the engine."""
    if has_ability(engine, Ability.TLS):
        return ()
    why = f"{engine.image!r} cannot serve HTTPS, which kserve.tls of the environment requires"
    since = ENGINES[engine.name].abilities[Ability.TLS].since
    return (Problem(f"{path}.image", f"{why}; must be {engine.name} {since} or later"),)


def find_shape_faults(engine: Engine, shape: Shape, path: str = "engine.args") -> tuple[Problem, ...]:
    """Returns what in an engine contradicts the shape of a replica; `path` is the path of the arguments."""
    # Without variables, which have no effect here, an engine is hashable.
    faults = _find_cached_shape_faults(replace(engine, env=()), shape, path) if engine.args else ()
    spec = ENGINES[engine.name]
    ability = Ability.RANKS_OVER_NODES
    if shape.nodes == 1 or shape.parallelism.data is None or has_ability(engine, ability) or not spec.data_spans_nodes:
        return faults
    why = f"{engine.image!r} cannot {ability.value}; must be {engine.name} {spec.abilities[ability].since} or later"
    return (*faults, Problem(f"{path.removesuffix('args')}image", why))


def uses_ray(engine: Engine) -> bool:
    """Tells whether vLLM spans nodes by Ray: if the author chose it, else if vLLM cannot span nodes itself."""
    backend = get_last_value(engine.args, BACKEND)
    return backend == RAY if backend else not has_ability(engine, Ability.NODES)


@lru_cache(maxsize=256)  # several hundred identical pools give the same shape
def _find_cached_shape_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    parsed = parse_parallel_flags(engine.name, engine.args, path)
    sizes = shape.parallelism.sizes
    contradictions = (
        Problem(f"{path}[{flag.index}]", f"{flag.text} disagrees with the shape of the replica; must be {sizes[field]}")
        for field, flag in parsed.flags.items()
        if field in sizes and parsed.values[field] != sizes[field]
    )
    return (*parsed.problems, *contradictions, *_find_executor_faults(engine, shape, path))


def _find_executor_faults(engine: Engine, shape: Shape, path: str) -> tuple[Problem, ...]:
    flag = next((flag for flag in reversed(tuple(parse_flags(engine.args))) if flag.name == BACKEND), None)
    spec = ENGINES[engine.name]
    if flag is None or BACKEND not in spec.author_flags:
        return ()
    backend = flag.value
    faults = list[str]()
    if backend == RAY and not has_ability(engine, Ability.RAY):
        faults.append(
            f", but {engine.image} has no Ray, which stock images have before "
            f"{spec.abilities[Ability.RAY].until}; must be left out or {MULTIPROCESSING}, or use a custom image "
            "(engine.version is the version of an image by digest)"
        )
    if shape.nodes > 1 and shape.parallelism.data is None:
        if backend not in {RAY, MULTIPROCESSING}:
            faults.append(f" cannot span nodes; must be left out, {RAY} or {MULTIPROCESSING}")
        elif backend == MULTIPROCESSING and not has_ability(engine, Ability.NODES):
            since = spec.abilities[Ability.NODES].since
            faults.append(f" spans nodes from vLLM {since} on; must be left out or {RAY}, or use a later image")
    return tuple(Problem(f"{path}[{flag.index}]", f"{flag.text}{why}") for why in faults)
