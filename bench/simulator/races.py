"""Random histories of users and clusters, with everything that must never happen looked for on every write.

A history is its seed: which deployments come, grow, move and go, which placements are written by hand, which
environments come, go and lose their cluster, and how long nothing of that happens. A few small environments and
deployments that want whole nodes, so that one of them always waits.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from bench.fleet import API
from bench.simulator import fleet
from bench.simulator.invariants import Auditor
from bench.simulator.measured import Remembering
from bench.simulator.objects import Version
from bench.simulator.plane import Plane, UnsettledError
from bench.simulator.settings import Settings
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import LABEL_DEPLOYMENT, LABEL_ENVIRONMENT
from tools.remote_stages import reported

ENVIRONMENTS, DEPLOYMENTS, BY_HAND, STEPS = 4, 7, 2, 14
MODELS = {"one-node": 1, "two-nodes": 2}
# Longer than any TTL: a controller that missed an event has reconciled by then.
LOOKS_AGAIN_SECONDS = 700.0
# Calls of the function for each step of a history; the most seen before environments were ledgers was 150.
MOST_CALLS = 500


@dataclass(slots=True)
class History:
    """One history: what was done and what was wrong, each with its time."""

    seed: int
    lag: float
    done: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    calls: int = 0


def play(seed: int, lag: float, *, varies: bool = True) -> History:
    """Return what happened. `varies`: as no cache is late by the same for ever."""
    gc.collect()
    players = _Players(seed, lag, varies=varies)
    try:
        players.play()
    except UnsettledError as error:
        players.auditor.violations.append(f"{players.plane.kernel.now:.3f} s: {error}")
    history, plane = players.history, players.plane
    history.calls = plane.meter.calls.total()
    history.violations = [*players.auditor.violations, *_broken(plane)]
    if history.calls > MOST_CALLS * STEPS:
        history.violations.append(f"{history.calls} calls for {STEPS} steps")
    return history


def _broken(plane: Plane) -> list[str]:
    return [f"{count} x {what}" for what, count in sorted(plane.meter.failed.items()) if what != "conflict"]


class _Players:
    """Those who write: users, and clusters that come and go."""

    def __init__(self, seed: int, lag: float, *, varies: bool) -> None:
        self.random = Random(seed)  # noqa: S311  # the same history for the same seed
        self.plane = Plane(replace(Settings(), seed=seed, lag=lag, lag_varies=varies, ttl=True), Remembering())
        self.auditor = Auditor(self.plane)
        self.history = History(seed, lag)
        self._number = 0

    def play(self) -> None:
        """Do something, wait a while, and again; look at who waits whenever all is at rest."""
        for name, nodes in MODELS.items():
            self.plane.create(fleet.model(name, nodes))
        for number in range(ENVIRONMENTS - 1):
            self._add_environment(number)
        self.plane.rest()
        for _ in range(STEPS):
            self.random.choice(_ACTIONS)(self)
            if self.random.random() < 0.25:
                self._rest()
            else:
                self.plane.kernel.pass_time(self.random.choice((0.0, 0.1, 1.0, 5.0, 20.0)) * self.random.random())
        self._rest()

    def _rest(self) -> None:
        self.plane.rest()
        self.plane.kernel.pass_time(LOOKS_AGAIN_SECONDS)
        self.plane.rest()
        self.auditor.at_rest()

    def _tell(self, what: str) -> None:
        self.history.done.append(f"{self.plane.kernel.now:.3f} s: {what}")

    # -- deployments
    def create_deployment(self) -> None:
        """Create a deployment, unless there are enough."""
        if len(self.plane.all("ModelDeployment")) >= DEPLOYMENTS:
            return
        self._number += 1
        spec: Manifest = {
            "modelRef": {"name": self.random.choice(sorted(MODELS))},
            "environments": self.random.choice((1, 1, 2)),
            "scaling": {"signal": "Fixed", "fixed": {"replicas": self.random.choice((1, 1, 1, 2))}},
        }
        made = fleet.deployment(self._number, **spec, **self._selected())
        self._tell(f"create {self.plane.create(made)} {made['spec']}")

    def create_several(self) -> None:
        """Create deployments at once."""
        for _ in range(self.random.randint(2, 4)):
            self.create_deployment()

    def _selected(self) -> Manifest:
        zone = self.random.choice(("", "", "a", "b"))
        return {"environmentSelector": {"matchLabels": {fleet.ZONE: zone}}} if zone else {}

    def delete_deployment(self) -> None:
        """Delete a deployment."""
        if found := self._any("ModelDeployment"):
            self._tell(f"delete {found.ref}")
            self.plane.delete(found.ref)

    def edit_deployment(self) -> None:
        """Give a deployment another number of environments or replicas, or another selector."""
        if not (found := self._any("ModelDeployment")):
            return
        changes: tuple[Manifest, ...] = (
            {"environments": self.random.randint(1, 3)},
            {"scaling": {"signal": "Fixed", "fixed": {"replicas": self.random.randint(1, 2)}}},
            self._selected() or {"environmentSelector": {}},
        )
        change = self.random.choice(changes)
        self._tell(f"edit {found.ref} {change}")
        self.plane.edit(found.ref, lambda m: mapping(m, "spec").update(change))

    # -- placements by hand
    def place_by_hand(self) -> None:
        """Write a placement, as a user may."""
        environment = self._any("InferenceEnvironment")
        if not environment or sum(not p.controller for p in self.plane.all("ModelPlacement")) >= BY_HAND:
            return
        self._number += 1
        model = self.random.choice(sorted(MODELS))
        made = by_hand(f"hand-{self._number}", model, environment.ref.name)
        self._tell(f"create {self.plane.create(made)} of {model} on {environment.ref.name}")

    def delete_by_hand(self) -> None:
        """Delete a placement that a user wrote."""
        if found := [p for p in self.plane.all("ModelPlacement") if not p.controller]:
            ref = self.random.choice(found).ref
            self._tell(f"delete {ref}")
            self.auditor.allowed.add(ref)
            self.plane.delete(ref)

    # -- environments
    def create_environment(self) -> None:
        """Create an environment, one that was there before or another."""
        if numbers := fleet.absent((v.ref.name for v in self.plane.all("InferenceEnvironment")), ENVIRONMENTS):
            self._add_environment(self.random.choice(numbers))

    def _add_environment(self, number: int) -> None:
        made, nodes = fleet.returning(self.history.seed, number)
        self._tell(f"create {self.plane.create(made)} with {nodes} nodes")

    def delete_environment(self) -> None:
        """Delete an environment."""
        if found := self._any("InferenceEnvironment"):
            self._tell(f"delete {found.ref}")
            self.plane.delete(found.ref)

    def lose_or_find_cluster(self) -> None:
        """Let what is known of an environment's cluster go, or come back."""
        if not (found := self._any("InferenceEnvironment")):
            return
        owned = [v for v in self.plane.all("Object") if text(v.controller, "uid") == found.uid]
        known = all(listing(v.manifest, "status.conditions") for v in owned)
        self._tell(f"{'lose' if known else 'find'} the cluster of {found.ref}")
        for version in owned:
            status: JSON = {} if known else get(reported(version.manifest, 9), "status")
            self.plane.server.put(version.ref, {**version.manifest, "status": status})

    def _any(self, kind: str) -> Version | None:
        found = [v for v in self.plane.all(kind) if not v.deleting]
        return self.random.choice(found) if found else None


