"""The cluster of an environment with `cluster.gke.provision`, and its node pools, as managed resources of a provider.

Three rules keep what serves:

- Nothing is deleted in Google Cloud by default. With `onRemoval: Delete`, the managed resource of a pool may delete
  only while nothing is placed on this pool, and those of the cluster and of the system pool only while nothing is
  placed on the environment.
- No change that replaces or restarts nodes is sent while something is placed on them (cloud/gke.py).
- The Secret with the kubeconfig belongs to the Cluster, and would be deleted with it. A Usage keeps the Secret until
  the ClusterProviderConfig, and therefore every Object of the cluster, is gone.

A managed resource is composed only once the control plane is observed to serve both kinds with all fields that are
sent: otherwise, Crossplane could apply none of the environment's resources, and could not write its status. The node
pools follow once the cluster is Ready.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from function.cloud import gke
from function.contract import Answer, Call, Composed, Desired, Drop, Requirement
from function.domain.placement import Placement
from function.domain.provision import ClusterPlan
from function.kube.manifests import Manifest, is_ready, list_texts, listing, text
from function.kube.names import MANAGED_BY, build_name
from function.parts import requirements
from function.parts.environment import CONFIG, EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.remote.composed_kinds import (
    CLUSTER_KIND,
    GKE_GROUP,
    GKE_VERSION,
    NODE_POOL_KIND,
    OBJECT_VERSION,
    PROVIDER_CONFIG_KIND,
    USAGE_KIND,
    USAGE_VERSION,
)
from function.remote.object_writer import ManagementPolicy, with_management_policy, with_resource_version
from function.status.provision import WAITING_FOR_DEFINITIONS, NodePoolReports, build_provisioning

CLUSTER = "gke-cluster"
POOL_PREFIX = "gke-pool-"
KUBECONFIG_USAGE = "kubeconfig-usage"
_DEFINITIONS: Mapping[str, str] = {
    requirements.CLUSTER_DEFINITION: f"clusters.{GKE_GROUP}",
    requirements.NODE_POOL_DEFINITION: f"nodepools.{GKE_GROUP}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """What was decided about the cluster that is created. Without such a cluster, everything is empty."""

    cluster_fault: str = ""  # of a cluster that is connected
    pools: NodePoolReports = NodePoolReports()


def _provision(context: EnvironmentContext, _: Decisions) -> PartOutcome[Provisioned]:
    plan = context.plan
    if plan is None:
        return PartOutcome(decision=Provisioned(), desired=protect_managed(context.call, context.placements))
    call, in_use = context.call, find_pools_in_use(context.call, context.placements)
    cluster = gke.build_cluster(plan, call.observed.get(CLUSTER, {}), in_use=in_use is None or bool(in_use))
    managed = {CLUSTER: cluster}
    for pool in (gke.plan_system_pool(plan), *plan.pools):
        key = POOL_PREFIX + pool.name
        if is_ready(call.observed.get(CLUSTER)) or key in call.observed:
            is_used = in_use is None or (bool(in_use) if pool.name == gke.SYSTEM_POOL else pool.name in in_use)
            managed[key] = gke.build_node_pool(plan, pool, call.observed.get(key, {}), in_use=is_used)
    obstacle = _find_obstacle(call, managed)
    # Node pools report in PoolsValid: one that cannot be created does not make the others unusable.
    composed = {
        key: Composed(manifest=item.manifest, ready=key != CLUSTER or is_ready(call.observed.get(key)))
        for key, item in managed.items()
        if key in call.observed or not obstacle
    }
    others = _keep_other_pools(call, plan, managed, in_use)
    leaving = tuple(_pool(key) for key in others.composed if _pool(key) not in plan.declared_pools)
    decision = _summarize(call, managed, "" if obstacle == WAITING_FOR_DEFINITIONS else obstacle, leaving)
    desired = Desired(composed) | others
    if is_connected(call, plan):
        desired |= Desired({KUBECONFIG_USAGE: _build_usage(context, plan)})
        return PartOutcome(decision=decision, desired=desired)
    report = gke.read_report(call.observed.get(CLUSTER, {}))
    condition = build_provisioning(plan, gke.name_cluster(plan.environment), report, obstacle)
    return PartOutcome(decision=decision, desired=desired, conditions=(condition,))


PROVISION_PART = Part(
    run=_provision,
    names={
        (GKE_VERSION, CLUSTER_KIND): CLUSTER,
        (GKE_VERSION, NODE_POOL_KIND): f"{POOL_PREFIX}.+",
        (USAGE_VERSION, USAGE_KIND): KUBECONFIG_USAGE,
    },
)


def protect_managed(call: Call, placements: Collection[Placement] | None) -> Desired:
    """Returns the managed resources that may delete, without this right, while something is placed on the environment.

    It is for calls in which it is not known what is declared: the environment or the settings are invalid, or the
    environment declares no cluster to create any more.
    """
    if placements is not None and not placements:
        return Desired()
    composed: dict[str, Composed] = {}
    for key, observed in call.observed.items():
        is_managed = key == CLUSTER or key.startswith(POOL_PREFIX)
        if is_managed and list_texts(observed, "spec.managementPolicies") == ManagementPolicy.FULL.value:
            composed[key] = with_resource_version(with_management_policy(observed, ManagementPolicy.RETAIN), observed)
    return Desired(composed)


def follow_cluster(call: Call, plan: ClusterPlan | None) -> ClusterPlan | None:
    """Returns a plan in the namespace of the Cluster that exists, whatever the platform settings say now.

    The provider writes the kubeconfig beside the Cluster, and a NodePool refers to a Cluster in its own namespace.
    """
    namespace = text(call.observed.get(CLUSTER, {}), "metadata.namespace")
    return replace(plan, namespace=namespace) if plan and namespace else plan


def is_connected(call: Call, plan: ClusterPlan | None) -> bool:
    """Tells whether the cluster can be reached, or could be: what exists of its connection is never taken away."""
    return plan is None or CONFIG in call.observed or is_ready(call.observed.get(CLUSTER))


def require_definitions(call: Call, plan: ClusterPlan | None) -> dict[str, Requirement]:
    """Requires the CRDs of the provider's kinds while a managed resource is to be created."""
    if plan is None:
        return {}
    keys = {CLUSTER, POOL_PREFIX + gke.SYSTEM_POOL, *(POOL_PREFIX + pool.name for pool in plan.pools)}
    if keys <= call.observed.keys():
        return {}
    return {key: requirements.require_definition(name) for key, name in _DEFINITIONS.items()}


