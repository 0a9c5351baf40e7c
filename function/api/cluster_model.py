"""Parses ClusterModel and Model, which share one schema.

A problem outside the profiles (source, resources, selector) leaves no model to serve: only the problems are returned.
A profile with problems is listed in `broken`, and the other profiles still serve.

Hugging Face repositories are exactly `owner/name` and revisions have no slash or colon, because KServe's initializer
gets both in one address. An address whose scheme has a source of its own must use that source.
"""

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from function import schemas
from function.api.common import parse_selector, parse_shape
from function.api.node_pool import parse_requires
from function.api.problems import ADDRESS_FORM, SCHEMES, Parsed, Problems, find_nearest, validate
from function.api.values import (
    check_env,
    check_unique_names,
    choose_block,
    dump_all,
    parse_amount,
    parse_image,
    parse_quantity,
    refuse_expansions,
    refuse_templates,
)
from function.domain.engines import ENGINES, EXPERT, find_model_faults, find_shape_faults, parse_parallel_flags
from function.domain.model import (
    CPU,
    MEMORY,
    PART,
    BrokenEntry,
    Engine,
    EngineName,
    EngineResources,
    HuggingFaceSource,
    Model,
    OciSource,
    Profile,
    PvcSource,
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
from function.kube.manifests import Manifest, text

CLUSTER_MODEL = "ClusterModel"
_OWN_SOURCE = {"hf": "HuggingFace", "oci": "OCI", "pvc": "PVC"}
_REPOSITORY_PAGE = re.compile(r"https?://(?:www\.)?huggingface\.co/([^/]+/[^/?#]+)(?:[?#].*|/|/tree/.*)?")
_SecretReference: TypeAlias = schemas.SecretRef | schemas.UriSecretRef | schemas.ImagePullSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class _SecretRule:
    """Where the Secrets of a model may be."""

    namespace: str  # of Secrets without a namespace
    fixed: bool  # a Model may only use Secrets of its own namespace


def parse_model(manifest: Manifest, settings: Settings = BUILT_IN) -> Parsed[Model | None]:
    """Returns the model; None if problems outside its profiles leave nothing to serve.

    A Secret without a namespace is in the platform's secret namespace, and for a Model in the namespace of the Model.
    """
    kind, namespace = text(manifest, "kind"), text(manifest, "metadata.namespace")
    spec, problems = validate(schemas.ModelSpec, manifest.get("spec"), "spec")
    shared = kind == CLUSTER_MODEL
    secrets = _SecretRule(namespace=settings.secret_namespace if shared else namespace, fixed=not shared)
    source = _parse_source(spec, secrets, problems)
    profiles, broken = _parse_profiles(spec, source, secrets, problems)
    vram = parse_amount(spec.resources.vram, "spec.resources.vram", problems)
    disk = parse_amount(spec.resources.disk, "spec.resources.disk", problems)
    cpu = parse_quantity(spec.resources.cpu, "spec.resources.cpu", problems, CPU)
    memory = parse_quantity(spec.resources.memory, "spec.resources.memory", problems, MEMORY)
    selector = parse_selector(spec.environment_selector, "spec.environmentSelector", problems)
    all_problems = problems.find_within("spec")
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
    )
    return Parsed(model, all_problems)


def _parse_source(spec: schemas.ModelSpec, secrets: _SecretRule, problems: Problems) -> Source | None:
    """Returns the source; None if `source` or its block cannot be read."""
    if problems.refuses("spec.source"):
        return None
    blocks = {
        "HuggingFace": ("spec.huggingFace", spec.hugging_face),
        "OCI": ("spec.oci", spec.oci),
        "URI": ("spec.uri", spec.uri),
        "PVC": ("spec.pvc", spec.pvc),
    }
    path, block = choose_block(spec.source, blocks, problems)
    refuse_templates(block, path, problems)
    match block:
        case schemas.HuggingFace():
            return _parse_hugging_face(block, path, secrets, problems)
        case schemas.Oci():
            refuse_expansions(block.image, f"{path}.image", problems)
            return OciSource(image=parse_image(block.image, f"{path}.image", problems))
        case schemas.Uri():
            return _parse_uri(block, path, secrets, problems)
        case schemas.Pvc():
            claim_path = block.path or ""
            if ".." in claim_path.split("/"):
                problems.add_invalid(f"{path}.path", claim_path, "a directory within the claim, without ..")
            refuse_expansions(claim_path, f"{path}.path", problems)
            return PvcSource(claim=block.claim_name, path=claim_path)
        case _:
            return None


