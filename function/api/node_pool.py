"""Parses a pool of an environment, and what a profile requires of a pool.

The speed between nodes has two names, `multiNodeBandwidth` and `interNodeBandwidth`. Pools and profiles accept both.
Only a profile may require a speed `-or-better`.

The block `interNode` says how pods of one replica reach each other over several nodes: by a preset for the network of a
provider. Its field `with` has the names that were chosen on the cluster. The pool's own settings take precedence over
the preset.
"""

from decimal import Decimal

from function import schemas
from function.api.pod_additions import Preset, check_mounts, get_preset, parse_additions
from function.api.problems import Problems, unknown_value
from function.api.provision import NODE_POOL_LABEL
from function.api.values import (
    check_alternatives,
    dump,
    dump_all,
    parse_amount,
    parse_word,
    refuse_templates,
    sort_entries,
)
from function.domain.allocation import Price
from function.domain.environment import Drift, DriftField, Pool, PoolFacts, Unusable, UnusableReason
from function.domain.model import INTERCONNECTS, LADDER, OR_BETTER, PRECISIONS, BandwidthRequirement, Requires
from function.domain.pods import QUEUE_LABEL, InterNode, PodAdditions, PresetInputs
from function.kube import quantity
from function.kube.manifests import Manifest, integer, list_texts, listing, mapping, text
from function.kube.messages import to_one_line

_OR_BETTER = tuple(rung + OR_BETTER for rung in LADDER)


def parse_requires(block: schemas.Requires | None, problems: Problems) -> Requires:
    if block is None:
        return Requires()
    rung = _parse_bandwidth(block, problems, _OR_BETTER)
    bandwidth = None
    if rung:
        field = "interNodeBandwidth" if block.multi_node_bandwidth is None else "multiNodeBandwidth"
        is_or_better = rung.endswith(OR_BETTER)
        bandwidth = BandwidthRequirement(rung=rung.removesuffix(OR_BETTER), or_better=is_or_better, field=field)
    return Requires(
        memory_per_gpu=parse_amount(block.memory_per_gpu, problems["memoryPerGpu"]),
        interconnect=parse_word(block.interconnect, tuple(INTERCONNECTS), problems["interconnect"]),
        bandwidth=bandwidth,
        precision=tuple(sorted(set(_parse_precisions(block.precision_support, problems)))),
        nvlink_domain=block.nvlink_domain_size,
        accelerator_type=block.accelerator_type.lower() if block.accelerator_type else None,
    )


def parse_pool(block: schemas.NodePool, published: Manifest, problems: Problems) -> Pool:
    """Returns a pool with what the status of its environment says of it."""
    refuse_templates(block, problems)
    capabilities = block.capabilities or schemas.Capabilities()
    at = problems["capabilities"]
    pod = _add_queue(block, parse_additions(block.pod, block.gpu_resource, problems["pod"]), problems)
    check_mounts(pod, [(f"{problems.path}.pod.volumeMounts", pod)], problems)
    if block.autoscaled and block.max_node_count is None and not problems["maxNodeCount"].refused:
        problems["autoscaled"].add_invalid(block.autoscaled, "false, or maxNodeCount must be set")
    max_nodes = block.node_count if block.max_node_count is None else block.max_node_count
    precisions = _parse_precisions(capabilities.precision_support, at)
    return Pool(
        name=block.name,
        gpus_per_node=block.accelerator_count,
        max_nodes=max_nodes,
        node_count=block.node_count,
        count_field="nodeCount" if block.max_node_count is None else "maxNodeCount",
        accelerator_type=(block.accelerator_type or "").lower(),
        gpu_resource=block.gpu_resource,
        labels=sort_entries(block.labels or ({NODE_POOL_LABEL: block.name} if block.gke else None)),
        taints=dump_all(block.taints),
        memory_per_gpu=parse_amount(capabilities.memory_per_gpu, at["memoryPerGpu"]),
        interconnect=parse_word(capabilities.interconnect, tuple(INTERCONNECTS), at["interconnect"]),
        precision=None if capabilities.precision_support is None else precisions,
        multi_node=capabilities.multi_node_capable,
        bandwidth=_parse_bandwidth(capabilities, at),
        nvlink_domain=capabilities.nvlink_domain_size,
        pod=pod,
        inter_node=_parse_inter_node(block, pod, problems),
        autoscaled=max_nodes > block.node_count if block.autoscaled is None else block.autoscaled,
        unschedulable=block.unschedulable,
        unschedulable_reason=to_one_line(block.unschedulable_reason or ""),
        price=_parse_price(block.price, problems["price"]),
        not_created=text(published, "notCreated"),
        facts=_parse_facts(published),
    )


def _add_queue(block: schemas.NodePool, pod: PodAdditions, problems: Problems) -> PodAdditions:
    """Returns the additions to the pods of a pool with the label that names their LocalQueue.

    The queue is a label like any other, so that the spec digest is the same whether `kueue` or `pod.labels` sets it.
    """
    if block.kueue is None:
        return pod
    between = block.inter_node or schemas.InterNode()
    for at, additions in (("pod", block.pod), ("interNode.pod", between.pod)):
        label = ((additions and additions.labels) or {}).get(QUEUE_LABEL)
        if label is not None:
            problems[at]["labels"][QUEUE_LABEL].add_invalid(label, "left out, as kueue.queue sets it")
    return pod.merge_over(PodAdditions(labels=((QUEUE_LABEL, block.kueue.queue),)))


