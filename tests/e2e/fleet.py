"""Two GPU clusters and the control plane with a gateway each, as scenarios of ModelServices see them."""

import contextlib
import http.client
import json
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from function.kube.manifests import JSON, Manifest, integer, listing, mapping, text
from function.traffic.routes import read_route_weights
from tests.e2e.objects import GROUP, environment, pool
from tests.e2e.world import World
from tools.stack import gateways
from tools.stack.api import Api
from tools.stack.layout import EAST, WESTERN
from tools.stack.waiting import PATIENCE, until

# A gateway reports a change before it applies it: Traefik collects changes for 2 seconds.
THROTTLE_SECONDS = 3.0
POOL = "frontier"
_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
_CLUSTERS = {EAST.name: "east", WESTERN.name: "west"}
_COMPOSITION = "modelservices"
_INPUT = "/spec/pipeline/0/input/gateway"


@dataclass(frozen=True)
class Fleet:
    """The control plane with the clusters `east`, which is the stack's own, and `west`."""

    world: World
    west: World
    team: str

    def cluster(self, name: str) -> World:
        """Return the world whose remote cluster is the one with this name."""
        return self.west if name == "west" else self.world

    def placement(self, deployment: str, cluster: str) -> Manifest:
        """Return the placement of a deployment on a cluster."""
        for found in self.world.placements(self.team, deployment):
            if text(found, "spec.inferenceEnvironmentRef.name") == cluster:
                return found
        raise LookupError(f"{deployment} is not on {cluster}")

    def pods(self, deployment: str, cluster: str) -> list[Manifest]:
        """Return the engine pods of a deployment on a cluster."""
        where = mapping(self.placement(deployment, cluster), "status.service")
        world = self.cluster(cluster)
        service = world.stack.remote.get("LLMInferenceService", text(where, "name"), text(where, "namespace"))
        return world.pods(service) if service else []

    def leaders(self, deployment: str, cluster: str) -> list[Manifest]:
        """Return the pods of a deployment on a cluster that answer requests, one for each group."""
        return [pod for pod in self.pods(deployment, cluster) if mapping(pod, "metadata.labels").get(_INDEX) == "0"]

    def service(self, name: str) -> Manifest:
        """Return a ModelService."""
        found = self.world.stack.hub.get("ModelService", name, self.team)
        if found is None:
            raise LookupError(f"no ModelService {name}")
        return found

    def endpoint(self, name: str, cluster: str) -> Manifest:
        """Return the endpoint of a cluster in the status of a ModelService."""
        for found in listing(self.service(name), "status.endpoints"):
            if text(found, "environment") == cluster:
                return found
        raise LookupError(f"{name} has no endpoint on {cluster}")

    def weights(self, name: str) -> dict[str, int]:
        """Return the weight of each cluster in the status of a ModelService."""
        endpoints = listing(self.service(name), "status.endpoints")
        return {text(each, "environment"): integer(each, "weight") for each in endpoints}

    def wait_weights(self, name: str, weights: Mapping[str, int], seconds: float = PATIENCE) -> None:
        """Wait until the route of a ModelService has these weights, and until gateways have applied them."""
        positive = sorted(weight for weight in weights.values() if weight)

        def written() -> bool:
            routes = self.world.stack.hub.find("HTTPRoute", self.team, f"modelplane.ai/owner={name}")
            found = self.weights(name), [sorted(read_route_weights(route).values()) for route in routes]
            if found != (weights, [positive]):
                raise LookupError(str(found))
            return True

        until(f"{name} to have the weights {weights}", written, seconds=seconds)
        time.sleep(THROTTLE_SECONDS)

    def url(self, name: str) -> str:
        """Return the URL of a ModelService, once it has one."""
        return until(f"the URL of {name}", lambda: text(self.service(name), "status.url"))

    def ask(self, name: str, count: int) -> Counter[str]:
        """Send requests to a ModelService, and return how many of them each cluster answered; all must succeed."""
        return Counter(said.cluster for said in self.answers(name, count))

    def answers(self, name: str, count: int) -> list["Answer"]:
        """Send requests one after the other, all of which must be answered by an engine at the path of the engine."""
        url = self.url(name)
        answers = [ask(url) for _ in range(count)]
        assert {(each.status, each.path) for each in answers} == {(200, "/v1/chat/completions")}
        return answers

    def cordon(self, cluster: str, *, unschedulable: bool) -> None:
        """Cordon all nodes of the pool, or none."""
        remote = self.cluster(cluster).stack.remote
        for node in remote.find("Node", labels=f"modelplane.ai/pool={POOL}"):
            remote.patch("Node", text(node, "metadata.name"), {"spec": {"unschedulable": unschedulable or None}})

    def kill(self, cluster: str, *pods: Manifest) -> None:
        """End pods at once, as when their nodes are lost."""
        remote = self.cluster(cluster).stack.remote
        for pod in pods:
            remote.delete("Pod", text(pod, "metadata.name"), text(pod, "metadata.namespace"), grace_seconds=0)


