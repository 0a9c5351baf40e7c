"""Refusals: one reason each why an environment or pool cannot be chosen, and its wording.

Conditions, `status.unplaced` and the tables of the command line are worded from refusals, so that a decision and its
explanation cannot disagree. `Refused` has one row for each reason, `Field` one for each thing that is compared.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from function.capacity.pools import PoolUse
from function.domain.allocation import QuotaUsage, format_replicas
from function.domain.environment import format_unusable
from function.domain.model import BandwidthRequirement, Problem, Shape
from function.kube.messages import format_count
from function.kube.quantity import exact, mib
from function.kube.selectors import SelectorRequirement
from function.reasons import Refused
from function.weights.faults import SHARED_STORAGE, FaultKind, StorageFault

Value: TypeAlias = int | str | BandwidthRequirement | tuple[str, ...] | tuple[Problem, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why an environment or pool cannot be chosen."""

    reason: Refused
    field: "Field"
    environment: str = ""
    profile: str = ""
    pool: str = ""
    required: Value = None
    actual: Value = None  # None: not declared
    # The label requirements that are not met, each with the value of the label; None if the label is missing.
    unmet: tuple[tuple[SelectorRequirement, str | None], ...] = ()
    shape: Shape | None = None  # of one replica, if nodes and capacity count
    use: PoolUse | None = None  # if capacity counts
    exclusive_node: bool = False  # GPUs that a pod leaves on its node are not available to others
    storage: StorageFault | None = None  # for Field.STORAGE
    quota_usage: QuotaUsage | None = None  # for Field.QUOTA
    is_normal: bool = False  # for Field.READY and Field.CREATED: nothing is known to be wrong

    @property
    def is_starting(self) -> bool:
        """Tells whether only that is missing which follows by itself after everything was applied."""
        is_pending = self.storage is not None and self.storage.kind is FaultKind.CACHE_PENDING
        return self.is_normal or self.field is Field.LEDGER or is_pending

    @property
    def message(self) -> str:
        """What is wrong, with the required and the actual value."""
        if self.quota_usage is not None:
            return f"{self.quota_usage.request} required; {self.quota_usage.message}"
        return self.storage.describe_on(self.pool) if self.storage else self.field.value.message(self)

    @property
    def columns(self) -> tuple[str, str]:
        """What is required and what was found, short enough for a column."""
        if self.quota_usage is not None:
            return self.quota_usage.request, f"quota: {self.quota_usage.numbers}"
        return self.storage.columns if self.storage else self.field.value.columns(self)

    @property
    def remedy(self) -> str:
        """The change that clears the refusal, if it does not depend on the snapshot (ways_out.py); else empty."""
        if self.storage is not None:
            return self.storage.remedy(self.environment)
        if self.reason is Refused.NO_POOL_SATISFIES_REQUIREMENTS and self.pool and self.actual is None:
            where = f"pool {self.pool} of InferenceEnvironment {self.environment}"
            return f"If its nodes have it, declare {self.field} on {where}"
        if self.quota_usage is not None:
            if self.quota_usage.limits.invalid:
                return "Ask the platform team to correct the limits"
            how = "Request less" if self.quota_usage.exceeds_limit else "Delete a placement of the namespace"
            return f"{how}, or ask the platform team to raise the limits"
        return "Create an InferenceEnvironment" if self.field is Field.ENVIRONMENTS else ""

    @property
    def required_field(self) -> str:
        """The field as the author of the requirement spells it: a network speed has two names."""
        return self.required.field if isinstance(self.required, BandwidthRequirement) else str(self.field)

    @property
    def replicas(self) -> str:
        """The replicas that are required, with their size."""
        assert self.shape is not None
        assert isinstance(self.required, int)
        return format_replicas(self.required, self.shape, exclusive_node=self.exclusive_node)


def join_messages(messages: Iterable[str]) -> str:
    """Joins messages into one; the API's sentence on shared storage already ends in a full stop."""
    return "; ".join(messages).replace(f"{SHARED_STORAGE};", SHARED_STORAGE)


