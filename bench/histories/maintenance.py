"""The platform team takes environments and pools out of service, and authors tolerate it."""

from bench.histories.platform import Platform
from function.kube.manifests import JSON, Manifest, flag, get, listing

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

    def cordon_a_pool(self) -> None:
        """Make a pool unschedulable, or take that back."""
        if found := self.any("InferenceEnvironment"):
            pools = listing(found.manifest, "spec.nodePools")
            chosen = self.random.randrange(len(pools))
            changed: list[JSON] = [
                {**pool, "unschedulable": not flag(pool, "unschedulable")} if index == chosen else pool
                for index, pool in enumerate(pools)
            ]
            self.tell(f"make pool {chosen} of {found.ref} unschedulable, or take that back")
            self.lay(found.ref, {"nodePools": changed})

    def tolerate(self) -> None:
        """Let a deployment tolerate the taint, or not any more."""
        if found := self.any("ModelDeployment"):
            tolerations: JSON = None if get(found.manifest, "spec.tolerations") else [_EXISTS]
            self.edit(found, {"tolerations": tolerations}, pods=False)
