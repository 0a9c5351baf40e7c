"""Parses a pool of an environment and what a profile requires of one.

Names of hardware are compared ignoring case and kept in lower case. The speed between nodes has one name on each side,
`multiNodeBandwidth` and `interNodeBandwidth`; either is accepted on both. Only a profile may require a speed
`-or-better`.

The block `interNode` says how pods of one replica reach each other over several nodes. A preset has what the network
of a provider needs and takes from `with` what it cannot know: names that were chosen on a cluster are never guessed.
The pool's own settings take precedence over the preset's.
"""

from function.api.block import Block, refuse_templates
from function.api.pods import Preset, check_mounts, get_preset, list_presets, parse_additions, parse_pod
from function.api.problems import unknown_value
from function.domain.environment import GPU_RESOURCE, Pool
from function.domain.hardware import INTERCONNECTS, LADDER, OR_BETTER, PRECISIONS, BandwidthRequirement
from function.domain.model import Requires
from function.domain.pods import InterNode, PodAdditions, PresetInputs
from function.kube.manifests import text

_BANDWIDTH = ("multiNodeBandwidth", "interNodeBandwidth")


def parse_requires(block: Block) -> Requires:
    """Return what a profile asks of a pool."""
    return Requires(
        memory_per_gpu=block.amount("memoryPerGpu"),
        interconnect=block.member("interconnect", INTERCONNECTS),
        bandwidth=_required_bandwidth(block),
        precision=tuple(sorted(set(block.members("precisionSupport", PRECISIONS)))),
        nvlink_domain=block.integer("nvlinkDomainSize"),
        accelerator_type=block.text("acceleratorType").lower() or None,
    )


def parse_pool(block: Block) -> Pool:
    """Return a pool of an environment; its capacity in nodes is maxNodeCount, else nodeCount."""
    refuse_templates(block)
    capabilities = block.block("capabilities")
    declared = capabilities.has("precisionSupport")
    gpus = block.text("gpuResource", GPU_RESOURCE)
    pod = parse_pod(block.block("pod"), gpus)
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
        inter_node=parse_inter_node(block, pod, gpus),
        autoscaled=parse_autoscaled(block),
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


_INPUTS = ("instanceType", "resourceName", "count", "networks", "ncclNet")


def parse_inter_node(pool: Block, pod: PodAdditions, gpus: str) -> InterNode | None:
    """Return what a pool says for replicas of several nodes, over its `pod`; None where it says nothing."""
    block = pool.block("interNode")
    if not block.fields:
        return None
    own = parse_additions(block.block("pod"), gpus)
    told, fail_closed = block.block("with"), block.flag("failClosed", default=True)
    inputs = PresetInputs(
        instance_type=told.text("instanceType"),
        resource=told.text("resourceName"),
        count=told.integer("count"),
        networks=told.texts("networks"),
        nccl_net=told.text("ncclNet"),
    )
    name = block.text("preset")
    preset = get_preset(name) if name in list_presets() else None
    _check(told, preset, gpus, fail_closed=fail_closed)
    # Of inputs with faults nothing is made: the pool is left out.
    base = preset.additions(inputs, fail_closed=fail_closed) if preset and not told.problems() else PodAdditions()
    given = own.over(pod.over(base))
    if not pool.problems():
        parts = ((f"preset {name}", base), (pool.at("pod.volumeMounts"), pod), (block.at("pod.volumeMounts"), own))
        check_mounts(pool.faults, given, parts)
    return InterNode(
        preset=preset.name if preset else "",
        inputs=inputs,
        fail_closed=fail_closed,
        pod=own,
        merged=given,
        preset_env=frozenset(text(entry, "name") for entry in base.env),
        start=preset.start if preset else "",
        whole_node=preset.whole_node if preset else False,
    )


def _check(told: Block, preset: Preset | None, gpus: str, *, fail_closed: bool) -> None:
    """Note inputs that are missing, unknown, or nobody's."""
    takes = preset.takes if preset else {}
    for name in (name for name in _INPUTS if told.has(name) and name not in takes):
        whose = (
            f"preset {preset.name} takes {', '.join(takes) or 'none'}" if preset else "there is no preset to take it"
        )
        told.deny(name, f"left out, as {whose}")
    if preset is None:
        return
    if told.text("resourceName") == gpus:
        told.deny("resourceName", "the resource of the network devices, not that of the GPUs")
    counted = told.has("count") and preset.only_counts
    for name, needed in takes.items():
        excused = (name == "ncclNet" and not fail_closed) or (name == "instanceType" and counted)
        if needed and not excused and not told.has(name):
            told.demand(name, f"as preset {preset.name} cannot know it")
    kind = told.text("instanceType")
    if kind and "instanceType" in takes and not counted and kind not in preset.instance_types:
        told.faults.add(unknown_value(told.at("instanceType"), kind, tuple(preset.instance_types)))


def parse_autoscaled(block: Block) -> bool:
    """Return whether somebody adds nodes to a pool; one that says so must say up to how many."""
    if block.flag("autoscaled", default=False) and not block.has("maxNodeCount"):
        block.deny("autoscaled", "false, or maxNodeCount beside it")
    grows = block.has("maxNodeCount") and block.integer("maxNodeCount", 0) > block.integer("nodeCount", 0)
    return block.flag("autoscaled", default=grows)
