"""`size`: weights, disk, GPUs and nodes that a model needs, with the arithmetic.

Weights are parameters times bytes, or what the hub says that its files have. Disk is 5 % more, since scales, embeddings
and the tokenizer come on top. GPU memory is the weights and a headroom, or, with a context length, the weights and the
KV cache in 0.9 of each GPU. How that splits over a pool is the scheduler's own arithmetic.

For each token and layer a GPU keeps two vectors for each of its key-value heads (grouped attention, split by tensor
parallelism), or one compressed vector (latent attention, whole on every GPU); layers split by pipeline stages, sliding
layers keep their window. The formula was checked against what was published of DeepSeek-V3, Llama 3.1 405B and Qwen3
235B (tests/cli/test_size.py). It does not hold for attention that keeps a state instead of tokens.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import click

from function.api.cluster_model import parse_model
from function.cli.files import whole
from function.cli.hub import fetch_config, fetch_parameters, fetch_sizes, sum_weights
from function.cli.inputs import gather, warn_of_invalid
from function.cli.options import CliError, Code, Form, Sources, examples, form, sources
from function.cli.store import Store, read_environments
from function.cli.tables import hint, structured, table
from function.domain.environment import Pool
from function.domain.hardware import usable_memory
from function.domain.model import Engine, EngineName, HuggingFaceSource, Model, Profile, Shape
from function.kube.manifests import JSON, Manifest, get, integer, mapping
from function.kube.quantity import GIB, gib
from function.scheduling.shape import replica_shape
from function.status.sentences import count, replica

# Bits of one parameter; block formats carry a scale of 8 bits for 32 (mx) or 16 (nv) numbers, int4 one of 16 for 32.
BITS = {
    "fp32": "32", "tf32": "32", "bf16": "16", "fp16": "16", "fp8": "8", "int8": "8", "mxfp8": "8.25",
    "fp6": "6", "mxfp6": "6.25", "fp4": "4", "mxfp4": "4.25", "nvfp4": "4.5", "int4": "4.5",
}  # fmt: skip
# Nodes as they are sold, with the whole Gi that an engine sees of each GPU, for callers who name no environment.
_USUAL_NODES = (
    ("L4", 8, 22), ("A10G", 8, 22), ("L40S", 8, 45), ("A100-40GB", 8, 40), ("A100-80GB", 8, 80), ("H100", 8, 80),
    ("H200", 8, 140), ("B200", 8, 179), ("GB200", 4, 185), ("MI300X", 8, 192),
)  # fmt: skip
_DISK_PERCENT = 5
_USED = 0.9  # of GPU memory that an engine plans with
_OVERHEAD = 8 * GIB  # activations, graphs and communication buffers of one GPU: 4 to 8 GiB were seen
_PARAMS = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMBT]?)", re.IGNORECASE | re.ASCII)
_SCALE = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_ANY_PROFILE = Profile(name="computed", engine=Engine(name=EngineName.VLLM, image=""))
_ATTENTION = frozenset({"full_attention", "sliding_attention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What a model keeps of each token."""

    layers: int
    heads: int  # key-value heads; 0: one compressed vector, whole on each GPU
    vector: int  # numbers of one head and layer, keys and values together
    sliding: int = 0  # layers that keep only their window
    window: int = 0  # tokens

    def per_token(self, tensor: int, stages: int) -> int:
        """Return the bytes of one token on one GPU, if all layers were full."""
        return self._per_layer(tensor) * -(-self.layers // stages)

    def bytes(self, tokens: int, tensor: int, stages: int) -> int:
        """Return the bytes of one sequence on one GPU."""
        kept = (self.layers - self.sliding) * tokens + self.sliding * min(tokens, self.window)
        return self._per_layer(tensor) * -(-kept // stages)

    def _per_layer(self, tensor: int) -> int:
        return max(1, self.heads // tensor) * self.vector * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a model needs, in bytes, and how that was found. None: nothing says so."""

    name: str
    arithmetic: tuple[str, ...]
    disk: int | None
    vram: int | None
    weights: int | None = None
    attention: Attention | None = None  # with the two below: the requests that need a KV cache
    tokens: int = 0
    requests: int = 0

    def cache(self, tensor: int = 1, stages: int = 1) -> int:
        """Return the bytes of KV cache on one GPU."""
        return self.requests * self.attention.bytes(self.tokens, tensor, stages) if self.attention else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A replica on one kind of nodes."""

    environment: str
    profile: str
    pool: Pool
    shape: Shape
    arithmetic: str
    obstacle: str

    @property
    def memory(self) -> int:
        """All bytes of GPU memory; 0 where the pool does not declare any."""
        return self.shape.gpus * (self.pool.memory_per_gpu or 0)


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
@click.option("--headroom", metavar="PERCENT", type=click.IntRange(0, 900), default=20, show_default=True,
              help="GPU memory beyond the weights.")  # fmt: skip
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
    models = [] if params or hub else _read_models(store)
    if params:
        sizes = [_compute(params, precision, headroom)]
    elif hub:
        sizes = [_measure(HuggingFaceSource(repo=hub), hub, headroom)]
    elif models:
        sizes = [_size_model(model, headroom, measured=hub is not None) for model in models]
    else:
        raise CliError("name a model with -f, or give --params and --precision, or --hub OWNER/NAME")
    if context_length:
        sizes = [_add_cache(each, config, hub, context_length, concurrency) for each in sizes]
    warn_of_invalid(store, ["InferenceEnvironment"])
    found = [(each, list(_fit_pools(each, models, _list_pools(store)))) for each in sizes]
    if form is Form.TABLE:
        _print_sizes(found)
        hint(_next_command(store, sources) or f"init {'deployment' if models else 'model'}")
    else:
        click.echo(structured(form, [_build_data(each, fits) for each, fits in found]))


def _next_command(store: Store, sources: Sources) -> str:
    """Return how to plan the deployments that were read; nothing where there are none."""
    namespace = sources.target.namespace
    if not any(namespace in (None, ref.namespace) for ref in store.refs("ModelDeployment")):
        return ""
    live = f"{' --live' if sources.files else ''}{f' -n {namespace}' if namespace else ' -A'}" if sources.live else ""
    return f"plan{sources.again}{live}"


def _read_models(store: Store) -> list[Model]:
    models = []
    for ref in store.refs("ClusterModel", "Model"):
        model = parse_model(store[ref])
        if model.value is None:
            raise CliError(f"{ref} is invalid: {model.problems[0]}. Run 'modelplane validate' on it", Code.REFUSED)
        models.append(model.value)
    return models


def _compute(params: str, precision: str | None, headroom: int) -> Size:
    match = _PARAMS.fullmatch(params)
    if match is None:
        raise CliError(f"--params {params} is not a number of parameters; write it like 671B, 1.5T or 500M")
    if precision is None:
        raise CliError(f"--params needs --precision: one of {', '.join(BITS)}")
    weights = int(Decimal(match[1]) * _SCALE[match[2].upper()] * Decimal(BITS[precision]) / 8)
    line = f"{params} parameters x {BITS[precision]} bits ({precision}) = {_format_decimal(weights)} = {gib(weights)}"
    disk = weights * (100 + _DISK_PERCENT) // 100
    return _add_headroom(
        f"{params} in {precision}", line, weights, disk, f"{gib(weights)} + {_DISK_PERCENT} %", headroom
    )


def _measure(source: HuggingFaceSource, name: str, headroom: int) -> Size:
    """Return what the hub holds, by the model's own patterns, without downloading it."""
    sizes, parameters = fetch_sizes(source), fetch_parameters(source)
    formats = ", ".join(f"{n:,} in {format_}" for format_, n in parameters)
    weights, disk = sum_weights(sizes), sum(sizes.values())
    line = f"{_format_decimal(weights)} = {gib(weights)} at the hub" + (f" ({formats})" if formats else "")
    return _add_headroom(name, line, weights, disk, f"{_format_decimal(disk)} in {len(sizes)} files", headroom)


def _add_headroom(name: str, line: str, weights: int, disk: int, disk_line: str, headroom: int) -> Size:
    vram = weights * (100 + headroom) // 100
    lines = (
        f"weights: {line}",
        f"disk: {disk_line} = {gib(disk)}  (spec.resources.disk)",
        f"GPU memory: {gib(weights)} + {headroom} % for KV cache and activations = {gib(vram)}  (spec.resources.vram)",
    )
    return Size(name=name, arithmetic=lines, disk=disk, vram=vram, weights=weights)


def _size_model(model: Model, headroom: int, *, measured: bool) -> Size:
    if measured:
        if not isinstance(model.source, HuggingFaceSource):
            raise CliError(f"{model.kind} {model.name} is not from the hub. Leave out --hub")
        return _measure(model.source, model.name, headroom)
    declared = (("disk", model.disk), ("vram", model.vram))
    lines = tuple(f"{name}: {gib(n) if n else 'not declared'}  (spec.resources.{name})" for name, n in declared)
    return Size(name=model.name, arithmetic=lines, disk=model.disk, vram=model.vram)


def _add_cache(sized: Size, config: str | None, hub: str | None, tokens: int, requests: int) -> Size:
    """Return what a model needs with the KV cache of its requests in place of the headroom."""
    if config is None and not hub:
        raise CliError("--context-length needs the model's config: --config FILE, or --hub OWNER/NAME")
    if sized.weights is None:
        raise CliError("--context-length needs the weights: --params and --precision, or --hub OWNER/NAME")
    found = _read_config(config) if config else fetch_config(HuggingFaceSource(repo=hub or ""))
    attention = read_attention(found, config or f"config.json of {hub}")
    loaded = replace(sized, attention=attention, tokens=tokens, requests=requests)
    cache = loaded.cache()
    vram = int((sized.weights + cache) / _USED)
    per_token, load = f"{attention.per_token(1, 1):,} bytes a token in full layers", f"{requests} x {tokens:,} tokens"
    lines = (
        *sized.arithmetic[:2],
        f"KV cache: {per_token}, {load} = {gib(cache)}",
        f"GPU memory: ({gib(sized.weights)} + {gib(cache)}) / {_USED} = {gib(vram)}  (spec.resources.vram)",
    )
    return replace(loaded, arithmetic=lines, vram=vram)


def read_attention(config: JSON, name: str) -> Attention:
    """Return what a config.json says of a model's attention.

    Raises:
        CliError: It does not say enough, or keeps something else than tokens.
    """
    said: Manifest = mapping(config, "text_config") or mapping({"config": config}, "config")
    layers, latent, window = (integer(said, key) for key in ("num_hidden_layers", "kv_lora_rank", "sliding_window"))
    listed = get(said, "layer_types")
    types = [str(kind) for kind in listed] if isinstance(listed, list) else []
    if not set(types) <= _ATTENTION or "linear_attn_config" in said:
        raise CliError(
            f"{name} keeps a state instead of tokens, which is not computed here. Leave out --context-length"
        )
    if layers and latent:
        return Attention(layers=layers, heads=0, vector=latent + integer(said, "qk_rope_head_dim"))
    heads = integer(said, "num_attention_heads")
    head = integer(said, "head_dim") or (integer(said, "hidden_size") // heads if heads else 0)
    if not layers or not head:
        raise CliError(f"{name} does not say num_hidden_layers and head_dim. Give the config.json of a language model")
    groups, sliding = integer(said, "num_key_value_heads") or heads, types.count("sliding_attention") if window else 0
    return Attention(layers=layers, heads=groups, vector=2 * head, sliding=sliding, window=window)


def _read_config(file: str) -> JSON:
    try:
        return whole(json.loads(Path(file).read_text()))
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}. Name a model's config.json") from error
    except ValueError as error:
        raise CliError(f"{file} is not JSON ({error}). Name a model's config.json") from error


def _list_pools(store: Store) -> list[tuple[str, Pool]]:
    usual = (
        Pool(name=f"{n} x {kind}", gpus_per_node=n, max_nodes=999, memory_per_gpu=memory * GIB, multi_node=True)
        for kind, n, memory in _USUAL_NODES
    )
    return [(e.name, pool) for e in read_environments(store) for pool in e.pools] or [("usual nodes", p) for p in usual]


def _fit_pools(sized: Size, models: Iterable[Model], pools: Sequence[tuple[str, Pool]]) -> Iterator[Fit]:
    declared = [profile for model in models if model.name == sized.name for profile in model.profiles]
    for profile in declared or [_ANY_PROFILE]:
        for environment, pool in pools:
            shape = replica_shape(profile, sized.vram, pool)
            if shape is None:
                continue
            if profile.shape is None and sized.vram and pool.memory_per_gpu:
                gpus = count(-(-sized.vram // pool.memory_per_gpu), "GPU")
                arithmetic = f"{gib(sized.vram)} / {gib(pool.memory_per_gpu)} = {gpus}"
            else:
                arithmetic = f"declared: {shape.gpus} GPUs"
            yield Fit(
                environment=environment,
                profile=profile.name,
                pool=pool,
                shape=shape,
                arithmetic=arithmetic,
                obstacle=_find_obstacle(sized, profile, pool, shape),
            )


def _find_obstacle(sized: Size, profile: Profile, pool: Pool, shape: Shape) -> str:
    wanted, memory = profile.requires.memory_per_gpu, pool.memory_per_gpu
    every = shape.gpus * (memory or 0)
    if shape.nodes > 1 and not pool.multi_node:
        return "pool is not multiNodeCapable"
    if shape.gpus_per_node > pool.gpus_per_node:
        return f"nodes have {count(pool.gpus_per_node, 'GPU')}"
    if shape.nodes > pool.max_nodes:
        return f"pool has {count(pool.max_nodes, 'node')}"
    if wanted and (memory or 0) < wanted:
        return f"profile wants {gib(wanted)} a GPU"
    if memory and sized.attention and sized.weights:
        split = shape.parallelism
        room = max(0, usable_memory(memory) - _OVERHEAD - sized.weights // shape.gpus)
        taken = sized.cache(split.tensor or shape.gpus_per_node, split.pipeline or shape.nodes)
        return f"KV cache takes {gib(taken)} a GPU, room for {gib(room)}" if room < taken else ""
    if memory and sized.vram and every < sized.vram:
        return f"{gib(every)} of GPU memory"
    if memory and sized.disk and usable_memory(every) < sized.disk:
        return f"{gib(usable_memory(every))} of GPU memory are usable, weights of {gib(sized.disk)}"
    return ""


def _format_decimal(amount: int) -> str:
    return f"{amount / 10**9:,.1f} GB"


def _print_sizes(found: Iterable[tuple[Size, list[Fit]]]) -> None:
    headers = ("ENVIRONMENT", "POOL", "PROFILE", "GPUS NEEDED", "REPLICA", "GPUS", "USABLE MEMORY", "OBSTACLE")
    nothing = "No pool declares memoryPerGpu, or the model declares no vram: give --params, or --hub"
    for number, (sized, fits) in enumerate(found):
        lines = "\n".join((sized.name, *(f"  {line}" for line in sized.arithmetic)))
        rows = (
            (f.environment, f.pool.name, f.profile, f.arithmetic, replica(f.shape.nodes, f.shape.gpus_per_node),
             f.shape.gpus, f"{gib(usable_memory(f.memory))} of {gib(f.memory)}" if f.memory else "", f.obstacle)
            for f in fits
        )  # fmt: skip
        click.echo(("\n" if number else "") + f"{lines}\n\n{table(headers, rows) if fits else nothing}")


def _build_data(sized: Size, fits: Iterable[Fit]) -> Manifest:
    return {
        "name": sized.name,
        "arithmetic": list(sized.arithmetic),
        "disk": gib(sized.disk) if sized.disk else None,
        "vram": gib(sized.vram) if sized.vram else None,
        "weights": sized.weights,
        "pools": [
            {
                "environment": f.environment,
                "pool": f.pool.name,
                "profile": f.profile,
                "nodes": f.shape.nodes,
                "gpusPerNode": f.shape.gpus_per_node,
                "usableMemory": gib(usable_memory(f.memory)) if f.memory else None,
                "obstacle": f.obstacle,
            }
            for f in fits
        ],
    }
