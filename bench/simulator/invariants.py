"""What must never happen, looked at on every write, and what must be so at rest.

Services are read from the Objects themselves, not from placements: which cluster, which nodes, how many GPUs on how
many of them. One counts as long as its Object and the placement that composed it are there.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from bench.simulator.objects import Event, Version
from bench.simulator.plane import Plane
from bench.simulator.provider import makes_nothing
from function.api.inference_environment import name_provider_config
from function.capacity.pools import PoolCapacity
from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, strings, text

NODE_LABEL = "node.kubernetes.io/instance-type"
_GPU = "nvidia.com/gpu"
# A service that a late call composes again beside its successor goes when a call sees both (decision 24).
RECREATED_SECONDS = 30.0
_PLACEMENT, _DEPLOYMENT = "ModelPlacement", "ModelDeployment"


class Held(NamedTuple):
    """What a service holds: of which cluster and nodes, on how many nodes how many GPUs, so many times."""

    pool: tuple[str, str]
    nodes: int
    gpus: int
    replicas: int


class Auditor:
    """Watches a control plane; `violations` are sentences with the simulated time in front."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._pools: dict[tuple[str, str], tuple[int, int]] = {}
        self._services: dict[Ref, tuple[str, Held]] = {}
        self._deleted: dict[Ref, float] = {}  # when a service was, last
        self._recreated: dict[Ref, float] = {}  # when a service was, by a call that may not have seen its deletion
        self._ready: set[str] = set()  # uids of placements that were Ready, or whose service was
        self._served: set[str] = set()  # those of them that had replicas then
        self._edited: dict[Ref, list[tuple[float, Version]]] = {}  # deployments as they were, each until when
        self.allowed: set[Ref] = set()  # what a user deletes with his own hands
        self.violations: list[str] = []
        plane.server.watchers.append(self._watch)

    def _watch(self, event: Event) -> None:
        if event.ref.kind == "Object":
            self._look_at_service(event)
        elif event.ref.kind == _PLACEMENT:
            self._look_at_placement(event)
        elif event.ref.kind == _DEPLOYMENT and event.before and event.now:
            self._note_edit(event.before, event.now)
        elif event.ref.kind == "InferenceEnvironment" and event.now:
            for pool in listing(event.now.manifest, "spec.nodePools"):
                key = name_provider_config(event.ref.name), strings(pool, "labels")[NODE_LABEL]
                self._pools[key] = integer(pool, "maxNodeCount"), integer(pool, "acceleratorCount")

    def _note_edit(self, before: Version, now: Version) -> None:
        if get(before.manifest, "spec") != get(now.manifest, "spec"):
            since = self._plane.kernel.now - self._plane.settings.passing_seconds
            read = [edited for edited in self._edited.get(now.ref, []) if edited[0] > since]
            self._edited[now.ref] = [*read, (self._plane.kernel.now, before)]

    def list_read(self, deployment: Version) -> list[Version]:
        """Returns the versions of a deployment from which a call that is under way may have decided."""
        since = self._plane.kernel.now - self._plane.settings.passing_seconds
        edited = (before for until, before in self._edited.get(deployment.ref, ()) if until > since)
        return [deployment, self._plane.core.cache.get(deployment.ref) or deployment, *edited]

    def _say(self, what: str) -> None:
        self.violations.append(f"{self._plane.kernel.now:.3f} s: {what}")

    # -- no GPU is held twice
    def _look_at_service(self, event: Event) -> None:
        held = held_by(event.now.manifest) if event.now else None
        before = self._services.pop(event.ref, None)
        if event.now is None:
            self._deleted[event.ref] = self._plane.kernel.now
        elif event.before is None and held and self._deletion_may_be_unheard(event.ref):
            self._recreated[event.ref] = self._plane.kernel.now
            self._plane.kernel.at(RECREATED_SECONDS, lambda: self._check(held.pool), lazy=True)
        if event.now and held:
            self._services[event.ref] = text(event.now.controller, "uid"), held
            if before is None or before[1] != held:
                self._check(held.pool)

    def _check(self, pool: tuple[str, str]) -> None:
        nodes, gpus = self._pools[pool]
        alive = {v.uid for v in self._plane.all(_PLACEMENT)}
        held = {
            ref: held
            for ref, (owner, held) in self._services.items()
            if held.pool == pool and owner in alive and not self._makes_way(ref)
        }
        if not _fit(PoolCapacity(nodes, gpus), held.values()):
            listed = ", ".join(f"{ref.name} {h.replicas} x {h.nodes} x {h.gpus}" for ref, h in sorted(held.items()))
            self._say(f"{nodes} nodes of {gpus} GPUs of {pool[0]} are held by {listed}")

    def _makes_way(self, ref: Ref) -> bool:
        """Tells whether a service goes for another of its own placement: its pods are ending, or will soon."""
        there, owner = self._plane.server.latest.get(ref), self._services[ref][0]
        others = any(other != ref and whose == owner for other, (whose, _) in self._services.items())
        return others and (there is None or there.deleting or self.is_recreated(ref))

    def is_recreated(self, ref: Ref) -> bool:
        """Tells whether a call that had not seen a service's deletion has just composed it again."""
        return self._plane.kernel.now < self._recreated.get(ref, -RECREATED_SECONDS) + RECREATED_SECONDS

    def _deletion_may_be_unheard(self, ref: Ref) -> bool:
        return self._plane.kernel.now < self._deleted.get(ref, -inf) + self._plane.settings.passing_seconds

    # -- what serves is not taken away
    def _look_at_placement(self, event: Event) -> None:
        before, now = event.before, event.now
        if now and (_ready(now) or _ready(now, "ServiceReady")):
            self._ready.add(now.uid)
            # A service without replicas is ready as well, and serves nothing.
            if text(condition(now.manifest, "ServiceReady"), "reason") != "ScaledToZero":
                self._served.add(now.uid)
        going = before is not None and not before.deleting and (now is None or now.deleting)
        if going and before and before.uid in self._served and not self._may_go(before):
            self._say(f"{event.ref} served, and goes")

    def _may_go(self, placement: Version) -> bool:
        owner = placement.controller
        if not owner:
            return placement.ref in self.allowed
        deployment = self._plane.server.latest.get(Ref(_DEPLOYMENT, placement.ref.namespace, text(owner, "name")))
        if deployment is None or deployment.deleting or deployment.uid != text(owner, "uid"):
            return True
        read = self.list_read(deployment)
        wanted = min(integer(v.manifest, "spec.environments", 1) for v in read)
        others = [v for v in self._of(deployment) if v.uid != placement.uid and v.uid in self._ready]
        scalings = [mapping(v.manifest, "spec.scaling") for v in read]
        if any(text(scaling, "replicaScheduling") == "Divided" for scaling in scalings):
            # A placement without replicas serves nothing, and goes once the replicas have a place elsewhere.
            divided = min(integer(scaling, "fixed.replicas", 1) for scaling in scalings)
            is_empty = not integer(placement.manifest, "spec.replicas", 1)
            elsewhere = sum(integer(v.manifest, "spec.replicas", 1) for v in others)
            return is_empty or self._gives_back(placement) or elsewhere >= divided
        return len(others) >= wanted

    def _gives_back(self, placement: Version) -> bool:
        """Tells whether all replicas of a placement were lent, and others need their GPUs."""
        environment = self._plane.server.latest.get(Ref("InferenceEnvironment", "", _environment(placement)))
        rows = listing(environment.manifest, "status.admitted") if environment else []
        return any(row["uid"] == placement.uid and get(row, "yields.keep") == 0 for row in rows)

    def _of(self, deployment: Version) -> list[Version]:
        """Returns the placements of a deployment; one in another namespace names it as its owner without being its."""
        return [
            v
            for v in self._plane.all(_PLACEMENT)
            if text(v.controller, "uid") == deployment.uid
            and v.ref.namespace == deployment.ref.namespace
            and not v.deleting
        ]

    # -- at rest
    def at_rest(self) -> None:
        """Finds who waits although there is room, and GPUs that are held twice."""
        self._recreated.clear()
        for pool in self._pools:
            self._check(pool)
        for deployment in self._plane.all(_DEPLOYMENT):
            placed = {_environment(v) for v in self._of(deployment) if _ready(v)}
            if len(placed) < integer(deployment.manifest, "spec.environments", 1):
                self._waiting(deployment, placed)
        for placement in self._plane.all(_PLACEMENT):
            waits = not placement.controller and not _ready(placement)
            if waits and self.find_room(_environment(placement), placement):
                self._say(f"{placement.ref} waits beside room")

    def _waiting(self, deployment: Version, placed: set[str]) -> None:
        selected = strings(deployment.manifest, "spec.environmentSelector.matchLabels")
        for environment in self._plane.all("InferenceEnvironment"):
            name = environment.ref.name
            if name in placed or environment.deleting or not _ready(environment):
                continue
            if selected.items() <= environment.labels.items() and self.find_room(name, deployment):
                self._say(f"{deployment.ref} waits, and {name} has room")

    def find_room(self, environment: str, asking: Version) -> bool:
        there = self._plane.server.latest.get(Ref("InferenceEnvironment", "", environment))
        if there is None or not _ready(there):
            return False
        (pool,) = listing(there.manifest, "spec.nodePools")
        room = PoolCapacity(integer(pool, "maxNodeCount"), integer(pool, "acceleratorCount"))
        config = name_provider_config(environment)
        if not _fit(room, (held for _, held in self._services.values() if held.pool[0] == config)):
            return False
        nodes, gpus, replicas = self.shape(asking)
        return room.count_fitting_replicas(nodes, gpus, replicas) >= replicas > 0

    def shape(self, asking: Version) -> tuple[int, int, int]:
        """Return nodes and GPUs of a replica and how many are asked for, of a deployment or a placement."""
        spec = mapping(asking.manifest, "spec")
        if asking.ref.kind == _PLACEMENT:
            replicas = integer(spec, "replicas", 1)
            return integer(spec, "topology.nodes", 1), integer(spec, "topology.gpusPerNode"), replicas
        model = self._plane.server.latest[Ref("ClusterModel", "", text(spec, "modelRef.name"))]
        (profile,) = listing(model.manifest, "spec.serving")
        topology = mapping(profile, "replicaTopology")
        return (
            integer(topology, "nodes", 1),
            integer(topology, "gpusPerNode"),
            integer(spec, "scaling.fixed.replicas", 1),
        )


