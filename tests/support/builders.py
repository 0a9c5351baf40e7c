"""Keyword builders for domain objects: each fills in everything that is not under test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from function.domain.allocation import Free, Grant, Share
from function.domain.cache import CreatedStorage, ModelCache, StorageChoice
from function.domain.environment import Environment, EnvironmentStorage, Pool
from function.domain.model import (
    BandwidthRequirement,
    BrokenEntry,
    Engine,
    EngineName,
    HuggingFaceSource,
    Model,
    ModelRef,
    Parallelism,
    Problem,
    Profile,
    Requires,
    Shape,
    Source,
    Spread,
)
from function.domain.placement import Deployment, Placement, Preference
from function.domain.records.service import ServiceRecord
from function.kube.quantity import round_up
from function.kube.selectors import Operator, Selector, SelectorRequirement, Taint, Toleration
from function.reasons import Phase
from function.scheduling.filters import Candidate
from function.scheduling.verdicts import SchedulingRequest
from function.weights.faults import StorageFault
from function.weights.request import WeightsRequest

GIB = 2**30
NAMESPACE = "team"
ANYWHERE = Selector()
NOTHING = Requires()
VLLM = Engine(name=EngineName.VLLM, image="engine:1")
HUB = HuggingFaceSource(repo="org/kimi")
MODEL = ModelRef(kind="ClusterModel", name="kimi")
NO_CACHE = CreatedStorage()
ONE_NODE = Shape(nodes=1, gpus_per_node=8, parallelism=Parallelism(tensor=8))


def selector(**labels: str) -> Selector:
    """Return a selector on equal labels."""
    return Selector(
        tuple(
            SelectorRequirement(key=key, operator=Operator.IN, values=(value,)) for key, value in sorted(labels.items())
        )
    )


def shape(nodes: int = 1, gpus: int = 8, parallelism: Parallelism | None = None) -> Shape:
    """Return a shape in pipeline mode, unless a parallelism is given."""
    split = parallelism or Parallelism(tensor=gpus, pipeline=nodes)
    return Shape(nodes=nodes, gpus_per_node=gpus, parallelism=split)


def requires(
    *,
    memory: str | None = None,
    interconnect: str | None = None,
    bandwidth: str | None = None,
    precision: tuple[str, ...] = (),
    nvlink_domain: int | None = None,
    accelerator_type: str | None = None,
) -> Requires:
    """Return requirements as a manifest spells them: `memory="80Gi"`, `bandwidth="ib-400g-or-better"`."""
    rung = (bandwidth or "").removesuffix("-or-better")
    return Requires(
        memory_per_gpu=None if memory is None else round_up(memory),
        interconnect=interconnect,
        bandwidth=BandwidthRequirement(rung=rung, or_better=rung != bandwidth) if bandwidth else None,
        precision=precision,
        nvlink_domain=nvlink_domain,
        accelerator_type=accelerator_type,
    )


def engine(name: EngineName = EngineName.VLLM, *args: str, image: str = "engine:1") -> Engine:
    """Return an engine with these arguments."""
    return Engine(name=name, image=image, args=args)


def profile(
    name: str = "default",
    shape: Shape | None = None,
    *,
    engine: Engine = VLLM,
    selector: Selector = ANYWHERE,
    requires: Requires = NOTHING,
    pods_across_nodes: Spread | None = None,
    replicas_across_nodes: Spread = Spread.NONE,
) -> Profile:
    """Return a serving profile; without a shape, the VRAM of the model decides the shape."""
    return Profile(
        name=name,
        engine=engine,
        shape=shape,
        selector=selector,
        requires=requires,
        pods_across_nodes=pods_across_nodes,
        replicas_across_nodes=replicas_across_nodes,
    )


def broken_profile(name: str = "broken") -> BrokenEntry:
    """Return a declared profile with a static fault."""
    return BrokenEntry(name=name, problems=(Problem("spec.serving[0]", "cannot be read"),))


def model(
    *profiles: Profile,
    name: str = "kimi",
    kind: str = "ClusterModel",
    served_name: str = "org/kimi",
    source: Source = HUB,
    broken: tuple[BrokenEntry, ...] = (),
    vram: str | None = None,
    disk: str | None = None,
    selector: Selector = ANYWHERE,
) -> Model:
    """Return a model; without profiles it has one of a single node with 8 GPUs."""
    return Model(
        kind=kind,
        name=name,
        served_name=served_name,
        source=source,
        profiles=profiles or (profile(shape=shape()),),
        broken=broken,
        vram=None if vram is None else round_up(vram),
        disk=None if disk is None else round_up(disk),
        selector=selector,
    )


def pool(
    name: str = "pool",
    *,
    gpus: int = 8,
    nodes: int = 4,
    memory: str | None = "80Gi",
    multi_node: bool = True,
    interconnect: str | None = "nvlink",
    bandwidth: str | None = "ib-400g",
    precision: tuple[str, ...] | None = ("bf16", "fp16", "fp8"),
    nvlink_domain: int | None = 8,
    accelerator_type: str = "nvidia-h100-80gb",
) -> Pool:
    """Return a pool with every capability."""
    return Pool(
        name=name,
        gpus_per_node=gpus,
        max_nodes=nodes,
        accelerator_type=accelerator_type,
        memory_per_gpu=None if memory is None else round_up(memory),
        interconnect=interconnect,
        precision=precision,
        multi_node=multi_node,
        bandwidth=bandwidth,
        nvlink_domain=nvlink_domain,
    )


def environment(
    name: str = "env",
    *pools: Pool,
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    broken_pools: tuple[str, ...] = (),
    broken: bool = False,
    storage_class: str | None = "shared",
    access_mode: str = "ReadWriteMany",
    storage: EnvironmentStorage | None = None,
    ready: bool = True,
    ready_message: str = "",
    deleting: bool = False,
    uid: str = "",
    free: Mapping[str, Free] | None = None,
    admitted: tuple[Grant, ...] = (),
    rejected: tuple[tuple[str, str], ...] = (),
) -> Environment:
    """Return a Ready environment with shared storage; its pools are those given, none without.

    Without a uid it stands in a file, and what is free there follows from the placements.
    """
    return Environment(
        name=name,
        uid=uid,
        labels=tuple(sorted((labels or {}).items())),
        taints=taints,
        pools=pools,
        broken_pools=broken_pools,
        broken=broken,
        storage=storage or EnvironmentStorage(class_name=storage_class, access_mode=access_mode),
        provider_config=name,
        ready=ready,
        ready_message=ready_message,
        deleting=deleting,
        free=free or {},
        admitted=admitted,
        rejected=frozenset(rejected),
    )


def deployment(
    name: str = "chat",
    *,
    namespace: str = NAMESPACE,
    model: ModelRef = MODEL,
    environments: int = 1,
    replicas: int = 1,
    selector: Selector = ANYWHERE,
    tolerations: tuple[Toleration, ...] = (),
    cache: StorageChoice = NO_CACHE,
    prefer: Preference = Preference.DECLARED,
) -> Deployment:
    """Return a deployment of one replica on one environment."""
    return Deployment(
        namespace=namespace,
        name=name,
        model=model,
        environments=environments,
        replicas=replicas,
        selector=selector,
        tolerations=tolerations,
        storage_choice=cache,
        prefer=prefer,
    )


def placement(
    environment: str = "env",
    pool: str = "pool",
    *,
    deployment: str = "chat",
    namespace: str = NAMESPACE,
    name: str | None = None,
    model: ModelRef = MODEL,
    profile: str = "default",
    shape: Shape | None = ONE_NODE,
    replicas: int = 1,
    cache: StorageChoice = NO_CACHE,
    uid: str = "",
    created: str = "2026-01-01T00:00:00Z",
    vram: str | None = None,
    has_served: bool = False,
    ready: bool = False,
    unreachable: bool = False,
    deleting: bool = False,
    phase: Phase = Phase.PENDING,
    url: str = "",
) -> Placement:
    """Return a placement of one replica of 1 x 8 GPUs that never served."""
    return Placement(
        namespace=namespace,
        name=name or f"{deployment}-{environment}",
        deployment=deployment,
        model=model,
        environment=environment,
        profile=profile,
        pool=pool,
        shape=shape,
        replicas=replicas,
        storage_choice=cache,
        uid=uid,
        created=created,
        vram=None if vram is None else round_up(vram),
        has_served=has_served,
        ready=ready,
        unreachable=unreachable,
        deleting=deleting,
        phase=phase,
        service=ServiceRecord(url=url),
    )


def with_service(placement: Placement, **fields: Any) -> Placement:  # fields of a ServiceRecord
    """Return a placement with these fields in the record of its service."""
    return replace(placement, service=replace(placement.service, **fields))


def share(nodes: int, gpus: int, replicas: int, *, exclusive: bool = False) -> Share:
    """Return replicas of one size."""
    return Share(pool="pool", nodes=nodes, gpus_per_node=gpus, replicas=replicas, exclusive_replica_nodes=exclusive)


def candidate(pool: Pool, shape: Shape, replicas: int) -> Candidate:
    """Return a profile of this shape on a pool of the environment `env`."""
    needed = profile(shape=shape)
    request = SchedulingRequest(deployment=deployment(replicas=replicas), model=model(needed))
    return Candidate(request, environment("env", pool), needed, pool, shape)


def planner(model: Model, choice: StorageChoice = NO_CACHE, *, cache: ModelCache | None = None) -> WeightsRequest:
    """Return the planner's request for the weights of a deployment."""
    return WeightsRequest(model=model, choice=choice, named_cache=cache, namespace=NAMESPACE, owner="chat")


@dataclass(frozen=True, kw_only=True)
class FaultyRequest(SchedulingRequest):
    """Return a request whose weights have the same faults on every pool."""

    faults: tuple[StorageFault, ...]

    def find_storage_faults(self, *_: object) -> tuple[StorageFault, ...]:
        """Return the faults."""
        return self.faults