def _format(refusal: Refusal, value: Value) -> str:
    if isinstance(value, int) and refusal.field is Field.MEMORY_PER_GPU:
        return exact(value)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _describe_requirement(refusal: Refusal) -> str:
    required = refusal.required
    actual = refusal.actual
    pool = f"pool {refusal.pool}"
    if required is None:
        return f"{pool} does not declare {refusal.field}, which {Field.VRAM} is divided by"
    needed = _format(refusal, required)
    if refusal.required_field != str(refusal.field):  # its author uses another name than pools do
        needed = f"{refusal.required_field} {needed}"
    if actual is None:
        return f"{pool} does not declare {refusal.field}, {needed} required"
    if isinstance(required, tuple) and isinstance(actual, tuple):
        absent = ", ".join(str(item) for item in required if item not in actual)
        return f"{pool} lacks {refusal.field} {absent}; it has {_format(refusal, actual) or 'none'}"
    missing = ""
    if isinstance(required, int) and isinstance(actual, int):
        difference = required - actual
        missing = f" ({mib(difference) if refusal.field is Field.MEMORY_PER_GPU else difference} missing)"
    return f"{pool} has {refusal.field} {_format(refusal, actual)}, {needed} required{missing}"


def _describe_selector(refusal: Refusal) -> str:
    labels = ((r, "no such label" if label is None else label) for r, label in refusal.unmet)
    return f"the {refusal.field} requires {', '.join(f'{r} (found {label})' for r, label in labels)}"


def _describe_problems(refusal: Refusal) -> str:
    return f"on pool {refusal.pool} {_format(refusal, refusal.actual)}"


def _describe_pools(refusal: Refusal) -> str:
    broken = _format(refusal, refusal.actual) if refusal.actual else ""
    return f"node pools are invalid: {broken}, see its condition PoolsValid" if broken else "it has no GPU node pools"


def _describe_capacity(refusal: Refusal) -> str:
    use = refusal.use
    assert use is not None
    nodes = format_count(use.nodes, "node")
    if use.unusable_nodes:
        why = f" ({format_unusable(use.unusable)})" if use.unusable else ""
        nodes += f" declared, {use.nodes - use.unusable_nodes} usable{why}"
    if refusal.reason is Refused.POOL_TOO_SMALL:
        holds = f"the whole pool ({nodes}) holds {refusal.actual}"
        return f"pool {refusal.pool} is too small: {refusal.replicas} required, {holds}"
    in_use = f"{nodes}, {use.nodes_in_use} in use" if use.unusable_nodes else f"{use.nodes_in_use} of {nodes} in use"
    by = f"by {format_count(use.placements, 'other placement')}"
    what = f"pool {refusal.pool} has no capacity now: {refusal.replicas} required, {refusal.actual} fit: {in_use} {by}"
    if use.lent is None:
        return what
    gpus, priority = use.lent
    who = f"a deployment of priority {priority} or higher"
    return f"{what}; {who} can take back {format_count(gpus, 'GPU')} for guaranteed replicas"


def _compare_values(refusal: Refusal) -> tuple[str, str]:
    row = refusal.field.value
    required = "" if refusal.required is None else _format(refusal, refusal.required)
    actual = row.missing if refusal.actual is None else _format(refusal, refusal.actual)
    return row.required.format(required) or f"{refusal.required_field} {required}".rstrip(), actual


def _compare_labels(refusal: Refusal) -> tuple[str, str]:
    labels = [f"no {r.key}" if label is None else f"{r.key}={label}" for r, label in refusal.unmet]
    return ", ".join(str(requirement) for requirement, _ in refusal.unmet), ", ".join(labels)


def _compare_capacity(refusal: Refusal) -> tuple[str, str]:
    assert isinstance(refusal.required, int)
    use = refusal.use
    in_use = f", {use.nodes_in_use} of {format_count(use.nodes, 'node')} in use" if use else ""
    return format_count(refusal.required, "replica"), f"room for {refusal.actual}{in_use}"


def _count(refusal: Refusal) -> int:
    assert isinstance(refusal.required, int)
    return refusal.required


@dataclass(frozen=True, slots=True)
class FieldRow:
    name: str  # as users know it
    message: Callable[[Refusal], str] = _describe_requirement
    columns: Callable[[Refusal], tuple[str, str]] = _compare_values
    required: str = ""  # for a column, with `{}` for the required value; empty: the field and the value
    missing: str = "not declared"  # for a column, where the refusal has no actual value
    attribute: str = ""  # of `Requires` and of `Pool`, if a profile may require it of a pool


