"""The platform team creates clusters in a cloud, and changes and removes what it has created."""

import copy

from bench.histories.cloud import MACHINES
from bench.histories.labels import Labels
from function.cli.store import Ref
from function.kube.manifests import JSON, get, listing, mapping

_BACK_SECONDS = 1.0, 90.0


class Creating(Labels):
    """Those who create clusters, and change and remove what they created."""

    def change_machine(self) -> None:
        """Gives a pool another machine type, as if it had been removed and added again."""
        if found := self.any("InferenceEnvironment"):
            machine = self.random.choice(MACHINES)
            pools: list[JSON] = [
                {**pool, "gke": {**mapping(pool, "gke"), "machineType": machine}}
                for pool in listing(found.manifest, "spec.nodePools")
            ]
            self.tell(f"pools of {found.ref} are of {machine}")
            self.lay(found.ref, {"nodePools": pools})

    def remove_pools(self) -> None:
        """Removes all pools of an environment, and adds them again after a while."""
        found = self.any("InferenceEnvironment")
        if found and (pools := get(found.manifest, "spec.nodePools")):
            self.tell(f"remove the pools of {found.ref}")
            self.lay(found.ref, {"nodePools": []})
            self.plane.kernel.at(
                self.random.uniform(*_BACK_SECONDS), lambda: self._add_again(found.ref, pools), lazy=True
            )

    def _add_again(self, ref: Ref, pools: JSON) -> None:
        if ref in self.plane.server.latest:
            self.lay(ref, {"nodePools": pools})

    def change_removal(self) -> None:
        """Says that what is removed is deleted in the cloud, or kept."""
        if found := self.any("InferenceEnvironment"):
            removal = self.random.choice(("Keep", "Delete"))
            self.tell(f"{found.ref}: onRemoval {removal}")
            cluster = copy.deepcopy(mapping(found.manifest, "spec.cluster"))
            mapping(cluster, "gke.provision")["onRemoval"] = removal
            self.lay(found.ref, {"cluster": cluster})

    def stop_or_start_provider(self) -> None:
        """Lets the provider of the cloud end, or start again."""
        down = not self.plane.cloud.down
        self.tell(f"the provider of the cloud {'ends' if down else 'starts'}")
        self.plane.cloud.come_back(down=down)