def find_pools_in_use(call: Call, placements: Collection[Placement] | None) -> frozenset[str] | None:
    """Returns the names of the pools that placements request or have, or that grants name; None: not known."""
    if placements is None:
        return None
    names = {placement.pool for placement in placements}
    names |= {p.service.allocated.pool for p in placements if p.service.allocated}
    return frozenset(names | {text(row, "pool") for row in listing(call.xr, "status.admitted")}) - {""}


def _summarize(call: Call, managed: Mapping[str, gke.Managed], obstacle: str, leaving: tuple[str, ...]) -> Provisioned:
    """Returns what is said of managed resources; `obstacle` is why one that does not exist cannot be created."""
    faults = {key: _find_fault(call, key, item, obstacle) for key, item in managed.items()}
    changes = "; ".join(managed[CLUSTER].held)
    pools = [key for key in managed if key != CLUSTER]
    return Provisioned(
        cluster_fault=faults[CLUSTER] or (f"{changes}, which cannot change; undo it" if changes else ""),
        pools=NodePoolReports(
            failed=tuple((_pool(key), faults[key]) for key in pools if faults[key]),
            held=tuple((_pool(key), change) for key in pools for change in managed[key].held),
            pending=tuple(_pool(key) for key in pools if not is_ready(call.observed.get(key))),
            leaving=leaving,
        ),
    )


