"""The block `interNode` of a pool: how pods of one replica reach each other over several nodes.

A preset says what a provider's network asks of pods, and takes from `with` what it cannot know: names that somebody
chose on a cluster are never guessed. The pool's own word counts over the preset's.
"""

from function.api import presets
from function.api.block import Block
from function.api.pods import check_mounts, read_additions
from function.api.presets import Preset
from function.api.problems import unknown
from function.domain.pods import Inputs, InterNode, PodAdditions
from function.kube.manifests import text

_INPUTS = ("instanceType", "resourceName", "count", "networks", "ncclNet")


def read_inter_node(pool: Block, pod: PodAdditions, gpus: str) -> InterNode | None:
    """Return what a pool says for replicas of several nodes, over its `pod`; None where it says nothing."""
    block = pool.block("interNode")
    if not block.fields:
        return None
    own = read_additions(block.block("pod"), gpus)
    told, fail_closed = block.block("with"), block.flag("failClosed", default=True)
    inputs = Inputs(
        instance_type=told.text("instanceType"),
        resource=told.text("resourceName"),
        count=told.integer("count"),
        networks=told.texts("networks"),
        nccl_net=told.text("ncclNet"),
    )
    name = block.text("preset")
    preset = presets.named(name) if name in presets.names() else None
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
        given=given,
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
        told.faults.add(unknown(told.at("instanceType"), kind, tuple(preset.instance_types)))
