"""What is known of GPUs by the product that their nodes are labelled with (docs/facts.md, GPUs).

The keys are the labels `nvidia.com/gpu.product` and `amd.com/gpu.product-name`, whole. The label of a slice or a share
of a GPU has another ending, so that nothing is known of it. A product is listed only if its nominal memory, its number
formats and its interconnect are certain.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# The number formats by architecture: fp32, and those of its tensor or matrix cores, without fp64.
_VOLTA = ("fp32", "fp16")
_TURING = ("fp32", "fp16", "int8", "int4")
_AMPERE = ("fp32", "tf32", "bf16", "fp16", "int8", "int4")
_ADA = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4")
_HOPPER = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_BLACKWELL = (*_HOPPER, "fp6", "fp4", "mxfp8", "mxfp6", "mxfp4", "nvfp4")
_CDNA3 = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_GPUS_WITH_NVSWITCH = 8


@dataclass(frozen=True, slots=True)
class Product:
    """GPUs that have the same label. `interconnect` is nvswitch for GPUs of HGX boards, which have four or eight."""

    model: str  # the maker and the model, as in the accelerator type
    memory: int  # nominal, in Gi
    precision: tuple[str, ...]
    interconnect: str  # between all GPUs of a node, so that NVLink bridges between some PCIe cards do not count

    @property
    def accelerator_type(self) -> str:
        """The accelerator type as the documentation and the examples write it, such as nvidia-h100-80gb."""
        return f"{self.model}-{self.memory}gb"

    @property
    def has_nvlink(self) -> bool:
        return self.interconnect in ("nvlink", "nvswitch")

    def find_interconnect(self, gpus: int) -> str:
        """Returns what connects this many GPUs of a node; the four GPUs of a small HGX board need no NVSwitch."""
        is_small_board = self.interconnect == "nvswitch" and gpus < _GPUS_WITH_NVSWITCH
        return "nvlink" if is_small_board else self.interconnect

    def find_nvlink_domain(self, gpus: int) -> int | None:
        """Returns the size of the NVLink domain of this many GPUs of a node; None: there is none, or it is not known.

        All GPUs of an HGX board are in one domain. The domain of a superchip may be larger than its node.
        """
        return gpus if self.interconnect == "nvswitch" else None


PRODUCTS: Mapping[str, Product] = {
    "Tesla-V100-PCIE-16GB": Product("nvidia-v100", 16, _VOLTA, "pcie"),
    "Tesla-V100-PCIE-32GB": Product("nvidia-v100", 32, _VOLTA, "pcie"),
    "Tesla-V100-SXM2-16GB": Product("nvidia-v100", 16, _VOLTA, "nvlink"),
    "Tesla-V100-SXM2-32GB": Product("nvidia-v100", 32, _VOLTA, "nvlink"),
    "Tesla-T4": Product("nvidia-t4", 16, _TURING, "pcie"),
    "NVIDIA-A10": Product("nvidia-a10", 24, _AMPERE, "pcie"),
    "NVIDIA-A10G": Product("nvidia-a10g", 24, _AMPERE, "pcie"),
    "NVIDIA-A30": Product("nvidia-a30", 24, _AMPERE, "pcie"),
    "NVIDIA-A40": Product("nvidia-a40", 48, _AMPERE, "pcie"),
    "NVIDIA-A100-PCIE-40GB": Product("nvidia-a100", 40, _AMPERE, "pcie"),
    "NVIDIA-A100-80GB-PCIe": Product("nvidia-a100", 80, _AMPERE, "pcie"),
    "NVIDIA-A100-SXM4-40GB": Product("nvidia-a100", 40, _AMPERE, "nvswitch"),
    "NVIDIA-A100-SXM4-80GB": Product("nvidia-a100", 80, _AMPERE, "nvswitch"),
    "NVIDIA-L4": Product("nvidia-l4", 24, _ADA, "pcie"),
    "NVIDIA-L40": Product("nvidia-l40", 48, _ADA, "pcie"),
    "NVIDIA-L40S": Product("nvidia-l40s", 48, _ADA, "pcie"),
    "NVIDIA-H100-PCIe": Product("nvidia-h100", 80, _HOPPER, "pcie"),
    "NVIDIA-H100-NVL": Product("nvidia-h100", 94, _HOPPER, "pcie"),
    "NVIDIA-H100-80GB-HBM3": Product("nvidia-h100", 80, _HOPPER, "nvswitch"),
    "NVIDIA-H200-NVL": Product("nvidia-h200", 141, _HOPPER, "pcie"),
    "NVIDIA-H200": Product("nvidia-h200", 141, _HOPPER, "nvswitch"),
    "NVIDIA-B200": Product("nvidia-b200", 180, _BLACKWELL, "nvswitch"),
    "NVIDIA-GB200": Product("nvidia-gb200", 186, _BLACKWELL, "nvlink"),
    "AMD_Instinct_MI300X_OAM": Product("amd-mi300x", 192, _CDNA3, "xgmi"),
}
# The GPUs of a node as clouds and makers sell it, by product: what `size` shows to callers who name no environment.
USUAL_NODES: Mapping[str, int] = {
    "NVIDIA-L4": 8,
    "NVIDIA-A10G": 8,
    "NVIDIA-L40S": 8,
    "NVIDIA-A100-SXM4-40GB": 8,
    "NVIDIA-A100-SXM4-80GB": 8,
    "NVIDIA-H100-80GB-HBM3": 8,
    "NVIDIA-H200": 8,
    "NVIDIA-B200": 8,
    "NVIDIA-GB200": 4,
    "AMD_Instinct_MI300X_OAM": 8,
}
