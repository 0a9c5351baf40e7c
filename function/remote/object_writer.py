"""A remote manifest becomes a provider-kubernetes Object on the control plane.

Names of Objects carry a hash of the composite and of the composition-resource-name, because `metadata.name` of a
composed resource never changes. No Object is ever pointed at another namespace: what it created in the first one would
stay there and nothing would delete it. So a placement or cache stays in the remote namespace in which it started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from function.contract import Composed
from function.kube.manifests import Manifest, get, text
from function.kube.names import LABEL_OWNER, MANAGED_BY, build_name, label_value
from function.remote.health import READINESS, is_up
from function.remote.observed_object import ObservedObject, read_object

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
NAMESPACE, SERVICE = "namespace", "service-"  # composition-resource-name, and prefix of such names
_OBJECT_NAME_LIMIT = 63
_NAMESPACE = "spec.forProvider.manifest.metadata.namespace"
_DELETING = frozenset({"*", "Delete"})


class ManagementPolicy(Enum):
    """What happens to the remote object; the value is the Object's management policies."""

    FULL = ("*",)  # created, updated, and deleted with the Object
    RETAIN = ("Observe", "Create", "Update", "LateInitialize")  # created and updated, never deleted
    OBSERVE_DELETE = ("Observe", "Delete")  # deleted with the Object, never created or updated
    OBSERVE_ONLY = ("Observe",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWriter:
    """Writes the Objects of one composite for one cluster."""

    owner: str  # name of the composite
    namespace: str  # of the composite
    provider_config: str
    watch: bool
    observed: Mapping[str, Manifest]  # the composite's Objects for this cluster, by composition-resource-name
    scope: str = ""  # tells clusters apart if the composite has several
    deleting: Mapping[str, Manifest] = field(default_factory=dict)  # Objects that Crossplane no longer observes

    def read(self, key: str) -> ObservedObject:
        """Returns what is known of the remote object behind a composed resource."""
        return read_object(self.observed.get(key))

    def compose(
        self, key: str, manifest: Manifest, policy: ManagementPolicy, reference: Manifest | None = None
    ) -> Composed:
        """Returns the Object for a manifest; it is ready if the remote object is present and healthy."""
        spec: Manifest = {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": self.provider_config},
            "managementPolicies": list(policy.value),
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
                    "name": object_name(self.owner, key, self.scope),
                    "namespace": self.namespace,
                    "labels": {**MANAGED_BY, LABEL_OWNER: label_value(self.owner)},
                },
                "spec": spec,
            },
            ready=is_up(self.read(key)),
        )


def object_name(owner: str, key: str, scope: str = "") -> str:
    """Returns the name of the Object behind a composed resource."""
    return build_name(f"{owner}-{key}", owner, scope, key, limit=_OBJECT_NAME_LIMIT)


def copy_field(name: str, namespace: str, field: str) -> Manifest:
    """Returns the reference by which the provider copies a field of a Secret; this function never sees its value."""
    return {
        "patchesFrom": {"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": namespace, "fieldPath": field},
        "toFieldPath": field,
    }


def compose_namespace(name: str, writer: ObjectWriter) -> Composed:
    """Returns the Object for a namespace of the remote cluster, which is never deleted."""
    manifest: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return writer.compose(NAMESPACE, manifest, ManagementPolicy.RETAIN)


def find_remote_namespace(observed: Mapping[str, Manifest]) -> str:
    """Returns the remote namespace that observed Objects are in; empty if there are none."""
    namespaces = (text(manifest, _NAMESPACE) for _, manifest in sorted(observed.items()))
    return next(filter(None, namespaces), "")


def deletes(manifest: Manifest) -> bool:
    """Tells whether the remote object is deleted with its Object."""
    policies = get(manifest, "spec.managementPolicies")
    return not isinstance(policies, list) or not _DELETING.isdisjoint(str(policy) for policy in policies)
