"""Orders and models with everything filled in that is not under test."""

from dataclasses import replace

from function.domain.cache import CacheEntry, CreatedStorage, ModelCache
from function.domain.environment import Environment, EnvironmentStorage
from function.domain.model import (
    Engine,
    EngineName,
    HuggingFaceSource,
    Model,
    ModelRef,
    Parallelism,
    Profile,
    SecretKey,
    Shape,
    Source,
)
from function.domain.records.weights import DownloadRecord
from function.domain.settings import Download
from function.reasons import Phase
from function.weights.request import WeightsRequest

GIB = 2**30
KIMI = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct")
SECRET = SecretKey(name="hf-token", namespace="modelplane-system", key="HF_TOKEN")


def model(source: Source = KIMI, *, disk: int | None = None, vram: int | None = None) -> Model:
    engine = Engine(name=EngineName.VLLM, image="vllm/vllm-openai:v0.11.0")
    shape = Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=8, pipeline=2))
    return Model(
        kind="ClusterModel",
        name="kimi-k2-instruct",
        served_name="moonshotai/Kimi-K2-Instruct",
        source=source,
        profiles=(Profile(name="vllm", engine=engine, shape=shape),),
        disk=disk,
        vram=vram,
    )


MULTI = WeightsRequest(
    model=model(),
    choice=CreatedStorage(),
    environment=Environment(name="east", storage=EnvironmentStorage(class_name="shared-vast")),
    namespace="ml-team-research",
    owner="kimi-k2-coreweave-1a2b3c4d",
    shape_nodes=2,
    gpu_memory=16 * 141 * GIB,
)


def on_storage(storage: EnvironmentStorage) -> Environment:
    """Builds the environment of the requests with this storage."""
    return replace(MULTI.environment, storage=storage)


def with_download(request: WeightsRequest, download: Download) -> WeightsRequest:
    """Changes the platform's settings for downloads."""
    storage = replace(request.environment.storage, download=download)
    return replace(request, environment=replace(request.environment, storage=storage))


def named_cache(
    path: str,
    *,
    access_mode: str = "",
    phase: Phase = Phase.PENDING,
    namespace: str = "",
    model: str = "kimi-k2-instruct",
) -> ModelCache:
    """Builds a ModelCache that has reported this directory on the environment of the requests."""
    completed_at = "2026-01-01T00:00:00Z" if phase is Phase.READY else ""
    hydration = DownloadRecord(claim="c" if path else "", path=path, namespace=namespace, completed_at=completed_at)
    return ModelCache(
        namespace="ml-team",
        name="kimi",
        model=ModelRef(kind="ClusterModel", name=model),
        environments=("east",),
        entries=(CacheEntry(environment="east", phase=phase, access_mode=access_mode, download=hydration),),
    )


SINGLE = replace(MULTI, shape_nodes=1, gpu_memory=80 * GIB)
CACHE = replace(SINGLE, owner="kimi-weights-1a2b3c4d", gpu_memory=None, for_cache=True)
