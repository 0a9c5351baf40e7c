"""Authors: what they do to models, deployments, ModelCaches and placements of their own.

Each action draws from a source of its own, made of the seed and the number of the step, so that a history without one
of its steps is otherwise the same: that is how a failing one is made smaller.
"""

from random import Random

from bench.histories.adapters import choose_adapters
from bench.histories.auditor import OWN_CLAIM, Auditor
from bench.histories.models import NAMES, other_bytes, other_shape, other_size, served_otherwise
from bench.histories.plane import Plane
from bench.histories.words import Words
from bench.simulator import fleet
from bench.simulator.objects import Version
from bench.simulator.races import MODELS as DECLARED
from bench.simulator.races import by_hand
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, get, mapping, text

DEPLOYMENTS, CACHES = 5, 2
NAMESPACES = ("team-a", "team-b")


class Users:
    """Users of one control plane. `done` has what they did, with the time; `broken` are models that a
    user has broken and corrects a moment later.
    """

    most_deployments = DEPLOYMENTS

    def __init__(self, plane: Plane, auditor: Auditor, words: Words, seed: int) -> None:
        self.plane, self.auditor, self.words, self.seed = plane, auditor, words, seed
        self.random, self.done = Random(seed), list[str]()  # noqa: S311  # the same history for the same seed
        self.step, self.broken = 0, set[Ref]()

    def tell(self, what: str) -> None:
        """Take note of what was done."""
        self.done.append(f"{self.plane.kernel.now:.3f} s: {self.step}: {what}")

    def any(self, kind: str, *, composed: bool | None = None) -> Version | None:
        """Return one of the objects of a kind; `composed` or not, where that matters."""
        found = [v for v in self.plane.all(kind) if not v.deleting]
        if composed is not None:
            found = [v for v in found if bool(v.controller) is composed]
        return self.random.choice(found) if found else None

    def edit(self, version: Version, change: Manifest, *, pods: bool) -> None:
        """Lay fields over a spec; `pods`: pods see it. A spec that is broken waits for whoever broke it."""
        if version.ref in self.broken:
            return
        self.tell(f"edit {version.ref} {change}")
        (self.words.pods if pods else self.words.place)(version.ref, self.plane.kernel.now)
        self.lay(version.ref, change)

    def lay(self, ref: Ref, change: Manifest) -> None:
        """Lay fields over a spec, which no user has requested."""
        self.plane.edit(ref, lambda m: mapping(m, "spec").update(change))

    def delete(self, version: Version) -> None:
        """Delete an object by hand."""
        self.tell(f"delete {version.ref}")
        self.words.delete(version.ref)
        self.auditor.allowed.add(version.ref)
        self.plane.delete(version.ref)

    # -- models
    def edit_model(self) -> None:
        """Give a model another revision, other arguments or another image."""
        if found := self._model():
            self.edit(found, served_otherwise(mapping(found.manifest, "spec"), self.random), pods=True)

    def reshape_model(self) -> None:
        """Give a model another topology, one that is placed if any is, and mostly other bytes with it."""
        placed = {text(v.manifest, "spec.modelRef.name") for v in self.plane.all("ModelPlacement")}
        names = sorted(placed & {*NAMES}) or NAMES
        found = self.plane.server.latest[Ref("ClusterModel", "", self.random.choice(names))]
        if found.ref not in self.broken:
            spec = mapping(found.manifest, "spec")
            bytes_ = other_bytes(spec, self.random.randint(1, 9)) if self.random.random() < 0.7 else {}
            self.edit(found, {**other_shape(spec, self.random), **bytes_}, pods=True)
            self.words.shape(found.ref, self.plane.kernel.now)

    def resize_model(self) -> None:
        """Say otherwise how large a model is, which is a word for nothing that runs."""
        if found := self._model():
            change = other_size(mapping(found.manifest, "spec"), self.random)
            self.tell(f"edit {found.ref} {change}")
            self.lay(found.ref, change)

    def _model(self) -> Version | None:
        found = self.any("ClusterModel")
        return None if found and found.ref in self.broken else found

    # -- deployments
    def create_deployment(self) -> None:
        """Create a deployment, with weights of one kind or another."""
        self._create_deployment(cached=self.random.random() < 0.5)

    def create_on_claim(self) -> None:
        """Create a deployment of a model over two nodes, with a claim of its own."""
        weights: Manifest = {"modelCache": {"type": "PVC"}}
        made = fleet.deployment(self.step, modelRef={"name": "two-nodes"}, **weights)
        made["metadata"] = {"name": f"d-{self.step}", "namespace": self.namespace()}
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def create_reader(self) -> None:
        """Create a deployment that reads from a ModelCache, where there is one."""
        self._create_deployment(cached=True)

    def _create_deployment(self, *, cached: bool) -> None:
        name = f"d-{self.step}"
        there = {v.ref.name for v in self.plane.all("ModelDeployment")}
        if len(there) >= self.most_deployments or name in there:
            return
        cache = self.any("ModelCache") if cached else None
        model = text(cache.manifest, "spec.modelRef.name") if cache else self.random.choice(NAMES)
        weights: Manifest = {"modelCache": {"name": cache.ref.name}} if cache else self._weights()
        spec: Manifest = {"modelRef": {"name": model}, "environments": self.random.choice((1, 1, 2)), **weights}
        made = fleet.deployment(self.step, **spec, **self._selected(), **choose_adapters(self.random))
        namespace = cache.ref.namespace if cache else self.namespace()
        made["metadata"] = {"name": name, "namespace": namespace}
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def _weights(self) -> Manifest:
        choices: tuple[Manifest, ...] = (
            {},
            {},
            {"modelCache": {"retain": True}},
            {"modelCache": {"type": "PVC"}},
            {"modelCache": {"claimName": OWN_CLAIM}},
        )
        return self.random.choice(choices)

    def namespace(self) -> str:
        """Return the namespace of a user."""
        return self.random.choice(NAMESPACES)

    def _selected(self) -> Manifest:
        zone = self.random.choice(("", "", "a", "b"))
        return {"environmentSelector": {"matchLabels": {fleet.ZONE: zone}}} if zone else {}

    def edit_deployment(self) -> None:
        """Give a deployment another number of environments or replicas, another selector, model or cache."""
        if not (found := self.any("ModelDeployment")):
            return
        changes: tuple[tuple[Manifest, bool], ...] = (
            ({"environments": self.random.randint(1, 3)}, False),
            ({"scaling": {"signal": "Fixed", "fixed": {"replicas": self.random.randint(0, 2)}}}, False),
            (self._selected() or {"environmentSelector": {}}, False),
            ({"modelRef": {"name": self.random.choice(NAMES)}}, True),
            (self._weights() or {"modelCache": None}, True),
            (choose_adapters(self.random) or {"adapters": None}, True),
        )
        change, pods = self.random.choice(changes)
        self.edit(found, change, pods=pods)
        if "modelRef" in change:
            self.words.shape(found.ref, self.plane.kernel.now)

    def delete_deployment(self) -> None:
        """Delete a deployment."""
        if found := self.any("ModelDeployment"):
            self.delete(found)

    # -- caches
    def create_cache(self) -> None:
        """Create a ModelCache."""
        if len(self.plane.all("ModelCache")) >= CACHES:
            return
        zones: tuple[Manifest, ...] = ({}, {fleet.ZONE: "a"}, {fleet.ZONE: "b"})
        namespace, model = self.namespace(), self.random.choice(NAMES)
        self._create_cache(f"c-{self.step}", namespace, model, self.random.choice(zones))

    def create_two_caches(self) -> None:
        """Create ModelCaches of two models, next to each other everywhere."""
        namespace = self.namespace()
        for model in self.random.sample(NAMES, 2):
            self._create_cache(f"c-{self.step}-{model}", namespace, model, {})

    def _create_cache(self, name: str, namespace: str, model: str, labels: Manifest) -> None:
        made: Manifest = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelCache",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "modelRef": {"name": model},
                "storage": {"size": "1Ti"},
                "environmentSelector": {"matchLabels": labels},
            },
        }
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def edit_cache(self) -> None:
        """Let a ModelCache keep its weights elsewhere."""
        if found := self.any("ModelCache"):
            there = sorted(v.ref.name for v in self.plane.all("InferenceEnvironment"))
            names: list[JSON] = [*self.random.sample(there, self.random.randint(0, len(there)))]
            # One of the two, as the API server has it.
            where: Manifest = {"environments": names or None, "environmentSelector": None if names else {}}
            self.edit(found, self.random.choice((where, where, self._other())), pods=False)

    def _other(self) -> Manifest:
        return {"storage": {"size": self.random.choice(("1Ti", "2Ti"))}}

    def delete_cache(self) -> None:
        """Delete a ModelCache that no placement names: others are protected by Usages, which are not enforced here."""
        unused = [
            v
            for v in self.plane.all("ModelCache")
            if not any(get(p.manifest, "spec.modelCache.name") for p in self.plane.all("ModelPlacement"))
            and not any(get(p.manifest, "spec.modelCache.name") for p in self.plane.all("ModelDeployment"))
            and not v.deleting
        ]
        if unused:
            self.delete(self.random.choice(unused))

    # -- placements
    def place_by_hand(self) -> None:
        """Write a placement, as a user may."""
        if environment := self.any("InferenceEnvironment"):
            name = self.random.choice(sorted(DECLARED))
            made = by_hand(f"h-{self.step}", name, environment.ref.name)
            mapping(made, "metadata")["namespace"] = self.namespace()
            mapping(made, "spec")["replicas"] = self.random.choice((1, 1, 2))
            self.tell(f"create {self.plane.create(made)} of {name} on {environment.ref.name}")

    def crowd(self) -> None:
        """Write two placements for every environment, which take what comes free."""
        for environment in self.plane.all("InferenceEnvironment"):
            for number in range(2):
                made = by_hand(f"h-{self.step}-{environment.ref.name}-{number}", "one-node", environment.ref.name)
                mapping(made, "metadata")["namespace"] = NAMESPACES[number]
                self.tell(f"create {self.plane.create(made)}")

    def edit_by_hand(self) -> None:
        """Give a placement that a user wrote another number of replicas."""
        if found := self.any("ModelPlacement", composed=False):
            self.edit(found, {"replicas": self.random.randint(0, 2)}, pods=False)

    def delete_by_hand(self) -> None:
        """Delete a placement that a user wrote."""
        if found := self.any("ModelPlacement", composed=False):
            self.delete(found)
