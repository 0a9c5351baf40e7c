"""What is no fault of a manifest and most likely not meant: told by `validate`, and an error with --strict alone."""

from collections.abc import Iterator

from function.cli.dangling import remarks
from function.cli.store import Store, environments, is_ours
from function.domain.environment import StorageMode
from function.domain.model import Model
from function.domain.problem import Problem
from function.domain.settings import BUILT_IN
from function.kube import quantity
from function.kube.manifests import JSON, Manifest, get, listing, text
from function.kube.quantity import gib
from function.parse.environments import read_environment
from function.parse.models import read_model
from function.parse.problems import join

_MEMORY = frozenset({"memoryPerGpu", "vram", "disk", "size", "shm"})
# Nobody has a GPU or a claim of less.
_LEAST = 2**20


def cautions(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return everything about an object that is allowed and looks like a slip, or costs more than it seems."""
    if not is_ours(manifest):
        return
    yield from _bytes(manifest.get("spec"), "spec")
    yield from remarks(store, manifest)
    match text(manifest, "kind"):
        case "ClusterModel" | "Model":
            model = read_model(manifest).value
            yield from _beyond_gpus(model) if model else ()
            yield from _beyond_shared_claims(store, model) if model else ()
        case "InferenceEnvironment":
            yield from _unlabelled(manifest)


def _bytes(value: JSON, path: str) -> Iterator[Problem]:
    """Find sizes that are so many bytes: the unit was forgotten."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _bytes(item, join(path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _MEMORY and isinstance(item, int | str) and _is_tiny(item):
                yield Problem(join(path, key), f"{item} is so many bytes; was {item}Gi meant?")
            else:
                yield from _bytes(item, join(path, key))


def _is_tiny(value: int | str) -> bool:
    if isinstance(value, bool) or not str(value).isdecimal():
        return False
    return 0 < quantity.parse(value) < _LEAST


def _beyond_gpus(model: Model) -> Iterator[Problem]:
    said, needed = ("vram", model.vram) if model.vram else ("disk", model.disk)
    for profile in model.profiles:
        shape, memory = profile.shape, profile.requires.memory_per_gpu
        if needed and shape and memory and shape.gpus * memory < needed:
            has = f"{shape.gpus} x {gib(memory)} of profile {profile.name} are {gib(shape.gpus * memory)}"
            yield Problem(f"spec.resources.{said}", f"is {gib(needed)}, and {has}: the weights may not fit its GPUs")


def _beyond_shared_claims(store: Store, model: Model) -> Iterator[Problem]:
    for environment in environments(store):
        storage = environment.storage
        if storage and storage.mode is StorageMode.SHARED and model.disk and model.disk > storage.shared_size:
            claim = f"the claim {storage.shared_claim} that all models share on InferenceEnvironment {environment.name}"
            yield Problem("spec.resources.disk", f"is {gib(model.disk)}, and {claim} has {gib(storage.shared_size)}")


def _unlabelled(manifest: Manifest) -> Iterator[Problem]:
    read = read_environment(manifest, BUILT_IN).value
    names = {pool.name for pool in read.pools if not pool.labels}
    if len(read.pools) < 2:  # the GPUs alone say which nodes
        return
    for index, pool in enumerate(listing(manifest, "spec.nodePools")):
        if text(pool, "name") in names and not get(pool, "labels"):
            path = join(join("spec.nodePools", index), "labels")
            yield Problem(path, "are not set, and other pools have GPUs too: its pods may land on their nodes")
