"""How much of a pool somebody holds, as a status says it."""

from function.domain.shares import Share
from function.kube.manifests import Manifest, integer, text


def read_share(manifest: Manifest) -> Share:
    """Return what a status says of a part of a pool."""
    return Share(
        pool=text(manifest, "pool"),
        nodes=integer(manifest, "nodes"),
        gpus_per_node=integer(manifest, "gpusPerNode"),
        replicas=integer(manifest, "replicas"),
    )
