"""Parses ClusterModel and Model, which share one schema.

A problem outside the profiles (source, resources, selector) leaves no model to serve: only the problems are returned.
A profile with problems is listed in `broken`, and the other profiles still serve.

Hugging Face repositories are exactly `owner/name`, and revisions have no slash or colon, because KServe's initializer
gets both in one address. If the scheme of an address has a source of its own, the model must use this source.

A replica on several nodes is in one of two modes. Pipeline mode: one pipeline stage for each node and tensor
parallelism over the GPUs of a node, or no stages and tensor parallelism over the GPUs of all nodes. Data mode: `data`
ranks, of which each node has `dataLocal`, and no pipeline, because KServe takes either of them. Sizes that are left out
follow from the other sizes.
"""

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from function import schemas
from function.api.node_pool import parse_requires
from function.api.problems import ADDRESS_FORM, SCHEMES, Parsed, Problems, find_nearest, validate
from function.api.values import (
    check_env,
    check_unique,
    choose_block,
    dump_all,
    parse_amount,
    parse_image,
    parse_quantity,
    parse_selector,
    refuse_expansions,
    refuse_templates,
)
from function.domain.engines import (
    ENGINES,
    EXPERT,
    find_model_faults,
    find_shape_faults,
    find_stock_engine,
    parse_flags,
    parse_parallel_flags,
)
from function.domain.model import (
    CPU,
    GGUF,
    MEMORY,
    PART,
    BrokenEntry,
    Engine,
    EngineName,
    EngineResources,
    HuggingFaceSource,
    Lora,
    Model,
    OciSource,
    Parallelism,
    Profile,
    PvcSource,
    Routing,
    SecretKey,
    Shape,
    Source,
    Spread,
    UriSource,
    find_single_file,
    parse_part,
)
from function.domain.pods import KEY
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import Manifest, integer, text

