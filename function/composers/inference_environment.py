"""InferenceEnvironment: connect to the cluster, observe its storage class and nodes, publish the ledger of GPUs.

KServe's missing pipeline preset is composed and never deleted, because running services refer to it. It shows whether
the kubeconfig works and KServe is installed; its CRD would too, but nests deeper than a request can hold. The ledger is
published whatever else is wrong with the environment. Nodes are observed by node_collection.py.
"""

from collections.abc import Collection
from dataclasses import replace

from function.api.inference_environment import ClusterAccess, parse_environment
from function.api.model_placement import PLACEMENTS
from function.composers import drain, node_collection, requirements
from function.composers.outcome import build_outcome, keep_observed, observed_status
from function.contract import Call, Composed, Outcome, Requirement
from function.domain.environment import Environment
from function.domain.model import SecretKey
from function.domain.placement import Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.kube.names import MANAGED_BY
from function.reasons import ConditionType, Drained
from function.remote.nodes import NODES, build_collection
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import State
from function.scheduling.admission import admit_placements
from function.serving.service import build_pipeline_preset
from function.status import inference_environment as report
from function.status import references

CONFIG, CLASS, PRESET = "provider-config", "storage-class", "pipeline-preset"


def compose(call: Call, settings: Settings) -> Outcome:
    """Returns what an InferenceEnvironment needs on both clusters, its conditions and its ledger."""
    parsed = parse_environment(call.xr, settings)
    placements = _find_placements(call, parsed.value)
    required = _require(call, parsed.value, placements)
    if parsed.access is None or parsed.value.broken or not settings.valid:
        invalid = report.list_invalid(parsed.pool_problems, parsed.other_problems)
        if not settings.valid:
            invalid = (references.settings_invalid(ConditionType.CLUSTER_READY), *invalid)
        outcome = keep_observed(call, settings, required, invalid)
        ledger = _compute_ledger(call, parsed.value, placements)
        return replace(outcome, status={**outcome.status, **ledger})

    observed = node_collection.observe_environment(call, parsed.value)
    environment = observed.environment
    writer = ObjectWriter(
        owner=environment.name,
        namespace=settings.secret_namespace,
        provider_config=environment.provider_config,
        watch=settings.object_watch,
        observed=call.observed,
    )
    composed = {
        CONFIG: _compose_provider_config(call, environment, parsed.access),
        PRESET: writer.compose(PRESET, build_pipeline_preset(environment.kserve), ManagementPolicy.RETAIN),
    }
    class_name, storage_class = environment.storage.class_name, writer.read(CLASS)
    if class_name:
        class_: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class_name}}
        item = writer.compose(CLASS, class_, ManagementPolicy.OBSERVE_ONLY)
        # A missing class refuses models that need a claim of it (weights/faults.py); the others do not wait for it.
        composed[CLASS] = replace(item, ready=item.ready or storage_class.state is State.ABSENT)
    if observed.selector is not None:
        composed[NODES] = build_collection(writer, observed.selector)
    preset = writer.read(PRESET)
    drained = drain.build_drained(call, environment, placements)
    return build_outcome(
        call,
        settings,
        requirements=required,
        composed=composed,
        status={**report.build_status(environment, storage_class), **_compute_ledger(call, environment, placements)},
        conditions=[
            report.build_cluster_ready(preset, parsed.access.kubeconfig),
            report.build_pools_valid(environment.pools, parsed.pool_problems),
            report.build_storage_ready(class_name, storage_class),
            report.build_hardware_as_declared(
                environment.pools, observed.observation, has_invalid_pools=bool(environment.broken_pools)
            ),
            *drained,
        ],
        settled=all(item.ready for item in composed.values()) and all(c.reason != Drained.DRAINING for c in drained),
    )


def required_resources(call: Call) -> dict[str, Requirement]:
    """Returns what an InferenceEnvironment requires, whatever is in its spec: the placements on it, and its nodes."""
    environment = parse_environment(call.xr, BUILT_IN).value
    return _require(call, environment, _find_placements(call, environment))


def _require(call: Call, environment: Environment, placements: Collection[Placement] | None) -> dict[str, Requirement]:
    required = _require_placements(call, environment) | node_collection.required_resources(call, environment)
    return required | drain.required_resources(environment, placements or ())


def _require_placements(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Requires the placements with the environment's label, and by name the admitted ones that lost it.

    All placements are required while a valid pool has no published ledger: the pool is new or was corrected, or the
    status was lost, and a placement that runs there may be neither labelled nor admitted.
    """
    if any(pool.name not in environment.free for pool in environment.pools):
        return {requirements.PLACEMENTS: requirements.placements()}
    key = requirements.key_placements_on(environment.name)
    required, labelled = {key: requirements.placements(environment=environment.name)}, call.answers.get(key)
    if labelled is None:
        return required
    known = {placement.uid for placement in PLACEMENTS.parse(labelled) if placement}
    for row in listing(mapping(call.xr, "status"), "admitted"):
        if text(row, "uid") not in known:
            name, namespace = text(row, "name"), text(row, "namespace")
            required[requirements.key_placement(name, namespace)] = requirements.one("ModelPlacement", name, namespace)
    return required


def _find_placements(call: Call, environment: Environment) -> Collection[Placement] | None:
    """Returns the placements on the environment; None while a requirement of placements is not answered."""
    placements: dict[str, Placement] = {}
    for key in _require_placements(call, environment):
        answer = call.answers.get(key)
        if answer is None:
            return None
        on_environment = (p for p in PLACEMENTS.parse(answer) if p and p.environment == environment.name)
        placements |= {f"{p.namespace}/{p.name}": p for p in on_environment}
    return placements.values()


def _compute_ledger(call: Call, environment: Environment, placements: Collection[Placement] | None) -> Manifest:
    """Returns the ledger to publish: the published one while the placements are not known."""
    if placements is None:
        return {key: value for key, value in observed_status(call.xr).items() if key in report.LEDGER_FIELDS}
    ledger = admit_placements(environment, placements)
    return report.build_ledger(environment, ledger, mapping(call.xr, "status"))


def _compose_provider_config(call: Call, environment: Environment, access: ClusterAccess) -> Composed:
    credentials: Manifest = {"source": "Secret", "secretRef": _refer_to(access.kubeconfig)}
    spec: Manifest = {"credentials": credentials}
    if access.identity is not None:
        spec["identity"] = {"type": access.identity_type, "source": "Secret", "secretRef": _refer_to(access.identity)}
    manifest: Manifest = {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ClusterProviderConfig",
        "metadata": {"name": environment.provider_config, "labels": dict[str, JSON](MANAGED_BY)},
        "spec": spec,
    }
    return Composed(manifest=manifest, ready=CONFIG in call.observed)


def _refer_to(secret: SecretKey) -> Manifest:
    return {"name": secret.name, "namespace": secret.namespace, "key": secret.key}
