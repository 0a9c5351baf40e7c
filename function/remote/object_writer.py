"""Objects of provider-kubernetes: how they are composed for remote manifests, and how observed ones are reapplied.

Names of Objects carry a hash of the composite and of the composition-resource-name, because `metadata.name` of a
composed resource never changes. No Object is ever pointed at another namespace, because nothing would delete the remote
object in the first namespace. A placement or cache therefore stays in the remote namespace in which it started.

Observed resources are reapplied so that running workloads survive while an input is missing or invalid. The desired
form of an observed resource has no status, none of Crossplane's own annotations, labels and bookkeeping, and never the
data of a Secret, which the provider copies again.

A more recent reconcile may already have written the resource. A resource that is only reapplied therefore carries the
observed resourceVersion: if the version has changed, the API server refuses the write (409), and Crossplane reconciles
again. Without the version, two reads of a stale list could overwrite each other for ever.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from function.contract import Composed, Drop
from function.kube.manifests import JSON, Manifest, get, mapping, prune, text
from function.kube.names import EXTERNAL_NAME, LABEL_OWNER, MANAGED_BY, build_name, label_value
from function.remote.composed_kinds import OBJECT_VERSION, build_readiness, find_control_plane_kind
from function.remote.health import assess_ready_condition
from function.remote.observed_object import ObservedObject, is_up, read_object, read_written

PROVIDER_CONFIG_LABELS = ("crossplane.io/provider-config", "crossplane.io/provider-config-kind")  # of a usage
NAMESPACE, SERVICE_PREFIX = "namespace", "service-"  # composition-resource-name, and prefix of such names
# Ends the prefix of a composition-resource-name that names the cluster, if a composite has several clusters.
CLUSTER_SEPARATOR = "/"
_OBJECT_NAME_LIMIT = 63
_DELETING = frozenset({"*", "Delete"})
_PROVIDER_FINALIZER = "finalizer.managedresource.crossplane.io"  # of crossplane-runtime (pkg/reconciler/managed)


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
        readiness = build_readiness(manifest)
        if readiness:
            spec["readiness"] = readiness
        if reference:
            spec["references"] = [reference]
        if self.watch:
            spec["watch"] = True
        return Composed(
            manifest={
                "apiVersion": OBJECT_VERSION,
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
    return build_name(f"{owner}-{key}", owner, scope, key, limit=_OBJECT_NAME_LIMIT)


def compose_namespace(name: str, writer: ObjectWriter) -> Composed:
    """Returns the Object for a namespace of the remote cluster, which is never deleted."""
    manifest: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return writer.compose(NAMESPACE, manifest, ManagementPolicy.RETAIN)


def find_remote_namespace(observed: Mapping[str, Manifest]) -> str:
    """Returns the remote namespace that observed Objects are in; empty if there are none."""
    namespaces = (text(read_written(manifest), "metadata.namespace") for _, manifest in sorted(observed.items()))
    return next(filter(None, namespaces), "")


def deletes(manifest: Manifest) -> bool:
    """Tells whether the remote object is deleted with its Object."""
    policies = get(manifest, "spec.managementPolicies")
    return not isinstance(policies, list) or not _DELETING.isdisjoint(str(policy) for policy in policies)


def is_held_by_provider(manifest: Manifest) -> bool:
    """Tells whether the provider deletes the remote object of a deleted Object first, if its policies say so.

    crossplane-runtime adds its finalizer before it creates or updates anything. An Object that only observes has none,
    and gets it some time after its policies have changed.
    """
    finalizers = get(manifest, "metadata.finalizers")
    return isinstance(finalizers, list) and _PROVIDER_FINALIZER in finalizers


def with_provider_finalizer(manifest: Manifest) -> Manifest:
    """Returns an Object with the finalizer that it has once the provider has reconciled it."""
    if get(manifest, "spec.managementPolicies") == [*ManagementPolicy.OBSERVE_ONLY.value]:
        return manifest
    return {**manifest, "metadata": {**mapping(manifest, "metadata"), "finalizers": [_PROVIDER_FINALIZER]}}


def keep_undropped(
    observed: Mapping[str, Manifest], composed: Mapping[str, Composed], drops: Iterable[Drop]
) -> dict[str, Composed]:
    """Returns the desired state: the composed resources, and all other observed resources that are not dropped.

    Raises:
        ValueError: A drop has no reason.
    """
    dropped = dict(drops)
    if not all(dropped.values()):
        raise ValueError(
            f"{', '.join(sorted(key for key, why in dropped.items() if not why))} dropped without a reason"
        )
    staying = {key: m for key, m in observed.items() if key not in composed and key not in dropped}
    return {**composed, **carry_over(staying)} if staying else {**composed}


def carry_over(observed: Mapping[str, Manifest]) -> dict[str, Composed]:
    return {key: reapply_observed(manifest) for key, manifest in sorted(observed.items())}


def reapply_observed(manifest: Manifest) -> Composed:
    """Returns one observed resource as desired, to be applied only over its observed version."""
    return with_resource_version(desired_from_observed(manifest), manifest)


def with_resource_version(item: Composed, observed: Manifest) -> Composed:
    """Returns a resource that is applied only over this version of the observed one.

    The uid is left out: Crossplane would write it into its list of composed resources, whose schema has no such field.
    """
    version = text(observed, "metadata.resourceVersion") or None
    metadata = prune({**mapping(item.manifest, "metadata"), "resourceVersion": version})
    return replace(item, manifest={**item.manifest, "metadata": metadata})


def desired_from_observed(manifest: Manifest) -> Composed:
    """Returns one observed resource as desired, with its observed readiness."""
    desired: Manifest = {k: value for k, value in manifest.items() if k not in {"status", "data", "stringData"}}
    desired["metadata"] = prune(
        {
            "name": get(manifest, "metadata.name"),
            "namespace": get(manifest, "metadata.namespace"),
            "labels": _drop_bookkeeping(mapping(manifest, "metadata.labels")),
            "annotations": _drop_bookkeeping(
                mapping(manifest, "metadata.annotations"), _list_own_annotations(manifest)
            ),
        }
    )
    if "spec" in manifest:
        desired["spec"] = _desired_spec(manifest)
    return Composed(manifest=desired, ready=_is_ready(manifest))


def with_management_policy(observed: Manifest, policy: ManagementPolicy) -> Composed:
    spec: Manifest = {**mapping(observed, "spec"), "managementPolicies": [*policy.value]}
    return desired_from_observed({**observed, "spec": spec})


def stop_managing(observed: Manifest) -> Composed:
    """Returns an observed Object that no longer creates or updates; it deletes only if it did before."""
    policy = ManagementPolicy.OBSERVE_DELETE if deletes(observed) else ManagementPolicy.OBSERVE_ONLY
    return with_management_policy(observed, policy)


def _drop_bookkeeping(entries: Manifest, also_own: Collection[str] = PROVIDER_CONFIG_LABELS) -> Manifest | None:
    own = {
        key: value
        for key, value in entries.items()
        if key in also_own or ("crossplane.io/" not in key and "kubernetes.io/last" not in key)
    }
    return own or None


def _list_own_annotations(manifest: Manifest) -> tuple[str, ...]:
    """Returns the annotation with the name in the cloud, where the function sets it.

    Without it, the provider would take the name of the managed resource, and create a second cluster.
    """
    kind = find_control_plane_kind(manifest)
    return (EXTERNAL_NAME,) if kind is not None and kind.has_external_name else ()


def _desired_spec(manifest: Manifest) -> JSON:
    spec = {key: value for key, value in mapping(manifest, "spec").items() if key != "crossplane"}
    remote = read_written(manifest)
    if text(remote, "kind") == "Secret":
        without_data = {key: value for key, value in remote.items() if key not in {"data", "stringData"}}
        spec["forProvider"] = {**mapping(manifest, "spec.forProvider"), "manifest": without_data}
    return spec


def _is_ready(manifest: Manifest) -> bool:
    kind = find_control_plane_kind(manifest)
    if kind and kind.kind == "Object":
        return is_up(read_object(manifest))
    return (kind.assess if kind else assess_ready_condition)(manifest).up
