"""`size`: weights, disk, GPUs and nodes that a model needs, with the arithmetic.

Weights are parameters times bytes, or what the hub says its files have. Disk is a little more, since scales, embeddings
and the tokenizer come on top (671 billion parameters in FP8 are 688 GB of files). GPU memory is the weights and a
headroom for the KV cache and activations. How that splits over a pool is the scheduler's own VRAM maths.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import click

from function.cli.hub import measure, read_config
from function.cli.inputs import gather, warn_of_invalid
from function.cli.kv_cache import OVERHEAD, USED, Load, read_attention, read_file
from function.cli.options import CliError, Code, Form, Sources, examples, form, sources
from function.cli.store import Store, environments
from function.cli.tables import hint, structured, table
from function.domain.environment import Environment, Pool
from function.domain.hardware import usable
from function.domain.model import Engine, EngineName, HuggingFaceSource, Model, Profile, Shape
from function.kube.manifests import Manifest
from function.kube.quantity import GIB, gib
from function.parse.models import read_model
from function.report.sentences import count, replica
from function.scheduling.shape import replica_shape

# Bits of one parameter; block formats carry a scale of 8 bits for 32 (mx) or 16 (nv) numbers, int4 one of 16 for 32.
BITS = {
    "fp32": "32", "tf32": "32", "bf16": "16", "fp16": "16", "fp8": "8", "int8": "8", "mxfp8": "8.25",
    "fp6": "6", "mxfp6": "6.25", "fp4": "4", "mxfp4": "4.25", "nvfp4": "4.5", "int4": "4.5",
}  # fmt: skip
_DISK_PERCENT = 5
_PARAMS = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMBT]?)", re.IGNORECASE | re.ASCII)
_SCALE = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
# Nodes as they are sold, with the whole Gi that an engine sees of each GPU, for those who name no environment.
_USUAL = (
    ("L4", 8, 22), ("A10G", 8, 22), ("L40S", 8, 45), ("A100-40GB", 8, 40), ("A100-80GB", 8, 80), ("H100", 8, 80),
    ("H200", 8, 140), ("B200", 8, 179), ("GB200", 4, 185), ("MI300X", 8, 192),
)  # fmt: skip
_ANY = Profile(name="computed", engine=Engine(name=EngineName.VLLM, image=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a model needs, in bytes, and how that was found. None: nothing says so."""

    name: str
    arithmetic: tuple[str, ...]
    disk: int | None
    vram: int | None
    weights: int | None = None
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A replica on one kind of nodes."""

    environment: str
    profile: str
    pool: Pool
    shape: Shape
    arithmetic: str
    obstacle: str


@click.command(
    epilog=examples(
        "modelplane size --params 671B --precision fp8",
        "modelplane size --hub Qwen/Qwen3-235B-A22B --context-length 32768 --concurrency 8",
        "modelplane size -f examples/kimi-k26-vram",
        "modelplane size -f examples/kimi-k2-two-nodes/model.yaml --hub",
    )
)
@sources
@click.option("--params", metavar="NUMBER", help="Parameters of the model, such as 671B.")
@click.option("--precision", type=click.Choice(list(BITS), case_sensitive=False), help="Their number format.")
@click.option(
    "--headroom",
    metavar="PERCENT",
    type=click.IntRange(0, 900),
    default=20,
    show_default=True,
    help="GPU memory beyond the weights.",
)
@click.option("--context-length", metavar="TOKENS", type=click.IntRange(1), help="Tokens of a request with its answer.")
@click.option("--concurrency", metavar="REQUESTS", type=click.IntRange(1), default=1, help="Requests at the same time.")
@click.option("--config", metavar="FILE", type=click.Path(), help="The model's config.json; --hub reads it there.")
@click.option("--hub", metavar="[OWNER/NAME]", is_flag=False, flag_value="", help="Read the sizes of the files there.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def size(  # noqa: PLR0913  # click's options
    *,
    sources: Sources,
    params: str | None,
    precision: str | None,
    headroom: int,
    hub: str | None,
    context_length: int | None,
    concurrency: int,
    config: str | None,
    form: Form,
) -> None:
    """Say what a model needs: weights, disk, GPUs and nodes for each pool, with the arithmetic.

    With --context-length and the model's config, GPU memory is what weights and KV cache take, in 0.9 of each GPU.

    Pools are those of the environments in the files, or of the control plane with --live, else the usual nodes.
    """
    store = gather(sources).store if sources.files or sources.live else Store()
    models = _models(store)
    if params:
        sizes = [_computed(params, precision, headroom)]
    elif hub:
        sizes = [_measured(HuggingFaceSource(repo=hub), hub, headroom)]
    elif not models:
        raise CliError("name a model with -f, or give --params and --precision, or --hub OWNER/NAME")
    else:
        sizes = [_of_model(model, headroom, measured=hub is not None) for model in models]
    if context_length:
        sizes = [_loaded(size_, _load(size_, config, hub, context_length, concurrency)) for size_ in sizes]
    profiles = () if params or hub else models
    known = environments(store)
    warn_of_invalid(store, ["InferenceEnvironment"])
    pools = _pools(known)
    found = [(found, list(_fits(found, _profiles(found, profiles), pools))) for found in sizes]
    if form is Form.TABLE:
        _tell(found)
        hint(_next(store, sources) or f"init {'deployment' if profiles else 'model'}")
    else:
        click.echo(structured(form, [_structured(size_, fits) for size_, fits in found]))


def _next(store: Store, sources: Sources) -> str:
    """Return how to plan the deployments that are there, wherever on a control plane; nothing where there are none."""
    space = sources.target.namespace
    if not any(space in (None, ref.namespace) for ref in store.refs("ModelDeployment")):
        return ""
    if not sources.live:
        return f"plan{sources.again}"
    return f"plan{sources.again}{' --live' if sources.files else ''}{f' -n {space}' if space else ' -A'}"


def _models(store: Store) -> list[Model]:
    models = []
    for ref in store.refs("ClusterModel", "Model"):
        model = read_model(store.get(ref) or {})
        if model.value is None:
            raise CliError(f"{ref} is invalid: {model.problems[0]}. Run 'modelplane validate' on it", Code.REFUSED)
        models.append(model.value)
    return models


def _computed(params: str, precision: str | None, headroom: int) -> Size:
    match = _PARAMS.fullmatch(params)
    if match is None:
        raise CliError(f"--params {params} is not a number of parameters; write it like 671B, 1.5T or 500M")
    if precision is None:
        raise CliError(f"--params needs --precision: one of {', '.join(BITS)}")
    number = Decimal(match[1]) * _SCALE[match[2].upper()]
    weights = int(number * Decimal(BITS[precision]) / 8)
    line = f"weights: {params} parameters x {BITS[precision]} bits ({precision}) = {_decimal(weights)} = {gib(weights)}"
    disk = weights * (100 + _DISK_PERCENT) // 100
    return _sized(f"{params} in {precision}", line, weights, (disk, f"{gib(weights)} + {_DISK_PERCENT} %"), headroom)


def _measured(source: HuggingFaceSource, name: str, headroom: int) -> Size:
    held = measure(source)
    formats = ", ".join(f"{number:,} in {name_}" for name_, number in held.parameters)
    line = f"weights: {_decimal(held.weights)} = {gib(held.weights)} at the hub" + (f" ({formats})" if formats else "")
    said = f"{_decimal(held.downloaded)} in {held.files} files"
    return _sized(name, line, held.weights, (held.downloaded, said), headroom)


def _sized(name: str, weights_line: str, weights: int, disk: tuple[int, str], headroom: int) -> Size:
    vram = weights * (100 + headroom) // 100
    lines = (
        weights_line,
        f"disk: {disk[1]} = {gib(disk[0])}  (spec.resources.disk)",
        f"GPU memory: {gib(weights)} + {headroom} % for KV cache and activations = {gib(vram)}  (spec.resources.vram)",
    )
    return Size(name=name, arithmetic=lines, disk=disk[0], vram=vram, weights=weights)


def _load(size_: Size, config: str | None, hub: str | None, context: int, concurrency: int) -> Load:
    if config is None and not hub:
        raise CliError("--context-length needs the model's config: --config FILE, or --hub OWNER/NAME")
    if size_.weights is None:
        raise CliError("--context-length needs the weights: --params and --precision, or --hub OWNER/NAME")
    found = read_file(config) if config else read_config(HuggingFaceSource(repo=hub or ""))
    attention = read_attention(found, config or f"config.json of {hub}")
    return Load(attention=attention, tokens=context, requests=concurrency)


def _loaded(size_: Size, load: Load) -> Size:
    """Return what a model needs with its requests."""
    assert size_.weights is not None  # looked at before
    weights_line, disk_line, _ = size_.arithmetic
    cache, requests = load.bytes(), f"{load.requests} x {load.tokens:,} tokens"
    vram = int((size_.weights + cache) / USED)
    lines = (
        weights_line,
        disk_line,
        f"KV cache: {load.attention.per_token(1, 1):,} bytes a token in full layers, {requests} = {gib(cache)}",
        f"GPU memory: ({gib(size_.weights)} + {gib(cache)}) / {USED} = {gib(vram)}  (spec.resources.vram)",
    )
    return replace(size_, arithmetic=lines, vram=vram, load=load)


def _of_model(model: Model, headroom: int, *, measured: bool) -> Size:
    if measured:
        if not isinstance(model.source, HuggingFaceSource):
            raise CliError(f"{model.kind} {model.name} is not from the hub. Leave out --hub")
        return _measured(model.source, model.name, headroom)
    said = (("disk", model.disk), ("vram", model.vram))
    lines = tuple(f"{name}: {gib(n) if n else 'not declared'}  (spec.resources.{name})" for name, n in said)
    return Size(name=model.name, arithmetic=lines, disk=model.disk, vram=model.vram)


def _profiles(size_: Size, models: tuple[Model, ...] | list[Model]) -> tuple[Profile, ...]:
    declared = [profile for model in models if model.name == size_.name for profile in model.profiles]
    return tuple(declared) or (_ANY,)


def _pools(environments: list[Environment]) -> list[tuple[str, Pool]]:
    usual = [
        (
            "usual nodes",
            Pool(
                name=f"{gpus} x {name}", gpus_per_node=gpus, max_nodes=999, memory_per_gpu=memory * GIB, multi_node=True
            ),
        )
        for name, gpus, memory in _USUAL
    ]
    return [(e.name, pool) for e in environments for pool in e.pools] or usual


def _fits(size_: Size, profiles: tuple[Profile, ...], pools: list[tuple[str, Pool]]) -> Iterator[Fit]:
    for profile in profiles:
        for environment, pool in pools:
            shape = replica_shape(profile, size_.vram, pool)
            if shape is not None:
                yield Fit(
                    environment=environment,
                    profile=profile.name,
                    pool=pool,
                    shape=shape,
                    arithmetic=_split(size_, profile, pool, shape),
                    obstacle=_obstacle(size_, profile, pool, shape),
                )


def _split(size_: Size, profile: Profile, pool: Pool, shape: Shape) -> str:
    if profile.shape is not None:
        return f"declared: {shape.gpus} GPUs"
    assert size_.vram is not None  # without it there is no computed shape
    assert pool.memory_per_gpu is not None  # likewise
    gpus = -(-size_.vram // pool.memory_per_gpu)
    return f"{gib(size_.vram)} / {gib(pool.memory_per_gpu)} = {count(gpus, 'GPU')}"


def _obstacle(size_: Size, profile: Profile, pool: Pool, shape: Shape) -> str:
    wanted = profile.requires.memory_per_gpu
    if shape.nodes > 1 and not pool.multi_node:
        return "pool is not multiNodeCapable"
    if shape.gpus_per_node > pool.gpus_per_node:
        return f"nodes have {count(pool.gpus_per_node, 'GPU')}"
    if shape.nodes > pool.max_nodes:
        return f"pool has {count(pool.max_nodes, 'node')}"
    if wanted and (pool.memory_per_gpu or 0) < wanted:
        return f"profile wants {gib(wanted)} a GPU"
    return _too_little(size_, pool.memory_per_gpu, shape) if pool.memory_per_gpu else ""


def _too_little(size_: Size, memory: int, shape: Shape) -> str:
    """Say what does not fit a replica whose GPUs have so much memory."""
    whole = shape.gpus * memory
    if size_.load and size_.weights:
        room = max(0, usable(memory) - OVERHEAD - size_.weights // shape.gpus)
        taken = size_.load.on(shape)
        return f"KV cache takes {gib(taken)} a GPU, room for {gib(room)}" if room < taken else ""
    if size_.vram and whole < size_.vram:
        return f"{gib(whole)} of GPU memory"
    if size_.disk and usable(whole) < size_.disk:
        return f"{gib(usable(whole))} of GPU memory are usable, weights of {gib(size_.disk)}"
    return ""


def _decimal(amount: int) -> str:
    return f"{amount / 10**9:,.1f} GB"


def _tell(found: list[tuple[Size, list[Fit]]]) -> None:
    headers = ("ENVIRONMENT", "POOL", "PROFILE", "GPUS NEEDED", "REPLICA", "GPUS", "USABLE MEMORY", "OBSTACLE")
    nothing = "No pool declares memoryPerGpu, or the model declares no vram: give --params, or --hub"
    for number, (size_, fits) in enumerate(found):
        said = "\n".join((size_.name, *(f"  {line}" for line in size_.arithmetic)))
        click.echo(("\n" if number else "") + f"{said}\n\n{table(headers, map(_cells, fits)) if fits else nothing}")


def _cells(fit: Fit) -> tuple[object, ...]:
    shape, pool = fit.shape, fit.pool
    how_big = replica(shape.nodes, shape.gpus_per_node)
    whole = shape.gpus * (pool.memory_per_gpu or 0)
    memory = f"{gib(usable(whole))} of {gib(whole)}" if whole else ""
    return fit.environment, pool.name, fit.profile, fit.arithmetic, how_big, shape.gpus, memory, fit.obstacle


def _structured(size_: Size, fits: list[Fit]) -> Manifest:
    return {
        "name": size_.name,
        "arithmetic": list(size_.arithmetic),
        "disk": gib(size_.disk) if size_.disk else None,
        "vram": gib(size_.vram) if size_.vram else None,
        "weights": size_.weights,
        "pools": [
            {
                "environment": f.environment,
                "pool": f.pool.name,
                "profile": f.profile,
                "nodes": f.shape.nodes,
                "gpusPerNode": f.shape.gpus_per_node,
                "usableMemory": gib(usable(f.shape.gpus * f.pool.memory_per_gpu)) if f.pool.memory_per_gpu else None,
                "obstacle": f.obstacle,
            }
            for f in fits
        ],
    }
