"""Keyword builder for a service request in which everything that is not under test has a default."""

from dataclasses import replace

from function.domain.environment import Pool
from function.domain.model import Engine, EngineName, Parallelism, Shape, Source, Spread
from function.domain.settings import Initializer, Kserve
from function.kube.manifests import Manifest, listing, mapping
from function.kube.names import MANAGED_BY
from function.serving.digest import ServingRequest
from function.serving.service import build_service
from tests.support.builders import GIB, HUB, model, pool, profile, shape

NAME, NAMESPACE = "kimi-1a2b3c4d", "team"
VLLM_NEW, VLLM_OLD = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.8.0"
# The first version that finishes its requests before it stops, and the first that the data preset cannot start.
VLLM_DRAINS, VLLM_RANKS = "vllm/vllm-openai:v0.18.0", "vllm/vllm-openai:v0.28.0"
SGLANG = "lmsysorg/sglang:v0.5.4"
KSERVE = Kserve(namespace="kserve", config_prefix="kserve-", gateway=True)

ONE_GPU = shape(1, 1)
ONE_NODE = shape(1, 8)
PIPELINE = shape(2, 8, Parallelism(tensor=8, pipeline=2, expert=True))
TENSOR = shape(2, 8, Parallelism(tensor=16))
DATA = shape(2, 8, Parallelism(tensor=4, data=4, data_local=2, expert=True))
FRONTIER = replace(pool("frontier"), labels=(("modelplane.ai/pool", "frontier"),))


def engine(
    *args: str, image: str = VLLM_NEW, name: EngineName = EngineName.VLLM, env: tuple[Manifest, ...] = ()
) -> Engine:
    """Return an engine with these arguments; it is SGLang if the image is."""
    if image == SGLANG:
        name = EngineName.SGLANG
    return Engine(name=name, image=image, args=args, env=env)


def request(
    shape: Shape = ONE_GPU,
    run: Engine | None = None,
    *,
    source: Source = HUB,
    served_name: str = "org/kimi",
    pool: Pool = FRONTIER,
    pods: Spread | None = None,
    replicas_apart: Spread = Spread.NONE,
    replicas: int = 1,
    uri: str = "pvc://weights/models/0123",
    kserve: Kserve = KSERVE,
    initializer: Initializer | None = None,
    weights: int | None = 100 * GIB,
    bandwidth: int | None = None,
) -> ServingRequest:
    """Return a request for one replica on one GPU."""
    chosen = profile(shape=shape, engine=run or engine(), pods_across_nodes=pods, replicas_across_nodes=replicas_apart)
    return ServingRequest(
        name=NAME,
        namespace=NAMESPACE,
        labels=MANAGED_BY,
        model=model(chosen, source=source, served_name=served_name),
        profile=chosen,
        shape=shape,
        pool=pool,
        replicas=replicas,
        uri=uri,
        kserve=kserve,
        initializer=initializer,
        weights_bytes=weights,
        read_bandwidth=bandwidth,
    )


def build_pods(asked: ServingRequest) -> list[Manifest]:
    """Returns the pods of a service: the leader's, and the worker's if there is one."""
    service = build_service(asked)
    spec = mapping(service, "spec")
    return [mapping(spec, part) for part in ("template", "worker") if part in spec]


def get_main(pod: Manifest) -> Manifest:
    """Returns the engine's container."""
    (container,) = listing(pod, "containers")
    return container
