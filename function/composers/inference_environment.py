"""InferenceEnvironment: connect to the cluster, observe its storage class and nodes, publish the ledger of GPUs.

KServe's missing pipeline preset is composed and never deleted, because running services refer to it. It shows whether
the kubeconfig works and KServe is installed; its CRD would too, but nests deeper than a request can hold. The ledger is
published whatever else is wrong with the environment.

The collection of nodes is composed once the control plane is observed to serve its kind: otherwise Crossplane could
apply nothing of the environment. From then on the members of the collection are required instead.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from function.api.inference_environment import ClusterAccess, ParsedEnvironment, parse_environment
from function.api.parse_cache import ParseCache
from function.capacity.ledger import admit_placements
from function.composers import requirements
from function.composers.outcome import build_writer, keep_observed, observed_status
from function.composers.requirements import collect_placements
from function.contract import Call, Composed, Condition, Drop, Outcome, Requirement
from function.domain.environment import Environment
from function.domain.model import SecretKey
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.kube.manifests import JSON, Manifest, condition, listing, mapping, text
from function.kube.names import MANAGED_BY
from function.reasons import ConditionType, Drained, HardwareAsDeclared
from function.remote import node_collection
from function.remote.composed_kinds import OBJECT_VERSION
from function.remote.node_collection import NodeObservation, Unobserved, select_nodes
from function.remote.nodes import summarize_pools
from function.remote.object_writer import ManagementPolicy
from function.remote.observed_object import State
from function.serving.service import build_pipeline_preset
from function.status import inference_environment as report
from function.status import references

CONFIG = "provider-config"
CLASS = "storage-class"
PRESET = "pipeline-preset"
MEMBERS: ParseCache[node_collection.Member] = ParseCache(node_collection.parse_member)


@dataclass(frozen=True, slots=True)
class _Inputs:
    parsed: ParsedEnvironment
    placements: Collection[Placement] | None  # on the environment; None: not answered


def read(call: Call, settings: Settings) -> _Inputs:
    parsed = parse_environment(call.xr, settings)
    return _Inputs(parsed, _find_placements(call, parsed.value))


def compose(call: Call, inputs: _Inputs, settings: Settings) -> Outcome:
    parsed, placements = inputs.parsed, inputs.placements
    if parsed.access is None or parsed.value.broken or not settings.valid:
        invalid = report.list_invalid(parsed.pool_problems, parsed.other_problems)
        if not settings.valid:
            invalid = (references.settings_invalid(ConditionType.CLUSTER_READY), *invalid)
        kept = keep_observed(call, settings, invalid)
        ledger = _compute_ledger(call, parsed.value, placements)
        return replace(kept, status={**kept.status, **ledger})

    observation, selector = _observe_nodes(call, parsed.value)
    environment = _set_facts(parsed.value, observation)
    writer = build_writer(call, settings, environment.provider_config, call.observed)
    composed = {
        CONFIG: _compose_provider_config(call, environment, parsed.access),
        PRESET: writer.compose(PRESET, build_pipeline_preset(environment.kserve), ManagementPolicy.RETAIN),
    }
    drops: list[Drop] = []
    class_name = environment.storage.class_name
    storage_class = writer.read(CLASS)
    if class_name:
        class_: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class_name}}
        item = writer.compose(CLASS, class_, ManagementPolicy.OBSERVE_ONLY)
        # A missing class refuses models that need a claim of it (weights/faults.py); the others do not wait for it.
        composed[CLASS] = replace(item, ready=item.ready or storage_class.state is State.ABSENT)
    else:
        drops.append(Drop(CLASS, "spec.storage names no class"))
    if selector is not None:
        composed[node_collection.NODES] = node_collection.build_collection(writer, selector)
    elif observation.unobserved:
        drops.append(Drop(node_collection.NODES, observation.unobserved.value))
    drained = _build_drained(call, environment, placements)
    is_settled = all(item.ready for item in composed.values()) and all(c.reason != Drained.DRAINING for c in drained)
    return Outcome(
        composed=composed,
        drops=tuple(drops) if placements is not None else (),  # nothing goes while a requirement is not answered
        status={**report.build_status(environment, storage_class), **_compute_ledger(call, environment, placements)},
        conditions=(
            report.build_cluster_ready(writer.read(PRESET), parsed.access.kubeconfig),
            report.build_pools_valid(environment.pools, parsed.pool_problems),
            report.build_storage_ready(class_name, storage_class),
            report.build_hardware_as_declared(environment, observation),
            *drained,
        ),
        ttl_seconds=settings.ttl_settled if is_settled else settings.ttl_pending,
    )


def require(call: Call, inputs: _Inputs, _: Settings) -> dict[str, Requirement]:
    """Requires the placements on an environment, its nodes, and while it is being drained the deployments on it."""
    environment = inputs.parsed.value
    required = _require_placements(call, environment) | _require_nodes(call, environment)
    return required | _require_deployments(environment, inputs.placements or ())


def _require_placements(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Requires the placements with the environment's label, and by name the admitted ones that lost it.

    All placements are required while a valid pool has no published ledger: the pool is new or was corrected, or the
    status was lost, and a placement that runs there may be neither labelled nor admitted.
    """
    if any(pool.name not in environment.free for pool in environment.pools):
        return {requirements.PLACEMENTS: requirements.placements()}
    required = requirements.placements_on([environment.name])
    labelled = collect_placements(call, required)
    if labelled is None:
        return required
    known = {placement.uid for placement in labelled}
    for row in listing(call.xr, "status.admitted"):
        if text(row, "uid") not in known:
            name = text(row, "name")
            namespace = text(row, "namespace")
            required[f"placement-{namespace}/{name}"] = requirements.one("ModelPlacement", name, namespace)
    return required


