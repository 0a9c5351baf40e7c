"""The shape of one replica on one pool: declared by the profile, or computed from GPU memory.

VRAM maths: GPUs = vram over the memory of one GPU, rounded up. Where they fit one node, the next power of
two (engines split attention heads evenly), or the whole node where that is more than it has. Where they do
not, whole nodes: tensor parallel within a node, pipeline parallel across nodes.
"""

from functools import lru_cache

from function.domain.environment import Pool
from function.domain.model import Parallelism, Profile, Shape


def replica_shape(profile: Profile, vram: int | None, pool: Pool) -> Shape | None:
    """Return the shape of one replica; None where it must be computed and pool or model do not say enough."""
    if profile.shape is not None:
        return profile.shape
    if not vram or not pool.memory_per_gpu:
        return None
    return _computed(-(-vram // pool.memory_per_gpu), pool.gpus_per_node)


@lru_cache(maxsize=256)  # hundreds of environments have pools of one kind
def _computed(gpus: int, per_node: int) -> Shape:
    if gpus > per_node:
        nodes = -(-gpus // per_node)
        return Shape(nodes=nodes, gpus_per_node=per_node, parallelism=Parallelism(tensor=per_node, pipeline=nodes))
    rounded = min(1 << (gpus - 1).bit_length(), per_node)
    return Shape(nodes=1, gpus_per_node=rounded, parallelism=Parallelism(tensor=rounded))
