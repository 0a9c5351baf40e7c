"""Users, some of them hostile: they wipe labels, statuses and lists, forge owners, hoard GPUs, break models."""

from collections.abc import Callable, Sequence
from random import Random

from bench.histories.creating import Creating
from bench.histories.governance import GOVERN
from bench.histories.labels import RELABEL
from bench.histories.users import NAMESPACES
from bench.simulator.objects import Version
from bench.simulator.races import by_hand
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, get, listing, mapping, prune, strings
from function.kube.names import LABEL_CACHE, LABEL_ENVIRONMENT

_MODEL = "spec.modelRef.name"


class Everybody(Creating):
    """All users. Some of them mean harm where `hostile`, some maintain environments where `maintained`, some write
    ModelServices where `routed`, some change settings where `governed` and labels where `relabelled`, and some move out
    of clusters where what goes there is `slow`, and some change clusters where environments `created` them; all do what
    `aim` names, again and again in its order, if it names anything (`a+b`: at the same moment).
    """

    hostile, maintained, governed, relabelled, slow, created = False, False, False, False, False, False
    aim: Sequence[str] = ()

    def act(self, step: int) -> None:
        """Do something, or one of the things that are aimed at."""
        self.step, self.random = step, Random(f"{self.seed} {step}")  # noqa: S311  # the same for the same seed
        harm = self.hostile and self.random.random() < 0.5  # every other step
        if self.aim:
            for name in self.aim[step % len(self.aim)].split("+"):
                getattr(self, name)()
        elif not self.act_specially():
            self.random.choice(HOSTILE if harm else ACTIONS)(self)

    def act_specially(self) -> bool:
        """Do one of the things that only some histories have, or nothing."""
        for is_on, share, actions in (
            (self.created, CREATING, CREATE),
            (self.routed, ROUTING, ROUTE),
            (self.maintained, MAINTENANCE, MAINTAIN),
            (self.governed, GOVERNING, GOVERN),
            (self.relabelled, RELABELLING, RELABEL),
            (self.slow, LEAVING, LEAVE),
        ):
            if is_on and self.random.random() < share:
                self.random.choice(actions)(self)
                return True
        return False

    def wipe_status(self) -> None:
        """Empty the status of something of a namespace."""
        if found := self.any(self.random.choice(("ModelPlacement", "ModelDeployment"))):
            self.tell(f"wipe the status of {found.ref}")
            self.plane.edit(found.ref, lambda m: m.update({"status": {}}))

    def wipe_references(self) -> None:
        """Take from a composite the list of what it composed, as a stale read of it does."""
        if found := self.any(self.random.choice(("ModelPlacement", "ModelPlacement", "ModelDeployment"))):
            self.tell(f"wipe the references of {found.ref}")
            self.words.wiped.add(found.ref)
            self.plane.edit(found.ref, lambda m: mapping(m, "spec.crossplane").update({"resourceRefs": []}))

    def forge_owner(self) -> None:
        """Write a placement that says a deployment of another namespace composed it."""
        if not (there := self.any("ModelPlacement", composed=True)):
            return
        made: Manifest = {key: there.manifest[key] for key in ("apiVersion", "kind", "spec")}
        others = [name for name in (*NAMESPACES, "harm") if name != there.ref.namespace]
        made["metadata"] = {
            "name": f"f-{self.step}",
            "namespace": self.random.choice(others),
            "labels": {**mapping(there.manifest, "metadata.labels")},
            "annotations": {**mapping(there.manifest, "metadata.annotations")},
            "ownerReferences": [{**there.controller}],
        }
        self.tell(f"forge {self.plane.create(made)}, of {there.controller['name']} in {there.ref.namespace}")

    def hoard(self) -> None:
        """Write placements by hand that want more than there is."""
        environment = self.any("InferenceEnvironment")
        for number in range(2 if environment else 0):
            assert environment is not None
            made = by_hand(f"x-{self.step}-{number}", "one-node", environment.ref.name)
            mapping(made, "spec")["replicas"] = self.random.randint(3, 9)
            self.tell(f"create {self.plane.create(made)}, too large")

    def break_model(self) -> None:
        """Make a model invalid, and correct it a moment later."""
        found = self.any("ClusterModel")
        if found is None or found.ref in self.broken:
            return
        before = mapping(found.manifest, "spec")
        # As many as a model may have, each wrong on its own, at length.
        profiles: list[JSON] = [{"name": f"profile-{number}", "engine": {"name": "x" * 60}} for number in range(7)]
        odd: tuple[Manifest, ...] = (
            {"resources": {"disk": "-1"}},
            {"serving": []},
            {"serving": [*listing(before, "serving"), *profiles]},
        )
        self._break(found, self.random.choice(odd))

    def inflate_model(self) -> None:
        """Say of a model that it takes more memory or disk than there is in the world, for a moment."""
        found = self.any("ClusterModel")
        if found and found.ref not in self.broken:
            self._break(found, {"resources": {self.random.choice(("vram", "disk")): "1e999"}})

    def _break(self, found: Version, change: Manifest) -> None:
        self.tell(f"break {found.ref} {str(change)[:200]}")
        kept: Manifest = {key: get(found.manifest, f"spec.{key}") for key in change}
        self.broken.add(found.ref)
        self.lay(found.ref, change)
        self.plane.kernel.at(self.random.uniform(1, 60), lambda: self._mend(found.ref, kept), lazy=True)

    def _mend(self, ref: Ref, kept: Manifest) -> None:
        self.broken.discard(ref)
        self.lay(ref, kept)
        self.plane.edit(ref, lambda m: m.update(spec=prune(mapping(m, "spec"))))

    def name_anothers_cache(self) -> None:
        """Have a deployment read from a ModelCache of its namespace, rather of another model."""
        pairs = [
            (deployment, cache)
            for deployment in self.plane.all("ModelDeployment")
            for cache in self.plane.all("ModelCache")
            if deployment.ref.namespace == cache.ref.namespace and not deployment.deleting
        ]
        others = [(d, c) for d, c in pairs if get(d.manifest, _MODEL) != get(c.manifest, _MODEL)]
        if pairs:
            deployment, cache = self.random.choice(others or pairs)
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