def _find_placements(call: Call, environment: Environment) -> Collection[Placement] | None:
    """Returns the placements on the environment; None while a requirement of placements is not answered."""
    placements = collect_placements(call, _require_placements(call, environment))
    if placements is None:
        return None
    return {f"{p.namespace}/{p.name}": p for p in placements if p.environment == environment.name}.values()


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
        "apiVersion": OBJECT_VERSION,
        "kind": "ClusterProviderConfig",
        "metadata": {"name": environment.provider_config, "labels": dict[str, JSON](MANAGED_BY)},
        "spec": spec,
    }
    return Composed(manifest=manifest, ready=CONFIG in call.observed)


def _refer_to(secret: SecretKey) -> Manifest:
    return {"name": secret.name, "namespace": secret.namespace, "key": secret.key}


def _require_nodes(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Requires the members of the collection, or the CRD before there is one; nothing where nodes are not observed."""
    collection = call.observed.get(node_collection.NODES)
    if isinstance(select_nodes(environment, collection), Unobserved):
        return {}
    if collection is None:
        return {requirements.NODES_DEFINITION: requirements.require_definition(node_collection.DEFINITION)}
    labels = {node_collection.MEMBERSHIP: text(collection, "metadata.name")}
    namespace = text(collection, "metadata.namespace")
    members = Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels=labels)
    return {requirements.NODES: members}


def _observe_nodes(call: Call, environment: Environment) -> tuple[NodeObservation, Manifest | None]:
    """Returns what is observed, and the selector of the collection; None: there should be no collection."""
    collection = call.observed.get(node_collection.NODES)
    selector = select_nodes(environment, collection)
    if isinstance(selector, Unobserved):
        return NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=selector), None
    if collection is not None:
        answer = call.answers.get(requirements.NODES)
        members = None if answer is None else MEMBERS.parse(answer)
        return node_collection.observe_nodes(collection, members), selector
    definition = call.answers.get(requirements.NODES_DEFINITION)
    if definition is None:
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING), None
    if any(condition(item.load(), "Established").get("status") == "True" for item in definition):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING), selector
    return NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=Unobserved.NO_KIND), None


def _set_facts(environment: Environment, observation: NodeObservation) -> Environment:
    """Returns the environment with the facts of its nodes: current, as in its status, or none."""
    if observation.reason is None:
        facts = summarize_pools(environment, observation.nodes)
    elif observation.unobserved in {None, Unobserved.IN_FILE}:
        return environment
    else:
        facts = {}
    pools = tuple(replace(pool, facts=facts.get(pool.name)) for pool in environment.pools)
    return replace(environment, pools=pools)


def _require_deployments(environment: Environment, placements: Collection[Placement]) -> dict[str, Requirement]:
    return {
        _deployment_key(p): requirements.one("ModelDeployment", p.deployment, p.namespace)
        for p in report.find_draining(environment, placements)
        if p.deployment
    }


def _build_drained(
    call: Call, environment: Environment, placements: Collection[Placement] | None
) -> tuple[Condition, ...]:
    """Returns Drained; none where the environment never had a taint. `placements` is None while it is not answered."""
    if not environment.taints and not condition(call.xr, ConditionType.DRAINED):
        return ()
    draining = report.find_draining(environment, placements or ())
    required = {_deployment_key(p) for p in draining if p.deployment}
    if placements is None or not required <= call.answers.keys():
        return (report.build_drained(environment, None),)
    deployments = [next((item.load() for item in call.answers.get(_deployment_key(p), ())), None) for p in draining]
    return (report.build_drained(environment, [*zip(draining, deployments, strict=True)]),)


def _deployment_key(placement: Placement) -> str:
    return f"deployment-{placement.namespace}/{placement.deployment}"
