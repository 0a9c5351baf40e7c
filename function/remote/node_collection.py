"""The ObservedObjectCollection through which provider-kubernetes shows the nodes of a cluster.

Its Objects are asked for by a label that the provider sets; only those that it owns count. The provider appends eight
characters to its name for theirs, which may have 63.
"""

from function.contract import Composed
from function.kube.manifests import JSON, Manifest, listing, text
from function.kube.names import MANAGED_BY, build_name
from function.remote.object_writer import API_VERSION, ObjectWriter

KIND = "ObservedObjectCollection"
# Its CRD. A control plane without it could apply nothing of an environment that composes one, nor look at it again.
DEFINITION = "observedobjectcollections.kubernetes.m.crossplane.io"
MEMBERSHIP = "kubernetes.crossplane.io/owned-by-collection"
NODES = "nodes"
_NAME_LIMIT = 55


def collection_name(owner: str) -> str:
    """Return the name of an environment's collection."""
    return build_name(f"{owner}-{NODES}", owner, "", NODES, limit=_NAME_LIMIT)


def collection(writer: ObjectWriter, selector: Manifest) -> Composed:
    """Return the collection of the nodes that a LabelSelector finds; whether it is ready never counts."""
    manifest: Manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": collection_name(writer.owner),
            "namespace": writer.namespace,
            "labels": dict[str, JSON](MANAGED_BY),
        },
        "spec": {
            "observeObjects": {"apiVersion": "v1", "kind": "Node", "selector": selector},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": writer.provider_config},
        },
    }
    return Composed(manifest=manifest, ready=True)


def is_served(definition: Manifest) -> bool:
    """Tell whether a control plane with this CRD serves collections."""
    conditions = listing(definition, "status.conditions")
    return any(text(c, "type") == "Established" and text(c, "status") == "True" for c in conditions)
