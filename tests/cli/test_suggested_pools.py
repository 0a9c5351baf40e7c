"""The pools that `init environment --from-cluster` and `capacity --suggest` write suit the models of users."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.api.inference_environment import parse_environment
from function.domain.gke_machines import MACHINES
from function.domain.gpu_products import PRODUCTS
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, get, list_texts, listing, mapping, text
from function.remote.node_collection import MEMBERSHIP, name_collection
from function.remote.nodes import parse_node, summarize_pools
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import EXAMPLES, STORIES, output_of, run, write
from tests.support.blocks import ROOT, yaml_blocks
from tests.support.nodes import POOL, member, node, taint

NETWORK = ("multiNodeCapable", "interNodeBandwidth")  # capabilities that no label tells


@dataclass(frozen=True)
class Formats:
    has: str
    lacks: str


@dataclass(frozen=True)
class Gpu:
    """GPUs of a node, as gpu-feature-discovery or AMD's node labeller describes them, and the pool that they are."""

    product: str
    memory: str  # MiB, as nvidia-smi shows it; empty: no label has it
    type: str
    declared: str  # memoryPerGpu
    interconnect: str = ""
    domain: int | None = None
    gpus: int = 8
    formats: Formats = Formats("fp32 tf32 bf16 fp16 int8", "fp8 fp4")  # of Ampere

    @property
    def resource(self) -> str:
        return "amd.com/gpu" if self.product.startswith("AMD") else "nvidia.com/gpu"

    @property
    def labels(self) -> dict[str, str]:
        if self.resource == "amd.com/gpu":
            return {"amd.com/gpu.product-name": self.product, "amd.com/gpu.vram": "192G"}
        labels = {"product": self.product, "memory": self.memory, "count": str(self.gpus)}
        return {f"nvidia.com/gpu.{key}": value for key, value in labels.items() if value}