ACTIONS: tuple[Callable[[Everybody], None], ...] = (
    Everybody.edit_model,
    Everybody.reshape_model,
    Everybody.resize_model,
    Everybody.create_deployment,
    Everybody.create_deployment,
    Everybody.create_deployment,
    Everybody.edit_deployment,
    Everybody.edit_deployment,
    Everybody.delete_deployment,
    Everybody.create_cache,
    Everybody.create_cache,
    Everybody.edit_cache,
    Everybody.edit_cache,
    Everybody.delete_cache,
    Everybody.place_by_hand,
    Everybody.crowd,
    Everybody.edit_by_hand,
    Everybody.delete_by_hand,
    Everybody.create_environment,
    Everybody.delete_environment,
    Everybody.lose_or_find_cluster,
    Everybody.lose_a_node,
    Everybody.cordon_a_node,
    Everybody.remove_a_node,
    Everybody.end_a_namespace,
    Everybody.restart,
)
# How many steps of a history with ModelServices.
ROUTING = 0.6
ROUTE: tuple[Callable[[Everybody], None], ...] = (
    Everybody.create_service,
    Everybody.create_service,
    Everybody.edit_service,
    Everybody.edit_service,
    Everybody.serve_deployment,
    Everybody.delete_service,
    Everybody.lose_a_slice,
    Everybody.shrink_deployment,
    Everybody.grow_deployment,
    Everybody.lose_all_clusters,
    Everybody.lose_all_pods,
    Everybody.create_deployment,
    Everybody.edit_deployment,
    Everybody.edit_deployment,
    Everybody.drain,
    Everybody.lose_or_find_cluster,
    Everybody.lose_a_node,
)
# How many steps of a history with maintenance.
MAINTENANCE = 0.6
MAINTAIN: tuple[Callable[[Everybody], None], ...] = (
    Everybody.cordon,
    Everybody.drain,
    Everybody.drain,
    Everybody.cordon_a_pool,
    Everybody.tolerate,
    Everybody.create_one_by_one,
    Everybody.roll_out,
    Everybody.roll_out,
    Everybody.use_bad_image,
    Everybody.reprice,
    Everybody.reprice,
    Everybody.prefer_cheapest,
)
# How many steps of a history in which settings change, and of one in which labels do.
GOVERNING, RELABELLING = 0.5, 0.4
# How many steps of a history in which remote objects go slowly.
LEAVING = 0.3
LEAVE: tuple[Callable[[Everybody], None], ...] = (
    Everybody.move_out,
    Everybody.move_out,
    Everybody.create_environment,
    Everybody.create_deployment,
    Everybody.delete_deployment,
)
# How many steps of a history in which environments create their clusters.
CREATING = 0.4
CREATE: tuple[Callable[[Everybody], None], ...] = (
    Everybody.change_machine,
    Everybody.change_machine,
    Everybody.remove_pools,
    Everybody.change_removal,
    Everybody.stop_or_start_provider,
    Everybody.delete_environment,
    Everybody.create_environment,
    Everybody.create_environment,
)
HOSTILE: tuple[Callable[[Everybody], None], ...] = (
    Everybody.relabel,
    Everybody.wipe_status,
    Everybody.wipe_references,
    Everybody.wipe_references,
    Everybody.forge_owner,
    Everybody.hoard,
    Everybody.break_model,
    Everybody.inflate_model,
    Everybody.name_anothers_cache,
    Everybody.name_anothers_cache,
    Everybody.label_as_anothers,
)
