"""Names that people write by habit, with the fields of this project that they mean.

A key is in lower case and without punctuation; a field is a name, or the end of a path, in the order of preference.
"""

import re
from collections.abc import Mapping

_GPUS = ("gpusPerNode", "acceleratorCount")
_MEMORY = ("memoryPerGpu", "resources.vram")
_SECRET = ("secretRef", "huggingFace.secretRef")
_NETWORK = ("interNodeBandwidth",)
_NODES = ("nodeCount",)
_TENSOR = ("tensor", "parallelism.tensor")
_PIPELINE = ("pipeline", "parallelism.pipeline")
_CACHE = ("modelCache",)
_SERVICE = ("service",)
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpu", "gpus", "gpucount", "numgpus", "ngpus", "nvidiacomgpu", "gpusperreplica"), _GPUS),
    **dict.fromkeys(("gpuspernode", "acceleratorcount", "accelerators"), _GPUS),
    **dict.fromkeys(("gpumemory", "gpuram", "vram", "memory"), _MEMORY),
    **dict.fromkeys(("gputype", "gpumodel", "gpuproduct", "accelerator"), ("acceleratorType",)),
    **dict.fromkeys(("token", "hftoken", "huggingfacetoken", "accesstoken", "apikey", "password"), _SECRET),
    **dict.fromkeys(("infiniband", "rdma", "network", "bandwidth"), _NETWORK),
    **dict.fromkeys(("nodes", "numnodes", "size"), _NODES),
    **dict.fromkeys(("tp", "tensorparallel", "tensorparallelsize"), _TENSOR),
    **dict.fromkeys(("pp", "pipelineparallel", "pipelineparallelsize"), _PIPELINE),
    **dict.fromkeys(("cache", "volume", "storage", "persistence"), _CACHE),
    **dict.fromkeys(("image", "engineimage", "containerimage"), ("engine.image",)),
    **dict.fromkeys(("ingress", "route", "gateway", "expose"), _SERVICE),
}
_TOKENS = frozenset(key for key, fields in SYNONYMS.items() if fields is _SECRET)
ADVICE = ", which names a Secret with the token? A token does not belong in a manifest"
_PUNCTUATION = re.compile(r"[^a-z0-9]")


def list_synonyms(key: str) -> tuple[str, ...]:
    """Returns the fields that may be meant by a name."""
    return SYNONYMS.get(_PUNCTUATION.sub("", key.lower()), ())


def is_token(key: str) -> bool:
    """Tells whether a name is that of a token, which belongs in a Secret."""
    return _PUNCTUATION.sub("", key.lower()) in _TOKENS
