"""Users and a platform team in a tight world: small pools that are full, and edits that change several things at once.

A tight world has one or two environments with one or two pools of one to four nodes. It starts full. Deployments change
shape and replicas in one step, pools are renamed while they serve, and placements written by hand wait for room.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from bench.histories.harm import HOSTILE, Everybody
from bench.histories.models import ACCELERATORS, SHAPES, models, other_bytes, tight_shape, with_requirements
from bench.histories.users import NAMESPACES
from bench.simulator import fleet
from bench.simulator.objects import Version
from bench.simulator.races import by_hand
from function.api.inference_environment import name_provider_config
from function.kube.manifests import JSON, Manifest, get, integer, is_ready, listing, mapping, text

DEPLOYMENTS = 6  # more than fit
MISSING_MODEL = "missing"
GUARANTEES = 0, 4, 8, 16, 24  # GPUs of each namespace
OUTAGE_SECONDS = 20.0, 120.0
_NAMES = ("frontier", "reserve", "spare")


class TightWorld(Everybody):
    """All users of a tight world."""

    most_deployments = DEPLOYMENTS
    _written, _reshaped = 0, ""

    def begin(self) -> None:
        """Creates models and environments, and deployments that fill them."""
        self.random = Random(f"{self.seed} begin")  # noqa: S311  # the same world for the same seed
        for model in models():
            self.plane.create(with_requirements(model, self.random))
        for number in range(self.random.choice((1, 1, 1, 2))):
            self._add_environment(number)
        self.plane.rest()
        for step in range(100, 102 + self.random.randint(0, 2)):
            self.step = step  # deployments are named after it
            self.create_deployment()

    def act(self, step: int) -> None:
        """Does one of the actions of a tight world, or what the history is aimed at."""
        self.step, self.random = step, Random(f"{self.seed} {step}")  # noqa: S311  # the same for the same seed
        if self.aim:
            super().act(step)
        elif not self.act_specially():
            harm = self.hostile and self.random.random() < 0.25
            self.random.choice(HOSTILE if harm else ACTIONS)(self)

    def _add_environment(self, number: int) -> None:
        made, _ = fleet.returning(self.seed, number)
        drawn = Random(f"{self.seed} {number} pools")  # noqa: S311  # the same whenever the environment comes back
        spec = mapping(made, "spec")
        (declared,) = listing(spec, "nodePools")
        pools: list[JSON] = [
            {
                **declared,
                "name": _NAMES[index],
                "acceleratorType": ACCELERATORS[index],
                "maxNodeCount": drawn.choice((1, 1, 2, 2, 3, 4)),
                "labels": {key: f"{value}-{index}" for key, value in mapping(declared, "labels").items()},
            }
            for index in range(drawn.choice((1, 2)))
        ]
        spec |= {"nodePools": pools}
        mapping(spec, "storage")["readBandwidth"] = 2  # GB/s
        self.tell(f"create {self.plane.create(made)} with pools {_sizes(pools)}")

    # -- pools
    def rename_pool(self) -> None:
        """Gives a pool another name, and sometimes writes a placement for the new name at the same moment."""
        if not (environment := self.any("InferenceEnvironment")):
            return
        pools = _pools(environment)
        number = self.random.randrange(len(pools))
        free = sorted({*_NAMES, "renamed"} - {text(pool, "name") for pool in pools})
        self._rename(environment, {number: self.random.choice(free)})
        newcomer = self.random.choice((self.place_by_hand, self.create_deployment, None))
        if newcomer:
            newcomer()

    def exchange_pools(self) -> None:
        """Exchanges the names of two pools."""
        there = [v for v in self.plane.all("InferenceEnvironment") if len(_pools(v)) > 1 and not v.deleting]
        if there:
            environment = self.random.choice(there)
            names = [text(pool, "name") for pool in _pools(environment)]
            self._rename(environment, {0: names[1], 1: names[0]})

    def _rename(self, environment: Version, names: Mapping[int, str]) -> None:
        pools: list[JSON] = [
            {**pool, "name": names.get(number, pool["name"])} for number, pool in enumerate(_pools(environment))
        ]
        self.tell(f"name the pools of {environment.ref} {_sizes(pools)}")
        admitted = {text(row, "uid") for row in listing(environment.manifest, "status.admitted")}
        if any(v.uid in admitted and not is_ready(v.manifest) for v in self.plane.all("ModelPlacement")):
            # A placement that does not serve yet may have to run on other nodes from now on.
            self.words.shape(environment.ref, self.plane.kernel.now)
        self.lay(environment.ref, {"nodePools": pools})

    # -- models and deployments
    def _selected(self) -> Manifest:
        """Returns the selector of a deployment, which mostly admits all environments as there are few."""
        return super()._selected() if self.random.random() < 0.2 else {}

    def reshape_model(self) -> None:
        """Gives a model another topology and mostly other bytes."""
        placed = {text(v.manifest, "spec.modelRef.name") for v in self.plane.all("ModelPlacement")}
        found = [v for v in self.plane.all("ClusterModel") if v.ref not in self.broken]
        found = [v for v in found if v.ref.name in placed] or found
        if not found:
            return
        model = self.random.choice(found)
        spec = mapping(model.manifest, "spec")
        bytes_ = other_bytes(spec, self.random.randint(1, 9)) if self.random.random() < 0.7 else {}
        self.edit(model, {**tight_shape(spec, self.random), **bytes_}, pods=True)
        self.words.shape(model.ref, self.plane.kernel.now)
        self._reshaped = model.ref.name

    def reshape_and_scale(self) -> None:
        """Gives a model another topology and its deployments another number of replicas, at the same moment."""
        self._reshaped = ""
        self.reshape_model()
        for deployment in self.plane.all("ModelDeployment"):
            if get(deployment.manifest, "spec.modelRef.name") == self._reshaped and not deployment.deleting:
                self.edit(deployment, _scaled(self.random.randint(1, 3)), pods=False)

    def switch_model_and_scale(self) -> None:
        """Gives a deployment another model and another number of replicas in one edit."""
        if found := self.any("ModelDeployment"):
            names = [v.ref.name for v in self.plane.all("ClusterModel")]
            change: Manifest = {"modelRef": {"name": self.random.choice(names)}, **_scaled(self.random.randint(1, 3))}
            self.edit(found, change, pods=True)
            self.words.shape(found.ref, self.plane.kernel.now)

    def scale_deployment(self) -> None:
        """Gives a deployment another number of replicas."""
        if found := self.any("ModelDeployment"):
            self.edit(found, _scaled(self.random.randint(0, 3)), pods=False)

    def scale_up(self) -> None:
        """Gives a deployment one more replica than it has."""
        if found := self.any("ModelDeployment"):
            now = integer(found.manifest, "spec.scaling.fixed.replicas", 1)
            self.edit(found, _scaled(now + 1), pods=False)

    def divide_replicas(self) -> None:
        """Lets a deployment divide its replicas over environments, or no longer."""
        if found := self.any("ModelDeployment"):
            now = text(found.manifest, "spec.scaling.replicaScheduling")
            scheduling = "Duplicated" if now == "Divided" else "Divided"
            scaling: Manifest = {**_scaled(self.random.randint(0, 6)), "environments": self.random.choice((None, 1, 2))}
            mapping(scaling, "scaling")["replicaScheduling"] = scheduling
            self.edit(found, scaling, pods=False)

    def lend_replicas(self) -> None:
        """Lets deployments lend replicas, or no longer, with priorities, while mostly another one needs GPUs."""
        for found in self.plane.all("ModelDeployment"):
            if self.random.random() < 0.7 and not found.deleting:
                replicas = self.random.randint(1, 6)
                scaling = _scaled(replicas)
                guaranteed = self.random.choice((None, 1, 1, self.random.randint(1, replicas)))
                mapping(scaling, "scaling.fixed")["guaranteed"] = guaranteed
                self.edit(found, {**scaling, "priority": self.random.choice((0, 0, -1, -2))}, pods=False)
        if self.random.random() < 0.7:
            self.create_deployment()
        if self.settings.limits.guaranteed_gpus is not None and self.random.random() < 0.3:
            self.change_guarantee()

    def change_guarantee(self) -> None:
        """Gives namespaces another guarantee, or the first one."""
        self._limit(replace(self.settings.limits, guaranteed_gpus=self.random.choice(GUARANTEES)))

    def scale_down_unreachable(self) -> None:
        """Scales down what serves on a cluster that does not answer, while something else wants the GPUs."""
        if not (environment := self.any("InferenceEnvironment")):
            return
        cluster = name_provider_config(environment.ref.name)
        self.tell(f"lose the cluster of {environment.ref} for a while")
        self.plane.provider.answers(self.plane.provider.out | {cluster})
        for deployment in self.plane.all("ModelDeployment"):
            if self.random.random() < 0.7 and not deployment.deleting:
                self.edit(deployment, _scaled(self.random.randint(0, 1)), pods=False)
        self.create_deployment()
        self.place_by_hand()
        self.plane.kernel.at(self.random.uniform(*OUTAGE_SECONDS), lambda: self._find(cluster), lazy=True)

    def _find(self, cluster: str) -> None:
        self.plane.provider.answers(self.plane.provider.out - {cluster})

    # -- placements
    def place_by_hand(self) -> None:
        """Writes a placement of one of several shapes."""
        self._place(self._topology(), self.random.choice((1, 1, 2)))

    def place_beyond_room(self) -> None:
        """Writes a placement for all nodes of a pool, which waits where any is in use."""
        self._place(None, 0)

    def place_missing_model(self) -> None:
        """Writes a placement of a model that does not exist."""
        self._place(self._topology(), self.random.choice((1, 2)), model=MISSING_MODEL)

    def _place(self, topology: Manifest | None, replicas: int, model: str = "one-node") -> None:
        if not (environment := self.any("InferenceEnvironment")):
            return
        made = by_hand(f"h-{self._number()}", "one-node", environment.ref.name)
        pool = self.random.choice(_pools(environment))
        mapping(made, "metadata")["namespace"] = self.random.choice((*NAMESPACES, "by-hand"))
        mapping(made, "spec").update(
            modelRef={"kind": "ClusterModel", "name": model},
            pool=pool["name"],
            topology=topology or _shape(1, fleet.GPUS),
            replicas=replicas or pool["maxNodeCount"],
        )
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def edit_by_hand(self) -> None:
        """Gives a placement written by hand other replicas, and sometimes another shape or pool in the same edit."""
        if not (found := self.any("ModelPlacement", composed=False)):
            return
        change: Manifest = {"replicas": self.random.randint(0, 3)}
        if reshaped := self.random.random() < 0.6:
            change["topology"] = self._topology()
        there = self.environment_of(found)
        if there and self.random.random() < 0.3:
            change["pool"] = self.random.choice(_pools(there))["name"]
            reshaped = True
        self.edit(found, change, pods=reshaped)
        if reshaped:
            self.words.shape(found.ref, self.plane.kernel.now)

    def _number(self) -> str:
        """Returns a number that no placement written by hand has yet."""
        self._written += 1
        return f"{self.step}-{self._written}"

    def environment_of(self, placement: Version) -> Version | None:
        """Returns the environment of a placement, if it exists."""
        name = text(placement.manifest, "spec.inferenceEnvironmentRef.name")
        return next((v for v in self.plane.all("InferenceEnvironment") if v.ref.name == name), None)

    def _topology(self) -> Manifest:
        return _shape(*self.random.choice(SHAPES))


def _shape(nodes: int, gpus: int) -> Manifest:
    return {"nodes": nodes, "gpusPerNode": gpus, "parallelism": {"tensor": gpus, "pipeline": nodes}}


def _scaled(replicas: int) -> Manifest:
    return {"scaling": {"signal": "Fixed", "fixed": {"replicas": replicas}}}


def _pools(environment: Version) -> list[Manifest]:
    return listing(environment.manifest, "spec.nodePools")


def _sizes(pools: list[JSON]) -> str:
    return ", ".join(f"{pool['name']} x {pool['maxNodeCount']}" for pool in pools if isinstance(pool, dict))


ACTIONS: tuple[Callable[[TightWorld], None], ...] = (
    TightWorld.reshape_and_scale,
    TightWorld.reshape_and_scale,
    TightWorld.reshape_and_scale,
    TightWorld.switch_model_and_scale,
    TightWorld.switch_model_and_scale,
    TightWorld.scale_deployment,
    TightWorld.scale_up,
    TightWorld.scale_up,
    TightWorld.divide_replicas,
    TightWorld.divide_replicas,
    TightWorld.lend_replicas,
    TightWorld.lend_replicas,
    TightWorld.lend_replicas,
    TightWorld.lend_replicas,
    TightWorld.edit_model,
    TightWorld.reshape_model,
    TightWorld.resize_model,
    TightWorld.create_deployment,
    TightWorld.create_deployment,
    TightWorld.create_deployment,
    TightWorld.edit_deployment,
    TightWorld.delete_deployment,
    TightWorld.rename_pool,
    TightWorld.rename_pool,
    TightWorld.exchange_pools,
    TightWorld.place_by_hand,
    TightWorld.place_beyond_room,
    TightWorld.place_beyond_room,
    TightWorld.place_missing_model,
    TightWorld.edit_by_hand,
    TightWorld.edit_by_hand,
    TightWorld.delete_by_hand,
    TightWorld.scale_down_unreachable,
    TightWorld.lose_or_find_cluster,
    TightWorld.lose_a_node,
    TightWorld.create_environment,
    TightWorld.restart,
)
