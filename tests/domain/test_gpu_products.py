"""The table of GPU products: its words are words of the API, and what follows from the number of GPUs."""

import pytest

from function.domain.gpu_products import PRODUCTS, USUAL_NODES
from function.domain.model import INTERCONNECTS, PRECISIONS


@pytest.mark.parametrize("label", PRODUCTS)
def test_words_of_a_product_are_words_of_the_api(label: str) -> None:
    product = PRODUCTS[label]
    assert set(product.precision) <= set(PRECISIONS)
    assert len(set(product.precision)) == len(product.precision)
    assert product.interconnect in INTERCONNECTS
    assert product.accelerator_type == product.accelerator_type.lower(), "types are compared in lower case"


@pytest.mark.parametrize(
    ("label", "gpus", "interconnect", "domain", "reason"),
    [
        ("NVIDIA-H100-80GB-HBM3", 8, "nvswitch", 8, "an HGX board of eight has NVSwitches"),
        ("NVIDIA-A100-SXM4-40GB", 16, "nvswitch", 16, "two HGX A100 boards of eight are connected by their NVSwitches"),
        ("NVIDIA-A100-SXM4-80GB", 4, "nvlink", 4, "the GPUs of an HGX board of four are connected to each other"),
        (
            "NVIDIA-H100-80GB-HBM3",
            7,
            "nvlink",
            7,
            "a virtual machine with seven GPUs of a board of eight may have them",
        ),
        ("NVIDIA-GB200", 4, "nvlink", None, "the rack, not the node, decides the domain of superchips"),
        ("Tesla-V100-SXM2-16GB", 8, "nvlink", None, "not every pair of eight V100 has an NVLink"),
        ("NVIDIA-H100-NVL", 2, "pcie", None, "only an NVLink bridge would connect two cards"),
        ("AMD_Instinct_MI300X_OAM", 8, "xgmi", None, "Infinity Fabric is no NVLink"),
    ],
)
def test_connection_of_the_gpus_of_a_node(
    label: str, gpus: int, interconnect: str, domain: int | None, reason: str
) -> None:
    product = PRODUCTS[label]
    assert product.find_interconnect(gpus) == interconnect, reason
    assert product.find_nvlink_domain(gpus) == domain, reason
    assert product.has_nvlink is (interconnect in ("nvlink", "nvswitch"))


def test_usual_nodes_have_known_products() -> None:
    assert set(USUAL_NODES) <= set(PRODUCTS)
    types = [PRODUCTS[label].accelerator_type for label in USUAL_NODES]
    assert len(types) == len(set(types)), "a row of `size` is named after its type"
