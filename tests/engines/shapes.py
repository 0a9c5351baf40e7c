"""The matrix: every way in which a replica is spread over pods, each on the versions that this function allows."""

from dataclasses import dataclass, replace

from function.domain.model import Engine, EngineName, HuggingFaceSource, Parallelism, Shape
from function.kube.manifests import Manifest
from function.serving.digest import ServingRequest
from function.serving.service import build_service, find_service_problems
from tests.support.builders import HUB, shape
from tests.support.serving_requests import KSERVE, request
from tools.engines import Release

FILE = "Q4/kimi.gguf"
GGUF = HuggingFaceSource(repo="org/kimi", file=FILE)
NAMES = ("org/kimi", "publishers/team/models/org/kimi")
IMAGES = {EngineName.VLLM: "vllm/vllm-openai", EngineName.SGLANG: "lmsysorg/sglang"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One replica."""

    id: str
    shape: Shape
    args: tuple[str, ...] = ()  # of vLLM, on which alone the case then is asked
    gguf: bool = False
    tls: bool = False
    dense: bool = False  # the model has no experts

    def ask(self, name: EngineName, version: str) -> ServingRequest:
        """Returns the request for this replica."""
        engine = Engine(name=name, image=f"{IMAGES[name]}:v{version}", args=self.args)
        kserve = replace(KSERVE, tls=self.tls)
        return request(self.shape, engine, source=GGUF if self.gguf else HUB, kserve=kserve)


def build(case: Case, name: EngineName, version: str) -> Manifest | None:
    """Returns the service of a case; None where this function refuses it."""
    if case.args and name is not EngineName.VLLM:
        return None
    asked = case.ask(name, version)
    return None if find_service_problems(asked) else build_service(asked)


def name_engine(release: Release) -> EngineName:
    """Returns the engine of a release."""
    return next(name for name in EngineName if name.lower() == release.package)


def _data(nodes: int, tensor: int, local: int, *, expert: bool = False) -> Shape:
    split = Parallelism(tensor=tensor, data=nodes * local, data_local=local, expert=expert)
    return shape(nodes, tensor * local, split)


PIPELINE = shape(2, 8, Parallelism(tensor=8, pipeline=2, expert=True))
TENSOR = shape(2, 8, Parallelism(tensor=16))
BY_RAY = ("--distributed-executor-backend=ray",)

CASES = (
    Case(id="one-gpu", shape=shape(1, 1)),
    Case(id="one-node", shape=shape(1, 8)),
    Case(id="one-node-json", shape=shape(1, 8), args=('--override-generation-config={"temperature": 0.6}',)),
    Case(id="one-node-expert", shape=shape(1, 8, Parallelism(tensor=8, expert=True))),
    Case(id="one-node-data", shape=_data(1, 2, 4)),
    Case(id="one-node-data-expert", shape=_data(1, 1, 8, expert=True)),
    Case(id="one-node-gguf", shape=shape(1, 8), gguf=True),
    Case(id="one-node-tls", shape=shape(1, 8), tls=True),
    Case(id="pipeline", shape=PIPELINE),
    Case(id="pipeline-four-nodes", shape=shape(4, 8, Parallelism(tensor=8, pipeline=4))),
    Case(id="pipeline-ray", shape=PIPELINE, args=BY_RAY),
    Case(id="pipeline-gguf", shape=PIPELINE, gguf=True),
    Case(id="pipeline-tls", shape=PIPELINE, tls=True),
    Case(id="tensor-over-nodes", shape=TENSOR),
    Case(id="data-one-rank", shape=_data(2, 8, 1)),
    Case(id="data-two-ranks", shape=_data(2, 4, 2, expert=True)),
    Case(id="data-three-nodes", shape=_data(3, 8, 1)),
    Case(id="data-sixteen-ranks", shape=_data(2, 1, 8, expert=True)),
    Case(id="data-gguf", shape=_data(2, 8, 1), gguf=True),
    Case(id="data-tls", shape=_data(2, 4, 2), tls=True),
)