HOPPER = Formats("fp32 tf32 bf16 fp16 fp8 int8", "fp4 int4")
ADA = Formats("fp32 tf32 bf16 fp16 fp8 int8", "fp4 mxfp8")
BLACKWELL = Formats("fp32 tf32 bf16 fp16 fp8 fp4 int8 mxfp4 nvfp4", "int4")
OLD = Formats("fp32 fp16", "tf32 bf16 fp8")
H100 = Gpu("NVIDIA-H100-80GB-HBM3", "81559", "nvidia-h100-80gb", "80Gi", "nvswitch", 8, formats=HOPPER)
H100_PCIE = Gpu("NVIDIA-H100-PCIe", "81559", "nvidia-h100-80gb", "80Gi", "pcie", formats=HOPPER)
H200 = Gpu("NVIDIA-H200", "143771", "nvidia-h200-141gb", "141Gi", "nvswitch", 8, formats=HOPPER)
A100 = Gpu("NVIDIA-A100-SXM4-80GB", "81920", "nvidia-a100-80gb", "80Gi", "nvswitch", 8)
L40S = Gpu("NVIDIA-L40S", "46068", "nvidia-l40s-48gb", "48Gi", "pcie", formats=ADA)
L4 = Gpu("NVIDIA-L4", "23034", "nvidia-l4-24gb", "24Gi", "pcie", formats=ADA)
GPUS = (
    H100, H100_PCIE, H200, A100, L40S, L4,
    # HGX boards of four GPUs have no NVSwitch, and a virtual machine may have some of the GPUs of a board.
    Gpu("NVIDIA-A100-SXM4-80GB", "81920", "nvidia-a100-80gb", "80Gi", "nvlink", 4, gpus=4),
    Gpu("NVIDIA-H100-80GB-HBM3", "81559", "nvidia-h100-80gb", "80Gi", "nvlink", 2, gpus=2, formats=HOPPER),
    Gpu("NVIDIA-A100-SXM4-40GB", "40960", "nvidia-a100-40gb", "40Gi", "nvswitch", 16, gpus=16),
    Gpu("NVIDIA-A100-SXM4-40GB", "40536", "nvidia-a100-40gb", "40Gi", "nvswitch", 8),
    Gpu("NVIDIA-A100-PCIE-40GB", "40960", "nvidia-a100-40gb", "40Gi", "pcie"),
    Gpu("NVIDIA-A100-80GB-PCIe", "81920", "nvidia-a100-80gb", "80Gi", "pcie"),
    Gpu("NVIDIA-A10G", "23028", "nvidia-a10g-24gb", "24Gi", "pcie"),
    Gpu("NVIDIA-A10", "23028", "nvidia-a10-24gb", "24Gi", "pcie"),
    Gpu("NVIDIA-A30", "24576", "nvidia-a30-24gb", "24Gi", "pcie"),
    Gpu("NVIDIA-A40", "46068", "nvidia-a40-48gb", "48Gi", "pcie"),
    Gpu("NVIDIA-L40", "46068", "nvidia-l40-48gb", "48Gi", "pcie", formats=ADA),
    Gpu("NVIDIA-L40S", "49140", "nvidia-l40s-48gb", "48Gi", "pcie", formats=ADA),  # without ECC
    Gpu("NVIDIA-H100-NVL", "95830", "nvidia-h100-94gb", "94Gi", "pcie", formats=HOPPER),
    Gpu("NVIDIA-H200-NVL", "143771", "nvidia-h200-141gb", "141Gi", "pcie", formats=HOPPER),
    Gpu("NVIDIA-B200", "183359", "nvidia-b200-180gb", "180Gi", "nvswitch", 8, formats=BLACKWELL),
    Gpu("NVIDIA-GB200", "189471", "nvidia-gb200-186gb", "186Gi", "nvlink", gpus=4, formats=BLACKWELL),
    Gpu("Tesla-T4", "15360", "nvidia-t4-16gb", "16Gi", "pcie", formats=OLD),
    Gpu("Tesla-V100-SXM2-16GB", "16384", "nvidia-v100-16gb", "16Gi", "nvlink", formats=OLD),
    Gpu("Tesla-V100-SXM2-32GB", "32510", "nvidia-v100-32gb", "32Gi", "nvlink", formats=OLD),
    Gpu("Tesla-V100-PCIE-16GB", "16160", "nvidia-v100-16gb", "16Gi", "pcie", formats=OLD),
    Gpu("Tesla-V100-PCIE-32GB", "32510", "nvidia-v100-32gb", "32Gi", "pcie", formats=OLD),
    Gpu("AMD_Instinct_MI300X_OAM", "", "amd-mi300x-192gb", "", "xgmi", formats=HOPPER),
)  # fmt: skip

InitEnvironment = Callable[[Iterable[Manifest]], str]


