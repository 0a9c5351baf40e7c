"""The nodes of the clusters as provider-kubernetes shows them: an ObservedObjectCollection, an Object for each node.

They are cordoned and taken back, and go and come. As the provider does, a collection is read some time after it was
made, and each node is an Object that it owns (docs/facts.md, provider-kubernetes).
"""

from bench.histories.clusters import Clusters, config, remote
from bench.simulator.objects import Event, Version
from bench.simulator.server import ApiServer
from function.api.inference_environment import name_provider_config
from function.cli.store import Ref
from function.kube.manifests import Manifest, flag, integer, listing, mapping, text
from function.remote.composed_kinds import COLLECTION_KIND
from function.remote.node_collection import DEFINITION, MEMBERSHIP
from tools.remote_stages import condition

_SYNCED = condition("Synced", ok=True, reason="ReconcileSuccess")


class Nodes:
    """The nodes of all clusters of a control plane."""

    def __init__(self, server: ApiServer, clusters: Clusters) -> None:
        self._server, self._clusters = server, clusters
        server.watchers.append(self._watch)

    def show(self) -> None:
        """Let the control plane serve the kind that lists nodes: from then on environments look at theirs."""
        if Ref("CustomResourceDefinition", "", DEFINITION) in self._server.latest:
            return
        established = condition("Established", ok=True, reason="InitialNamesAccepted")
        self._server.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": DEFINITION},
                "status": {"conditions": [established]},
            }
        )

    def all(self) -> list[Version]:
        """Return the Objects of all nodes, by name."""
        found = [v for v in self._server.latest.values() if is_node(v) and not v.deleting]
        return sorted(found, key=lambda version: version.ref)

    def unusable(self, environment: str) -> int:
        """Return how many nodes of an environment are cordoned, or deleted, where they are observed."""
        there = [v for v in self.all() if config(v) == name_provider_config(environment)]
        cordoned = sum(flag(v.manifest, "status.atProvider.manifest.spec.unschedulable") for v in there)
        return cordoned + (len(_names(self._server, name_provider_config(environment))) - len(there) if there else 0)

    def cordon(self, node: Version) -> None:
        """Cordon a node, or take that back."""
        seen = mapping(node.manifest, "status.atProvider.manifest")
        cordoned = not flag(seen, "spec.unschedulable")
        self._server.put(node.ref, _shown(node.manifest, {**seen, "spec": {"unschedulable": cordoned}}))

    def remove(self, node: Version) -> None:
        """Let a node go for a while."""
        self._server.delete(node.ref)
        self._clusters.soon(lambda: self._list(config(node)))

    def _watch(self, event: Event) -> None:
        if event.ref.kind == COLLECTION_KIND and event.now and event.before is None:
            cluster = config(event.now)
            self._clusters.soon(lambda: self._list(cluster))

    def _list(self, cluster: str) -> None:
        """Read a collection: each node gets its Object."""
        for made in [v for v in self._server.latest.values() if v.ref.kind == COLLECTION_KIND and not v.deleting]:
            if config(made) != cluster:
                continue
            label: Manifest = {MEMBERSHIP: made.ref.name}
            shown: Manifest = {**made.manifest, "status": {"membershipLabel": label, "conditions": [_SYNCED]}}
            self._server.put(made.ref, shown)
            for name in _names(self._server, cluster):
                member = _member(made, name, label)
                if Ref.of(member) not in self._server.latest:
                    self._server.create(member)


def is_node(version: Version) -> bool:
    """Tell whether an Object shows a node."""
    return version.ref.kind == "Object" and text(remote(version), "kind") == "Node"


def _names(server: ApiServer, cluster: str) -> list[str]:
    """Return the names of a cluster's nodes, which are those that its environment declares."""
    for version in server.latest.values():
        if version.ref.kind == "InferenceEnvironment" and name_provider_config(version.ref.name) == cluster:
            pools = listing(version.manifest, "spec.nodePools")
            return [f"gpu-{number}" for number in range(sum(integer(pool, "maxNodeCount") for pool in pools))]
    return []


def _member(collection: Version, name: str, label: Manifest) -> Manifest:
    described: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    made: Manifest = {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": f"{collection.ref.name}-{name}",
            "namespace": collection.ref.namespace,
            "labels": label,
            "ownerReferences": [{"kind": COLLECTION_KIND, "name": collection.ref.name, "uid": collection.uid}],
        },
        "spec": {
            "managementPolicies": ["Observe"],
            "providerConfigRef": mapping(collection.manifest, "spec.providerConfigRef"),
            "forProvider": {"manifest": described},
        },
    }
    labels = mapping(collection.manifest, "spec.observeObjects.selector.matchLabels")
    node: Manifest = {
        **described,
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [condition("Ready", ok=True, reason="KubeletReady")],
        },
    }
    return _shown(made, node)


def _shown(member: Manifest, node: Manifest) -> Manifest:
    return {**member, "status": {"atProvider": {"manifest": node}, "conditions": [_SYNCED]}}