_OWN_SOURCE = {"hf": "HuggingFace", "oci": "OCI", "pvc": "PVC"}
_FILE_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface|hf)\.co/[^/]+/[^/]+/blob/.*")
_REPOSITORY_PAGE = re.compile(r"https?://(?:www\.)?huggingface\.co/([^/]+/[^/?#]+)(?:[?#].*|/|/tree/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SecretRule:
    namespace: str  # of Secrets without a namespace
    fixed: bool  # a Model may only use Secrets of its own namespace


def parse_model(manifest: Manifest, settings: Settings = BUILT_IN) -> Parsed[Model | None]:
    """Returns the model; None if problems outside its profiles leave nothing to serve.

    A Secret without a namespace is in the platform's secret namespace, and for a Model in the namespace of the Model.
    """
    kind = text(manifest, "kind")
    namespace = text(manifest, "metadata.namespace")
    spec, problems = validate(schemas.ModelSpec, manifest.get("spec"), "spec")
    shared = kind == "ClusterModel"
    secrets = _SecretRule(namespace=settings.secret_namespace if shared else namespace, fixed=not shared)
    source = _parse_source(spec, secrets, problems)
    profiles, broken = _parse_profiles(spec, source, secrets, problems)
    resources = spec.resources
    at = problems["resources"]
    vram = parse_amount(resources.vram, at["vram"])
    disk = parse_amount(resources.disk, at["disk"])
    cpu = parse_quantity(resources.cpu, at["cpu"], CPU)
    memory = parse_quantity(resources.memory, at["memory"], MEMORY)
    selector = parse_selector(spec.environment_selector, problems["environmentSelector"])
    all_problems = problems.list()
    only_profiles_are_broken = {p for profile in broken for p in profile.problems} == set(all_problems)
    if source is None or not only_profiles_are_broken:
        return Parsed(None, all_problems)
    model = Model(
        kind=kind,
        name=text(manifest, "metadata.name"),
        served_name=spec.model.name,
        source=source,
        profiles=profiles,
        broken=broken,
        vram=vram,
        disk=disk,
        cpu=cpu,
        memory=memory,
        selector=selector,
        generation=integer(manifest, "metadata.generation"),
    )
    return Parsed(model, all_problems)


def _parse_source(spec: schemas.ModelSpec, secrets: _SecretRule, problems: Problems) -> Source | None:
    """Returns the source; None if `source` or its block cannot be read."""
    if problems["source"].refused:
        return None
    blocks = {
        "HuggingFace": ("huggingFace", spec.hugging_face),
        "OCI": ("oci", spec.oci),
        "URI": ("uri", spec.uri),
        "PVC": ("pvc", spec.pvc),
    }
    at, block = choose_block(spec.source, blocks, problems)
    refuse_templates(block, at)
    match block:
        case schemas.HuggingFace():
            return _parse_hugging_face(block, secrets, at)
        case schemas.Oci():
            refuse_expansions(block.image, at["image"])
            return OciSource(image=parse_image(block.image, at["image"]))
        case schemas.Uri():
            return _parse_uri(block, secrets, at)
        case schemas.Pvc():
            path = block.path or ""
            if ".." in path.split("/"):
                at["path"].add_invalid(path, "a directory within the claim, without ..")
            refuse_expansions(path, at["path"])
            return PvcSource(claim=block.claim_name, path=path)
        case _:
            return None


def _parse_hugging_face(block: schemas.HuggingFace, secrets: _SecretRule, problems: Problems) -> HuggingFaceSource:
    file = block.file or ""
    path = block.path or ""
    allow = tuple(block.allow_patterns or ())
    ignore = tuple(block.ignore_patterns or ())
    if file:
        _check_file(file, allow, ignore, problems["file"])
    if path:
        check_folder(path, problems["path"])
        if file:
            problems["path"].add_invalid(path, "left out together with file, which is a path of its own")
    own_files = (PART.sub(r"-*-of-\2.gguf", file),) if file else (f"{path}/*",) if path else ()
    return HuggingFaceSource(
        repo=block.repo,
        revision=block.revision,
        secret=_parse_secret(block.secret_ref, secrets, problems["secretRef"]),
        allow=allow or own_files,
        ignore=ignore,
        file=file,
        path=path,
    )


def check_folder(path: str, problems: Problems) -> None:
    """Adds a problem for what is no folder of a repository."""
    if any(part in {"", ".", ".."} for part in path.split("/")):
        problems.add_invalid(path, "a folder within the repository, without .. and without / at its ends")
    refuse_expansions(path, problems)


def _check_file(file: str, allow: tuple[str, ...], ignore: tuple[str, ...], problems: Problems) -> None:
    if any(part in {"", ".", ".."} for part in file.split("/")):
        problems.add_invalid(file, "a path within the repository, without ..")
    if not file.lower().endswith(GGUF):
        problems.add_invalid(file, f"a file that ends in {GGUF}, as engines open other models as a folder")
    if parse_part(file)[0] != 1:
        problems.add_invalid(file, "the first of its parts, " + PART.sub(r"-00001-of-\2.gguf", file))
    refuse_expansions(file, problems)
    if allow and not any(fnmatchcase(file, pattern) for pattern in allow):
        problems.add_invalid(file, "a file that matches allowPatterns")
    if any(fnmatchcase(file, pattern) for pattern in ignore):
        problems.add_invalid(file, "a file that does not match ignorePatterns")


def _parse_uri(block: schemas.Uri, secrets: _SecretRule, problems: Problems) -> UriSource:
    uri = block.uri
    at = problems["uri"]
    check_address(uri, at)
    if not at.list() and (parts := parse_part(find_single_file(UriSource(uri=uri)))[1]) > 1:
        at.add_invalid(uri, f"one file with its {parts} parts merged, as no other file is fetched")
    if uri.startswith("gs://") and block.secret_ref and block.secret_ref.key is None:
        problems["secretRef.key"].add_required("as the credentials for gs:// are one file")
    return UriSource(uri=uri, secret=_parse_secret(block.secret_ref, secrets, problems["secretRef"]))


def check_address(uri: str, at: Problems) -> None:
    """Adds a problem for an address that the storage-initializer cannot download, or that has a source of its own."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme in _OWN_SOURCE:
        at.add_invalid(uri, f"given as source {_OWN_SOURCE[scheme]}")
    elif scheme not in SCHEMES or not rest:
        close = find_nearest(scheme, SCHEMES)
        hint = f" (did you mean {close}://?)" if close and close != scheme else ""
        at.add_invalid(uri, f"{ADDRESS_FORM}{hint}")
    elif page := _REPOSITORY_PAGE.fullmatch(uri):
        at.add_invalid(uri, f"given as spec.huggingFace.repo: {page[1]}, as this is a web page")
    elif _FILE_PAGE.fullmatch(uri):
        at.add_invalid(uri, "written with /resolve/ in place of /blob/, as this is a web page")
    refuse_expansions(uri, at)


def _parse_secret(
    reference: schemas.SecretRef | schemas.UriSecretRef | schemas.ImagePullSecret | None,
    secrets: _SecretRule,
    problems: Problems,
) -> SecretKey | None:
    """Returns a Secret of the control plane; None if there is no reference."""
    if reference is None:
        return None
    namespace = reference.namespace or secrets.namespace
    if secrets.fixed and namespace != secrets.namespace:
        allowed = f"left out, as a Model's Secret is in its namespace {secrets.namespace}"
        problems["namespace"].add_invalid(namespace, allowed)
    key = KEY if isinstance(reference, schemas.ImagePullSecret) else reference.key or ""
    return SecretKey(name=reference.name, namespace=namespace, key=key)


def _parse_profiles(
    spec: schemas.ModelSpec, source: Source | None, secrets: _SecretRule, problems: Problems
) -> tuple[tuple[Profile, ...], tuple[BrokenEntry, ...]]:
    """Returns the valid profiles and the broken ones, each in the order in which they are declared."""
    profiles: list[Profile] = []
    broken: list[BrokenEntry] = []
    blocks = [(problems["serving"][index], block) for index, block in enumerate(spec.serving)]
    check_unique((at, block.name) for at, block in blocks)
    needs_topology = spec.resources.vram is None and not problems["resources.vram"].refused
    for at, block in blocks:
        profile = None if at.refused else _parse_profile(block, secrets, at, needs_topology=needs_topology)
        if profile and source:
            at.update(find_model_faults(profile.engine, source, spec.model.name, at["engine"].path))
        problems_of_profile = at.list()
        if profile and not problems_of_profile:
            profiles.append(profile)
        else:
            broken.append(BrokenEntry(name=block.name, problems=problems_of_profile))
    return tuple(profiles), tuple(broken)


def _parse_profile(
    block: schemas.Serving, secrets: _SecretRule, problems: Problems, *, needs_topology: bool
) -> Profile | None:
    """Returns a profile, which may have problems; None if its engine is unknown."""
    topology = block.replica_topology
    at = problems["replicaTopology"]
    selector = parse_selector(block.environment_selector, problems["environmentSelector"])
    requires = parse_requires(topology.requires if topology else None, at["requires"])
    shape = parse_shape(topology, at)
    if topology is None and needs_topology:
        at.add_required("unless spec.resources.vram is set")
    engine = _parse_engine(block.engine, secrets, problems["engine"])
    if engine is None:
        return None
    if block.lora:
        _check_adapter_flags(engine, problems["engine.args"])
    placement = topology.placement if topology else None
    return Profile(
        name=block.name,
        engine=engine,
        shape=_fit_shape(block, shape, engine, problems),
        selector=selector,
        requires=requires,
        pods_across_nodes=Spread(placement.pods_across_nodes) if placement and placement.pods_across_nodes else None,
        replicas_across_nodes=Spread(placement.replicas_across_nodes) if placement else Spread.NONE,
        routing=Routing(block.routing),
        lora=Lora(max_adapters=block.lora.max_adapters, max_rank=block.lora.max_rank) if block.lora else None,
        restart_limit=block.restart_limit,
    )


def _check_adapter_flags(engine: Engine, problems: Problems) -> None:
    """Adds a problem for each argument that lora of the profile and the adapters of deployments stand for."""
    for flag in parse_flags(engine.args):
        if flag.name in ENGINES[engine.name].adapter_flags.names:
            problems[flag.index].add_invalid(flag.text, "left out, as lora of the profile sets it")


def _parse_engine(block: schemas.Engine, secrets: _SecretRule, problems: Problems) -> Engine | None:
    """Returns the engine; None if its name is unknown."""
    refuse_templates(block, problems, problems["args"].path)
    check_env(block.env, problems["env"])
    requests = EngineResources()
    if resources := block.resources:
        at = problems["resources"]
        parse_amount(resources.shm, at["shm"])
        requests = EngineResources(
            cpu=parse_quantity(resources.cpu, at["cpu"]),
            memory=parse_quantity(resources.memory, at["memory"]),
            ephemeral_storage=parse_quantity(resources.ephemeral_storage, at["ephemeralStorage"]),
            shm=parse_quantity(resources.shm, at["shm"]),
        )
    pull_secrets = tuple(
        secret
        for index, reference in enumerate(block.image_pull_secrets or ())
        if (secret := _parse_secret(reference, secrets, problems["imagePullSecrets"][index]))
    )
    image = parse_image(block.image, problems["image"])
    if block.name not in set(EngineName):
        return None
    own_engine = find_stock_engine(image)
    if own_engine and own_engine != block.name:
        problems["image"].add_invalid(image, f"an image of {block.name}, as in engine.name, and not of {own_engine}")
    return Engine(
        name=EngineName(block.name),
        image=image,
        args=tuple(block.args or ()),
        env=dump_all(block.env),
        version=block.version or "",
        resources=requests,
        pull_secrets=pull_secrets,
    )


def parse_shape(topology: schemas.ReplicaTopology | schemas.Topology | None, problems: Problems) -> Shape | None:
    """Returns the declared shape; None if there is none, or if it has problems."""
    fields = ("nodes", "gpusPerNode", "parallelism")
    if topology is None or topology.gpus_per_node < 1 or any(problems[field].list() for field in fields):
        return None
    at = problems["parallelism"]
    nodes = topology.nodes
    gpus = topology.gpus_per_node
    block = topology.parallelism or schemas.Parallelism()
    parse_mode = _parse_pipeline_mode if block.data is None and block.data_local is None else _parse_data_mode
    parallelism = parse_mode(block, nodes, gpus, at)
    if parallelism is None or at.list():
        return None
    return Shape(nodes=nodes, gpus_per_node=gpus, parallelism=replace(parallelism, expert=block.expert == "enabled"))


def _parse_pipeline_mode(block: schemas.Parallelism, nodes: int, gpus: int, problems: Problems) -> Parallelism | None:
    splits = [Parallelism(tensor=gpus, pipeline=nodes), Parallelism(tensor=nodes * gpus, pipeline=1)]
    with_tensor = [split for split in splits if block.tensor in {None, split.tensor}]
    fitting = [split for split in with_tensor if block.pipeline in {None, split.pipeline}]
    if not with_tensor:
        over_all = f", or {nodes * gpus}, that of all nodes" if nodes > 1 else ""
        problems["tensor"].add_invalid(block.tensor, f"{gpus}, the gpusPerNode{over_all}")
    elif not fitting:
        stages = " or ".join(str(number) for number in sorted({split.pipeline for split in with_tensor}))
        problems["pipeline"].add_invalid(block.pipeline, f"{stages}, as tensor times pipeline is the number of GPUs")
    return fitting[0] if fitting else None


def _parse_data_mode(block: schemas.Parallelism, nodes: int, gpus: int, problems: Problems) -> Parallelism | None:
    data, local = block.data, block.data_local
    if data is None or local is None:
        problems["dataLocal" if local is None else "data"].add_required("as data and dataLocal go together")
        return None
    if block.pipeline is not None and block.pipeline > 1:
        problems["pipeline"].add_invalid(block.pipeline, "1 together with data")
    if data != local * nodes:
        problems["data"].add_invalid(data, f"{local * nodes}, dataLocal times nodes")
    if gpus % local:
        problems["dataLocal"].add_invalid(local, f"a divisor of {gpus}, the gpusPerNode")
    elif block.tensor not in {None, gpus // local}:
        problems["tensor"].add_invalid(block.tensor, f"{gpus // local}, gpusPerNode by dataLocal")
    return Parallelism(tensor=gpus // local, data=data, data_local=local)


def _fit_shape(block: schemas.Serving, shape: Shape | None, engine: Engine, problems: Problems) -> Shape | None:
    """Returns the shape as the engine runs it, and adds a problem for each argument that contradicts it."""
    args = problems["engine.args"].path
    at = problems["replicaTopology.parallelism"]
    parsed = parse_parallel_flags(engine.name, engine.args, args)
    if shape is None:
        problems.update(parsed.problems)
        return None
    problems.update(find_shape_faults(engine, shape, args))
    data = shape.parallelism.data
    if data is not None and shape.nodes > 1 and not ENGINES[engine.name].data_spans_nodes:
        at["data"].add_invalid(data, f"left out, as {engine.name} spans nodes by tensor or pipeline only")
    flag = parsed.values.get(EXPERT)
    if flag is None:
        return shape
    parallelism = block.replica_topology.parallelism if block.replica_topology else None
    declared = parallelism.expert if parallelism else None
    required = "enabled" if flag else "disabled"
    if declared and declared != required:
        at["expert"].add_invalid(declared, f"{required}, as in {args}")
    return replace(shape, parallelism=replace(shape.parallelism, expert=bool(flag)))
