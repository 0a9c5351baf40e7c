"""Authors who give deployments one URL."""

from bench.histories.clusters import config, remote
from bench.histories.maintenance import Maintenance
from bench.simulator.objects import Version
from function.api.inference_environment import name_provider_config
from function.kube.manifests import JSON, Manifest, get, listing, text

SERVICES = 2
_WEIGHTS = (1, 1, 2, 9, 0)


class Routing(Maintenance):
    """Those who write ModelServices, where the control plane has a gateway: `routed`."""

    routed = False

    def create_service(self) -> None:
        """Create a ModelService over one or two deployments of a namespace."""
        there = [v for v in self.plane.all("ModelDeployment") if not v.deleting]
        if not there or len(self.plane.all("ModelService")) >= SERVICES:
            return
        namespace = self.random.choice(there).ref.namespace
        made: Manifest = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelService",
            "metadata": {"name": f"s-{self.step}", "namespace": namespace},
            "spec": {"backends": self._backends(namespace), **self._distributed()},
        }
        self.tell(f"create {self.plane.create(made)} {made['spec']}")

    def edit_service(self) -> None:
        """Give a ModelService other deployments, weights or another distribution."""
        if found := self._service():
            now: list[JSON] = [*listing(found.manifest, "spec.backends")]
            changes: tuple[Manifest, ...] = (
                {"backends": self._backends(found.ref.namespace, now)},
                {"backends": self._backends(found.ref.namespace)},
                self._distributed(),
            )
            change = self.random.choice(changes)
            if change.get("backends") != []:
                self.edit(found, change, pods=False)

    def serve_deployment(self) -> None:
        """Have a deployment compose a ModelService of its own, or not any more."""
        if found := self.any("ModelDeployment"):
            self.edit(found, {"service": None if get(found.manifest, "spec.service") else {}}, pods=False)

    def shrink_deployment(self) -> None:
        """Have a deployment run in one environment only."""
        if found := self.any("ModelDeployment"):
            self.edit(found, {"environments": 1}, pods=False)

    def grow_deployment(self) -> None:
        """Have a deployment run in two environments."""
        if found := self.any("ModelDeployment"):
            self.edit(found, {"environments": 2}, pods=False)

    def lose_all_clusters(self) -> None:
        """Let every cluster be out of reach, or all answer again."""
        configs = {name_provider_config(v.ref.name) for v in self.plane.all("InferenceEnvironment")}
        self.tell(f"{'find' if self.plane.provider.out else 'lose'} all clusters")
        self.plane.provider.answers(() if self.plane.provider.out else configs)

    def lose_all_pods(self) -> None:
        """Let every service on one cluster lose its pods for a while."""
        if not (found := self.any("InferenceEnvironment")):
            return
        self.tell(f"all pods go on {found.ref}")
        for version in self.plane.all("Object"):
            is_there = config(version) == name_provider_config(found.ref.name)
            if is_there and text(remote(version), "kind") == "LLMInferenceService":
                self.plane.provider.stumble(version)

    def delete_service(self) -> None:
        """Delete a ModelService."""
        if found := self._service():
            self.delete(found)

    def lose_a_slice(self) -> None:
        """Delete an EndpointSlice by hand; it is composed again."""
        if found := self.any("EndpointSlice"):
            self.delete(found)

    def _service(self) -> Version | None:
        return self.any("ModelService", composed=False)

    def _backends(self, namespace: str, now: list[JSON] | None = None) -> list[JSON]:
        """Return deployments of a namespace with weights, of which one is not 0."""
        names = [v.ref.name for v in self.plane.all("ModelDeployment") if v.ref.namespace == namespace]
        chosen = self.random.sample(names, self.random.randint(1, min(2, len(names)))) if names else []
        if now:
            chosen = [text(b, "deployment") for b in now if isinstance(b, dict)]
        weights = [self.random.choice(_WEIGHTS) for _ in chosen]
        if not any(weights):
            weights = [1] * len(chosen)
        return [{"deployment": name, "weight": weight} for name, weight in zip(chosen, weights, strict=True)]

    def _distributed(self) -> Manifest:
        """Return a distribution and what happens to clusters that do not answer, as the API server has them."""
        distribution = self.random.choice(("ByReplicas", "ByReplicas", "Even", "Failover"))
        names = sorted(v.ref.name for v in self.plane.all("InferenceEnvironment"))
        order: list[JSON] = [*self.random.sample(names, min(1, len(names)))]
        return {
            "distribution": distribution,
            "environments": order if distribution == "Failover" else None,
            "onUnreachable": self.random.choice(("Withdraw", "Withdraw", "Keep")),
        }
