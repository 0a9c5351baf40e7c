"""Clusters that environments create: a cloud, its provider, and what must never happen to nodes with models.

The provider may be down, and looks late. What it cannot change, it refuses; what rolls nodes, it rolls, and what it may
delete, it deletes. An environment that comes back under its name finds what the cloud has kept.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.histories.clusters import config, remote
from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Version, finalizers, with_finalizers
from bench.simulator.provider import FINALIZER
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.api.inference_environment import name_provider_config
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, get, integer, list_texts, listing, mapping, text
from tools.remote_stages import condition

KINDS = ("Cluster", "NodePool")
MACHINES = ("first-machine", "second-machine", "third-machine")
# What the provider refuses, and what replaces nodes (docs/facts.md, GKE).
_REFUSED = ("project", "location", "network", "nodeConfig.guestAccelerator", "nodeConfig.spot")
_ROLLS = ("nodeConfig.machineType", "nodeConfig.diskSizeGb", "nodeLocations")
_SECONDS = 5.0  # until the provider has done something


@dataclass(slots=True)
class Thing:
    """A cluster or a node pool in the cloud, as it was sent."""

    sent: Manifest


def create_in_cloud(environment: Manifest, random: Random) -> Manifest:
    """Returns an environment whose cluster and pools are created."""
    spec = mapping(environment, "spec")
    pools: list[JSON] = [{**pool, "gke": {"machineType": MACHINES[0]}} for pool in listing(spec, "nodePools")]
    gke: Manifest = {
        "project": "project",
        "region": "region",
        "identitySecretRef": {"name": "identity"},
        "provision": {"onRemoval": random.choice(("Keep", "Delete"))},
    }
    return {**environment, "spec": {**spec, "cluster": {"source": "GKE", "gke": gke}, "nodePools": pools}}


class Cloud:
    """What is in the cloud, by name, and the provider. `playing`: there is one."""

    def __init__(self, kernel: Kernel, settings: Settings, server: ApiServer) -> None:
        self._kernel, self._server = kernel, server
        self._random = Random(f"{settings.seed} cloud")  # noqa: S311  # the same history for the same seed
        self.things: dict[Ref, Thing] = {}
        self.playing, self.down = False, False
        self.hit: Callable[[str, str], None] = lambda *_: None
        server.watchers.append(self._watch)

    def begin(self, hit: Callable[[str, str], None]) -> None:
        """Serves the kinds; `hit` receives the environment whose nodes are hit, and what happens to them."""
        self.playing, self.hit = True, hit
        for plural in ("clusters", "nodepools"):
            self._server.create(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": f"{plural}.container.gcp.m.upbound.io"},
                    "spec": {"versions": [{"name": "v1beta1", "served": True}]},
                    "status": {"conditions": [condition("Established", ok=True, reason="InitialNamesAccepted")]},
                }
            )

    def come_back(self, *, down: bool) -> None:
        """Stops the provider, or starts it again: it then looks at everything."""
        self.down = down
        for version in [v for v in self._server.latest.values() if v.ref.kind in KINDS]:
            self._soon(version.ref)

    def _watch(self, event: Event) -> None:
        before, now = event.before, event.now
        if event.ref.kind not in KINDS or now is None:
            return
        if before is None or now.deleting or get(now.manifest, "spec") != get(before.manifest, "spec"):
            self._soon(event.ref)

    def _soon(self, ref: Ref) -> None:
        self._kernel.at(_SECONDS * self._random.uniform(0.2, 2.0), lambda: self._reconcile(ref))

    def _reconcile(self, ref: Ref) -> None:
        now = self._server.latest.get(ref)
        if now is None or self.down:
            return
        policies = {*list_texts(now.manifest, "spec.managementPolicies")}
        if now.deleting:
            if policies & {"*", "Delete"} and ref in self.things:
                del self.things[ref]
                self._hit(now, "are deleted")
            if FINALIZER in finalizers(now.manifest):
                self._server.release(ref, FINALIZER)
            return
        if FINALIZER not in finalizers(now.manifest):
            now = self._server.put(ref, with_finalizers(now.manifest, [*finalizers(now.manifest), FINALIZER]))
        conditions = self._act(now, may_write=policies != {"Observe"})
        thing = self.things.get(ref)
        status: Manifest = {"conditions": [*conditions, condition("Ready", ok=thing is not None, reason="Available")]}
        if thing:
            status["atProvider"] = copy.deepcopy(thing.sent)
        self._server.put(ref, {**now.manifest, "status": status})

    def _act(self, now: Version, *, may_write: bool) -> list[JSON]:
        """Does in the cloud what a managed resource asks for; returns the conditions about that."""
        wish, thing = mapping(now.manifest, "spec.forProvider"), self.things.get(now.ref)
        synced: JSON = condition("Synced", ok=True, reason="ReconcileSuccess")
        if thing is None:
            if not may_write:
                message = "observe failed: external resource does not exist"
                return [condition("Synced", ok=False, reason="ReconcileError", message=message)]
            self.things[now.ref] = Thing(copy.deepcopy(wish))
        elif may_write and any(get(wish, path) != get(thing.sent, path) for path in _REFUSED):
            message = (
                "async update failed: refuse to update the external resource because the following update requires "
                "replacing it: cannot change the value of the argument"
            )
            return [synced, condition("LastAsyncOperation", ok=False, reason="AsyncUpdateFailure", message=message)]
        elif may_write:
            if any(get(wish, path) != get(thing.sent, path) for path in _ROLLS):
                self._hit(now, "are replaced")
            fewest, before = (integer(m, "autoscaling.totalMaxNodeCount") for m in (wish, thing.sent))
            if fewest < before:
                self._hit(now, "become fewer")
            thing.sent = copy.deepcopy(wish)
        return [synced]

    def _hit(self, now: Version, what: str) -> None:
        self.hit(text(now.controller, "name"), f"the nodes of {now.ref} {what}")


class CloudAuditor:
    """Says when nodes are hit on which a service has pods."""

    def __init__(self, server: ApiServer, say: Callable[[str], None]) -> None:
        self._server, self._say = server, say

    def hit(self, environment: str, what: str) -> None:
        """Takes note of nodes that are deleted or replaced; every environment has one pool with GPUs."""
        for version in self._server.latest.values():
            if version.ref.kind != "Object" or config(version) != name_provider_config(environment):
                continue
            observed = mapping(version.manifest, "status.atProvider.manifest")
            serves = text(remote(version), "kind") == "LLMInferenceService" and integer(observed, "spec.replicas")
            if serves and not version.deleting:
                self._say(f"{what} under {version.ref}")
