"""The PodMonitor of a placement, by which a Prometheus operator on the cluster finds the metrics of its engines.

It adds the names of the control plane as labels to the series. Labels of the pods would restart them.
"""

from dataclasses import replace

from function.contract import Desired, Drop
from function.domain.placement import ResolvedPlacement
from function.kube.manifests import JSON, Manifest, text
from function.kube.names import LABEL_DEPLOYMENT, MANAGED_BY, label_value
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import MONITORING_VERSION, OBJECT
from function.remote.object_writer import ManagementPolicy
from function.traffic.routes import WORKLOAD_PORT

MONITOR = "monitor"  # composition-resource-name
_INTERVAL = "15s"


def _compose_monitor(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    """Composes the PodMonitor of the service that serves, or will. The placement does not wait for it."""
    resolved = context.resolved
    if not resolved.environment.pod_monitors:
        drop = Drop(MONITOR, "the environment has no monitoring.podMonitors")
        return PartOutcome(decision=None, desired=Desired(drops=(drop,) if MONITOR in context.call.observed else ()))
    name = text(decisions.of(SERVICE_PART).remote.manifest, "metadata.name")
    if not name:
        return PartOutcome(decision=None)
    composed = context.writer.compose(MONITOR, build_pod_monitor(resolved, name), ManagementPolicy.FULL)
    return PartOutcome(decision=None, desired=Desired({MONITOR: replace(composed, ready=True)}))


def build_pod_monitor(resolved: ResolvedPlacement, service: str) -> Manifest:
    """Returns the PodMonitor for the pods of a service that serve metrics: all but the workers of a group."""
    placement = resolved.placement
    names = {
        "namespace": placement.namespace,
        "deployment": placement.deployment,
        "placement": placement.name,
        "environment": placement.environment,
        "profile": placement.profile,
        "pool": placement.pool,
        "gpus": str(resolved.shape.gpus),
    }
    relabelings: list[JSON] = [{"targetLabel": label, "replacement": name} for label, name in names.items() if name]
    # The engine's certificate is KServe's own, which Prometheus does not know.
    tls: Manifest = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}}
    # KServe leaves the port without a name where its own preset starts the engine.
    endpoint: Manifest = {"portNumber": WORKLOAD_PORT, "path": "/metrics", "interval": _INTERVAL}
    labels = {LABEL_DEPLOYMENT: label_value(placement.deployment)} if placement.deployment else {}
    return {
        "apiVersion": MONITORING_VERSION,
        "kind": "PodMonitor",
        "metadata": {"name": service, "namespace": resolved.namespace, "labels": {**MANAGED_BY, **labels}},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": service, "kserve.io/component": "workload"}},
            "podMetricsEndpoints": [
                {**endpoint, **(tls if resolved.environment.kserve.tls else {}), "relabelings": relabelings}
            ],
        },
    }


MONITOR_PART = Part(run=_compose_monitor, names={OBJECT: MONITOR})
