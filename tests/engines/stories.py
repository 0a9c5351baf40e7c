"""Every example and every acceptance manifest on a control plane at rest: the services that come of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from function.cli.inputs import read_files
from function.cli.validation import Item
from function.domain.engines import get_version
from function.domain.model import Engine, EngineName, Parallelism, Shape
from function.kube.manifests import Manifest, flag, integer, listing, mapping, text
from tests.support.plane import APPLIED, EXAMPLES, call
from tools.control_plane import ControlPlane
from tools.engine import Engine as Renderer
from tools.engines import Release, list_releases
from tools.world import World

ACCEPTANCE = Path(__file__).parents[1] / "acceptance"
_PLATFORM = "kimi-k2-two-nodes.yaml"  # has the environment and the model of those that bring none
STORIES = (*APPLIED, *sorted(p.name for p in ACCEPTANCE.glob("*.yaml")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One service of a story."""

    service: Manifest
    shape: Shape  # as the placement records it
    release: Release  # the newest one that is asked and not newer than the engine of the service
    engine: EngineName
    story: str
    weights: str  # the path that the engine opens: a directory, or one file of the model

    @property
    def id(self) -> str:
        """The story and the name of the service."""
        return f"{self.story}/{text(self.service, 'metadata.name')}"

    @property
    def names(self) -> tuple[str, str]:
        """The names under which the model is served."""
        name = text(self.service, "spec.model.name")
        return name, f"publishers/{text(self.service, 'metadata.namespace')}/models/{name}"


@cache
def list_all_served() -> tuple[Served, ...]:
    """Returns every service of every story."""
    return tuple(served for story in STORIES for served in _find(story))


def _read(story: str) -> list[Manifest]:
    if not story.endswith(".yaml"):
        return _load(EXAMPLES / story)
    own = _load(ACCEPTANCE / story)
    kinds = {text(manifest, "kind") for manifest in own}
    missing = {"InferenceEnvironment", "ClusterModel"} - (kinds | {"ClusterModel"} if "Model" in kinds else kinds)
    return [*(m for m in _load(ACCEPTANCE / _PLATFORM) if m["kind"] in missing), *own]


def _load(path: Path) -> list[Manifest]:
    return [item.manifest for item in read_files([str(path)]) if isinstance(item, Item)]


def _find(story: str) -> Iterator[Served]:
    control = ControlPlane(renderer=Renderer(call), world=World())
    manifests = _read(story)
    files = {text(m, "metadata.name"): text(m, "spec.huggingFace.file") for m in manifests}
    control.apply(manifests)
    control.settle()
    for ref in control.all("ModelPlacement"):
        for key, manifest in control.rounds[-1].rendered[ref].remote.items():
            if key.startswith("service-"):
                placement = control.composites[ref]
                weights = f"/mnt/models/{files[text(placement, 'spec.modelRef.name')]}".rstrip("/")
                yield _describe(story, manifest, mapping(placement, "spec.topology"), weights)


def _describe(story: str, service: Manifest, topology: Manifest, weights: str) -> Served:
    (container,) = (c for c in listing(service, "spec.template.containers") if c["name"] == "main")
    image = text(container, "image")
    name = next(name for name in EngineName if name.lower() in image)
    version = get_version(Engine(name=name, image=image))
    releases = list_releases(name.lower())
    older = [release for release in releases if version is None or release.number <= version]
    split = mapping(topology, "parallelism")
    parallelism = Parallelism(
        tensor=integer(split, "tensor", 1),
        pipeline=integer(split, "pipeline", 1),
        data=integer(split, "data") or None,
        data_local=integer(split, "dataLocal") or None,
        expert=text(split, "expert") == "enabled" or flag(split, "expert"),
    )
    shape = Shape(
        nodes=integer(topology, "nodes", 1), gpus_per_node=integer(topology, "gpusPerNode", 1), parallelism=parallelism
    )
    return Served(story=story, service=service, shape=shape, release=older[-1], engine=name, weights=weights)
