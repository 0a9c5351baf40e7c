"""Parses ClusterModel and Model, which share one schema.

A problem outside the profiles (source, resources, selector) leaves no model to serve: only the problems are returned.
A profile with problems is listed in `broken`, and the other profiles still serve.

Hugging Face repositories are exactly `owner/name` and revisions have no slash or colon, because KServe's initializer
gets both in one address. An address whose scheme has a source of its own must use that source.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from function.api.block import Block, check_env, refuse_expansions, refuse_templates
from function.api.common import fit_engine, parse_selector, parse_shape
from function.api.node_pool import parse_requires
from function.api.problems import Parsed, find_nearest
from function.domain.engine_args import find_model_faults, find_shape_faults, parse_parallel_flags
from function.domain.model import (
    CPU,
    MEMORY,
    PART,
    BrokenProfile,
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
from function.schemas import ModelSpec

CLUSTER_MODEL = "ClusterModel"
SCHEMES = ("s3", "gs", "https", "http", "hdfs", "webhdfs")
_OWN_SOURCE = {"hf": "HuggingFace", "oci": "OCI", "pvc": "PVC"}
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """Where a model's Secret may be: a Model's in its own namespace only."""

    namespace: str
    fixed: bool


def parse_source(spec: Block, rule: SecretRule) -> Source | None:
    """Return the source; its faults, and those of blocks that do not belong to it, are noted."""
    if spec.problems("source"):
        return None
    wanted = next(name for name in _MODEL_SOURCES if name.lower() == spec.text("source", "HuggingFace").lower())
    for name, (field, _) in _MODEL_SOURCES.items():
        if name != wanted and spec.has(field):
            spec.deny(field, f"left out, as source is {wanted}")
        elif name == wanted and not spec.has(field):
            spec.demand(field, f"as source is {wanted}")
    field, read = _MODEL_SOURCES[wanted]
    refuse_templates(spec.block(field))
    return read(spec.block(field), rule)


def _hugging_face(block: Block, rule: SecretRule) -> Source:
    repo = block.fields.get("repo")
    if isinstance(repo, str) and not _REPO.fullmatch(repo):
        block.deny("repo", "owner/name")
    file, allow, ignore = block.text("file"), block.texts("allowPatterns"), block.texts("ignorePatterns")
    if file:
        _check_file(block, file, allow, ignore)
    return HuggingFaceSource(
        repo=block.text("repo"),
        revision=block.text("revision", "main"),
        secret=_secret(block, rule, "HF_TOKEN"),
        allow=allow or _weight_parts(file),
        ignore=ignore,
        file=file,
    )


def _check_file(block: Block, file: str, allow: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    if any(part in {"", ".", ".."} for part in file.split("/")):
        block.deny("file", "a path within the repository, without ..")
    if parse_part(file)[0] != 1:
        block.deny("file", "the first of its parts, " + PART.sub(r"-00001-of-\2.gguf", file))
    refuse_expansions(block, "file")
    if allow and not any(fnmatchcase(file, pattern) for pattern in allow):
        block.deny("file", "among the files that allowPatterns lets through")
    if any(fnmatchcase(file, pattern) for pattern in ignore):
        block.deny("file", "none of the files that ignorePatterns leaves out")


def _weight_parts(file: str) -> tuple[str, ...]:
    """Return the pattern of a file that is all there is to fetch, with the other parts where it is one of several."""
    return (PART.sub(r"-*-of-\2.gguf", file),) if file else ()


def _oci(block: Block, _: SecretRule) -> Source:
    refuse_expansions(block, "image")
    return OciSource(image=block.image("image"))


def _uri(block: Block, rule: SecretRule) -> Source:
    uri = block.fields.get("uri")
    if isinstance(uri, str):
        _check_uri(block, uri)
        refuse_expansions(block, "uri")
        secret = block.block("secretRef")
        if uri.startswith("gs://") and secret.fields and not secret.has("key"):
            secret.demand("key", "as a gs:// address wants credentials as one file")
    return UriSource(uri=block.text("uri"), secret=_secret(block, rule, ""))


def _check_uri(block: Block, uri: str) -> None:
    scheme, separator, rest = uri.partition("://")
    close = find_nearest(scheme, SCHEMES)
    if separator and scheme in _OWN_SOURCE:
        block.deny("uri", f"given as source {_OWN_SOURCE[scheme]}")
    elif scheme not in SCHEMES or not rest:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        hint = f" (did you mean {close}://?)" if close and close != scheme else ""
        block.deny("uri", f"an address of {known}{hint}")
    elif (parts := parse_part(find_single_file(UriSource(uri=uri)))[1]) > 1:
        block.deny("uri", f"one file with its {parts} parts merged, as no other file is fetched")


def _pvc(block: Block, _: SecretRule) -> Source:
    path = block.text("path")
    if ".." in path.split("/"):
        block.deny("path", "a directory within the claim, without ..")
    refuse_expansions(block, "path")
    return PvcSource(claim=block.text("claimName"), path=path)


def _secret(block: Block, rule: SecretRule, key: str) -> SecretKey | None:
    return parse_secret(block.block("secretRef"), rule, key) if block.has("secretRef") else None


def parse_secret(reference: Block, rule: SecretRule, key: str) -> SecretKey:
    """Return a Secret of the control plane that a model names; `key` where it says none."""
    namespace = reference.text("namespace", rule.namespace)
    if rule.fixed and namespace != rule.namespace:
        reference.deny("namespace", f"left out, as a Model's Secret is in its namespace {rule.namespace}")
    return SecretKey(name=reference.text("name"), namespace=namespace, key=reference.text("key", key))


_MODEL_SOURCES: Mapping[str, tuple[str, Callable[[Block, SecretRule], Source]]] = {
    "HuggingFace": ("huggingFace", _hugging_face),
    "OCI": ("oci", _oci),
    "URI": ("uri", _uri),
    "PVC": ("pvc", _pvc),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What of a model its profiles must agree with; no source: unreadable; `sized`: VRAM maths can find a shape.

    `secrets`: where its Secrets may be.
    """

    name: str
    secrets: SecretRule
    source: Source | None
    sized: bool


