"""How much of a pool somebody holds, as a status says it."""

from function.domain.shares import Share
from function.kube.manifests import Manifest, get, integer, strings, text


def read_share(manifest: Manifest) -> Share:
    """Return what a status says of a part of a pool."""
    selects = isinstance(get(manifest, "nodeSelector"), dict)
    return Share(
        pool=text(manifest, "pool"),
        nodes=integer(manifest, "nodes"),
        gpus_per_node=integer(manifest, "gpusPerNode"),
        replicas=integer(manifest, "replicas"),
        labels=tuple(sorted(strings(manifest, "nodeSelector").items())) if selects else None,
    )
