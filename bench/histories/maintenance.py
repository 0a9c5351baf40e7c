"""The platform team takes environments and pools out of service, and prices them; roll-outs, one by one."""

from bench.histories.models import NAMES
from bench.histories.platform import Platform
from bench.simulator import fleet
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, flag, get, listing, mapping

# With this image, services of some models do not start on some clusters (see clusters.py).
BAD_IMAGE = "vllm/vllm-openai:v0.12.0-bad"
_MOVE_SECONDS = 1.0, 120.0
_EXISTS: Manifest = {"key": "repair", "operator": "Exists"}


class Maintenance(Platform):
    """Those who take environments and pools out of service."""

    def cordon(self) -> None:
        """Give an environment a NoSchedule taint, or take its taints away."""
        self._taint("NoSchedule")

    def drain(self) -> None:
        """Give an environment a NoExecute taint, or take its taints away."""
        self._taint("NoExecute")

    def _taint(self, effect: str) -> None:
        if found := self.any("InferenceEnvironment"):
            taints: JSON = None if get(found.manifest, "spec.taints") else [{"key": "repair", "effect": effect}]
            self.tell(f"taint {found.ref} {taints}")
            self.lay(found.ref, {"taints": taints})

    def move_out(self) -> None:
        """Drain an environment, and delete it while its placements move away."""
        if found := self.any("InferenceEnvironment"):
            self.tell(f"move out of {found.ref}")
            self.lay(found.ref, {"taints": [{"key": "repair", "effect": "NoExecute"}]})
            self.plane.kernel.at(
                self.random.uniform(*_MOVE_SECONDS), lambda: self._delete_drained(found.ref), lazy=True
            )

    def _delete_drained(self, ref: Ref) -> None:
        if there := self.plane.server.latest.get(ref):
            self.delete(there)

    def cordon_a_pool(self) -> None:
        """Make a pool unschedulable, or take that back."""
        found = self.any("InferenceEnvironment")
        if found and (pools := listing(found.manifest, "spec.nodePools")):
            chosen = self.random.randrange(len(pools))
            changed: list[JSON] = [
                {**pool, "unschedulable": not flag(pool, "unschedulable")} if index == chosen else pool
                for index, pool in enumerate(pools)
            ]
            self.tell(f"make pool {chosen} of {found.ref} unschedulable, or take that back")
            self.lay(found.ref, {"nodePools": changed})

    def reprice(self) -> None:
        """Give all pools of an environment another price, or an invalid one: nothing that runs moves for it."""
        if found := self.any("InferenceEnvironment"):
            price: JSON = {"perGpuHour": self.random.choice(("1.00", "2.50", "9", "free")), "currency": "USD"}
            self.tell(f"price {found.ref} {price}")
            pools: list[JSON] = [{**pool, "price": price} for pool in listing(found.manifest, "spec.nodePools")]
            self.lay(found.ref, {"nodePools": pools})

    def prefer_cheapest(self) -> None:
        """Let a deployment prefer the cheapest pool, or not any more, which counts for new placements only."""
        if found := self.any("ModelDeployment"):
            prefer: JSON = None if get(found.manifest, "spec.placement") else {"prefer": "Cheapest"}
            self.tell(f"place {found.ref} by {prefer}")
            self.lay(found.ref, {"placement": prefer})

    def tolerate(self) -> None:
        """Let a deployment tolerate the taint, or not any more."""
        if found := self.any("ModelDeployment"):
            tolerations: JSON = None if get(found.manifest, "spec.tolerations") else [_EXISTS]
            self.edit(found, {"tolerations": tolerations}, pods=False)

    def create_one_by_one(self) -> None:
        """Create a deployment on all environments, which change one after the other."""
        if len(self.plane.all("ModelDeployment")) >= self.most_deployments:
            return
        spec: Manifest = {"modelRef": {"name": self.random.choice(NAMES)}, "environments": 3}
        made = fleet.deployment(self.step, **spec, rollout={"environments": "OneByOne"})
        made["metadata"] = {"name": f"d-{self.step}", "namespace": self.namespace()}
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def roll_out(self) -> None:
        """Let a deployment change one environment after the other, pause that, stop every replica first, or end it."""
        if found := self.any("ModelDeployment"):
            one_by_one: Manifest = {"environments": "OneByOne"}
            backwards: list[JSON] = [
                *sorted((v.ref.name for v in self.plane.all("InferenceEnvironment")), reverse=True)
            ]
            choices: tuple[JSON, ...] = (
                one_by_one,
                one_by_one,
                {**one_by_one, "paused": True},
                {**one_by_one, "order": backwards},
                {**one_by_one, "whenFull": "Replace"},
                None,
            )
            self.edit(found, {"rollout": self.random.choice(choices)}, pods=False)

    def replace_when_full(self) -> None:
        """Let all deployments stop their replicas before a change where new pods have no room beside them."""
        for found in self.plane.all("ModelDeployment"):
            if not found.deleting:
                self.edit(found, {"rollout": {"environments": "OneByOne", "whenFull": "Replace"}}, pods=False)

    def use_bad_image(self) -> None:
        """Give a model an image with which it does not start everywhere."""
        if found := self._model():
            (profile,) = listing(found.manifest, "spec.serving")
            serving: list[JSON] = [{**profile, "engine": {**mapping(profile, "engine"), "image": BAD_IMAGE}}]
            self.edit(found, {"serving": serving}, pods=True)
