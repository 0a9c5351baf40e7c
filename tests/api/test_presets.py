"""Each preset has its sources, and adds to pods what the example of its provider does."""

import re
from dataclasses import dataclass, field
from importlib import resources

import pytest
import yaml

from function.api.pod_additions import get_preset
from function.api.problems import find_unknown_fields, validate
from function.domain.pods import PodAdditions, PresetInputs
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.schemas import Pod
from tools.documents import document
from tools.programs import ROOT

FILES = sorted(
    (file.name.removesuffix(".yaml"), file.read_text())
    for file in resources.files("function").joinpath("presets").iterdir()
)
NAMES = [name for name, _ in FILES if name != "common"]  # those that can be chosen
KNOWN = {
    "source",
    "date",
    "devices",
    "resource",
    "count",
    "instanceTypes",
    "ncclNet",
    "networks",
    "start",
    "pod",
    "wholeNode",
}
SHARED = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": "status.podIP"}


def test_api_lists_every_preset() -> None:
    definition = document(ROOT / "apis" / "inferenceenvironments" / "definition.yaml")
    spec = mapping(listing(definition, "spec.versions")[0], "schema.openAPIV3Schema.properties.spec.properties")
    assert get(spec, "nodePools.items.properties.interNode.properties.preset.enum") == NAMES


def test_documents_list_every_preset() -> None:
    document = (ROOT / "docs" / "hardware.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", document, re.MULTILINE) == NAMES


@pytest.mark.parametrize(("name", "content"), FILES, ids=[name for name, _ in FILES])
def test_preset_has_its_sources_and_only_fields_of_a_pool(name: str, content: str) -> None:
    read: Manifest = yaml.safe_load(content)
    assert read.keys() <= KNOWN, name
    assert get(read, "source")
    assert re.fullmatch(r"20\d\d-\d\d", text(read, "date"))
    assert validate(Pod, read.get("pod", {}), name)[1].list() == ()
    assert [*find_unknown_fields(Pod, read.get("pod", {}), name)] == []


@dataclass(frozen=True)
class Given:
    """The example of a provider, in the fields of function/presets, without the common preset."""

    preset: str
    inputs: PresetInputs
    resources: dict[str, str]
    env: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    privileged: bool = False
    host_network: bool = False


