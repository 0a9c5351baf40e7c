"""The manifests of the stories: a model, environments of equal nodes, deployments; as a user writes them."""

from collections.abc import Iterable
from random import Random

from bench.fleet import API, MODEL
from bench.fleet import environment as ready_environment
from function.kube.manifests import JSON, Manifest, listing, mapping

GPUS = 8
ZONE = "modelplane.ai/zone"
NODES = 2  # of one replica of the model
TEAMS = 20  # namespaces among which deployments are divided


def model(name: str = "kimi-k2", nodes: int = NODES) -> Manifest:
    """Return a model of which each replica takes so many whole nodes."""
    spec = mapping(MODEL, "spec")
    (profile,) = listing(spec, "serving")
    topology: Manifest = {**mapping(profile, "replicaTopology"), "nodes": nodes}
    topology["parallelism"] = {"tensor": GPUS, "pipeline": nodes}
    serving: list[JSON] = [{**profile, "replicaTopology": topology}]
    return {**MODEL, "metadata": {"name": name}, "spec": {**spec, "serving": serving}}


def environment(number: int, nodes: int, labels: Manifest | None = None) -> Manifest:
    """Return an environment with one pool of so many nodes."""
    made = ready_environment(number)
    spec = mapping(made, "spec")
    (pool,) = listing(spec, "nodePools")
    spec = {**spec, "nodePools": [{**pool, "maxNodeCount": nodes}]}
    metadata = mapping(made, "metadata")
    own: Manifest = {"name": metadata["name"], "labels": {**mapping(metadata, "labels"), **(labels or {})}}
    return {"apiVersion": API, "kind": "InferenceEnvironment", "metadata": own, "spec": spec}


def returning(seed: int, number: int) -> tuple[Manifest, int]:
    """Return the environment of a number in a history, and its nodes: the same whenever it comes back."""
    nodes = Random(f"{seed} {number}").randint(2, 4)  # noqa: S311  # the same for the same name
    return environment(number, nodes, {ZONE: "ab"[number % 2]}), nodes


def absent(there: Iterable[str], most: int) -> list[int]:
    """Return the numbers below `most` of the environments that are not among the names that are there."""
    names = {*there}
    return [number for number in range(most) if f"environment-{number:04}" not in names]


def deployment(number: int, **spec: JSON) -> Manifest:
    """Return a deployment of the model on one environment; `spec` adds or replaces."""
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"namespace": f"team-{number % TEAMS}", "name": f"kimi-{number:04}"},
        "spec": {"modelRef": {"name": "kimi-k2"}, "environments": 1, **spec},
    }
