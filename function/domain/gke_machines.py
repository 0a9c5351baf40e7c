"""The machine types of Google Cloud with GPUs: what a node of each has (docs/facts.md, GKE)."""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.gpu_products import PRODUCTS, Product


@dataclass(frozen=True, slots=True)
class Machine:
    accelerator_type: str  # as GKE names it
    gpus: int
    label: str  # of the product, as its nodes have it
    between_nodes: str = ""  # the network between nodes; empty: plain TCP

    @property
    def product(self) -> Product:
        return PRODUCTS[self.label]

    @property
    def needs_sidecar(self) -> bool:
        """Tells whether pods over several nodes need networks and a sidecar that nobody composes."""
        return self.between_nodes.startswith("TCPX")


_L4, _A100, _A100_80 = "NVIDIA-L4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"
_H100, _H200, _B200, _GB200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200", "NVIDIA-GB200"
MACHINES: Mapping[str, Machine] = {
    **{f"g2-standard-{12 * gpus}": Machine("nvidia-l4", gpus, _L4) for gpus in (1, 2, 4, 8)},
    **{f"a2-highgpu-{gpus}g": Machine("nvidia-tesla-a100", gpus, _A100) for gpus in (1, 2, 4, 8)},
    "a2-megagpu-16g": Machine("nvidia-tesla-a100", 16, _A100),
    **{f"a2-ultragpu-{gpus}g": Machine("nvidia-a100-80gb", gpus, _A100_80) for gpus in (1, 2, 4, 8)},
    **{f"a3-highgpu-{gpus}g": Machine("nvidia-h100-80gb", gpus, _H100) for gpus in (1, 2, 4)},
    "a3-highgpu-8g": Machine("nvidia-h100-80gb", 8, _H100, "TCPX"),
    "a3-megagpu-8g": Machine("nvidia-h100-mega-80gb", 8, _H100, "TCPXO"),
    "a3-ultragpu-8g": Machine("nvidia-h200-141gb", 8, _H200, "RoCE"),
    "a4-highgpu-8g": Machine("nvidia-b200", 8, _B200, "RoCE"),
    "a4x-highgpu-4g": Machine("nvidia-gb200", 4, _GB200, "RoCE"),
}
