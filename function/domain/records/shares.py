"""Shares of pools, as rows of a status: what was granted, what was released, and what a service has."""

from function.domain.allocation import Share
from function.kube.manifests import Manifest, integer, text


def parse_share(row: Manifest, *, exclusive_replica_nodes: bool = False) -> Share:
    """Returns the share of a row; a field that is absent or of another type counts as 0 or empty."""
    return Share(
        pool=text(row, "pool"),
        nodes=integer(row, "nodes"),
        gpus_per_node=integer(row, "gpusPerNode"),
        replicas=integer(row, "replicas"),
        exclusive_replica_nodes=exclusive_replica_nodes,
    )


def build_share(share: Share) -> Manifest:
    """Returns a share as a row of status, as `parse_share` reads it."""
    return {"pool": share.pool, "nodes": share.nodes, "gpusPerNode": share.gpus_per_node, "replicas": share.replicas}
