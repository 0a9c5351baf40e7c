"""The models of a history: two that say their topology, and one that is sized by its vram."""

from random import Random

from bench.histories.adapters import allow_adapters
from bench.simulator import fleet
from bench.simulator.races import MODELS as DECLARED
from function.kube.manifests import JSON, Manifest, integer, listing, mapping, text

SIZED = "sized"
NAMES = (*sorted(DECLARED), SIZED)
# What fits so many GPUs of 141Gi: 2, and 8, which are a whole node.
FITS_TWO, FITS_EIGHT = (150, 280), (570, 1100)
# Of tight worlds: the types of accelerators of their pools, and the shapes of replicas, in nodes and GPUs of each.
ACCELERATORS = ("nvidia-h200", "nvidia-h100")
SHAPES = ((1, 2), (1, 4), (1, fleet.GPUS), (2, fleet.GPUS))


def models() -> list[Manifest]:
    """Return all of them, as they are at first."""
    sized = _named(fleet.model(SIZED, 1))
    spec = mapping(sized, "spec")
    (profile,) = listing(spec, "serving")
    serving: list[JSON] = [{key: value for key, value in profile.items() if key != "replicaTopology"}]
    sized = {**sized, "spec": {**spec, "serving": serving, "resources": {"vram": "200Gi"}}}
    declared = (_named(fleet.model(name, nodes)) for name, nodes in DECLARED.items())
    return [allow_adapters(model) for model in (*declared, sized)]


def _named(made: Manifest) -> Manifest:
    """Return a model whose repository needs a token, and is named as it is served."""
    name = str(mapping(made, "metadata")["name"])
    source: Manifest = {"repo": f"org/{name}", "secretRef": {"name": "hf-token"}}
    return {**made, "spec": {**mapping(made, "spec"), "model": {"name": f"org/{name}"}, "huggingFace": source}}


def served_otherwise(spec: Manifest, random: Random) -> Manifest:
    """Return other bytes, arguments or another image for a model: what its pods see."""
    number, (profile,) = random.randint(1, 9), listing(spec, "serving")
    engine = mapping(profile, "engine")
    changes: tuple[Manifest, ...] = (
        other_bytes(spec, number),
        {"serving": [{**profile, "engine": {**engine, "args": [f"--seed={number}"]}}]},
        {"serving": [{**profile, "engine": {**engine, "image": f"vllm/vllm-openai:v0.12.{number}"}}]},
    )
    return random.choice(changes)


def other_bytes(spec: Manifest, number: int) -> Manifest:
    """Return another revision for a model."""
    return {"huggingFace": {**mapping(spec, "huggingFace"), "revision": f"v{number}"}}


def other_shape(spec: Manifest, random: Random) -> Manifest:
    """Return another topology for a model, or a vram that makes one."""
    (profile,) = listing(spec, "serving")
    if "replicaTopology" in profile:
        nodes = 3 - integer(profile, "replicaTopology.nodes")  # of 1 and 2 the other
        topology: Manifest = {"nodes": nodes, "parallelism": {"tensor": fleet.GPUS, "pipeline": nodes}}
        return {"serving": [{**profile, "replicaTopology": {**mapping(profile, "replicaTopology"), **topology}}]}
    return {"resources": {"vram": f"{random.randint(*(FITS_EIGHT if _fits(spec) is FITS_TWO else FITS_TWO))}Gi"}}


def tight_shape(spec: Manifest, random: Random) -> Manifest:
    """Returns another topology of up to two nodes for a model, and sometimes another type of accelerator."""
    (profile,) = listing(spec, "serving")
    if "replicaTopology" not in profile:
        return other_shape(spec, random)
    declared = mapping(profile, "replicaTopology")
    now = integer(declared, "nodes"), integer(declared, "gpusPerNode")
    nodes, gpus = random.choice([shape for shape in SHAPES if shape != now])
    topology: Manifest = {
        **declared,
        "nodes": nodes,
        "gpusPerNode": gpus,
        "parallelism": {"tensor": gpus, "pipeline": nodes},
        "requires": _requirements(declared, random),
    }
    return {"serving": [{**profile, "replicaTopology": topology}]}


def with_requirements(model: Manifest, random: Random) -> Manifest:
    """Returns a model of which the declared topology asks for a type of accelerator, or for any."""
    spec = mapping(model, "spec")
    (profile,) = listing(spec, "serving")
    if "replicaTopology" not in profile:
        return model
    declared = mapping(profile, "replicaTopology")
    topology: Manifest = {**declared, "requires": _requirements(declared, random)}
    return {**model, "spec": {**spec, "serving": [{**profile, "replicaTopology": topology}]}}


def _requirements(topology: Manifest, random: Random) -> Manifest:
    others = {key: value for key, value in mapping(topology, "requires").items() if key != "acceleratorType"}
    accelerator = random.choice(("", "", *ACCELERATORS))
    return {**others, "acceleratorType": accelerator} if accelerator else others


def other_size(spec: Manifest, random: Random) -> Manifest:
    """Return another size for a model, which pods do not see and no shape follows from."""
    if "vram" not in mapping(spec, "resources"):
        return {"resources": {"disk": f"{random.randint(1, 9)}00Gi"}}
    return {"resources": {"vram": f"{random.randint(*_fits(spec))}Gi"}}


def _fits(spec: Manifest) -> tuple[int, int]:
    return FITS_TWO if int(text(spec, "resources.vram").removesuffix("Gi")) <= FITS_TWO[1] else FITS_EIGHT