@pytest.fixture
def init_environment(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> InitEnvironment:
    """Returns what `init environment us-east --from-cluster` writes for a cluster with these nodes."""
    kubeconfig = server.kubeconfig(tmp_path_factory.mktemp("cluster"))

    def run(nodes: Iterable[Manifest]) -> str:
        server.paths = {"/version": {"gitVersion": "v1.34.2"}, "/api/v1/nodes": {"items": [*nodes]}}
        return output_of("init", "environment", "us-east", "--from-cluster", "--kubeconfig", kubeconfig)

    return run


def pools_of(environment: Manifest) -> list[Manifest]:
    return [*listing(environment, "spec.nodePools"), *listing(environment, "spec.cluster.gke.nodePools")]


def find_gpu(pool: Manifest) -> Gpu:
    """Returns the GPUs that the author of a pool has."""
    is_card = get(pool, "capabilities.interconnect") == "pcie"
    of_type = [gpu for gpu in GPUS if gpu.type == pool["acceleratorType"]]
    return next((gpu for gpu in of_type if is_card and gpu.interconnect == "pcie"), of_type[0])


def build_nodes(pool: Manifest, gpu: Gpu) -> list[Manifest]:
    """Returns the nodes of a declared pool, with the labels that nodes with such GPUs have."""
    gpus = str(pool["acceleratorCount"])
    labels = {key: str(value) for key, value in mapping(pool, "labels").items()} | gpu.labels
    if "nvidia.com/gpu.count" in labels:
        labels["nvidia.com/gpu.count"] = gpus
    count = pool.get("maxNodeCount") or pool.get("nodeCount")
    assert isinstance(count, int)
    taints = tuple(listing(pool, "taints"))
    return [
        node(f"{text(pool, 'name')}-{number}", labels, gpus=gpus, resource=gpu.resource, taints=taints)
        for number in range(count)
    ]


def replace_pools(environment: Manifest, init_environment: InitEnvironment) -> None:
    """Replaces the pools of an environment with those that its nodes suggest, and adds the network and the prices."""
    declared = pools_of(environment)
    nodes = [each for pool in declared for each in build_nodes(pool, find_gpu(pool))]
    suggested = pools_of(yaml.safe_load(init_environment(nodes)))
    assert len(suggested) == len(declared)
    for pool, replacement in zip(declared, suggested, strict=True):
        capabilities = mapping(pool, "capabilities")
        kept: Manifest = {key: pool[key] for key in ("name", "interNode", "price") if key in pool}
        network = {key: capabilities[key] for key in NETWORK if key in capabilities}
        pool.clear()
        pool.update(replacement | kept | {"capabilities": mapping(replacement, "capabilities") | network})


@dataclass(frozen=True)
class Placed:
    environment: str
    profile: str
    pool: str
    topology: str


def plan(files: str) -> dict[str, tuple[str, list[Placed], list[tuple[str, ...]]]]:
    """Returns the reason, the placements and the verdicts of all candidates, of each deployment."""
    return {
        f"{each['namespace']}/{each['name']}": (
            each["reason"],
            [
                Placed(row["environment"], row["profile"], row["pool"], json.dumps(row["topology"]))
                for row in each["placements"]
            ],
            [(row["environment"], row["pool"], row["profile"], row["verdict"]) for row in each["candidates"]],
        )
        for each in json.loads(output_of("plan", "-A", "-f", files, "-o", "json", "-q"))
    }


# The pools of `gke-cluster` are declared for GKE, before there are nodes.
@pytest.mark.parametrize("story", [story for story in STORIES if story != "gke-cluster"])
def test_suggested_pools_suit_the_models_of_an_example(
    story: str, init_environment: InitEnvironment, tmp_path: Path
) -> None:
    manifests = example(story)
    for environment in (each for each in manifests if each["kind"] == "InferenceEnvironment"):
        replace_pools(environment, init_environment)
    planned = plan(write(tmp_path, *manifests))
    assert {reason for reason, _, _ in planned.values()} == {"Placed"}
    assert planned == plan(str(EXAMPLES / story))


@pytest.mark.parametrize("gpu", [H100, H100_PCIE, A100, H200], ids=lambda gpu: gpu.product)
def test_suggested_pools_suit_the_model_of_the_readme(
    gpu: Gpu, init_environment: InitEnvironment, tmp_path: Path
) -> None:
    shown = [block.said for block in yaml_blocks() if block.document == ROOT / "README.md"]
    manifests = [each for said in shown for each in yaml.safe_load_all(said)]
    (pool,) = pools_of(find_manifest(manifests, "InferenceEnvironment"))
    environment = yaml.safe_load(init_environment(build_nodes(pool, gpu)))
    rest = [each for each in manifests if each["kind"] != "InferenceEnvironment"]
    assert [reason for reason, _, _ in plan(write(tmp_path, environment, *rest)).values()] == ["Placed"]


@pytest.mark.parametrize("gpu", [L4, L40S, A100, H100, H200], ids=lambda gpu: gpu.product)
def test_suggested_pools_suit_the_model_that_init_writes(
    gpu: Gpu, init_environment: InitEnvironment, tmp_path: Path
) -> None:
    labels = {POOL: "gpus", **gpu.labels}
    (tmp_path / "environment.yaml").write_text(init_environment([node(labels=labels)]))
    for kind in ("model", "deployment"):
        (tmp_path / f"{kind}.yaml").write_text(output_of("init", kind))
    assert [reason for reason, _, _ in plan(str(tmp_path)).values()] == ["Placed"]
    assert output_of("validate", str(tmp_path), "--strict") == "3 objects valid\n"


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: f"{gpu.product}-{gpu.memory}-{gpu.gpus}")
def test_suggests_what_is_known_of_a_product(gpu: Gpu, init_environment: InitEnvironment) -> None:
    nodes = [node(name, {POOL: "x", **gpu.labels}, gpus=str(gpu.gpus), resource=gpu.resource) for name in ("a", "b")]
    environment = yaml.safe_load(init_environment(nodes))
    (pool,) = pools_of(environment)
    capabilities = mapping(pool, "capabilities")
    assert pool["acceleratorType"] == gpu.type
    assert capabilities.get("memoryPerGpu", "") == gpu.declared
    assert (capabilities["interconnect"], capabilities.get("nvlinkDomainSize")) == (gpu.interconnect, gpu.domain)
    formats = set(list_texts(capabilities, "precisionSupport"))
    assert set(gpu.formats.has.split()) <= formats
    assert not set(gpu.formats.lacks.split()) & formats
    parsed = parse_environment(environment, BUILT_IN)
    assert parsed.problems == ()
    (facts,) = summarize_pools(parsed.value, map(parse_node, nodes)).values()
    assert (facts.drift, facts.unusable, facts.usable) == ((), (), 2), "a pool agrees with the nodes that suggested it"


