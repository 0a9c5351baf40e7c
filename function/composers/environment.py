"""InferenceEnvironment: reach the cluster, look at what it has, and give KServe the preset that it lacks.

Composes a ClusterProviderConfig from the kubeconfig's Secret, an observe-only Object on the StorageClass, and KServe's
missing pipeline preset, which is never removed because running services refer to it. Whether the preset is there tells
whether the kubeconfig works and KServe is installed: its CRD would tell too, but nests deeper than a request can hold.
"""

from function.composers import requirements
from function.composers.finish import finish, keep_observed, observed_status
from function.domain.environment import Environment
from function.domain.model import SecretKey
from function.domain.settings import Settings
from function.exchange import Answer, Call, Composed, Outcome, Requirement
from function.kube.manifests import JSON, Manifest, prune
from function.kube.names import MANAGED_BY
from function.lifecycle.object_writer import Lifetime, ObjectWriter
from function.observe.objects import ObservedObject
from function.parse.environments import ClusterAccess, ParsedEnvironment, read_environment
from function.parse.placements import PLACEMENTS
from function.report import environments as report
from function.serving.presets import pipeline_preset

CONFIG, CLASS, PRESET = "provider-config", "storage-class", "pipeline-preset"


def compose(call: Call, settings: Settings) -> Outcome:
    """Return what an InferenceEnvironment needs on both clusters, and what is known of it."""
    parsed = read_environment(call.xr, settings)
    asked = asks(call)
    access = parsed.access
    if access is None or parsed.value.broken:
        return keep_observed(call, settings, asked, report.invalid(parsed.pool_problems, parsed.other_problems))
    environment = parsed.value
    writer = ObjectWriter(
        owner=environment.name,
        namespace=settings.secret_namespace,
        provider_config=environment.provider_config,
        watch=settings.object_watch,
        observed=call.observed,
    )
    composed = _composed(call, parsed, access, writer)
    storage_class = writer.read(CLASS)
    conditions = [
        report.cluster_ready(writer.read(PRESET), access.kubeconfig),
        report.pools_valid(environment.pools, parsed.pool_problems),
        report.storage_ready(environment.storage.class_name, storage_class),
    ]
    return finish(
        call,
        settings,
        requirements=asked,
        composed=composed,
        status=_status(call, environment, storage_class),
        conditions=conditions,
        settled=all(item.ready for item in composed.values()),
    )


def asks(_call: Call) -> dict[str, Requirement]:
    """Return what is asked for an InferenceEnvironment, whatever stands in it."""
    return {requirements.PLACEMENTS: requirements.placements()}


def _composed(
    call: Call, parsed: ParsedEnvironment, access: ClusterAccess, writer: ObjectWriter
) -> dict[str, Composed]:
    composed = {
        CONFIG: Composed(
            manifest=_provider_config(parsed.value.provider_config, access), ready=CONFIG in call.observed
        ),
        PRESET: writer.compose(PRESET, pipeline_preset(parsed.value.kserve), Lifetime.KEPT),
    }
    name = parsed.value.storage.class_name
    if name:
        manifest: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        composed[CLASS] = writer.compose(CLASS, manifest, Lifetime.OBSERVED)
    return composed


def _provider_config(name: str, access: ClusterAccess) -> Manifest:
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ClusterProviderConfig",
        "metadata": {"name": name, "labels": dict[str, JSON](MANAGED_BY)},
        "spec": prune(
            {
                "credentials": {"source": "Secret", "secretRef": _secret(access.kubeconfig)},
                "identity": _identity(access),
            }
        ),
    }


def _identity(access: ClusterAccess) -> Manifest | None:
    if access.identity is None:
        return None
    return {"type": access.identity_type, "source": "Secret", "secretRef": _secret(access.identity)}


def _secret(secret: SecretKey) -> Manifest:
    return {"name": secret.name, "namespace": secret.namespace, "key": secret.key}


def _status(call: Call, environment: Environment, storage_class: ObservedObject) -> Manifest:
    answer = call.answer(requirements.PLACEMENTS)
    if answer is Answer.PENDING:
        return observed_status(call.xr) or report.status(environment, storage_class, ())
    return report.status(environment, storage_class, filter(None, PLACEMENTS.read(answer)))
