"""`size`: weights, disk, GPUs and nodes that a model needs, with the arithmetic (docs/cli.md).

For each token and layer a GPU keeps two vectors for each of its key-value heads (grouped attention, split by tensor
parallelism), or one compressed vector (latent attention, complete on every GPU); layers are split by pipeline stages,
sliding layers keep their window. Attention that keeps a state instead of tokens is refused.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from http import HTTPStatus
from itertools import product
from typing import TextIO
from urllib.parse import quote

import click

from function.api.cluster_model import parse_model
from function.api.model_deployment import parse_deployment
from function.capacity.pools import compute_shape, empty_pool
from function.cli.inputs import load_inventory
from function.cli.options import CliError, Code, Form, Sources, examples, form, import_extra, sources
from function.cli.planner import Target, find_model_path, propose_profiles
from function.cli.store import Store, normalize_json, read_environments
from function.cli.tables import BAD, GOOD, format_columns, format_data, paint, warn, wrap_lines
from function.domain.adapter import Adapter
from function.domain.allocation import format_replica
from function.domain.engines import get_last_value
from function.domain.environment import Environment, Pool
from function.domain.files import Files, is_fetched, split_files
from function.domain.gpu_products import PRODUCTS, USUAL_NODES
from function.domain.model import (
    DISK_HEADROOM,
    Engine,
    EngineName,
    HuggingFaceSource,
    Model,
    ModelRef,
    Profile,
    Requires,
    Source,
    add_disk_headroom,
    usable_memory,
)
from function.domain.placement import Deployment
from function.domain.settings import Kserve
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, text
from function.kube.messages import format_count
from function.kube.quantity import GIB, gib
from function.kube.selectors import Selector
from function.scheduling.filters import CHECKS, Candidate, check_profile_selector, check_selectors, find_shortage
from function.scheduling.verdicts import SchedulingRequest
from function.serving.service import find_pool_problems
from function.status.cluster_model import note_insufficient_memory

# Bits of one parameter; block formats carry a scale of 8 bits for 32 (mx) or 16 (nv) numbers, int4 one of 16 for 32.
BITS = {
    "fp32": "32", "tf32": "32", "bf16": "16", "fp16": "16", "fp8": "8", "int8": "8", "mxfp8": "8.25",
    "fp6": "6", "mxfp6": "6.25", "fp4": "4", "mxfp4": "4.25", "nvfp4": "4.5", "int4": "4.5",
    # GGUF: by the layout of their blocks, and mixtures as llama.cpp's README measured them for Llama 2 7B.
    "q8_0": "8.5", "q6_k": "6.56", "q5_k_m": "5.68", "q5_k_s": "5.52", "q5_0": "5.5", "q4_k_m": "4.84",
    "q4_k_s": "4.58", "q4_0": "4.5", "q3_k_l": "4.27", "q3_k_m": "3.91", "q3_k_s": "3.5", "q2_k": "3.35",
}  # fmt: skip
# Nodes as they are sold, with the nominal memory of each GPU as pools declare it, for callers who name no environment.
# Nothing is known of the cluster, so nothing there is an obstacle.
_USUAL_NODES = Environment(
    name="usual nodes",
    kserve=Kserve(scheduler=True),
    pools=tuple(
        Pool(
            name=f"{gpus} x {PRODUCTS[label].accelerator_type}",
            gpus_per_node=gpus,
            max_nodes=999,
            accelerator_type=PRODUCTS[label].accelerator_type,
            memory_per_gpu=PRODUCTS[label].memory * GIB,
            multi_node=True,
        )
        for label, gpus in USUAL_NODES.items()
    ),
)
_USED = 0.9  # of GPU memory that an engine plans with
_OVERHEAD = 8 * GIB  # activations, graphs and communication buffers of one GPU: 4 to 8 GiB were measured
_PARAMS = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMBT]?)", re.IGNORECASE | re.ASCII)
_SCALE = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_ANY_PROFILE = Profile(name="", engine=Engine(name=EngineName.VLLM, image=""))
_ATTENTION = frozenset({"full_attention", "sliding_attention"})
_COLUMNS = {
    "FITS": "fits", "ENVIRONMENT": "environment", "POOL": "pool", "REPLICA": "replica", "GPUS NEEDED": "gpusNeeded",
    "PROFILE": "profile", "OBSTACLE": "obstacle",
}  # fmt: skip
_PROPOSAL_COLUMNS = {
    "ENVIRONMENT": "environment", "POOL": "pool", "REPLICAS": "replicas", "REPLICA": "replica", "GPUS": "gpus",
    "TTFT MS": "ttft", "ITL MS": "itl", "REQUESTS/S": "requestsPerSecond", "OBSTACLE": "obstacle",
}  # fmt: skip
_NOTHING_FITS = "No pool declares memoryPerGpu, or the model declares no vram: give --params, or --hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What a model keeps of each token."""

    layers: int
    heads: int  # key-value heads; 0: one compressed vector, whole on each GPU
    vector: int  # numbers of one head and layer, keys and values together
    sliding: int = 0  # layers that keep only their window
    window: int = 0  # tokens

    def bytes(self, tokens: int, tensor: int, stages: int) -> int:
        layer_tokens = (self.layers - self.sliding) * tokens + self.sliding * min(tokens, self.window)
        return max(1, self.heads // tensor) * self.vector * 2 * -(-layer_tokens // stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a model needs, in bytes, and the arithmetic. None: not known."""

    name: str
    arithmetic: tuple[str, ...]
    disk: int | None
    vram: int | None
    weights: int | None = None
    attention: Attention | None = None  # with the two below: the requests that need a KV cache
    tokens: int = 0
    requests: int = 0
    ignore: tuple[str, ...] = ()  # patterns that leave out copies which engines do not load
    variants: tuple[str, ...] = ()  # GGUF files of which an engine opens one


@click.command(epilog=examples("size"))
@sources
@click.option("--params", metavar="NUMBER", help="Parameters of the model, such as 671B.")
@click.option("--precision", type=click.Choice(list(BITS), case_sensitive=False), help="Their number format.")
@click.option("--headroom", metavar="PERCENT", type=click.IntRange(0, 900), default=20, show_default=True,
              help="GPU memory beyond the weights.")  # fmt: skip
@click.option("--context-length", metavar="TOKENS", type=click.IntRange(1), help="Tokens of a request with its answer.")
@click.option("--concurrency", metavar="REQUESTS", type=click.IntRange(1), default=1, help="Requests at the same time.")
@click.option("--config", metavar="FILE", type=click.File(), help="The model's config.json; --hub reads it there.")
@click.option("--hub", metavar="[OWNER/NAME]", is_flag=False, flag_value="", help="Read the sizes of the files there.")
@click.option("--ttft", metavar="MS", type=click.IntRange(1), help="Propose profiles: time to the first token.")
@click.option("--itl", metavar="MS", type=click.IntRange(1), help="Propose profiles: time between two tokens.")
@click.option("--requests-per-second", "rate", metavar="NUMBER", type=click.FloatRange(0, min_open=True),
              help="Propose profiles: the load.")  # fmt: skip
@click.option("--input-tokens", type=click.IntRange(1), default=4000, show_default=True, help="Of a request.")
@click.option("--output-tokens", type=click.IntRange(2), default=1000, show_default=True, help="Of its answer.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def size(  # noqa: PLR0913  # click's options
    *, sources: Sources, params: str | None, precision: str | None, headroom: int, hub: str | None,
    context_length: int | None, concurrency: int, config: TextIO | None, ttft: int | None, itl: int | None,
    rate: float | None, input_tokens: int, output_tokens: int, form: Form,
) -> None:  # fmt: skip
    """Say what a model needs: weights, disk, GPUs and nodes for each pool, with the arithmetic.

    With --context-length and the model's config, GPU memory is what weights and KV cache take, in 0.9 of each GPU.

    With --ttft, --itl and --requests-per-second, propose a serving profile and the number of replicas for each pool, as
    aiconfigurator predicts them.

    Pools are those of the environments in the files, or of the control plane with --live, else the usual nodes.
    """
    store = load_inventory(sources).store if sources.files or sources.live else Store()
    models = [] if params or hub else [*_read_models(store)]
    if ttft or itl or rate:
        if not (ttft and itl and rate):
            raise CliError("give --ttft, --itl and --requests-per-second together")
        target = Target(
            ttft=ttft, itl=itl, requests_per_second=rate, input_tokens=input_tokens, output_tokens=output_tokens
        )
        _propose_profiles(models, hub, config, store, target, form)
        return
    if params:
        sizes = [_size_parameters(params, precision, headroom)]
    elif hub:
        sizes = [_size_files(HuggingFaceSource(repo=hub), hub, headroom)]
    elif not models:
        raise CliError("name a model with -f, or give --params and --precision, or --hub OWNER/NAME")
    elif hub is None:
        sizes = [_size_model(model) for model in models]
    else:
        sizes = [
            _size_files(model.source, model.name, headroom, consolidated=_reads_consolidated(model)) for model in models
        ]
    if context_length:
        sizes = [_add_cache(size_, config, hub, context_length, concurrency) for size_ in sizes]
    results = [(size_, list(_fit_pools(size_, models, store))) for size_ in sizes]
    if form is not Form.TABLE:
        data: list[JSON] = [
            {
                "name": size_.name,
                "arithmetic": [*size_.arithmetic],
                "disk": gib(size_.disk) if size_.disk else None,
                "vram": gib(size_.vram) if size_.vram else None,
                "weights": size_.weights,
                "ignorePatterns": [*size_.ignore],
                "files": [*size_.variants],
                "pools": [*fits],
            }
            for size_, fits in results
        ]
        click.echo(format_data(form, data))
        return
    for number, (size_, fits) in enumerate(results):
        click.echo("\n" if number else "", nl=False)
        lines = "\n  ".join((size_.name, *size_.arithmetic))
        rows = ({**fit, "fits": paint("no", BAD) if fit["obstacle"] else paint("yes", GOOD)} for fit in fits)
        click.echo(f"{wrap_lines(lines, 4)}\n\n{format_columns(_COLUMNS, rows) if fits else _NOTHING_FITS}")


def _propose_profiles(
    models: Sequence[Model], hub: str | None, config: TextIO | None, store: Store, target: Target, form: Form
) -> None:
    """Prints a profile for each pool of each model, or for the model of --hub."""
    engines = {hub: EngineName.VLLM} if hub else {}
    for model in models:
        if isinstance(model.source, HuggingFaceSource):
            engines[model.source.repo] = model.profiles[0].engine.name if model.profiles else EngineName.VLLM
    if not engines:
        raise CliError("name a model of Hugging Face: -f with a huggingFace.repo, or --hub OWNER/NAME")
    environments = [e for e in read_environments(store) if e.pools] or [_USUAL_NODES]
    pools = [(environment.name, pool) for environment in environments for pool in environment.pools]
    data: list[JSON] = []
    for repo, engine in engines.items():
        path = find_model_path(config.name if config else None, repo)
        rows = [*propose_profiles(path, engine, pools, target)]
        data.append({"name": repo, "target": target.description, "pools": [*rows]})
        if form is Form.TABLE:
            click.echo(f"{repo}: {target.description}\n")
            shown = ({**dict.fromkeys(_PROPOSAL_COLUMNS.values(), ""), **row} for row in rows)
            click.echo(format_columns(_PROPOSAL_COLUMNS, shown))
            best = min((row for row in rows if not row["obstacle"]), key=lambda row: integer(row, "gpus"), default=None)
            if best:
                replicas = format_count(integer(best, "replicas"), "replica")
                click.echo(f"\n# For {replicas}, as predicted for {text(best, 'engineVersion')}. Add engine.image.")
                profile = {**mapping(best, "profile"), "engine": {"name": str(engine)}}
                click.echo(format_data(Form.YAML, [profile]))
    if form is not Form.TABLE:
        click.echo(format_data(form, data))


def _read_models(store: Store) -> Iterator[Model]:
    for ref in store.refs("ClusterModel", "Model"):
        model = parse_model(store[ref])
        if model.value is None:
            raise CliError(f"{ref} is invalid: {model.problems[0]}. Run 'modelplane validate' on it", Code.REFUSED)
        yield model.value


def _reads_consolidated(model: Model) -> bool:
    """Tells whether a profile reads the layout of Mistral's authors."""
    return any(get_last_value(profile.engine.args, "--load-format") == "mistral" for profile in model.profiles)


def _size_parameters(params: str, precision: str | None, headroom: int) -> Size:
    match = _PARAMS.fullmatch(params)
    if match is None:
        raise CliError(f"--params {params} is not a number of parameters; write it like 671B, 1.5T or 500M")
    if not match[2]:
        raise CliError(f"--params {params} has no unit; was {params}B meant?")
    if precision is None:
        raise CliError(f"--params needs --precision: one of {', '.join(BITS)}")
    weights = int(Decimal(match[1]) * _SCALE[match[2].upper()] * Decimal(BITS[precision]) / 8)
    line = (
        f"{params} parameters x {BITS[precision]} bits ({precision}) = {_format_gb(weights)} = {_format_gib(weights)}"
    )
    return _add_headroom(f"{params} in {precision}", line, weights, weights, _format_gib(weights), headroom)


def _size_files(source: Source, name: str, headroom: int, *, consolidated: bool = False) -> Size:
    """Sizes a model by its files on Hugging Face that its own patterns admit, without downloading them."""
    if not isinstance(source, HuggingFaceSource):
        raise CliError(f"model {name} is not from the hub. Leave out --hub")
    revision = quote(source.revision, safe="")
    info = _fetch(f"/api/models/{quote(source.repo)}/revision/{revision}?blobs=true", source.repo)
    sizes = _list_files(info, source)
    parameters = mapping(info, "safetensors.parameters")
    formats = ", ".join(f"{n:,} in {format_}" for format_, n in sorted(parameters.items()) if isinstance(n, int))
    files = split_files(sizes, source, consolidated=consolidated)
    line = f"{_format_gb(files.weights)} = {_format_gib(files.weights)} on Hugging Face"
    line += f" ({formats})" if formats else ""
    disk_line = f"{_format_gb(files.disk)} in {len(sizes)} files = {_format_gib(files.disk)}"
    sized = _add_headroom(name, line, files.weights, files.disk, disk_line, headroom)
    return replace(
        sized, arithmetic=(*sized.arithmetic, *_propose(files)), ignore=(*files.copies,), variants=(*files.variants,)
    )


def _propose(files: Files) -> Iterator[str]:
    """Yields what would save disk: patterns that leave out copies, or the file that the engine opens."""
    for pattern, size in files.copies.items():
        yield f"{_format_gb(size)} of the disk are copies that engines do not load: ignorePatterns: [{pattern}]"
    if files.variants:
        name, size = min(files.variants.items(), key=lambda item: item[1])
        yield (
            f"engines open one of {len(files.variants)} GGUF files, and the largest counts here: "
            f"name one in huggingFace.file, such as {name} ({_format_gb(size)})"
        )


def _format_gb(size: int) -> str:
    return f"{size / 10**9:,.1f} GB"


def _format_gib(size: int) -> str:
    """Formats bytes with a decimal, so that sums can be followed."""
    return f"{size / GIB:,.1f}Gi"


def _format_rounded(size: int) -> str:
    """Formats bytes with a decimal, and as the whole Gi that a field takes."""
    return f"{_format_gib(size)}, rounded up to {gib(size)}"


def _add_headroom(name: str, line: str, weights: int, files: int, disk_line: str, headroom: int) -> Size:
    """Returns what a model needs; `files` are all its bytes on disk, of which engines load the weights."""
    disk = add_disk_headroom(files)
    vram = int(weights * (100 + headroom) / 100 / _USED)
    need = f"({_format_gib(weights)} + {headroom} % for KV cache and activations) / {_USED}"
    lines = (
        f"weights: {line}",
        f"disk: {disk_line} + {DISK_HEADROOM} % = {_format_rounded(disk)}  (spec.resources.disk)",
        f"GPU memory: {need} = {_format_rounded(vram)}  (spec.resources.vram)",
    )
    return Size(name=name, arithmetic=lines, disk=disk, vram=vram, weights=weights)


def _size_model(model: Model) -> Size:
    declared = (("disk", model.disk), ("vram", model.vram))
    lines = tuple(f"{name}: {gib(n) if n else 'not declared'}  (spec.resources.{name})" for name, n in declared)
    return Size(name=model.name, arithmetic=lines, disk=model.disk, vram=model.vram)


def _read_positions(config: JSON) -> int:
    """Returns the longest context of a model, also of a multimodal one; 0 where its config does not say it."""
    return integer(config, "text_config.max_position_embeddings") or integer(config, "max_position_embeddings")


def _add_cache(sized: Size, config: TextIO | None, hub: str | None, tokens: int, requests: int) -> Size:
    """Returns what a model needs with the KV cache of its requests in place of the headroom."""
    if config is None and not hub:
        raise CliError("--context-length needs the model's config: --config FILE, or --hub OWNER/NAME")
    if sized.weights is None:
        raise CliError("--context-length needs the weights: --params and --precision, or --hub OWNER/NAME")
    name = config.name if config else f"config.json of {hub}"
    try:
        content = json.load(config) if config else _fetch(f"/{quote(hub or '')}/resolve/main/config.json", hub or "")
    except ValueError as error:
        raise CliError(f"{name} is not JSON ({error}). Name a model's config.json") from error
    longest = _read_positions(content)
    if 0 < longest < tokens:
        warn(f"--context-length {tokens} is more than the {longest} positions of {name} (max_position_embeddings)")
    attention = read_attention(normalize_json(content), name)
    cache = requests * attention.bytes(tokens, 1, 1)
    vram = int((sized.weights + cache) / _USED)
    per_token = replace(attention, sliding=0).bytes(1, 1, 1)
    need = f"({_format_gib(sized.weights)} + {_format_gib(cache)}) / {_USED}"
    lines = (
        *sized.arithmetic[:2],
        f"KV cache: {per_token:,} bytes a token in full layers, {requests} x {tokens:,} tokens = {_format_gib(cache)}",
        f"GPU memory: {need} = {_format_rounded(vram)}  (spec.resources.vram)",
        *sized.arithmetic[3:],
    )
    return replace(sized, arithmetic=lines, vram=vram, attention=attention, tokens=tokens, requests=requests)


def read_attention(content: JSON, name: str) -> Attention:
    config: Manifest = mapping(content, "text_config") or mapping({"config": content}, "config")
    layers = integer(config, "num_hidden_layers")
    latent = integer(config, "kv_lora_rank")
    window = integer(config, "sliding_window")
    layer_types = get(config, "layer_types")
    types = [str(kind) for kind in layer_types] if isinstance(layer_types, list) else []
    if not set(types) <= _ATTENTION or "linear_attn_config" in config:
        raise CliError(
            f"{name} keeps a state instead of tokens, which is not computed here. Leave out --context-length"
        )
    if layers and latent:
        return Attention(layers=layers, heads=0, vector=latent + integer(config, "qk_rope_head_dim"))
    heads = integer(config, "num_attention_heads")
    head = integer(config, "head_dim") or (integer(config, "hidden_size") // heads if heads else 0)
    if not layers or not head:
        raise CliError(f"{name} does not say num_hidden_layers and head_dim. Give the config.json of a language model")
    groups = integer(config, "num_key_value_heads") or heads
    sliding = types.count("sliding_attention") if window else 0
    return Attention(layers=layers, heads=groups, vector=2 * head, sliding=sliding, window=window)


def _fit_pools(sized: Size, models: Iterable[Model], store: Store) -> Iterator[Manifest]:
    """Yields a row for each profile on each pool that declares enough to compute a shape."""
    environments = [e for e in read_environments(store) if e.pools] or [_USUAL_NODES]
    source = HuggingFaceSource(repo=sized.name)
    anything = Model(kind="", name=sized.name, served_name="", source=source, profiles=(_ANY_PROFILE,))
    model = next((model for model in models if model.name == sized.name), anything)
    if environments == [_USUAL_NODES]:  # which declare neither labels nor anything but memory
        memories = ((p, Requires(memory_per_gpu=p.requires.memory_per_gpu)) for p in model.profiles)
        profiles = tuple(replace(profile, selector=Selector(), requires=memory) for profile, memory in memories)
        model = replace(model, selector=Selector(), profiles=profiles)
    model = replace(model, vram=sized.vram, disk=sized.disk)
    ref = ModelRef(kind=model.kind, name=model.name)
    deployment = Deployment(namespace="", name="", model=ref, adapters=_find_adapters(store, ref))
    request = SchedulingRequest(deployment=deployment, model=model, serving_check=find_pool_problems)
    for profile, environment in product(model.profiles, environments):
        for pool in environment.pools:
            shape = compute_shape(profile, model.vram, pool)
            if shape is None:
                continue
            memory = shape.gpus * (pool.memory_per_gpu or 0)
            arithmetic = f"declared: {format_count(shape.gpus, 'GPU')}"
            if profile.shape is None and model.vram and pool.memory_per_gpu:
                gpus = -(-model.vram // pool.memory_per_gpu)
                rounding = "power of two" if shape.nodes == 1 and shape.gpus.bit_count() == 1 else "whole nodes"
                rounded = f", {shape.gpus} as {rounding}" if gpus < shape.gpus else ""
                arithmetic = f"{gib(model.vram)} / {gib(pool.memory_per_gpu)} = {format_count(gpus, 'GPU')}{rounded}"
            yield {
                "environment": environment.name,
                "pool": pool.name,
                "profile": profile.name,
                "nodes": shape.nodes,
                "gpusPerNode": shape.gpus_per_node,
                "replica": format_replica(shape.nodes, shape.gpus_per_node),
                "gpusNeeded": arithmetic,
                "memory": gib(memory) if memory else None,
                "usableMemory": gib(usable_memory(memory)) if memory else None,
                "obstacle": _find_obstacle(sized, Candidate(request, environment, profile, pool, shape)),
            }


def _find_adapters(store: Store, model: ModelRef) -> tuple[Adapter, ...]:
    """Returns the adapters of the deployment of a model that has the most of them, if there is one."""
    deployments = (parse_deployment(store[ref]).value for ref in store.refs("ModelDeployment"))
    adapters = [found.adapters for found in deployments if found and found.model == model]
    return max(adapters, key=len, default=())


def _find_obstacle(sized: Size, candidate: Candidate) -> str:
    """Returns why `plan` would not place a replica there though the pool were empty, or why the weights do not fit."""
    pool = candidate.pool
    shape = candidate.shape
    assert shape is not None
    selecting = (
        *check_selectors(candidate.request, candidate.environment),
        check_profile_selector(candidate.profile, candidate.environment),
    )
    for refusal in (*selecting, *(check(candidate) for check in CHECKS)):
        if refusal:
            return refusal.message
    if refusal := find_shortage(candidate, empty_pool(pool, pool.max_nodes)):
        return refusal.message
    memory = pool.memory_per_gpu or 0
    if memory and sized.attention and sized.weights:
        split = shape.parallelism
        room = max(0, usable_memory(memory) - _OVERHEAD - sized.weights // shape.gpus)
        tensor = split.tensor or shape.gpus_per_node
        stages = split.pipeline or shape.nodes
        cache = sized.requests * sized.attention.bytes(sized.tokens, tensor, stages)
        return f"KV cache takes {gib(cache)} a GPU, room for {gib(room)}" if room < cache else ""
    return note_insufficient_memory(candidate.request.model, shape, pool.memory_per_gpu, sized.weights)


def _list_files(info: JSON, source: HuggingFaceSource) -> dict[str, int]:
    """Returns the bytes of every file that the initializer would fetch, by path."""
    all_files = ((text(file, "rfilename"), integer(file, "size")) for file in listing(info, "siblings"))
    files = {path: size for path, size in all_files if is_fetched(path, source)}
    if not files:
        raise CliError(f"{source.repo} holds no file that the model's patterns admit. Correct them", Code.REFUSED)
    return files


def _fetch(path: str, repo: str) -> JSON:
    """Returns what Hugging Face has at a path; HF_ENDPOINT names a mirror, HF_TOKEN opens what is not public."""
    httpx = import_extra("httpx")
    host = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    headers = {"User-Agent": "modelplane"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        response = httpx.get(host + path, headers=headers, timeout=30, follow_redirects=True).raise_for_status()
        return normalize_json(response.json())
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        code = Code.UNREACHABLE
        advice = "Set HF_TOKEN to a token that may read it, try again later, or give --params"
        if status == HTTPStatus.NOT_FOUND:
            code = Code.NOT_FOUND
            advice = "Correct the repository or the revision"
        raise CliError(f"Hugging Face answers {status} for {repo}. {advice}", code) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        message = f"cannot reach Hugging Face at {host} ({error}). Set HF_ENDPOINT to a mirror, or give --params"
        raise CliError(message, Code.UNREACHABLE) from error