_ACTIONS: tuple[Callable[[_Players], None], ...] = (
    _Players.create_deployment,
    _Players.create_several,
    _Players.create_several,
    _Players.delete_deployment,
    _Players.edit_deployment,
    _Players.edit_deployment,
    _Players.place_by_hand,
    _Players.delete_by_hand,
    _Players.create_environment,
    _Players.delete_environment,
    _Players.lose_or_find_cluster,
)


def by_hand(name: str, model: str, environment: str) -> Manifest:
    """Return a placement that no deployment wrote, with the labels that it needs."""
    nodes = MODELS[model]
    return {
        "apiVersion": API,
        "kind": "ModelPlacement",
        "metadata": {
            "namespace": "by-hand",
            "name": name,
            "labels": {LABEL_ENVIRONMENT: environment, LABEL_DEPLOYMENT: "none"},
        },
        "spec": {
            "modelRef": {"kind": "ClusterModel", "name": model},
            "deploymentRef": {"name": "none"},
            "inferenceEnvironmentRef": {"name": environment},
            "profile": "multinode",
            "pool": "frontier",
            "topology": {
                "nodes": nodes,
                "gpusPerNode": fleet.GPUS,
                "parallelism": {"tensor": fleet.GPUS, "pipeline": nodes},
            },
            "replicas": 1,
        },
    }
