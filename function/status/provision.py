"""Status of what is created in Google Cloud for an environment: ClusterReady until it is connected, and its pools."""

from dataclasses import dataclass

from function.cloud.gke import SYSTEM_POOL, Report
from function.contract import Condition
from function.domain.environment import BEING_CREATED
from function.domain.provision import ClusterPlan
from function.kube.messages import join_with_more
from function.reasons import ClusterReady, ConditionType, Status

WAITING_FOR_DEFINITIONS = "Waiting for Crossplane to fetch the CRDs of provider-gcp-container"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolReports:
    """What is to be said of node pools: pairs of the name of a pool and a text."""

    failed: tuple[tuple[str, str], ...] = ()  # and why
    held: tuple[tuple[str, str], ...] = ()  # and a declared change that is not sent
    pending: tuple[str, ...] = ()  # only names: they are being created
    leaving: tuple[str, ...] = ()  # only names: they are not declared any more, and used

    def explain_pending(self) -> dict[str, str]:
        """Returns by pool why it does not exist yet."""
        failed = dict(self.failed)
        return {pool: failed.get(pool, BEING_CREATED) for pool in self.pending}

    def describe_failed(self) -> str:
        return join_with_more([f"node pool {pool}: {why}" for pool, why in self.failed], separator="; ")

    def describe_held(self) -> str:
        changes = join_with_more([f"node pool {pool}: {change}" for pool, change in self.held], separator="; ")
        is_own = any(pool != SYSTEM_POOL for pool, _ in self.held)
        instead = "add a pool with another name, then drain and remove this one" if is_own else "drain the environment"
        return (
            f"{changes}. GKE would replace, restart or remove nodes for this, or refuse it, so it is not sent; undo "
            f"it, or {instead}"
        )

    def list_notes(self) -> tuple[str, ...]:
        creating = (f"Google Cloud creates node pool {pool}" for pool in self.pending)
        leaving = (f"node pool {pool} is not declared any more, and stays while it is used" for pool in self.leaving)
        return (*creating, *leaving)


NO_REPORTS = NodePoolReports()


def build_provisioning(plan: ClusterPlan, name: str, report: Report, obstacle: str) -> Condition:
    """Returns ClusterReady of a cluster that is not Ready yet; `obstacle` is why its Cluster is not composed."""
    where = f"cluster {name} in project {plan.project}, {plan.region}"
    if obstacle == WAITING_FOR_DEFINITIONS:
        status, reason, message = Status.UNKNOWN, ClusterReady.PROVISIONING, obstacle
    elif obstacle:
        status, reason, message = Status.FALSE, ClusterReady.PROVIDER_MISSING, obstacle
    elif report.fault:
        status, reason, message = Status.FALSE, ClusterReady.PROVISIONING_FAILED, f"{where}: {report.fault}"
    elif report.has_reported:
        status, reason, message = Status.UNKNOWN, ClusterReady.PROVISIONING, f"Google Cloud creates {where}"
    else:
        status, reason = Status.UNKNOWN, ClusterReady.PROVISIONING
        message = f"Waiting for provider-gcp-container to create {where}"
    return Condition(ConditionType.CLUSTER_READY, status, reason, message)