def _parse_hugging_face(
    block: schemas.HuggingFace, path: str, secrets: _SecretRule, problems: Problems
) -> HuggingFaceSource:
    file, allow, ignore = block.file or "", tuple(block.allow_patterns or ()), tuple(block.ignore_patterns or ())
    if file:
        _check_file(file, allow, ignore, f"{path}.file", problems)
    all_parts = (PART.sub(r"-*-of-\2.gguf", file),) if file else ()
    return HuggingFaceSource(
        repo=block.repo,
        revision=block.revision,
        secret=_parse_secret(block.secret_ref, f"{path}.secretRef", secrets, problems),
        allow=allow or all_parts,
        ignore=ignore,
        file=file,
    )


def _check_file(file: str, allow: tuple[str, ...], ignore: tuple[str, ...], path: str, problems: Problems) -> None:
    if any(part in {"", ".", ".."} for part in file.split("/")):
        problems.add_invalid(path, file, "a path within the repository, without ..")
    if parse_part(file)[0] != 1:
        problems.add_invalid(path, file, "the first of its parts, " + PART.sub(r"-00001-of-\2.gguf", file))
    refuse_expansions(file, path, problems)
    if allow and not any(fnmatchcase(file, pattern) for pattern in allow):
        problems.add_invalid(path, file, "a file that matches allowPatterns")
    if any(fnmatchcase(file, pattern) for pattern in ignore):
        problems.add_invalid(path, file, "a file that does not match ignorePatterns")


def _parse_uri(block: schemas.Uri, path: str, secrets: _SecretRule, problems: Problems) -> UriSource:
    uri, at = block.uri, f"{path}.uri"
    scheme, separator, rest = uri.partition("://")
    if separator and scheme in _OWN_SOURCE:
        problems.add_invalid(at, uri, f"given as source {_OWN_SOURCE[scheme]}")
    elif scheme not in SCHEMES or not rest:
        close = find_nearest(scheme, SCHEMES)
        hint = f" (did you mean {close}://?)" if close and close != scheme else ""
        problems.add_invalid(at, uri, f"{ADDRESS_FORM}{hint}")
    elif page := _REPOSITORY_PAGE.fullmatch(uri):
        problems.add_invalid(at, uri, f"given as spec.huggingFace.repo: {page[1]}, as this is a web page")
    elif (parts := parse_part(find_single_file(UriSource(uri=uri)))[1]) > 1:
        problems.add_invalid(at, uri, f"one file with its {parts} parts merged, as no other file is fetched")
    refuse_expansions(uri, at, problems)
    if scheme == "gs" and block.secret_ref and block.secret_ref.key is None:
        problems.add_required(f"{path}.secretRef.key", "as the credentials for gs:// are one file")
    return UriSource(uri=uri, secret=_parse_secret(block.secret_ref, f"{path}.secretRef", secrets, problems))


def _parse_secret(
    reference: _SecretReference | None, path: str, secrets: _SecretRule, problems: Problems
) -> SecretKey | None:
    """Returns a Secret of the control plane; None if there is no reference."""
    if reference is None:
        return None
    namespace = reference.namespace or secrets.namespace
    if secrets.fixed and namespace != secrets.namespace:
        allowed = f"left out, as a Model's Secret is in its namespace {secrets.namespace}"
        problems.add_invalid(f"{path}.namespace", namespace, allowed)
    key = KEY if isinstance(reference, schemas.ImagePullSecret) else reference.key or ""
    return SecretKey(name=reference.name, namespace=namespace, key=key)


def _parse_profiles(
    spec: schemas.ModelSpec, source: Source | None, secrets: _SecretRule, problems: Problems
) -> tuple[tuple[Profile, ...], tuple[BrokenEntry, ...]]:
    """Returns the valid profiles and the broken ones, each in the order in which they are declared."""
    profiles: list[Profile] = []
    broken: list[BrokenEntry] = []
    blocks = [(f"spec.serving[{index}]", block) for index, block in enumerate(spec.serving)]
    check_unique_names(((path, block.name) for path, block in blocks), problems)
    for path, block in blocks:
        profile = None if problems.refuses(path) else _parse_profile(block, path, spec, secrets, problems)
        if profile and source:
            problems.update(find_model_faults(profile.engine, source, spec.model.name, f"{path}.engine"))
        problems_of_profile = problems.find_within(path)
        if profile and not problems_of_profile:
            profiles.append(profile)
        else:
            broken.append(BrokenEntry(name=block.name, problems=problems_of_profile))
    return tuple(profiles), tuple(broken)


