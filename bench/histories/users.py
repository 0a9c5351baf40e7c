"""Users: what they do to every kind, and what those do who mean harm.

Each action draws from a source of its own, made of the seed and the number of the step, so that a history without one
of its steps is otherwise the same: that is how a failing one is made smaller.
"""

from collections.abc import Callable
from random import Random

from bench.histories.auditor import OWN_CLAIM, Auditor
from bench.histories.clusters import config, remote
from bench.histories.plane import Plane, forget
from bench.histories.words import Words
from bench.simulator import fleet
from bench.simulator.objects import Version
from bench.simulator.races import by_hand
from function.cli.store import Ref
from function.composers import COMPOSERS
from function.kube.manifests import JSON, Manifest, get, listing, mapping, strings, text
from function.kube.names import LABEL_CACHE, LABEL_ENVIRONMENT
from function.parse.environments import provider_config

ENVIRONMENTS, DEPLOYMENTS, CACHES = 3, 5, 2
MODELS = {"one-node": 1, "two-nodes": 2}
NAMESPACES = ("team-a", "team-b")


class Users:
    """All users of one control plane. `done` has what they did, with the time; some of them mean harm where `hostile`,
    and all do what `aim` names, again and again in its order, if it names anything.
    """

    def __init__(self, plane: Plane, auditor: Auditor, words: Words, seed: int) -> None:
        self.plane, self.auditor, self.words, self.seed = plane, auditor, words, seed
        self.random, self.done = Random(seed), list[str]()  # noqa: S311  # the same history for the same seed
        self._step, self.hostile, self.aim = 0, False, tuple[str, ...]()

    def begin(self) -> None:
        """Make models and environments."""
        for name, nodes in MODELS.items():
            self.plane.create(model(name, nodes))
        for number in range(ENVIRONMENTS - 1):
            self._add_environment(number)

    def act(self, step: int) -> None:
        """Do something, or one of the things that are aimed at."""
        self._step, self.random = step, Random(f"{self.seed} {step}")  # noqa: S311  # see above
        harm = self.hostile and self.random.random() < 0.5  # every other step
        if self.aim:
            getattr(self, self.aim[step % len(self.aim)])()
        else:
            self.random.choice(HOSTILE if harm else ACTIONS)(self)

    def tell(self, what: str) -> None:
        """Take note of what was done."""
        self.done.append(f"{self.plane.kernel.now:.3f} s: {self._step}: {what}")

    def any(self, kind: str, *, composed: bool | None = None) -> Version | None:
        """Return one of the objects of a kind; `composed` or not, where that matters."""
        found = [v for v in self.plane.all(kind) if not v.deleting]
        if composed is not None:
            found = [v for v in found if bool(v.controller) is composed]
        return self.random.choice(found) if found else None

    def edit(self, version: Version, change: Manifest, *, pods: bool) -> None:
        """Lay fields over a spec; `pods`: pods see it."""
        self.tell(f"edit {version.ref} {change}")
        (self.words.pods if pods else self.words.place)(version.ref, self.plane.kernel.now)
        self.plane.edit(version.ref, lambda m: mapping(m, "spec").update(change))

    def delete(self, version: Version) -> None:
        """Delete an object by hand."""
        self.tell(f"delete {version.ref}")
        self.words.delete(version.ref)
        self.auditor.allowed.add(version.ref)
        self.plane.delete(version.ref)

    # -- models
    def edit_model(self) -> None:
        """Give a model another revision, other arguments or another image."""
        if not (found := self.any("ClusterModel")):
            return
        spec = mapping(found.manifest, "spec")
        profile = next(iter(listing(spec, "serving")), {})
        if not profile:
            return  # somebody has broken it, and mends it in a moment
        engine = mapping(profile, "engine")
        number = self.random.randint(1, 9)
        changes: tuple[Manifest, ...] = (
            {"huggingFace": {**mapping(spec, "huggingFace"), "revision": f"v{number}"}},
            {"serving": [{**profile, "engine": {**engine, "args": [f"--seed={number}"]}}]},
            {"serving": [{**profile, "engine": {**engine, "image": f"vllm/vllm-openai:v0.12.{number}"}}]},
        )
        self.edit(found, self.random.choice(changes), pods=True)

    def resize_model(self) -> None:
        """Say otherwise how large a model is, which pods do not see."""
        if found := self.any("ClusterModel"):
            self.edit(found, {"resources": {"disk": f"{self.random.randint(1, 9)}00Gi"}}, pods=False)

    # -- deployments
    def create_deployment(self) -> None:
        """Create a deployment, with weights of one kind or another."""
        self._create_deployment(cached=self.random.random() < 0.5)

    def create_reader(self) -> None:
        """Create a deployment that reads from a ModelCache, where there is one."""
        self._create_deployment(cached=True)

    def _create_deployment(self, *, cached: bool) -> None:
        if len(self.plane.all("ModelDeployment")) >= DEPLOYMENTS:
            return
        cache = self.any("ModelCache") if cached else None
        name = text(cache.manifest, "spec.modelRef.name") if cache else self.random.choice(sorted(MODELS))
        weights: Manifest = {"modelCache": {"name": cache.ref.name}} if cache else self._weights()
        spec: Manifest = {"modelRef": {"name": name}, "environments": self.random.choice((1, 1, 2)), **weights}
        made = fleet.deployment(self._step, **spec, **self._selected())
        namespace = cache.ref.namespace if cache else self._namespace()
        made["metadata"] = {"name": f"d-{self._step}", "namespace": namespace}
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

    def _namespace(self) -> str:
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
            ({"modelRef": {"name": self.random.choice(sorted(MODELS))}}, True),
            (self._weights() or {"modelCache": None}, True),
        )
        change, pods = self.random.choice(changes)
        self.edit(found, change, pods=pods)

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
        made: Manifest = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelCache",
            "metadata": {"name": f"c-{self._step}", "namespace": self._namespace()},
            "spec": {
                "modelRef": {"name": self.random.choice(sorted(MODELS))},
                "storage": {"size": "1Ti"},
                "environmentSelector": {"matchLabels": self.random.choice(zones)},
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
        """Delete a ModelCache that no placement names: others are protected by Usages, which nobody enforces here."""
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
            name = self.random.choice(sorted(MODELS))
            made = by_hand(f"h-{self._step}", name, environment.ref.name)
            mapping(made, "metadata")["namespace"] = self._namespace()
            mapping(made, "spec")["replicas"] = self.random.choice((1, 1, 2))
            self.tell(f"create {self.plane.create(made)} of {name} on {environment.ref.name}")

    def edit_by_hand(self) -> None:
        """Give a placement that a user wrote another number of replicas."""
        if found := self.any("ModelPlacement", composed=False):
            self.edit(found, {"replicas": self.random.randint(0, 2)}, pods=False)

    def delete_by_hand(self) -> None:
        """Delete a placement that a user wrote."""
        if found := self.any("ModelPlacement", composed=False):
            self.delete(found)

    # -- environments
    def create_environment(self) -> None:
        """Create an environment, one that was there before or another."""
        if numbers := fleet.absent((v.ref.name for v in self.plane.all("InferenceEnvironment")), ENVIRONMENTS):
            self._add_environment(self.random.choice(numbers))

    def _add_environment(self, number: int) -> None:
        made, nodes = fleet.returning(self.seed, number)
        self.tell(f"create {self.plane.create(made)} with {nodes} nodes")

    def delete_environment(self) -> None:
        """Delete an environment."""
        if found := self.any("InferenceEnvironment"):
            self.delete(found)

    def lose_or_find_cluster(self) -> None:
        """Let a cluster be out of reach, or answer again."""
        if found := self.any("InferenceEnvironment"):
            name = provider_config(found.ref.name)
            self.tell(f"{'find' if name in self.plane.provider.out else 'lose'} the cluster of {found.ref}")
            self.plane.provider.answers(self.plane.provider.out ^ {name})

    def lose_a_node(self) -> None:
        """Let a service lose its pods for a while."""
        services = [v for v in self.plane.all("Object") if text(remote(v), "kind") == "LLMInferenceService"]
        if services:
            found = self.random.choice(services)
            self.tell(f"a node goes under {found.ref} on {config(found)}")
            self.plane.provider.stumble(found)

    def restart(self) -> None:
        """Let the function start again, and core look at everything once more."""
        self.tell("restart")
        forget()
        for kind in COMPOSERS:
            for version in self.plane.all(kind):
                self.plane.core.wake(version.ref)

    # -- harm
    def relabel(self) -> None:
        """Take the labels off a placement, whoever wrote it."""
        if found := self.any("ModelPlacement"):
            self.tell(f"take the labels off {found.ref}")
            self.plane.edit(found.ref, lambda m: mapping(m, "metadata").update({"labels": None}))

    def wipe_status(self) -> None:
        """Empty the status of something of a namespace."""
        if found := self.any(self.random.choice(("ModelPlacement", "ModelDeployment"))):
            self.tell(f"wipe the status of {found.ref}")
            self.plane.edit(found.ref, lambda m: m.update({"status": {}}))

    def wipe_references(self) -> None:
        """Take from a composite the list of what it composed, as a stale read of it does."""
        if found := self.any(self.random.choice(("ModelPlacement", "ModelPlacement", "ModelDeployment"))):
            self.tell(f"wipe the references of {found.ref}")
            self.plane.edit(found.ref, lambda m: mapping(m, "spec.crossplane").update({"resourceRefs": []}))

    def forge_owner(self) -> None:
        """Write a placement that says a deployment of another namespace composed it."""
        deployment, there = self.any("ModelDeployment"), self.any("ModelPlacement", composed=True)
        if deployment is None or there is None:
            return
        made: Manifest = {key: there.manifest[key] for key in ("apiVersion", "kind", "spec")}
        made["metadata"] = {
            "name": f"f-{self._step}",
            "namespace": self.random.choice((*NAMESPACES, "harm")),
            "labels": {**mapping(there.manifest, "metadata.labels")},
            "annotations": {**mapping(there.manifest, "metadata.annotations")},
            "ownerReferences": [{**there.controller, "uid": deployment.uid, "name": deployment.ref.name}],
        }
        if mapping(made, "metadata")["namespace"] != deployment.ref.namespace:
            self.tell(f"forge {self.plane.create(made)}, of {deployment.ref}")

    def hoard(self) -> None:
        """Write placements by hand that want more than there is."""
        environment = self.any("InferenceEnvironment")
        for number in range(2 if environment else 0):
            assert environment is not None
            made = by_hand(f"x-{self._step}-{number}", "one-node", environment.ref.name)
            mapping(made, "spec")["replicas"] = self.random.randint(3, 9)
            self.tell(f"create {self.plane.create(made)}, too large")

    def break_model(self) -> None:
        """Give a model what nobody can read, and take it back a moment later."""
        if not (found := self.any("ClusterModel")):
            return
        before = mapping(found.manifest, "spec")
        odd: tuple[Manifest, ...] = ({"resources": {"vram": "1e999"}}, {"resources": {"disk": "-1"}}, {"serving": []})
        change = self.random.choice(odd)
        self.tell(f"break {found.ref} {change}")
        self.plane.edit(found.ref, lambda m: mapping(m, "spec").update(change))
        kept: Manifest = {key: before.get(key) for key in change}
        self.plane.kernel.at(self.random.uniform(1, 60), lambda: self._mend(found.ref, kept))

    def _mend(self, ref: Ref, kept: Manifest) -> None:
        if ref in self.plane.server.latest:
            self.plane.edit(ref, lambda m: mapping(m, "spec").update(kept))

    def name_anothers_cache(self) -> None:
        """Have a deployment read from a ModelCache, of whatever model."""
        deployment, cache = self.any("ModelDeployment"), self.any("ModelCache")
        if deployment and cache and deployment.ref.namespace == cache.ref.namespace:
            self.edit(deployment, {"modelCache": {"name": cache.ref.name}}, pods=True)

    def label_as_anothers(self) -> None:
        """Let a placement be found under another environment and cache than its own."""
        if found := self.any("ModelPlacement", composed=False):
            labels: Manifest = {
                **strings(found.manifest, "metadata.labels"),
                LABEL_ENVIRONMENT: "odd",
                LABEL_CACHE: "odd",
            }
            self.tell(f"mislabel {found.ref}")
            self.plane.edit(found.ref, lambda m: mapping(m, "metadata").update({"labels": labels}))


def model(name: str, nodes: int) -> Manifest:
    """Return a model of so many nodes whose repository needs a token, and is named as it is served."""
    made = fleet.model(name, nodes)
    spec = mapping(made, "spec")
    source: Manifest = {"repo": f"org/{name}", "secretRef": {"name": "hf-token"}}
    return {**made, "spec": {**spec, "model": {"name": f"org/{name}"}, "huggingFace": source}}


ACTIONS: tuple[Callable[[Users], None], ...] = (
    Users.edit_model,
    Users.resize_model,
    Users.create_deployment,
    Users.create_deployment,
    Users.create_deployment,
    Users.edit_deployment,
    Users.edit_deployment,
    Users.delete_deployment,
    Users.create_cache,
    Users.create_cache,
    Users.edit_cache,
    Users.edit_cache,
    Users.delete_cache,
    Users.place_by_hand,
    Users.edit_by_hand,
    Users.delete_by_hand,
    Users.create_environment,
    Users.delete_environment,
    Users.lose_or_find_cluster,
    Users.lose_a_node,
    Users.restart,
)
HOSTILE: tuple[Callable[[Users], None], ...] = (
    Users.relabel,
    Users.wipe_status,
    Users.wipe_references,
    Users.wipe_references,
    Users.forge_owner,
    Users.hoard,
    Users.break_model,
    Users.name_anothers_cache,
    Users.name_anothers_cache,
    Users.label_as_anothers,
)