def _find_fault(call: Call, key: str, item: gke.Managed, obstacle: str) -> str:
    """Returns the fault of a managed resource; empty if it is a refusal of a change that is no longer sent."""
    if key not in call.observed:
        return obstacle
    fault = gke.read_report(call.observed[key]).fault
    return "" if item.held and gke.is_refusal(fault) else fault


def _keep_other_pools(
    call: Call, plan: ClusterPlan, managed: Collection[str], in_use: frozenset[str] | None
) -> Desired:
    """Returns the node pools that are invalid, and those that are not declared any more, as they are.

    A pool that is not declared is dropped once nothing is placed on it. With onRemoval Delete, its managed resource
    first gets the policy to delete. A managed resource that only observes has a spec that may not be what exists, so it
    may change nothing while its pool is used.
    """
    composed: dict[str, Composed] = {}
    drops: list[Drop] = []
    for key, observed in call.observed.items():
        if not key.startswith(POOL_PREFIX) or key in managed:
            continue
        is_used = in_use is None or _pool(key) in in_use
        policy = ManagementPolicy.FULL if plan.deletes and not is_used else ManagementPolicy.RETAIN
        if policy is ManagementPolicy.RETAIN and gke.only_observes(observed):
            policy = ManagementPolicy.OBSERVE_ONLY
        has_policy = list_texts(observed, "spec.managementPolicies") == policy.value
        if has_policy and not is_used and _pool(key) not in plan.declared_pools:
            drops.append(Drop(key, f"pool {_pool(key)} is not declared, and nothing is placed on it"))
        else:
            released = with_resource_version(with_management_policy(observed, policy), observed)
            composed[key] = replace(released, ready=True)
    return Desired(composed, tuple(drops))


def _find_obstacle(call: Call, managed: Mapping[str, gke.Managed]) -> str:
    """Returns why a managed resource cannot be created; empty if all can, or exist."""
    missing = [item.manifest for key, item in managed.items() if key not in call.observed]
    if not missing:
        return ""
    for key, name in _DEFINITIONS.items():
        answer = call.answers.get(key)
        if answer is None:
            return WAITING_FOR_DEFINITIONS
        if not requirements.is_served(answer, GKE_VERSION.rpartition("/")[2]):
            todo = f"install {gke.PROVIDER}, and apply install/gke-activation.yaml"
            return f"The control plane does not serve {name}: {todo}"
        for manifest in missing:
            unknown = _find_unknown_field(answer, name, manifest)
            if unknown:
                return f"{name} has no field {unknown}: install {gke.PROVIDER}"
    return ""


def _find_unknown_field(answer: Answer, definition: str, manifest: Manifest) -> str:
    if not definition.startswith(f"{text(manifest, 'kind').lower()}s."):
        return ""
    return next((found for item in answer if (found := gke.find_unknown_field(item.load(), manifest))), "")


def _build_usage(context: EnvironmentContext, plan: ClusterPlan) -> Composed:
    secret = plan.kubeconfig
    observed = context.call.observed.get(KUBECONFIG_USAGE, {})
    namespace = text(observed, "metadata.namespace") or plan.namespace
    manifest: Manifest = {
        "apiVersion": USAGE_VERSION,
        "kind": USAGE_KIND,
        "metadata": {
            "name": build_name(secret, plan.environment, KUBECONFIG_USAGE, limit=63),
            "namespace": namespace,
            "labels": {**MANAGED_BY},
        },
        "spec": {
            "of": {"apiVersion": "v1", "kind": "Secret", "resourceRef": {"name": secret}},
            "by": {
                "apiVersion": OBJECT_VERSION,
                "kind": PROVIDER_CONFIG_KIND,
                "resourceRef": {"name": context.environment.provider_config},
            },
            "replayDeletion": True,
        },
    }
    # The Secret may not be there yet, and nothing of the environment waits for its Usage.
    return Composed(manifest=manifest, ready=True)


def _pool(key: str) -> str:
    return key.removeprefix(POOL_PREFIX)