def _parse_price(block: schemas.Price | None, problems: Problems) -> Price | None:
    """Returns the price of a pool; None if it has problems."""
    if block is None or problems.list():
        return None
    return Price(per_gpu_hour=Decimal(block.per_gpu_hour), currency=block.currency, price_class=block.class_)


def _parse_precisions(words: list[str] | None, problems: Problems) -> tuple[str, ...]:
    at = problems["precisionSupport"]
    parsed = (parse_word(word, PRECISIONS, at[index]) for index, word in enumerate(words or ()))
    return tuple(word for word in parsed if word is not None)


def _parse_bandwidth(
    block: schemas.Requires | schemas.Capabilities, problems: Problems, also: tuple[str, ...] = ()
) -> str | None:
    """Returns the speed, which has two names; both at once are a problem, even if they are equal."""
    check_alternatives(block, ("multiNodeBandwidth", "interNodeBandwidth"), problems)
    if block.multi_node_bandwidth is not None:
        return parse_word(block.multi_node_bandwidth, LADDER, problems["multiNodeBandwidth"], also)
    return parse_word(block.inter_node_bandwidth, LADDER, problems["interNodeBandwidth"], also)


def _parse_inter_node(pool: schemas.NodePool, pod: PodAdditions, problems: Problems) -> InterNode | None:
    """Returns the settings for replicas over several nodes, merged over those of the pool; None if there are none."""
    block = pool.inter_node
    at = problems["interNode"]
    if block is None or not block.model_fields_set:
        return None
    own = parse_additions(block.pod, pool.gpu_resource, at["pod"])
    given = block.with_ or schemas.With()
    inputs = PresetInputs(
        instance_type=given.instance_type or "",
        resource=given.resource_name or "",
        count=given.count,
        networks=tuple(given.networks or ()),
        nccl_net=given.nccl_net or "",
    )
    preset = get_preset(block.preset) if block.preset else None
    _check_inputs(block, preset, pool.gpu_resource, at["with"])
    base = PodAdditions()
    if preset and not at["with"].list():
        base = preset.build_additions(inputs, fail_closed=block.fail_closed)
    merged = own.merge_over(pod.merge_over(base))
    if not problems.list():
        origins = (f"preset {block.preset}", problems["pod.volumeMounts"].path, at["pod.volumeMounts"].path)
        check_mounts(merged, list(zip(origins, (base, pod, own), strict=True)), problems)
    return InterNode(
        preset=preset.name if preset else "",
        inputs=inputs,
        fail_closed=block.fail_closed,
        pod=own,
        merged=merged,
        preset_env=frozenset(text(entry, "name") for entry in base.env),
        start=preset.start if preset else "",
        whole_node=preset.whole_node if preset else False,
    )


def _check_inputs(block: schemas.InterNode, preset: Preset | None, gpu_resource: str, problems: Problems) -> None:
    """Adds a problem for each input that is missing, unknown, or not an input of the preset."""
    given = block.with_ or schemas.With()
    takes = preset.inputs if preset else {}
    fields = dump(given)
    for name in fields.keys() - takes.keys():
        why = f"preset {preset.name} takes {', '.join(takes) or 'none'}" if preset else "no preset is set"
        problems[name].add_invalid(fields[name], f"left out, as {why}")
    if preset is None:
        return
    if given.resource_name == gpu_resource:
        allowed = "the resource of the network devices, not that of the GPUs"
        problems["resourceName"].add_invalid(given.resource_name, allowed)
    # If the number of devices is set, the instance type is needed only if more than this number depends on it.
    counted = given.count is not None and all(row.keys() == {"count"} for row in preset.instance_types.values())
    optional = {"ncclNet": not block.fail_closed, "instanceType": counted}
    for name, required in takes.items():
        if required and not optional.get(name) and fields.get(name) is None:
            problems[name].add_required(f"as preset {preset.name} needs it")
    known = tuple(preset.instance_types)
    at = problems["instanceType"]
    if given.instance_type and known and not counted and given.instance_type not in known:
        at.update([unknown_value(at.path, given.instance_type, known)])


def _parse_facts(pool: Manifest) -> PoolFacts | None:
    """Returns the observed nodes of a pool in status, without reasons and fields that are unknown."""
    observed = mapping(pool, "observed")
    if not observed:
        return None
    return PoolFacts(
        nodes=integer(observed, "nodes"),
        usable=integer(observed, "usable"),
        unusable=tuple(
            Unusable(
                reason=UnusableReason(text(row, "reason")),
                detail=text(row, "detail"),
                count=integer(row, "count"),
                nodes=list_texts(row, "nodes"),
            )
            for row in listing(observed, "unusable")
            if text(row, "reason") in set(UnusableReason)
        ),
        gpus_per_node=integer(observed, "gpusPerNode") or None,
        product=text(observed, "product"),
        memory_per_gpu=quantity.parse_or_none(text(observed, "memoryPerGpu")),
        drift=tuple(
            Drift(
                field=DriftField(text(row, "field")),
                declared=text(row, "declared"),
                observed=text(row, "observed"),
                nodes=list_texts(row, "nodes"),
            )
            for row in listing(observed, "drift")
            if text(row, "field") in set(DriftField)
        ),
    )
