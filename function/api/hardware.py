"""Words for hardware that profiles ask for and pools declare: compared ignoring case, kept in lower case.

The speed between nodes has one name on each side, `multiNodeBandwidth` and `interNodeBandwidth`; either is
accepted on both. Only a profile may ask for a speed `-or-better`.
"""

from function.api.block import Block
from function.api.inter_node import read_inter_node
from function.api.nodes import read_autoscaled
from function.api.pods import read_pod
from function.api.templates import refuse_templates
from function.domain.environment import GPU_RESOURCE, Pool
from function.domain.hardware import INTERCONNECTS, LADDER, OR_BETTER, PRECISIONS, BandwidthRequirement
from function.domain.model import Requires

_BANDWIDTH = ("multiNodeBandwidth", "interNodeBandwidth")


def read_requires(block: Block) -> Requires:
    """Return what a profile asks of a pool."""
    return Requires(
        memory_per_gpu=block.amount("memoryPerGpu"),
        interconnect=block.member("interconnect", INTERCONNECTS),
        bandwidth=_required_bandwidth(block),
        precision=tuple(sorted(set(block.members("precisionSupport", PRECISIONS)))),
        nvlink_domain=block.integer("nvlinkDomainSize"),
        accelerator_type=block.text("acceleratorType").lower() or None,
    )


def read_pool(block: Block) -> Pool:
    """Return a pool of an environment; its capacity in nodes is maxNodeCount, else nodeCount."""
    refuse_templates(block)
    capabilities = block.block("capabilities")
    declared = capabilities.has("precisionSupport")
    gpus = block.text("gpuResource", GPU_RESOURCE)
    pod = read_pod(block.block("pod"), gpus)
    return Pool(
        name=block.text("name"),
        gpus_per_node=block.integer("acceleratorCount", 1),
        max_nodes=block.integer("maxNodeCount", block.integer("nodeCount", 0)),
        accelerator_type=block.text("acceleratorType").lower(),
        gpu_resource=gpus,
        labels=block.strings("labels"),
        taints=block.maps("taints"),
        memory_per_gpu=capabilities.amount("memoryPerGpu"),
        interconnect=capabilities.member("interconnect", INTERCONNECTS),
        precision=capabilities.members("precisionSupport", PRECISIONS) if declared else None,
        multi_node=capabilities.flag("multiNodeCapable", default=False),
        bandwidth=capabilities.member(_bandwidth_field(capabilities), LADDER),
        nvlink_domain=capabilities.integer("nvlinkDomainSize"),
        pod=pod,
        inter_node=read_inter_node(block, pod, gpus),
        autoscaled=read_autoscaled(block),
    )


def _required_bandwidth(block: Block) -> BandwidthRequirement | None:
    name = block.member(_bandwidth_field(block), LADDER, also=tuple(rung + OR_BETTER for rung in LADDER))
    if name is None:
        return None
    return BandwidthRequirement(rung=name.removesuffix(OR_BETTER), or_better=name.endswith(OR_BETTER))


def _bandwidth_field(block: Block) -> str:
    """Return the name under which the speed is given; both at once is a fault, also if they are equal."""
    given = [name for name in _BANDWIDTH if block.has(name)]
    if len(given) > 1:
        block.deny(given[1], f"left out together with {given[0]}")
    return given[0] if given else _BANDWIDTH[0]