def test_every_known_product_has_a_sample() -> None:
    assert {gpu.product for gpu in GPUS} == set(PRODUCTS)


@dataclass(frozen=True)
class Doubt:
    id: str
    reason: str
    labels: dict[str, str]
    known: Manifest  # capabilities
    type: str = ""


DOUBTS = (
    Doubt("no-labels", "GPUs without labels may be any", {}, {}),
    Doubt("unknown-product", "only the labels are known", {
        "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.memory": "24564"},
        {"memoryPerGpu": "24564Mi"}, "nvidia-geforce-rtx-4090"),
    Doubt("slice", "a slice of a GPU has less memory than its GPU, and reaches no other", {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "nvidia.com/gpu.memory": "40320"},
        {"memoryPerGpu": "40320Mi"}, "nvidia-h100-80gb-hbm3-mig-3g.40gb"),
    Doubt("less-memory", "memory far below the nominal size is written as the node reports it", {
        "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "21845"},  # 24 x 1024 / 1.1 = 22341.8
        {"memoryPerGpu": "21845Mi"}, "nvidia-l4-24gb"),
    Doubt("more-memory", "memory far above the nominal size is written as the node reports it", {
        "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "27034"},  # 24 x 1024 x 1.1 = 27033.6
        {"memoryPerGpu": "27034Mi"}, "nvidia-l4-24gb"),
    Doubt("whole-gi", "a reported size in whole Gi is written as such", {"nvidia.com/gpu.memory": "24576"},
        {"memoryPerGpu": "24Gi"}),
)  # fmt: skip
CAPABILITIES = ("memoryPerGpu", "precisionSupport", "interconnect", "nvlinkDomainSize", *NETWORK)


def uncomment(shown: str) -> str:
    """Returns a suggestion with all fields that are comments, as a user sets them."""
    return re.sub(r"^( *)# (?=(  )*[\w]+:)", r"\1", shown, flags=re.MULTILINE)


@pytest.mark.parametrize("case", DOUBTS, ids=lambda case: case.id)
def test_writes_as_comments_what_is_not_known(case: Doubt, init_environment: InitEnvironment) -> None:
    shown = init_environment([node(labels={POOL: "x", **case.labels})])
    (pool,) = pools_of(yaml.safe_load(shown))
    found = {key: value for key, value in mapping(pool, "capabilities").items() if key in case.known}
    assert (text(pool, "acceleratorType"), found) == (case.type, case.known), case.reason
    comments = set(re.findall(r"^ *# +(\w+):.*# set", shown, re.MULTILINE))
    is_known = set(mapping(pool, "capabilities"))
    assert comments & is_known == set()
    if case.type != "nvidia-l4-24gb":
        assert comments | is_known >= set(CAPABILITIES), case.reason
    assert ("acceleratorType" in comments) is (not case.type), case.reason
    environment = yaml.safe_load(uncomment(shown[shown.index("spec:") :]))
    (complete,) = environment["spec"]["nodePools"]
    assert comments <= {*complete, *complete["capabilities"]}
    environment["metadata"] = {"name": "east"}
    assert parse_environment(environment, BUILT_IN).problems == ()


def test_tells_the_memory_of_a_product_whose_nodes_have_no_label_for_it(init_environment: InitEnvironment) -> None:
    labels = {POOL: "mi", "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    shown = init_environment([node(labels=labels, resource="amd.com/gpu")])
    assert "\n      # memoryPerGpu: 192Gi  # set\n" in shown


def test_writes_only_the_network_as_comments_where_the_product_is_known(init_environment: InitEnvironment) -> None:
    shown = init_environment([node(labels={POOL: "x", **L4.labels})])
    assert re.findall(r"^ *# (\w+): \S+  # set", shown, re.MULTILINE) == [*NETWORK]


def test_both_commands_write_the_same_pools(live: Live, server: ApiServer, tmp_path: Path) -> None:
    nodes = [
        node("a", {POOL: "h100", **H100.labels}),
        node("b", {POOL: "other"}, taints=(taint("dedicated", "ml"),)),
        node("c", {POOL: "rtx", "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}, gpus="2"),
        node("d", {POOL: "slice", "nvidia.com/gpu.memory": "9856"}),
    ]
    collected = [member(each) for each in nodes]
    for shown in collected:
        mapping(shown, "metadata")["labels"] = {MEMBERSHIP: name_collection("h200-east")}
    suggested = output_of("capacity", "--suggest", *live(*collected))
    server.paths = {"/version": {"gitVersion": "v1.34.2"}, "/api/v1/nodes": {"items": [*nodes]}}
    options = ("--from-cluster", "--kubeconfig", server.kubeconfig(tmp_path))
    written = output_of("init", "environment", "dallas", "-q", *options)
    head, _, pools = suggested.partition("nodePools:\n")
    assert head == "# spec of InferenceEnvironment h200-east, of 4 nodes\n"
    assert written.endswith("  nodePools:\n" + "".join(f"  {line}\n" for line in pools.splitlines()))
    assert "# precisionSupport: [bf16, fp16]  # set" in suggested
    typed: list[JSON] = [text(pool, "acceleratorType") for pool in listing(yaml.safe_load(suggested), "nodePools")]
    assert typed == ["nvidia-h100-80gb", "", "nvidia-geforce-rtx-4090", ""]


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_init_declares_an_environment_for_each_machine_type(machine: str, tmp_path: Path) -> None:
    written = output_of("init", "environment", "iowa", "--gke", machine)
    (environment,) = yaml.safe_load_all(written)
    (pool,) = environment["spec"]["nodePools"]
    assert pool["gke"]["machineType"] == machine
    assert environment["metadata"]["name"] == "iowa"
    assert environment["spec"]["cluster"]["gke"]["region"] == "us-central1"
    file = tmp_path / "iowa.yaml"
    file.write_text(re.sub(r"(?m)^      # (\w+: )", r"      \1", written))  # with every capability that it proposes
    done = run("validate", "-f", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_init_lists_the_machine_types_that_it_knows() -> None:
    done = run("init", "environment", "--gke", "e2-standard-8")
    assert done.returncode == 4
    assert "e2-standard-8 is not known to have GPUs, use one of g2-standard-12" in done.stderr
    assert run("init", "model", "--gke", "a3-ultragpu-8g").returncode == 2
    assert run("init", "environment", "--gke", "a3-ultragpu-8g", "--from-cluster").returncode == 2
