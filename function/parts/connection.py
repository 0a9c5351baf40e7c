"""The connection to a cluster: a ClusterProviderConfig, and KServe's pipeline preset, which shows whether it works.

KServe lacks this preset. The preset is never deleted, because running services refer to it. The CRD of the services
would also show whether the connection works, but it nests deeper than a request can hold.
"""

from function.contract import Composed, Desired
from function.domain.model import SecretKey
from function.kube.manifests import JSON, Manifest
from function.kube.names import MANAGED_BY
from function.parts.environment import CONFIG, EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.provision import PROVISION_PART
from function.remote.composed_kinds import OBJECT, OBJECT_VERSION, PROVIDER_CONFIG_KIND
from function.remote.object_writer import ManagementPolicy
from function.serving.service import build_pipeline_preset
from function.status import inference_environment as report

PRESET = "pipeline-preset"


def _connect(context: EnvironmentContext, decisions: Decisions) -> PartOutcome[None]:
    writer = context.writer
    preset = build_pipeline_preset(context.environment.kserve)
    composed = {
        CONFIG: _compose_provider_config(context),
        PRESET: writer.compose(PRESET, preset, ManagementPolicy.RETAIN),
    }
    fault = decisions.of(PROVISION_PART).cluster_fault
    ready = report.build_cluster_ready(writer.read(PRESET), context.access.kubeconfig, fault)
    return PartOutcome(decision=None, desired=Desired(composed), conditions=(ready,))


CONNECTION_PART = Part(run=_connect, names={(OBJECT_VERSION, PROVIDER_CONFIG_KIND): CONFIG, OBJECT: PRESET})


def _compose_provider_config(context: EnvironmentContext) -> Composed:
    access = context.access
    credentials: Manifest = {"source": "Secret", "secretRef": _refer_to(access.kubeconfig)}
    spec: Manifest = {"credentials": credentials}
    if access.identity is not None:
        spec["identity"] = {"type": access.identity_type, "source": "Secret", "secretRef": _refer_to(access.identity)}
    manifest: Manifest = {
        "apiVersion": OBJECT_VERSION,
        "kind": PROVIDER_CONFIG_KIND,
        "metadata": {"name": context.environment.provider_config, "labels": dict[str, JSON](MANAGED_BY)},
        "spec": spec,
    }
    return Composed(manifest=manifest, ready=CONFIG in context.call.observed)


def _refer_to(secret: SecretKey) -> Manifest:
    return {"name": secret.name, "namespace": secret.namespace, "key": secret.key}
