"""A remote manifest becomes a provider-kubernetes Object on the control plane.

Lifetime decides the management policies: what is OWNED goes when its Object goes, what is KEPT is created and updated
but never removed, what is FINISHED goes with its Object and is never created again, what is OBSERVED is only read.
Names of Objects carry a hash of the composite and of the composed resource's name, because `metadata.name` of a
composed resource never changes.

No Object is ever pointed at another namespace: what it made in the first one would stay there with nobody to delete it.
Where the name of a composed resource is taken by an Object of another namespace, a second name is used beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from function.contract import Composed
from function.kube.manifests import Manifest, get, text
from function.kube.names import LABEL_OWNER, MANAGED_BY, build_name, label_value
from function.remote.health import READINESS, assess
from function.remote.objects import ObservedObject, read

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
NAMESPACE = "namespace"
_OBJECT_NAME_LIMIT = 63
_NAMESPACE = "spec.forProvider.manifest.metadata.namespace"
_ELSEWHERE = "@"  # no name of a Kubernetes object has it
_DELETING = frozenset({"*", "Delete"})


class Lifetime(Enum):
    """What happens to the remote object; the value is the Object's management policies."""

    OWNED = ("*",)
    KEPT = ("Observe", "Create", "Update", "LateInitialize")
    FINISHED = ("Observe", "Delete")
    OBSERVED = ("Observe",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWriter:
    """Where Objects are written and which cluster they reach.

    `observed` holds what this composite has on this cluster; `scope` tells clusters apart where it has several. Within
    a remote namespace `left` is what it has in others, by the names of composed resources, which `names` has for
    `observed`, where they differ. `ending` is what is being deleted and Crossplane does not list any more, by the names
    of composed resources.
    """

    owner: str
    namespace: str
    provider_config: str
    watch: bool
    observed: Mapping[str, Manifest]
    scope: str = ""
    remote_namespace: str = ""
    left: Mapping[str, Manifest] = field(default_factory=dict)
    ending: Mapping[str, Manifest] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def within(self, namespace: str) -> "ObjectWriter":
        """Return the writer for what is in one remote namespace, or in none."""
        left = {key: m for key, m in self.observed.items() if text(m, _NAMESPACE) not in {"", namespace}}
        names = {key: key.removesuffix(f"{_ELSEWHERE}{namespace}") for key in self.observed if key not in left}
        return replace(
            self,
            remote_namespace=namespace,
            left=left,
            observed={key: self.observed[name] for name, key in names.items()},
            names={key: name for name, key in names.items() if name != key},
        )

    def name(self, key: str) -> str:
        """Return the name of the composed resource: the key, unless an Object of another namespace has that name."""
        return self.names.get(key) or (f"{key}{_ELSEWHERE}{self.remote_namespace}" if key in self.left else key)

    def named(self, composed: Mapping[str, Composed]) -> dict[str, Composed]:
        """Return resources under the names of composed resources."""
        return {self.name(key): item for key, item in composed.items()}

    def read(self, key: str) -> ObservedObject:
        """Return what is known of the remote object behind a composed resource."""
        return read(self.observed.get(key))

    def compose(self, key: str, manifest: Manifest, lifetime: Lifetime, reference: Manifest | None = None) -> Composed:
        """Return the Object for a manifest; ready where the remote object is there and up."""
        remote, name = self.read(key), self.name(key)
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
                    "name": object_name(self.owner, name, self.scope),
                    "namespace": self.namespace,
                    "labels": {**MANAGED_BY, LABEL_OWNER: label_value(self.owner)},
                },
                "spec": spec,
            },
            ready=remote.present and assess(remote.manifest).up,
        )


def object_name(owner: str, name: str, scope: str = "") -> str:
    """Return the name of the Object behind a composed resource."""
    return build_name(f"{owner}-{name}", owner, scope, name, limit=_OBJECT_NAME_LIMIT)


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


def deletes(composed: Manifest) -> bool:
    """Tell whether the remote object goes with its Object."""
    policies = get(composed, "spec.managementPolicies")
    return not isinstance(policies, list) or not _DELETING.isdisjoint(str(policy) for policy in policies)
