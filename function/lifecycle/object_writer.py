"""A remote manifest becomes a provider-kubernetes Object on the control plane.

Lifetime decides the management policies: what is OWNED goes when its Object goes, what is KEPT is created and updated
but never removed, what is FINISHED goes with its Object and is never created again, what is OBSERVED is only read.
Names of Objects carry a hash of the composite and of the composed resource's name, because `metadata.name` of a
composed resource never changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from function.exchange import Composed
from function.kube.manifests import JSON, Manifest, text
from function.kube.names import MANAGED_BY, named
from function.observe.health import READINESS, assess
from function.observe.objects import ObservedObject, read

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
NAMESPACE = "namespace"
_OBJECT_NAME_LIMIT = 63


class Lifetime(Enum):
    """What happens to the remote object; the value is the Object's management policies."""

    OWNED = ("*",)
    KEPT = ("Observe", "Create", "Update", "LateInitialize")
    FINISHED = ("Observe", "Delete")
    OBSERVED = ("Observe",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWriter:
    """Where Objects are written and which cluster they reach.

    `observed` holds what this composite has on this cluster; `scope` tells clusters apart where it has several.
    """

    owner: str
    namespace: str
    provider_config: str
    watch: bool
    observed: Mapping[str, Manifest]
    scope: str = ""

    def read(self, key: str) -> ObservedObject:
        """Return what is known of the remote object behind a composed resource."""
        return read(self.observed.get(key))

    def compose(self, key: str, manifest: Manifest, lifetime: Lifetime, reference: Manifest | None = None) -> Composed:
        """Return the Object for a manifest; ready where the remote object is there and up."""
        remote = self.read(key)
        spec: Manifest = {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": self.provider_config},
            "managementPolicies": list(lifetime.value),
            "forProvider": {"manifest": manifest},
        }
        readiness = READINESS.get(f"{text(manifest, 'apiVersion').rpartition('/')[0]}/{text(manifest, 'kind')}")
        if readiness:
            spec["readiness"] = {"policy": "DeriveFromCelQuery", "celQuery": readiness}
        if reference:
            spec["references"] = [reference]
        if self.watch:
            spec["watch"] = True
        return Composed(
            manifest={
                "apiVersion": API_VERSION,
                "kind": "Object",
                "metadata": {
                    "name": named(f"{self.owner}-{key}", self.owner, self.scope, key, limit=_OBJECT_NAME_LIMIT),
                    "namespace": self.namespace,
                    "labels": dict[str, JSON](MANAGED_BY),
                },
                "spec": spec,
            },
            ready=remote.present and assess(remote.manifest).up,
        )


def copied(name: str, namespace: str, field: str) -> Manifest:
    """Return the reference by which the provider copies a field of a Secret; its value never passes through us."""
    return {
        "patchesFrom": {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": name,
            "namespace": namespace,
            "fieldPath": field,
        },
        "toFieldPath": field,
    }


def namespace(name: str, writer: ObjectWriter) -> Composed:
    """Return the Object for a namespace of the remote cluster, which we never delete."""
    manifest: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return writer.compose(NAMESPACE, manifest, Lifetime.KEPT)