def parse_profiles(
    spec: Block, source: Source | None, secrets: SecretRule
) -> tuple[tuple[Profile, ...], tuple[BrokenProfile, ...]]:
    """Return the valid profiles and the broken ones, each in the order in which they are declared."""
    served = Served(
        name=spec.block("model").text("name"),
        secrets=secrets,
        source=source,
        sized=spec.block("resources").has("vram"),
    )
    profiles: list[Profile] = []
    broken: list[BrokenProfile] = []
    seen: dict[str, str] = {}
    for block in spec.blocks("serving"):
        name = block.text("name")
        if name and seen.setdefault(name, block.path) != block.path:
            block.deny("name", f"unique, and {seen[name]} has it already")
        profile = _profile(block, served)
        if isinstance(profile, Profile):
            profiles.append(profile)
        else:
            broken.append(profile)
    return tuple(profiles), tuple(broken)


def _profile(block: Block, served: Served) -> Profile | BrokenProfile:
    topology = block.block("replicaTopology")
    selector = parse_selector(block.block("environmentSelector"))
    requires = parse_requires(topology.block("requires"))
    engine = _engine(block.block("engine"), served.secrets)
    shape = _shape(block, engine, sized=served.sized)
    if engine and served.source:
        block.faults.update(find_model_faults(engine, served.source, served.name, block.at("engine")))
    problems = block.problems()
    if problems or engine is None:
        return BrokenProfile(name=block.text("name"), problems=problems)
    placement = topology.block("placement")
    pods = placement.text("podsAcrossNodes")
    return Profile(
        name=block.text("name"),
        engine=engine,
        shape=shape,
        selector=selector,
        requires=requires,
        pods_across_nodes=Spread(pods) if pods else None,
        replicas_across_nodes=Spread(placement.text("replicasAcrossNodes", Spread.NONE)),
    )


def _engine(block: Block, secrets: SecretRule) -> Engine | None:
    refuse_templates(block)
    check_env(block)
    resources = _resources(block.block("resources"))
    pull_secrets = tuple(parse_secret(item, secrets, KEY) for item in block.blocks("imagePullSecrets"))
    name, image = block.text("name"), block.image("image")
    if name not in tuple(EngineName):
        return None
    return Engine(
        name=EngineName(name),
        image=image,
        args=block.texts("args"),
        env=block.maps("env"),
        version=block.text("version"),
        resources=resources,
        pull_secrets=pull_secrets,
    )


def _resources(block: Block) -> EngineResources:
    block.amount("shm")
    return EngineResources(
        cpu=block.quantity("cpu", ""),
        memory=block.quantity("memory", ""),
        ephemeral_storage=block.quantity("ephemeralStorage", ""),
        shm=block.quantity("shm", ""),
    )


def _shape(block: Block, engine: Engine | None, *, sized: bool) -> Shape | None:
    """Return the declared shape; None where there is none, and the GPU memory of a pool shall decide it."""
    topology, args_path = block.block("replicaTopology"), block.at("engine.args")
    shape = parse_shape(topology)
    if block.fields and not block.has("replicaTopology") and not sized:
        block.demand("replicaTopology", "unless spec.resources.vram is set")
    if engine is None:
        return shape
    if shape is None:
        block.faults.update(parse_parallel_flags(engine.name, engine.args, args_path).problems)
        return None
    block.faults.update(find_shape_faults(engine, shape, args_path))
    return fit_engine(topology, shape, engine, args_path)


def parse_model(manifest: Manifest, settings: Settings = BUILT_IN) -> Parsed[Model | None]:
    """Return the model; None where faults outside its profiles leave nothing to serve.

    A Secret of a ClusterModel that names no namespace is in the platform's, a Model's is in the Model's own.
    """
    kind, namespace = text(manifest, "kind"), text(manifest, "metadata.namespace")
    spec = Block.checked(ModelSpec, manifest.get("spec"), "spec")
    shared = kind == CLUSTER_MODEL
    home = settings.secret_namespace if shared else namespace
    rule = SecretRule(namespace=home, fixed=not shared)
    source = parse_source(spec, rule)
    profiles, broken = parse_profiles(spec, source, rule)
    resources = spec.block("resources")
    vram, disk = resources.amount("vram"), resources.amount("disk")
    cpu, memory = resources.quantity("cpu", CPU), resources.quantity("memory", MEMORY)
    selector = parse_selector(spec.block("environmentSelector"))
    problems = spec.problems()
    if source is None or {p for b in broken for p in b.problems} != set(problems):
        return Parsed(None, problems)
    model = Model(
        kind=kind,
        name=text(manifest, "metadata.name"),
        namespace=namespace,
        served_name=spec.block("model").text("name"),
        source=source,
        profiles=profiles,
        broken=broken,
        vram=vram,
        disk=disk,
        cpu=cpu,
        memory=memory,
        selector=selector,
    )
    return Parsed(model, problems)