def _fit(room: PoolCapacity, held: Iterable[Held]) -> bool:
    """Take what is held, the largest first: exact where sizes divide each other and a node."""
    for service in sorted((h for h in held if h.replicas), key=lambda h: (-h.gpus, -h.nodes)):
        if room.count_fitting_replicas(service.nodes, service.gpus, service.replicas) < service.replicas:
            return False
        room.take(service.nodes, service.gpus, service.replicas)
    return True


def gpus(held: Held) -> int:
    """Return how many GPUs a service holds."""
    return held.nodes * held.gpus * held.replicas


def held_by(manifest: Manifest) -> Held | None:
    """Return what an Object's service holds; None where it is none."""
    service = mapping(manifest, "spec.forProvider.manifest")
    unmade = makes_nothing(manifest) and not mapping(manifest, "status.atProvider.manifest")
    if text(service, "kind") != "LLMInferenceService" or unmade:
        return None
    template = mapping(service, "spec.template")
    (limits,) = [mapping(c, "resources.limits") for c in listing(template, "containers") if text(c, "name") == "main"]
    parallelism = mapping(service, "spec.parallelism")
    nodes = integer(parallelism, "pipeline") or integer(parallelism, "data", 1) // integer(parallelism, "dataLocal", 1)
    pool = text(manifest, "spec.providerConfigRef.name"), strings(template, "nodeSelector")[NODE_LABEL]
    return Held(pool, nodes, int(str(limits[_GPU])), integer(service, "spec.replicas", 1))


def _environment(placement: Version) -> str:
    return text(placement.manifest, "spec.inferenceEnvironmentRef.name")


def _ready(version: Version, type_: str = "Ready") -> bool:
    return text(condition(version.manifest, type_), "status") == "True"
