"""Compose observed resources again, so that nothing that runs is lost while an input is missing or invalid.

The desired form of an observed resource has no status, none of Crossplane's own annotations, labels and bookkeeping,
and never the data of a Secret, which the provider copies again.

A more recent reconcile may already have written. What is only reapplied is therefore applied only over the
resourceVersion that was seen; over another one the API server refuses it (409) and Crossplane reconciles again.
Without that, two readings of a stale list could overwrite each other for ever.
"""

from collections.abc import Mapping
from dataclasses import replace

from function.contract import Composed
from function.kube.manifests import JSON, Manifest, condition, get, mapping, prune, text
from function.remote.health import is_up
from function.remote.node_observation import COLLECTION_KIND
from function.remote.object_writer import API_VERSION as OBJECT_VERSION
from function.remote.object_writer import ManagementPolicy, deletes
from function.remote.observed_object import read_object


def carry_over(observed: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Returns every observed resource as desired, over the version that was seen."""
    return {key: reapply_observed(manifest) for key, manifest in sorted(observed.items())}


def reapply_observed(manifest: Manifest) -> Composed:
    """Returns one observed resource as desired, over the version that was seen."""
    return with_resource_version(desired_from_observed(manifest), manifest)


def with_resource_version(item: Composed, observed: Manifest) -> Composed:
    """Returns a resource that is applied only over this version of the observed one.

    The uid is left out: Crossplane would write it into its list of composed resources, whose schema has no such field.
    """
    version = text(observed, "metadata.resourceVersion")
    metadata: Manifest = {**mapping(item.manifest, "metadata"), **({"resourceVersion": version} if version else {})}
    return replace(item, manifest={**item.manifest, "metadata": metadata})


def desired_from_observed(manifest: Manifest) -> Composed:
    """Returns one observed resource as desired, with its observed readiness."""
    desired: Manifest = {k: value for k, value in manifest.items() if k not in {"status", "data", "stringData"}}
    desired["metadata"] = prune(
        {
            "name": get(manifest, "metadata.name"),
            "namespace": get(manifest, "metadata.namespace"),
            "labels": _drop_bookkeeping(mapping(manifest, "metadata.labels")),
            "annotations": _drop_bookkeeping(mapping(manifest, "metadata.annotations")),
        }
    )
    if "spec" in manifest:
        desired["spec"] = _desired_spec(manifest)
    return Composed(manifest=desired, ready=_is_ready(manifest))


def with_management_policy(observed: Manifest, policy: ManagementPolicy) -> Composed:
    """Returns an observed Object as desired, with another management policy."""
    desired = desired_from_observed(observed)
    spec: Manifest = {**mapping(desired.manifest, "spec"), "managementPolicies": [*policy.value]}
    return replace(desired, manifest={**desired.manifest, "spec": spec})


def stop_managing(observed: Manifest) -> Composed:
    """Returns an observed Object that creates and changes nothing any more; whether it deletes stays as it was."""
    policy = ManagementPolicy.OBSERVE_DELETE if deletes(observed) else ManagementPolicy.OBSERVE_ONLY
    return with_management_policy(observed, policy)


def _drop_bookkeeping(entries: Manifest) -> Manifest | None:
    own = {k: value for k, value in entries.items() if "crossplane.io/" not in k and "kubernetes.io/last" not in k}
    return own or None


def _desired_spec(manifest: Manifest) -> JSON:
    spec = {key: value for key, value in mapping(manifest, "spec").items() if key != "crossplane"}
    remote = mapping(manifest, "spec.forProvider.manifest")
    if text(remote, "kind") == "Secret":
        without_data = {key: value for key, value in remote.items() if key not in {"data", "stringData"}}
        spec["forProvider"] = {**mapping(manifest, "spec.forProvider"), "manifest": without_data}
    return spec


def _is_ready(manifest: Manifest) -> bool:
    if text(manifest, "apiVersion") == OBJECT_VERSION and text(manifest, "kind") == "Object":
        return is_up(read_object(manifest))
    if text(manifest, "kind") == COLLECTION_KIND:
        return True
    if not get(manifest, "status.conditions"):
        return text(manifest, "kind") == "ClusterProviderConfig"
    return condition(manifest, "Ready").get("status") == "True"
