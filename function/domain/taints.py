"""What pods must tolerate to run on the nodes of a pool."""

from function.domain.environment import Pool
from function.kube.manifests import JSON, Manifest


def tolerations(pool: Pool) -> list[JSON]:
    """Return what the pool's nodes ask to be tolerated: the key of its GPUs, and its own taints."""
    gpu: Manifest = {"key": pool.gpu_resource, "operator": "Exists"}
    return [gpu, *(_toleration(taint) for taint in own_taints(pool))]


def own_taints(pool: Pool) -> tuple[Manifest, ...]:
    """Return the taints of a pool besides that of its GPUs, which every pod tolerates."""
    return tuple(taint for taint in pool.taints if taint.get("key") != pool.gpu_resource)


def _toleration(taint: Manifest) -> Manifest:
    wanted = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
    return {**wanted, "operator": "Equal" if "value" in wanted else "Exists"}
