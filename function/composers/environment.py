"""InferenceEnvironment: reach the cluster, look at what it has, and give KServe the preset that it lacks.

Composes a ClusterProviderConfig from the kubeconfig's Secret, an observe-only Object on the StorageClass, and KServe's
missing pipeline preset, which is never removed because running services refer to it. Whether the preset is there tells
whether the kubeconfig works and KServe is installed: its CRD would tell too, but nests deeper than a request can hold.
It keeps the ledger of its own GPUs, whatever else is wrong with it, and observes its nodes (node_collection.py).
"""

from dataclasses import replace

from function.api.inference_environment import ClusterAccess, ParsedEnvironment, parse_environment
from function.api.model_placement import PLACEMENTS
from function.composers import node_collection, requirements
from function.composers.outcome import build_outcome, keep_observed, observed_status
from function.contract import Answer, Call, Composed, Outcome, Requirement
from function.domain.environment import Environment
from function.domain.model import SecretKey
from function.domain.placement import Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import JSON, Manifest, listing, mapping, prune, text
from function.kube.names import MANAGED_BY
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.scheduling.admission import admit_placements
from function.serving.service import build_pipeline_preset
from function.status import inference_environment as hardware
from function.status import inference_environment as report

CONFIG, CLASS, PRESET = "provider-config", "storage-class", "pipeline-preset"


def compose(call: Call, settings: Settings) -> Outcome:
    """Return what an InferenceEnvironment needs on both clusters, and what is known of it."""
    parsed = parse_environment(call.xr, settings)
    access, environment = parsed.access, parsed.value
    asked = _asked(call, environment)
    if access is None or environment.broken:
        invalid = report.invalid(parsed.pool_problems, parsed.other_problems)
        held = keep_observed(call, settings, asked, invalid)
        return replace(held, status={**held.status, **(_ledger(call, environment) or {})})
    seen = node_collection.observe_environment(call, environment)
    environment = seen.environment
    writer = ObjectWriter(
        owner=environment.name,
        namespace=settings.secret_namespace,
        provider_config=environment.provider_config,
        watch=settings.object_watch,
        observed=call.observed,
    )
    composed = _composed(call, parsed, access, writer) | node_collection.compose_collection(seen, writer)
    storage_class = writer.read(CLASS)
    conditions = [
        report.cluster_ready(writer.read(PRESET), access.kubeconfig),
        report.pools_valid(environment.pools, parsed.pool_problems),
        report.storage_ready(environment.storage.class_name, storage_class),
        hardware.as_declared(environment.pools, seen.observation, invalid=bool(environment.broken_pools)),
    ]
    return build_outcome(
        call,
        settings,
        requirements=asked,
        composed=composed,
        status={
            **report.status(environment, storage_class),
            **(_ledger(call, environment) or _published(call.xr)),
        },
        conditions=conditions,
        settled=all(item.ready for item in composed.values()),
    )


def required_resources(call: Call) -> dict[str, Requirement]:
    """Return what is asked for an InferenceEnvironment, whatever stands in it: the placements on it, and its nodes."""
    return _asked(call, parse_environment(call.xr, BUILT_IN).value)


def _asked(call: Call, environment: Environment) -> dict[str, Requirement]:
    return _asked_placements(call, environment) | node_collection.required_resources(call, environment)


def _asked_placements(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Return what is asked for placements: those with the environment's label, and by name those that it has admitted
    and that lost it.

    All placements are asked for while a valid pool has no published ledger: the pool is new or was mended, or the
    status was lost, and a placement that runs there may be neither labelled nor admitted.
    """
    name, status = environment.name, mapping(call.xr, "status")
    if any(pool.name not in environment.free for pool in environment.pools):
        return {requirements.PLACEMENTS: requirements.placements()}
    key = requirements.key_placements_on(name)
    asked, labelled = {key: requirements.placements_on(name)}, call.answer(key)
    if labelled is not Answer.PENDING:
        known = {p.uid for p in PLACEMENTS.parse(labelled) if p}
        for row in listing(status, "admitted"):
            if text(row, "uid") not in known:
                place = text(row, "name"), text(row, "namespace")
                asked[requirements.key_placement(*place)] = requirements.placement(*place)
    return asked


def _ledger(call: Call, environment: Environment) -> Manifest | None:
    """Return the ledger as it is to be published; None while any placement is outstanding."""
    found = _placements(call, environment)
    if found is None:
        return None
    return report.ledger(environment, admit_placements(environment, found), mapping(call.xr, "status"))


def _placements(call: Call, environment: Environment) -> list[Placement] | None:
    """Return the placements on an environment; None while any is outstanding."""
    name, answers = environment.name, [call.answer(asked) for asked in _asked_placements(call, environment)]
    found: dict[str, Placement] = {}
    for answer in answers:
        if answer is Answer.PENDING:
            return None
        found |= {f"{p.namespace}/{p.name}": p for p in PLACEMENTS.parse(answer) if p and p.environment == name}
    return list(found.values())


def _published(xr: Manifest) -> Manifest:
    """Return the ledger as it was published."""
    return {key: value for key, value in observed_status(xr).items() if key in report.LEDGER}


def _composed(
    call: Call, parsed: ParsedEnvironment, access: ClusterAccess, writer: ObjectWriter
) -> dict[str, Composed]:
    composed = {
        CONFIG: Composed(
            manifest=_provider_config(parsed.value.provider_config, access), ready=CONFIG in call.observed
        ),
        PRESET: writer.compose(PRESET, build_pipeline_preset(parsed.value.kserve), ManagementPolicy.RETAIN),
    }
    name = parsed.value.storage.class_name
    if name:
        manifest: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        composed[CLASS] = writer.compose(CLASS, manifest, ManagementPolicy.OBSERVE_ONLY)
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