MULTUS = "k8s.v1.cni.cncf.io/networks"
COREWEAVE = {"NCCL_IB_HCA": "ibp", "NCCL_NET_PLUGIN": "none", "NCCL_COLLNET_ENABLE": "0", "NCCL_NET": "IB"}
OCI = {
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_IB_TC": "41",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_IGNORE_CPU_AFFINITY": "1",
    "NCCL_NET": "IB",
}
GIVEN = [
    Given("coreweave-infiniband", PresetInputs(), {"rdma/ib": "1"}, COREWEAVE),
    Given(
        "coreweave-roce",
        PresetInputs(),
        {"rdma/ib": "1"},
        COREWEAVE
        | {
            "NCCL_IB_TC": "96",
            "NCCL_IB_ADDR_FAMILY": "AF_INET6",
            "NCCL_IB_ADDR_RANGE": "fd02::/16",
            "NCCL_IB_ADAPTIVE_ROUTING": "1",
        },
        annotations={MULTUS: ",".join(f"cw-multus/ibs{s}p{p}-macvlan" for s in range(4) for p in range(4))},
    ),
    Given(
        "eks-efa",
        PresetInputs(instance_type="p5.48xlarge", nccl_net="Libfabric"),
        {"hugepages-2Mi": "5120Mi", "vpc.amazonaws.com/efa": "32"},
        {
            "FI_PROVIDER": "efa",
            "LD_LIBRARY_PATH": "/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
            "NCCL_NET": "Libfabric",
        },
    ),
    Given(
        "gke-rdma",
        PresetInputs(networks=tuple(f"rdma-{n}" for n in range(8))),
        {},
        {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "NCCL_NET": "gIB"},
        annotations={
            "networking.gke.io/default-interface": "eth0",
            "networking.gke.io/interfaces": '[{"interfaceName":"eth0","network":"default"},'
            + ",".join(f'{{"interfaceName":"eth{n + 2}","network":"rdma-{n}"}}' for n in range(8))
            + "]",
        },
        mounts={"/usr/local/nvidia": "/home/kubernetes/bin/nvidia", "/usr/local/gib": "/home/kubernetes/bin/gib"},
    ),
    Given(
        "aks-infiniband",
        PresetInputs(resource="rdma/shared_ib", count=1),
        {"rdma/shared_ib": "1"},
        {"NCCL_NET_PLUGIN": "none", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET": "IB"},
    ),
    Given(
        "network-operator-shared",
        PresetInputs(resource="rdma/rdma_shared_device_a", networks=("macvlan-network",)),
        {"rdma/rdma_shared_device_a": "1"},
        {"NCCL_NET": "IB"},
        annotations={MULTUS: "macvlan-network"},
    ),
    Given(
        "network-operator-sriov",
        PresetInputs(resource="openshift.io/mlx", count=2, networks=("a/rail-0", "a/rail-1")),
        {"openshift.io/mlx": "2"},
        {"NCCL_NET": "IB"},
        annotations={MULTUS: "a/rail-0,a/rail-1"},
    ),
    Given(
        "oci-virtual-functions",
        PresetInputs(instance_type="BM.GPU.H100.8"),
        {"nvidia.com/rdma-vf": "16"},
        OCI | {"NCCL_IB_HCA": "mlx5"},
        annotations={MULTUS: ",".join(["default/rdma-vf"] * 16)},
        mounts={"/dev/infiniband": "/dev/infiniband"},
        privileged=True,
    ),
    Given(
        "oci-host-network",
        PresetInputs(instance_type="BM.GPU.H100.8"),
        {},
        OCI | {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{n}" for n in (0, 1, *range(3, 11), *range(12, 18)))},
        mounts={"/dev/infiniband": "/dev/infiniband"},
        privileged=True,
        host_network=True,
    ),
]


@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case.preset)
def test_preset_matches_the_example_of_its_provider(case: Given) -> None:
    found = get_preset(case.preset).build_additions(case.inputs, fail_closed=True)
    assert dict(found.resources) == case.resources
    assert _env(found) == SHARED | case.env
    assert dict(found.annotations) == case.annotations
    paths = {text(volume, "name"): text(volume, "hostPath.path") for volume in found.volumes}
    assert {text(m, "mountPath"): paths[text(m, "name")] for m in found.volume_mounts} == case.mounts
    rights: Manifest = {"privileged": True} if case.privileged else {}
    assert found.security == {"capabilities": {"add": ["IPC_LOCK"]}, **rights}
    assert (found.host_network is True) == case.host_network


def test_presets_that_use_all_devices_of_a_node() -> None:
    """GKE: one pod for each node. EKS and virtual functions: all devices of the instance."""
    whole = {name for name in NAMES if get_preset(name).whole_node}
    assert whole == {"eks-efa", "gke-rdma", "oci-virtual-functions"}


def test_every_preset_has_its_example() -> None:
    assert sorted(case.preset for case in GIVEN) == NAMES


def test_nccl_may_fall_back_to_sockets_unless_it_fails_closed() -> None:
    found = get_preset("coreweave-infiniband").build_additions(PresetInputs(), fail_closed=False)
    assert "NCCL_NET" not in _env(found)


def test_common_preset_requests_no_device() -> None:
    assert get_preset("common").pod.limits == ()
    assert _env(get_preset("common").pod) == SHARED


def _env(pod: PodAdditions) -> dict[str, JSON]:
    return {text(e, "name"): e.get("value") or get(e, "valueFrom.fieldRef.fieldPath") for e in pod.env}
