"""Re-emit what was observed, so that nothing which runs is lost while an input is missing or invalid.

What is written back is what a function may desire: no status, none of Crossplane's own annotations, labels and
bookkeeping, and never the data of a Secret (the provider copies it anew).

A call that knew more may have written since. What is only repeated is written over the resourceVersion that was seen
and no other: over another one the API server refuses it (409), and Crossplane looks again. Without that, two readings
of a list that is late can take turns for ever.
"""

from collections.abc import Mapping
from dataclasses import replace

from function.contract import Composed
from function.kube.manifests import JSON, Manifest, condition, get, mapping, prune, text
from function.remote.health import assess
from function.remote.node_collection import KIND as COLLECTION
from function.remote.object_writer import API_VERSION as OBJECT_VERSION
from function.remote.object_writer import Lifetime, deletes
from function.remote.objects import read

_CROSSPLANE = "crossplane.io/"


def carry_over(observed: Mapping[str, Manifest]) -> dict[str, Composed]:
    """Return every observed resource as desired, with the readiness that it shows."""
    return {key: repeated(manifest) for key, manifest in sorted(observed.items())}


def repeated(manifest: Manifest) -> Composed:
    """Return one observed resource as desired for as long as nobody else writes it."""
    return over_version(carried(manifest), manifest)


def over_version(item: Composed, seen: Manifest) -> Composed:
    """Return an item that is written over this version of what was seen and no other.

    Not its uid: Crossplane would write that into its list of what it composed, whose schema knows none.
    """
    version = text(seen, "metadata.resourceVersion")
    metadata: Manifest = {**mapping(item.manifest, "metadata"), **({"resourceVersion": version} if version else {})}
    return replace(item, manifest={**item.manifest, "metadata": metadata})


def carried(manifest: Manifest) -> Composed:
    """Return one observed resource as desired, with the readiness that it shows."""
    kept: Manifest = {key: value for key, value in manifest.items() if key not in {"status", "data", "stringData"}}
    kept["metadata"] = prune(
        {
            "name": get(manifest, "metadata.name"),
            "namespace": get(manifest, "metadata.namespace"),
            "labels": _foreign(mapping(manifest, "metadata.labels")),
            "annotations": _foreign(mapping(manifest, "metadata.annotations")),
        }
    )
    if "spec" in manifest:
        kept["spec"] = _spec(manifest)
    return Composed(manifest=kept, ready=_ready(manifest))


def living(observed: Manifest, lifetime: Lifetime) -> Composed:
    """Return an observed Object as it is, save what becomes of the remote object."""
    kept = carried(observed)
    spec: Manifest = {**mapping(kept.manifest, "spec"), "managementPolicies": [*lifetime.value]}
    return replace(kept, manifest={**kept.manifest, "spec": spec})


def finished(observed: Manifest) -> Composed:
    """Return an observed Object by which nothing is made or changed any more; what it deleted it still deletes."""
    return living(observed, Lifetime.FINISHED if deletes(observed) else Lifetime.OBSERVED)


def _foreign(entries: Manifest) -> Manifest | None:
    kept = {key: value for key, value in entries.items() if _CROSSPLANE not in key and "kubernetes.io/last" not in key}
    return kept or None


def _spec(manifest: Manifest) -> JSON:
    spec = {key: value for key, value in mapping(manifest, "spec").items() if key != "crossplane"}
    remote = mapping(manifest, "spec.forProvider.manifest")
    if text(remote, "kind") == "Secret":
        without = {key: value for key, value in remote.items() if key not in {"data", "stringData"}}
        spec["forProvider"] = {**mapping(manifest, "spec.forProvider"), "manifest": without}
    return spec


def _ready(manifest: Manifest) -> bool:
    if text(manifest, "apiVersion") == OBJECT_VERSION and text(manifest, "kind") == "Object":
        remote = read(manifest)
        return remote.present and assess(remote.manifest).up
    if text(manifest, "kind") == COLLECTION:
        return True
    if not get(manifest, "status.conditions"):
        return text(manifest, "kind") == "ClusterProviderConfig"
    return condition(manifest, "Ready").get("status") == "True"