@dataclass(frozen=True)
class Answer:
    """What came back for a request."""

    status: int
    cluster: str = ""
    pod: str = ""
    path: str = ""
    model: str = ""


def ask(url: str, *, model: str = "any", seconds: float = 20) -> Answer:
    """Send one request for a completion with a connection of its own."""
    parts = urllib.parse.urlsplit(url)
    body = json.dumps({"model": model, "messages": []})
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=seconds)) as connection:
        connection.request("POST", f"{parts.path}/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        said = reply.read()
    if reply.status != 200:
        return Answer(reply.status)
    found = json.loads(said)
    return Answer(reply.status, **{**found, "cluster": _CLUSTERS[found["cluster"]]})


@contextlib.contextmanager
def open_fleet(world: World, team: str) -> Iterator[Fleet]:
    """Start the second GPU cluster and all gateways, and apply an environment for each cluster; end them afterwards."""
    stack = world.stack
    gateways.start_west(stack.home, stack.processes)
    gateways.start_gateways(stack.home, stack.processes)
    west = World(replace(stack, remote=Api(stack.home, WESTERN.name)))
    set_gateway(world)
    world.team(team)
    world.secret("west-kubeconfig", {"kubeconfig": stack.home.kubeconfig(WESTERN.executor).read_text()})
    world.apply(*environments())
    yield Fleet(world, west, team)
    world.clear()
    until("services in the west to go", lambda: not west.stack.remote.find("LLMInferenceService"))
    until("Objects to go", lambda: not stack.hub.find("Object", team))
    reset_gateway(world)
    gateways.stop_gateways(stack.home, stack.processes)
    gateways.stop_west(stack.processes)


def set_gateway(world: World) -> None:
    """Name the control plane's Gateway in the platform settings, unless they do.

    When core starts, it restores the Compositions of packages. A platform team builds its settings into the package.
    """
    if _names_gateway(world):
        return
    value: JSON = {"name": gateways.NAME, "url": f"http://{gateways.ADDRESSES['hub']}"}
    world.stack.hub.patch("Composition", _COMPOSITION, [{"op": "add", "path": _INPUT, "value": value}])


def _names_gateway(world: World) -> bool:
    (step,) = listing(world.stack.hub.get("Composition", _COMPOSITION) or {}, "spec.pipeline")
    return bool(mapping(step, "input.gateway"))


def reset_gateway(world: World) -> None:
    """Name no Gateway any more."""
    if not _names_gateway(world):
        return
    world.stack.hub.patch("Composition", _COMPOSITION, [{"op": "remove", "path": _INPUT}])


def environments() -> tuple[Manifest, Manifest]:
    """Return the environments of both clusters."""
    wide = pool("gpus", nodeCount=8, maxNodeCount=8)
    east, west = environment("east", wide), environment("west", wide, secret="west-kubeconfig")
    for each in (east, west):
        mapping(each, "metadata.labels")["fleet"] = "both"
    return east, west


def small_environment(name: str, nodes: int, secret: str) -> Manifest:
    """Return the environment of a cluster with so many nodes."""
    made = environment(name, pool("gpus", nodeCount=nodes, maxNodeCount=nodes), secret=secret)
    mapping(made, "metadata.labels")["fleet"] = "both"
    return made


def model_service(team: str, name: str, weights: Mapping[str, int], **spec: JSON) -> Manifest:
    """Return a ModelService with a weight for each deployment."""
    backends: list[JSON] = [{"deployment": each, "weight": weight} for each, weight in weights.items()]
    return {
        "apiVersion": GROUP,
        "kind": "ModelService",
        "metadata": {"name": name, "namespace": team},
        "spec": {"backends": backends, **spec},
    }
