"""Serving profiles: the static faults that make one unusable, wherever it might be placed.

A profile with faults is kept with all of them, so that the others still serve and what runs on it stays.
"""

from dataclasses import dataclass

from function.api.block import Block
from function.api.downloads import check_env
from function.api.hardware import read_requires
from function.api.selectors import read_selector
from function.api.sources import SecretRule, read_secret
from function.api.templates import refuse_templates
from function.api.topology import fit_engine, read_shape
from function.domain.engine_args import parallel_flags
from function.domain.engine_faults import model_faults, shape_faults
from function.domain.model import BrokenProfile, Engine, EngineName, EngineResources, Profile, Shape, Source, Spread
from function.domain.pull_secrets import KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What of a model its profiles must agree with; no source: unreadable; `sized`: VRAM maths can find a shape.

    `secrets`: where its Secrets may be.
    """

    name: str
    secrets: SecretRule
    source: Source | None
    sized: bool


def read_profiles(
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
    selector = read_selector(block.block("environmentSelector"))
    requires = read_requires(topology.block("requires"))
    engine = _engine(block.block("engine"), served.secrets)
    shape = _shape(block, engine, sized=served.sized)
    if engine and served.source:
        block.faults.update(model_faults(engine, served.source, served.name, block.at("engine")))
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
    pull_secrets = tuple(read_secret(item, secrets, KEY) for item in block.blocks("imagePullSecrets"))
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
    shape = read_shape(topology)
    if block.fields and not block.has("replicaTopology") and not sized:
        block.demand("replicaTopology", "unless spec.resources.vram is set")
    if engine is None:
        return shape
    if shape is None:
        block.faults.update(parallel_flags(engine.name, engine.args, args_path).problems)
        return None
    block.faults.update(shape_faults(engine, shape, args_path))
    return fit_engine(topology, shape, engine, args_path)
