"""The platform team: environments and clusters come and go, nodes and namespaces too, the function restarts."""

from bench.histories.cloud import create_in_cloud
from bench.histories.clusters import config, place_of, remote
from bench.histories.models import models
from bench.histories.plane import forget
from bench.histories.users import NAMESPACES, Users
from bench.simulator import fleet
from function.api.inference_environment import name_provider_config
from function.composers import COMPOSERS
from function.kube.manifests import JSON, Manifest, get, mapping, text

ENVIRONMENTS = 3


class Platform(Users):
    """Authors, and those who run the platform."""

    def begin(self) -> None:
        """Make models and environments."""
        for made in models():
            self.plane.create(made)
        for number in range(ENVIRONMENTS - 1):
            self._add_environment(number)
        if self.plane.provider.gateways.playing:
            self._begin_routed()

    def _begin_routed(self) -> None:
        """Make two deployments of a namespace and a ModelService over both."""
        for number in range(2):
            made = fleet.deployment(number, modelRef={"name": "one-node"}, environments=2)
            made["metadata"] = {"name": f"b-{number}", "namespace": NAMESPACES[0]}
            self.tell(f"create {self.plane.create(made)}")
        backends: list[JSON] = [{"deployment": f"b-{number}", "weight": 1 + 8 * number} for number in range(2)]
        service: Manifest = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelService",
            "metadata": {"name": "s", "namespace": NAMESPACES[0]},
            "spec": {"backends": backends},
        }
        self.tell(f"create {self.plane.create(service)}")

    # -- environments
    def create_environment(self) -> None:
        """Create an environment, one that was there before or another."""
        if numbers := fleet.absent((v.ref.name for v in self.plane.all("InferenceEnvironment")), ENVIRONMENTS):
            self._add_environment(self.random.choice(numbers))

    def _add_environment(self, number: int) -> None:
        made, nodes = fleet.returning(self.seed, number)
        mapping(made, "spec.storage")["readBandwidth"] = 2  # GB/s: how long loading takes is derived from it
        if self.plane.cloud.playing:
            made = create_in_cloud(made, self.random)
        ref = self.plane.create(made)
        self.words.pods(ref, self.plane.kernel.now)  # an earlier one of its name may have been edited
        self.tell(f"create {ref} with {nodes} nodes")

    def slow_deletions(self) -> None:
        """Let remote objects go slowly from now on."""
        self.tell("remote objects go slowly")
        self.plane.provider.deletions.slow_down()

    def pull_with_secret(self) -> None:
        """Have an environment pull images with a Secret, of which each namespace gets a copy, or not any more."""
        if found := self.any("InferenceEnvironment"):
            named: list[JSON] = [{"secretRef": {"name": "registry"}}]
            secrets = None if get(found.manifest, "spec.imagePullSecrets") else named
            self.edit(found, {"imagePullSecrets": secrets}, pods=True)

    def delete_environment(self) -> None:
        """Delete an environment."""
        if found := self.any("InferenceEnvironment"):
            self.delete(found)

    def lose_or_find_cluster(self) -> None:
        """Let a cluster be out of reach, or answer again."""
        if found := self.any("InferenceEnvironment"):
            name = name_provider_config(found.ref.name)
            self.tell(f"{'find' if name in self.plane.provider.out else 'lose'} the cluster of {found.ref}")
            self.plane.provider.answers(self.plane.provider.out ^ {name})

    def lose_a_node(self) -> None:
        """Let a service lose its pods for a while."""
        services = [v for v in self.plane.all("Object") if text(remote(v), "kind") == "LLMInferenceService"]
        if services:
            found = self.random.choice(services)
            self.tell(f"a node goes under {found.ref} on {config(found)}")
            self.plane.provider.stumble(found)

    def show_nodes(self) -> None:
        """Have nodes looked at from now on."""
        self.tell("nodes are looked at")
        self.plane.nodes.show()

    def cordon_a_node(self) -> None:
        """Cordon a node, or take that back: nothing that is placed moves for it."""
        if nodes := self.plane.nodes.all():
            found = self.random.choice(nodes)
            self.tell(f"cordon {found.ref.name}, or take that back")
            self.plane.nodes.cordon(found)

    def remove_a_node(self) -> None:
        """Take a node from a cluster for a while."""
        if nodes := self.plane.nodes.all():
            found = self.random.choice(nodes)
            self.tell(f"take away {found.ref.name}")
            self.plane.nodes.remove(found)

    def end_a_namespace(self) -> None:
        """Delete a namespace on a cluster, with all that is in it."""
        there = [v for v in self.plane.all("Object") if text(remote(v), "kind") == "Namespace" and not v.deleting]
        if there:
            place = place_of(self.random.choice(there))
            self.tell(f"namespace {place[1]} ends on {place[0]}")
            self.auditor.emptied(place)
            self.plane.provider.end_namespace(place)

    def restart(self) -> None:
        """Let the function start again, and core look at everything once more."""
        self.tell("restart")
        forget()
        for kind in COMPOSERS:
            for version in self.plane.all(kind):
                self.plane.core.wake(version.ref)
