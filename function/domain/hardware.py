"""Names of hardware: network speeds between nodes, GPU interconnects and number formats, and how they compare.

The order of network speeds is a design decision: at one speed RDMA gains more over plain Ethernet than a step of
speed, so that every `eth` entry is below every RDMA entry.
"""

from dataclasses import dataclass

LADDER = (
    "eth-10g", "eth-25g", "eth-50g", "eth-100g", "eth-200g", "eth-400g", "eth-800g",
    "roce-100g", "efa-100g", "ib-100g",
    "roce-200g", "efa-200g", "ib-200g",
    "roce-400g", "efa-400g", "ib-400g",
    "roce-800g", "efa-800g", "ib-800g",
)  # fmt: skip
OR_BETTER = "-or-better"
PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4",
    "mxfp8", "mxfp6", "mxfp4", "nvfp4", "int8", "int4",
)  # fmt: skip
# Interconnects, each with those that it can stand in for.
COVERED_INTERCONNECTS = {
    "pcie": ("pcie",),
    "nvlink": ("pcie", "nvlink"),
    "nvswitch": ("pcie", "nvlink", "nvswitch"),
    "xgmi": ("pcie", "xgmi"),
}
INTERCONNECTS = tuple(COVERED_INTERCONNECTS)
# Networks for which pods need a device.
RDMA_PREFIXES = ("roce-", "efa-", "ib-")


def usable_memory(memory: int) -> int:
    """Returns the GPU memory that engines use for weights and caches, in bytes: nine tenths.

    vLLM's gpu-memory-utilization is 0.9 up to version 0.19 and 0.92 since (docs/facts.md, Engines).
    """
    return memory * 9 // 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRequirement:
    """A required network speed."""

    rung: str  # an entry of LADDER
    or_better: bool
    field: str = "interNodeBandwidth"  # of the two names of the requirement, the one that was used

    def is_met_by(self, rung: str) -> bool:
        """Tells whether a declared speed meets the requirement."""
        return rung == self.rung or (self.or_better and LADDER.index(rung) > LADDER.index(self.rung))

    def __str__(self) -> str:
        return self.rung + (OR_BETTER if self.or_better else "")