class Field(Enum):
    """What is compared: one row each, in the order of the filters."""

    ENVIRONMENTS = FieldRow("environments", lambda _: "There is no InferenceEnvironment to run on")
    DEPLOYMENT_SELECTOR = FieldRow("deployment's environmentSelector", _describe_selector, _compare_labels)
    MODEL_SELECTOR = FieldRow("model's environmentSelector", _describe_selector, _compare_labels)
    PROFILE_SELECTOR = FieldRow("profile's environmentSelector", _describe_selector, _compare_labels)
    PROFILE = FieldRow("profile", lambda refusal: f"it is invalid: {_format(refusal, refusal.actual)}")
    VRAM = FieldRow(
        "spec.resources.vram",
        lambda _: "no replicaTopology, and the model has no spec.resources.vram",
        required="spec.resources.vram",
        missing="not set",
    )
    ENGINE_ARGS = FieldRow("engine.args", _describe_problems, required="arguments that agree")
    INTER_NODE = FieldRow("interNode", _describe_problems, required="what its preset allows")
    TLS = FieldRow("kserve.tls", _describe_problems, required="an engine that serves HTTPS")
    ENVIRONMENT = FieldRow(
        "environment",
        lambda _: "its spec is invalid, see its conditions",
        required="a valid environment",
        missing="spec is invalid",
    )
    NODE_POOLS = FieldRow("nodePools", _describe_pools, required="a valid GPU pool", missing="none")
    MULTI_NODE = FieldRow(
        "multiNodeCapable",
        lambda refusal: f"pool {refusal.pool} is not multiNodeCapable, {refusal.required} nodes required",
        required="multiNodeCapable for {} nodes",
    )
    GPUS_PER_NODE = FieldRow("acceleratorCount")
    GPU_RESOURCE = FieldRow(
        "gpuResource",
        lambda r: (
            f"pool {r.pool} has gpuResource {r.actual}, of which a pod can use 1, gpusPerNode {r.required} required"
        ),
        required="{} GPUs for each pod",
    )
    MEMORY_PER_GPU = FieldRow("memoryPerGpu", attribute="memory_per_gpu")
    NVLINK_DOMAIN = FieldRow("nvlinkDomainSize", attribute="nvlink_domain")
    INTERCONNECT = FieldRow("interconnect", attribute="interconnect")
    ACCELERATOR_TYPE = FieldRow("acceleratorType", attribute="accelerator_type")
    BANDWIDTH = FieldRow("interNodeBandwidth", attribute="bandwidth")
    PRECISION = FieldRow("precisionSupport", attribute="precision")
    ROUTING = FieldRow(
        "routing",
        lambda r: f"routing {r.required} needs an endpoint picker: {r.actual}",
        lambda r: (f"routing {r.required}", _format(r, r.actual)),
    )
    ADAPTERS = FieldRow("adapters", lambda r: f"{r.actual}", lambda r: (f"{r.required} adapters", _format(r, r.actual)))
    STORAGE = FieldRow("storage")  # described by its `StorageFault`
    REPLICAS = FieldRow("replicas", _describe_capacity, _compare_capacity)
    LENT = FieldRow(
        "lent replicas",
        lambda r: f"the GPUs of {format_count(_count(r), 'lent replica')} of pool {r.pool} go to {r.actual}",
        lambda r: (format_count(_count(r), "lent replica"), "taken back"),
    )
    PREEMPTED = FieldRow(
        "guaranteed replicas",
        lambda r: (
            f"the GPUs of {format_count(_count(r), 'replica')} of pool {r.pool}, including guaranteed ones, "
            f"go to {r.actual}"
        ),
        lambda r: (format_count(_count(r), "replica"), "taken"),
    )
    LEDGER = FieldRow(
        "ledger",
        lambda r: f"the environment has not published the free GPUs of pool {r.pool} yet: {r.replicas} required",
        _compare_capacity,
    )
    TAINTS = FieldRow(
        "taints",
        lambda r: f"the environment has taint {_format(r, r.actual)}, which the deployment does not tolerate",
        required="a toleration for each taint",
    )
    UNSCHEDULABLE = FieldRow(
        "unschedulable",
        lambda r: f"pool {r.pool} is unschedulable{f': {r.actual}' if r.actual else ''}",
        required="a schedulable pool",
        missing="unschedulable",
    )
    CREATED = FieldRow(
        "created", lambda r: f"pool {r.pool} is not created yet: {r.actual}", required="a pool that exists"
    )
    READY = FieldRow(
        "Ready",
        lambda r: f"the environment {f'is not Ready: {r.actual}' if r.actual else 'has not reported Ready yet'}",
        required="Ready",
        missing="not reported",
    )
    QUOTA = FieldRow("limits")  # described by its `QuotaUsage`

    def __str__(self) -> str:
        return self.value.name
