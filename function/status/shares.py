"""How much of a pool somebody holds, as a status says it; `api/common.py` reads it back."""

from function.domain.shares import Share
from function.kube.manifests import Manifest


def share(held: Share) -> Manifest:
    """Return a part of a pool."""
    return {"pool": held.pool, "nodes": held.nodes, "gpusPerNode": held.gpus_per_node, "replicas": held.replicas}
