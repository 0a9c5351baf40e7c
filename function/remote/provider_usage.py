"""The ProviderConfigUsage by which a composite keeps a ClusterProviderConfig until its last Object is deleted.

provider-kubernetes releases a ClusterProviderConfig once no ProviderConfigUsage names it. Without a
ClusterProviderConfig, the provider deletes nothing on the cluster. Each Object has its own usage, but when Crossplane
deletes an Object that is no longer composed, the garbage collector deletes this usage before the Object (docs/facts.md,
provider-kubernetes). ModelCaches and ModelServices therefore have a ProviderConfigUsage of their own for each cluster
until their Objects there are gone. A ModelDeployment has one for each environment that is deleted, or on which one of
its placements is deleted (decision 37).
"""

from collections.abc import Mapping
from dataclasses import replace

from function.contract import Call, Composed
from function.kube.manifests import Manifest, text
from function.kube.names import LABEL_OWNER, MANAGED_BY, label_value
from function.remote.composed_kinds import OBJECT_VERSION, PROVIDER_USAGE_KIND
from function.remote.object_writer import CLUSTER_SEPARATOR, PROVIDER_CONFIG_LABELS, object_name

PROVIDER_USAGE = "provider-usage"  # composition-resource-name, behind a prefix or before a suffix for each cluster
NO_OBJECTS_LEFT = "nothing is left on the cluster"  # why such a usage is dropped


def compose_provider_usage(xr: Manifest, key: str, provider_config: str) -> Composed:
    """Returns the ProviderConfigUsage by which a composite uses a ClusterProviderConfig; `key` is its resource name."""
    by_name, by_kind = PROVIDER_CONFIG_LABELS
    kind = "ClusterProviderConfig"
    owner = text(xr, "metadata.name")
    return Composed(
        manifest={
            "apiVersion": OBJECT_VERSION,
            "kind": PROVIDER_USAGE_KIND,
            "metadata": {
                "name": object_name(owner, key),
                "namespace": text(xr, "metadata.namespace"),
                # The provider finds a usage by two of its labels; the function finds an orphan by its owner's label.
                "labels": {**MANAGED_BY, LABEL_OWNER: label_value(owner), by_name: provider_config, by_kind: kind},
            },
            "providerConfigRef": {"kind": kind, "name": provider_config},
            "resourceRef": {"apiVersion": text(xr, "apiVersion"), "kind": text(xr, "kind"), "name": owner},
        },
        ready=True,
    )


def without_provider_usages(call: Call) -> Call:
    """Returns the call without the observed usages of `compose_provider_usages`."""
    others = {key: m for key, m in call.observed.items() if not key.endswith(CLUSTER_SEPARATOR + PROVIDER_USAGE)}
    return replace(call, observed=others) if len(others) < len(call.observed) else call


def compose_provider_usages(
    xr: Manifest, composed: Mapping[str, Composed], existing: Mapping[str, Manifest]
) -> dict[str, Composed]:
    """Returns a usage for each cluster on which a composite has Objects, also those that are being deleted.

    The Objects of a ModelPlacement have no prefix: its deployment has the usage, since it outlives the placement.
    """
    objects = {**existing, **{key: item.manifest for key, item in composed.items()}}
    configs = {
        key.rpartition(CLUSTER_SEPARATOR)[0]: text(manifest, "spec.providerConfigRef.name")
        for key, manifest in sorted(objects.items())
        if text(manifest, "kind") == "Object" and CLUSTER_SEPARATOR in key
    }
    return {
        key: compose_provider_usage(xr, key, config)
        for prefix, config in configs.items()
        if (key := f"{prefix}{CLUSTER_SEPARATOR}{PROVIDER_USAGE}")
    }
