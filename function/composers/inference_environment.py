"""InferenceEnvironment: connect to the cluster, observe its storage class and nodes, publish the ledger of GPUs.

While the spec or the settings are invalid, observed resources stay, and the ledger is still published.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from function.api.inference_environment import ParsedEnvironment, parse_environment
from function.contract import Call, Outcome, Requirement
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.kube.manifests import listing, mapping, text
from function.parts import requirements
from function.parts.connection import CONNECTION_PART
from function.parts.drain import DRAIN_PART, require_deployments
from function.parts.environment import EnvironmentContext
from function.parts.kept_claims import KEPT_CLAIMS_PART
from function.parts.ledger import LEDGER_PART, accept_labels, compute_ledger
from function.parts.nodes import NODES_PART, find_nodes, require_nodes, with_facts
from function.parts.outcome import build_writer, keep_observed
from function.parts.part import Part, join_names, run_parts
from function.parts.provision import (
    CLUSTER,
    PROVISION_PART,
    follow_cluster,
    is_connected,
    protect_managed,
    require_definitions,
)
from function.parts.requirements import collect_placements
from function.parts.storage_class import CLASS, STORAGE_CLASS_PART
from function.reasons import ConditionType, Drained
from function.remote.composed_kinds import NamePatterns
from function.status import inference_environment as report
from function.status import references

PARTS: tuple[Part[EnvironmentContext, Any], ...] = (
    PROVISION_PART,
    CONNECTION_PART,
    STORAGE_CLASS_PART,
    NODES_PART,
    KEPT_CLAIMS_PART,
    LEDGER_PART,
    DRAIN_PART,
)
# While the cluster is being created: nothing of it can be reached.
PARTS_BEFORE_CONNECTION: tuple[Part[EnvironmentContext, Any], ...] = (PROVISION_PART, LEDGER_PART, DRAIN_PART)
NAMES = NamePatterns(join_names(PARTS))


@dataclass(frozen=True, slots=True)
class _Inputs:
    parsed: ParsedEnvironment
    placements: Collection[Placement] | None  # on the environment; None: not answered


def read(call: Call, settings: Settings) -> _Inputs:
    parsed = parse_environment(call.xr, settings)
    return _Inputs(parsed, _find_placements(call, parsed.value))


def compose(call: Call, inputs: _Inputs, settings: Settings) -> Outcome:
    parsed, placements = accept_labels(call.xr, inputs.parsed, inputs.placements, settings), inputs.placements
    if parsed.access is None or parsed.value.broken or not settings.valid:
        invalid = report.list_invalid(parsed.pool_problems, parsed.other_problems, parsed.pools.conflicts)
        if not settings.valid:
            invalid = (references.settings_invalid(ConditionType.CLUSTER_READY), *invalid)
        kept = keep_observed(call, settings, invalid)
        ledger = compute_ledger(call, parsed.value, placements)
        protected = protect_managed(call, placements).composed
        return replace(kept, composed={**kept.composed, **protected}, status={**kept.status, **ledger})

    plan, access = follow_cluster(call, parsed.plan), parsed.access
    if plan is not None:
        access = replace(access, kubeconfig=replace(access.kubeconfig, namespace=plan.namespace))
    observation, selector = find_nodes(call, parsed.value)
    environment = with_facts(parsed.value, observation)
    context = EnvironmentContext(
        call=call,
        environment=environment,
        access=access,
        plan=plan,
        placements=placements,
        nodes=observation,
        node_selector=selector,
        writer=build_writer(call, settings, environment.provider_config, call.observed),
    )
    is_reachable = is_connected(call, plan)
    joined = run_parts(PARTS if is_reachable else PARTS_BEFORE_CONNECTION, context)
    conditions = (
        *joined.conditions,
        report.build_pools_valid(
            environment.pools, parsed.pool_problems, parsed.pools.conflicts, joined.decision.of(PROVISION_PART).pools
        ),
    )
    is_draining = any(condition.reason == Drained.DRAINING for condition in conditions)
    is_settled = all(item.ready for item in joined.desired.composed.values()) and not is_draining
    return Outcome(
        composed=joined.desired.composed,
        drops=joined.desired.drops if placements is not None else (),  # drops nothing while placements are unanswered
        status={**report.build_status(environment, context.writer.read(CLASS)), **joined.status},
        conditions=conditions,
        ttl_seconds=settings.ttl_settled if is_settled else settings.ttl_pending,
    )


def require(call: Call, inputs: _Inputs, _: Settings) -> dict[str, Requirement]:
    """Requires the placements on an environment and its nodes, and during a drain also the deployments on it."""
    environment = inputs.parsed.value
    required = _require_placements(call, environment) | require_nodes(call, environment)
    required |= require_definitions(call, inputs.parsed.plan)
    return required | require_deployments(environment, inputs.placements or ())


def _require_placements(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Requires placements by the environment's label, and by name the admitted placements that lost this label.

    While a valid pool has no published ledger, all placements are required. Such a pool is new or was corrected, or the
    status was lost. A placement that runs there may then have no label, and may not be listed as admitted. The same
    holds for an environment without pools whose cluster was created: it must not be deleted under such a placement.
    """
    has_lost_ledger = CLUSTER in call.observed and "pools" not in mapping(call.xr, "status")
    if has_lost_ledger or any(pool.name not in environment.free for pool in environment.pools):
        return {requirements.PLACEMENTS: requirements.require_placements()}
    required = requirements.require_placements_on([environment.name])
    labelled = collect_placements(call, required)
    if labelled is None:
        return required
    known = {placement.uid for placement in labelled}
    for row in listing(call.xr, "status.admitted"):
        if text(row, "uid") not in known:
            name = text(row, "name")
            namespace = text(row, "namespace")
            required[f"placement-{namespace}/{name}"] = requirements.require_object("ModelPlacement", name, namespace)
    return required


def _find_placements(call: Call, environment: Environment) -> Collection[Placement] | None:
    """Returns the placements on the environment; None while a requirement of placements is not answered."""
    placements = collect_placements(call, _require_placements(call, environment))
    if placements is None:
        return None
    return {f"{p.namespace}/{p.name}": p for p in placements if p.environment == environment.name}.values()