def _parse_profile(
    block: schemas.Serving, path: str, spec: schemas.ModelSpec, secrets: _SecretRule, problems: Problems
) -> Profile | None:
    """Returns a profile, which may have problems; None if its engine is unknown."""
    topology, topology_path = block.replica_topology, f"{path}.replicaTopology"
    selector = parse_selector(block.environment_selector, f"{path}.environmentSelector", problems)
    requires = parse_requires(topology.requires if topology else None, f"{topology_path}.requires", problems)
    shape = parse_shape(topology, topology_path, problems)
    if topology is None and spec.resources.vram is None and not problems.refuses("spec.resources.vram"):
        problems.add_required(topology_path, "unless spec.resources.vram is set")
    engine = _parse_engine(block.engine, f"{path}.engine", secrets, problems)
    if engine is None:
        return None
    placement = topology.placement if topology else None
    return Profile(
        name=block.name,
        engine=engine,
        shape=_fit_shape(block, shape, engine, path, problems),
        selector=selector,
        requires=requires,
        pods_across_nodes=Spread(placement.pods_across_nodes) if placement and placement.pods_across_nodes else None,
        replicas_across_nodes=Spread(placement.replicas_across_nodes) if placement else Spread.NONE,
    )


def _parse_engine(block: schemas.Engine, path: str, secrets: _SecretRule, problems: Problems) -> Engine | None:
    """Returns the engine; None if its name is unknown."""
    refuse_templates(block, path, problems)
    check_env(block.env, f"{path}.env", problems)
    resources, at = block.resources or schemas.EngineResources(), f"{path}.resources"
    parse_amount(resources.shm, f"{at}.shm", problems)
    requests = EngineResources(
        cpu=parse_quantity(resources.cpu, f"{at}.cpu", problems),
        memory=parse_quantity(resources.memory, f"{at}.memory", problems),
        ephemeral_storage=parse_quantity(resources.ephemeral_storage, f"{at}.ephemeralStorage", problems),
        shm=parse_quantity(resources.shm, f"{at}.shm", problems),
    )
    pull_secrets = tuple(
        secret
        for index, reference in enumerate(block.image_pull_secrets or ())
        if (secret := _parse_secret(reference, f"{path}.imagePullSecrets[{index}]", secrets, problems))
    )
    image = parse_image(block.image, f"{path}.image", problems)
    if block.name not in set(EngineName):
        return None
    return Engine(
        name=EngineName(block.name),
        image=image,
        args=tuple(block.args or ()),
        env=dump_all(block.env),
        version=block.version or "",
        resources=requests,
        pull_secrets=pull_secrets,
    )


def _fit_shape(
    block: schemas.Serving, shape: Shape | None, engine: Engine, path: str, problems: Problems
) -> Shape | None:
    """Returns the shape as the engine runs it, and adds what in the arguments contradicts it."""
    args_path, parallelism_path = f"{path}.engine.args", f"{path}.replicaTopology.parallelism"
    parsed = parse_parallel_flags(engine.name, engine.args, args_path)
    if shape is None:
        problems.update(parsed.problems)
        return None
    problems.update(find_shape_faults(engine, shape, args_path))
    data = shape.parallelism.data
    if data is not None and shape.nodes > 1 and not ENGINES[engine.name].data_spans_nodes:
        allowed = f"left out, as {engine.name} spans nodes by tensor or pipeline only"
        problems.add_invalid(f"{parallelism_path}.data", data, allowed)
    flag = parsed.values.get(EXPERT)
    if flag is None:
        return shape
    parallelism = block.replica_topology.parallelism if block.replica_topology else None
    declared, required = parallelism.expert if parallelism else None, "enabled" if flag else "disabled"
    if declared and declared != required:
        problems.add_invalid(f"{parallelism_path}.expert", declared, f"{required}, as in {args_path}")
    return replace(shape, parallelism=replace(shape.parallelism, expert=bool(flag)))
