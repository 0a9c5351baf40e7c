"""The Cluster and the NodePools of provider-gcp-container, what of a declaration they are sent, and what they report.

GKE never has to be asked for a change that replaces or restarts nodes with models: `_CLUSTER` and `_NODE_POOL` say of
every field what a change does to nodes, and `choose` sends such a change only while nothing is placed there. The
classes of the fields come from the provider's schema and from the Terraform provider inside it (docs/facts.md, GKE).
Only the provider knows whether something exists in Google Cloud under a name. While something is placed there, a new
managed resource therefore only observes until it has reported.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from function.domain.provision import ClusterPlan, NodePoolPlan
from function.kube.manifests import (
    JSON,
    Manifest,
    condition,
    get,
    integer,
    is_ready,
    list_texts,
    listing,
    mapping,
    prune,
    text,
)
from function.kube.messages import mask_tokens, to_one_line, truncate_middle
from function.kube.names import EXTERNAL_NAME, MANAGED_BY, build_name, label_value
from function.remote.composed_kinds import CLUSTER_KIND, GKE_VERSION, NODE_POOL_KIND
from function.remote.object_writer import ManagementPolicy

PROVIDER = "provider-gcp-container v3.0.0 or later"
SYSTEM_POOL = "system"
_NAME_LIMIT = 40  # characters of the name of a cluster, which GKE limits
_OBJECT_NAME_LIMIT = 63
# The taint that GKE gives to nodes with GPUs; without it in the spec, the provider would report a difference.
_GPU_TAINT: Manifest = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_EXCLUDED_SINCE = "2026-01-01T00:00:00Z"  # a fixed past time, so that every call gives the same exclusion
_WORDS = re.compile(r"\[\{\d+ (.*?)\[\]\}", re.DOTALL)  # of Google, in an error of the provider
_MAX_FAULT = 4096  # bytes of an error
_UNRESOLVED = "cannot resolve references"  # a NodePool whose Cluster has no ID yet
# What a managed resource that only observes reports of a name that does not exist.
_ABSENT = "external resource does not exist"


class Change(Enum):
    """What a change of a field does in Google Cloud."""

    HARMLESS = "no node is touched"
    ROLLS = "nodes are replaced or restarted in place"
    REFUSED = "the provider refuses it, and all further changes with it"


# Every field that is sent.
CLUSTER_FIELDS: Mapping[str, Change] = {
    "project": Change.REFUSED,
    "location": Change.REFUSED,
    "network": Change.REFUSED,
    "subnetwork": Change.REFUSED,
    "ipAllocationPolicy": Change.REFUSED,
    "networkingMode": Change.REFUSED,
    "datapathProvider": Change.REFUSED,
    "removeDefaultNodePool": Change.HARMLESS,
    "deletionProtection": Change.HARMLESS,
    "releaseChannel": Change.HARMLESS,
    "minMasterVersion": Change.HARMLESS,
    "workloadIdentityConfig": Change.HARMLESS,
    "privateClusterConfig": Change.HARMLESS,
    "addonsConfig": Change.HARMLESS,
    "maintenancePolicy": Change.HARMLESS,
}
NODE_POOL_FIELDS: Mapping[str, Change] = {
    "project": Change.REFUSED,
    "location": Change.REFUSED,
    "clusterRef": Change.REFUSED,
    "placementPolicy": Change.REFUSED,
    "nodeLocations": Change.ROLLS,
    "management": Change.HARMLESS,
    "upgradeSettings": Change.HARMLESS,
    "nodeConfig.guestAccelerator": Change.REFUSED,
    "nodeConfig.reservationAffinity": Change.REFUSED,
    "nodeConfig.spot": Change.REFUSED,
    "nodeConfig.oauthScopes": Change.REFUSED,
    "nodeConfig.machineType": Change.ROLLS,
    "nodeConfig.diskSizeGb": Change.ROLLS,
    "nodeConfig.imageType": Change.ROLLS,
    "nodeConfig.gvnic": Change.ROLLS,
    "nodeConfig.workloadMetadataConfig": Change.ROLLS,
    "nodeConfig.metadata": Change.ROLLS,
    "nodeConfig.taint": Change.ROLLS,  # GKE replaces no node, but a taint may evict pods
    "nodeConfig.labels": Change.HARMLESS,
}
# What the fields are called in the environment, if it calls them otherwise.
_DECLARED_NAMES: Mapping[str, str] = {
    "location": "region",
    "ipAllocationPolicy": "network.podRange and network.serviceRange",
    "nodeLocations": "zones",
    "placementPolicy": "compactPlacement",
    "nodeConfig.guestAccelerator": "accelerator",
    "nodeConfig.reservationAffinity": "reservation",
    "nodeCount": "number of nodes in each zone",
    "totalMinNodeCount": "minimum number of nodes",
    "totalMaxNodeCount": "maximum number of nodes",
}
_SIZE_FIELD = "autoscaling"
_ZONES_OF_A_REGION = 3  # in which GKE creates a pool without zones
_CLUSTER = "cluster"  # ends the name of the managed resource
# Of what Google Cloud reports, the fields of a GPU that are sent.
_ACCELERATOR_FIELDS = ("type", "count", "gpuDriverInstallationConfig")
_RANGE_FIELDS = ("clusterSecondaryRangeName", "servicesSecondaryRangeName")
# GKE chooses what is left out of these, and the provider writes the choice into the spec (LateInitialize).
_CHOSEN_BY_GKE = frozenset({"subnetwork", "nodeLocations"})
# A node pool that is reported without one of these has none.
_REPORTED_IF_SET = frozenset(
    {"placementPolicy", "nodeConfig.guestAccelerator", "nodeConfig.reservationAffinity", "nodeConfig.spot"}
)
_REPLACEMENT = "requires replacing it"  # what the provider says while it refuses a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """A managed resource as it is to be applied."""

    manifest: Manifest
    held: tuple[str, ...] = ()  # the declared changes that are not sent, each with its value and what exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a managed resource reports."""

    exists: bool  # in Google Cloud, as far as is known
    ready: bool
    fault: str = ""  # what failed, in the words of Google or of the provider
    has_reported: bool = False


def read_report(manifest: Manifest) -> Report:
    fault = _find_fault(manifest)
    return Report(
        exists=bool(mapping(manifest, "status.atProvider")) or is_ready(manifest),
        ready=is_ready(manifest),
        fault=fault,
        has_reported=bool(condition(manifest, "Synced")),
    )


def _find_fault(manifest: Manifest) -> str:
    """Returns what failed: the last operation in Google Cloud, else the provider's own work; empty if nothing did."""
    for type_ in ("LastAsyncOperation", "Synced"):
        found = condition(manifest, type_)
        message = text(found, "message") or text(found, "reason")
        if text(found, "status") == "False" and _UNRESOLVED not in message and not _is_absence(manifest, message):
            message = truncate_middle(message, _MAX_FAULT)  # before a pattern looks at it
            words = _WORDS.search(message)
            return mask_tokens(to_one_line(words[1].strip() if words else message))
    return ""


def _is_absence(manifest: Manifest, message: str) -> bool:
    return only_observes(manifest) and _ABSENT in message


def only_observes(manifest: Manifest) -> bool:
    return get(manifest, "spec.managementPolicies") == [*ManagementPolicy.OBSERVE_ONLY.value]


def choose_policy(observed: Manifest, *, in_use: bool, deletes: bool) -> ManagementPolicy:
    """Returns what the provider may do. `in_use`: something is placed there, or that is not known.

    While something is placed there, nothing is created or changed before the provider has told what exists.
    """
    if not in_use:
        return ManagementPolicy.FULL if deletes else ManagementPolicy.RETAIN
    if not observed:
        return ManagementPolicy.OBSERVE_ONLY
    if only_observes(observed) and not _has_told(observed):
        return ManagementPolicy.OBSERVE_ONLY
    return ManagementPolicy.RETAIN


def _has_told(observed: Manifest) -> bool:
    synced = condition(observed, "Synced")
    is_absent = text(synced, "status") == "False" and _ABSENT in text(synced, "message")
    return is_absent or read_report(observed).exists


def name_cluster(environment: str) -> str:
    """Returns the name of the cluster in Google Cloud: an environment of the same name gets the same cluster again."""
    return build_name(environment, environment, limit=_NAME_LIMIT)


def build_cluster(plan: ClusterPlan, observed: Manifest, *, in_use: bool) -> Managed:
    policy = choose_policy(observed, in_use=in_use, deletes=plan.deletes)
    ranges = {"clusterSecondaryRangeName": plan.pod_range, "servicesSecondaryRangeName": plan.service_range}
    declared: Manifest = {
        "project": plan.project,
        "location": plan.region,
        "network": plan.network,
        "subnetwork": plan.subnetwork or None,
        "ipAllocationPolicy": {key: value for key, value in ranges.items() if value},
        "networkingMode": "VPC_NATIVE",
        "datapathProvider": "ADVANCED_DATAPATH",
        "removeDefaultNodePool": True,
        # This protection is the provider's own, and looks at the spec that was applied last. The management policies
        # are the guard.
        "deletionProtection": False,
        "releaseChannel": {"channel": plan.release_channel},
        "minMasterVersion": plan.version or None,
        "workloadIdentityConfig": {"workloadPool": f"{plan.project}.svc.id.goog"},
        "privateClusterConfig": {"enablePrivateNodes": plan.has_private_nodes},
        "addonsConfig": {"gcpFilestoreCsiDriverConfig": {"enabled": True}},
        "maintenancePolicy": _build_maintenance(plan),
    }
    sent, held = choose(prune(declared), observed, CLUSTER_FIELDS, in_use=in_use)
    spec: Manifest = {
        "managementPolicies": [*policy.value],
        "writeConnectionSecretToRef": {"name": plan.kubeconfig},
        "forProvider": sent,
        "initProvider": {"initialNodeCount": 1},  # of the default pool, which is removed at once
    }
    manifest = _build_managed(plan, _CLUSTER, name_cluster(plan.environment), spec, observed)
    return Managed(manifest=manifest, held=held)


def _build_maintenance(plan: ClusterPlan) -> Manifest:
    policy: Manifest = {"dailyMaintenanceWindow": {"startTime": plan.maintenance_start}}
    if not plan.upgrades_nodes:
        options: Manifest = {"scope": "NO_MINOR_OR_NODE_UPGRADES", "endTimeBehavior": "UNTIL_END_OF_SUPPORT"}
        exclusion: Manifest = {"exclusionName": "modelplane", "startTime": _EXCLUDED_SINCE, "exclusionOptions": options}
        policy["maintenanceExclusion"] = [exclusion]
    return policy


def plan_system_pool(plan: ClusterPlan) -> NodePoolPlan:
    """Returns the pool for KServe and the gateway."""
    return NodePoolPlan(
        name=SYSTEM_POOL,
        machine_type=plan.system_machine_type,
        min_nodes=0,
        max_nodes=plan.system_max_nodes,
        first_nodes_per_zone=1 if plan.system_max_nodes >= _ZONES_OF_A_REGION else 0,
    )


def build_node_pool(plan: ClusterPlan, pool: NodePoolPlan, observed: Manifest, *, in_use: bool) -> Managed:
    policy = choose_policy(observed, in_use=in_use, deletes=plan.deletes)
    declared = _declare_node_pool(plan, pool)
    sent, held = choose(declared, observed, NODE_POOL_FIELDS, in_use=in_use)
    zones = len(list_texts(sent, "nodeLocations"))
    size, held_sizes = _choose_size(pool, zones, observed, in_use=in_use)
    spec: Manifest = {
        "managementPolicies": [*policy.value],
        "forProvider": {**sent, **size},
        # Only at creation: a later change would count as a replacement.
        "initProvider": {"initialNodeCount": pool.first_nodes_per_zone} if _SIZE_FIELD in size else {},
    }
    manifest = _build_managed(plan, f"pool-{pool.name}", pool.name, spec, observed)
    return Managed(manifest=manifest, held=(*held, *held_sizes))


def _choose_size(
    pool: NodePoolPlan, zones: int, observed: Manifest, *, in_use: bool
) -> tuple[Manifest, tuple[str, ...]]:
    """Returns the size that is sent, and the changes that are not sent: GKE would choose the nodes that it removes.

    GKE counts the nodes of a pool of fixed size in each zone. Its autoscaler adds nodes only for pods that wait, never
    to reach a minimum.
    """
    places = ("status.atProvider",) if only_observes(observed) else ("status.atProvider", "spec.forProvider")

    def find_most(field: str) -> int:
        return max(integer(observed, f"{place}.{field}") for place in places) if in_use else 0

    held: list[str] = []

    def choose_count(field: str, count: int) -> int:
        existing = find_most(field)
        if count < existing:
            held.append(_describe_held(field.rpartition(".")[2], count, existing))
        return max(count, existing)

    is_autoscaled = find_most(f"{_SIZE_FIELD}.totalMaxNodeCount") > 0
    if pool.has_fixed_size and not is_autoscaled:
        return {"nodeCount": choose_count("nodeCount", pool.max_nodes // max(zones, 1))}, tuple(held)
    if pool.has_fixed_size:
        held.append("the size is fixed as declared and autoscaled in Google Cloud")
    lowest = choose_count(f"{_SIZE_FIELD}.totalMinNodeCount", pool.min_nodes)
    highest = choose_count(f"{_SIZE_FIELD}.totalMaxNodeCount", pool.max_nodes)
    size: Manifest = {"totalMinNodeCount": lowest, "totalMaxNodeCount": highest, "locationPolicy": "ANY"}
    return {_SIZE_FIELD: size}, tuple(held)


def _declare_node_pool(plan: ClusterPlan, pool: NodePoolPlan) -> Manifest:
    taints: list[JSON] = [
        {"key": key, "value": value, "effect": _EFFECTS[effect]}
        for key, value, effect in pool.taints
        if key != _GPU_TAINT["key"]
    ]
    config: Manifest = {
        "machineType": pool.machine_type,
        "diskSizeGb": pool.disk_gb,
        "imageType": "COS_CONTAINERD",
        "oauthScopes": [_SCOPE],
        "gvnic": {"enabled": True},
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        "metadata": {"disable-legacy-endpoints": "true"},
        "labels": {"modelplane.ai/pool": pool.name, **dict[str, JSON](pool.labels)},
    }
    if pool.accelerators:
        driver: Manifest = {"gpuDriverVersion": pool.driver_version}
        gpus: Manifest = {"type": pool.accelerator_type, "count": pool.accelerators}
        config["guestAccelerator"] = [{**gpus, "gpuDriverInstallationConfig": driver}]
        taints = [_GPU_TAINT, *taints]
    if taints:
        config["taint"] = taints
    if pool.spot:
        config["spot"] = True
    if pool.reservation:
        config["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [_expand_reservation(plan.project, pool.reservation)],
        }
    declared: Manifest = {
        "project": plan.project,
        "location": plan.region,
        "clusterRef": {"name": _name_managed(plan, _CLUSTER)},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "upgradeSettings": {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1},
        "nodeConfig": config,
    }
    if pool.zones:
        declared["nodeLocations"] = [*pool.zones]
    if pool.is_compact:
        declared["placementPolicy"] = {"type": "COMPACT"}
    return declared


def _expand_reservation(project: str, reservation: str) -> str:
    return reservation if reservation.startswith("projects/") else f"projects/{project}/reservations/{reservation}"


def choose(
    declared: Manifest, observed: Manifest, fields: Mapping[str, Change], *, in_use: bool
) -> tuple[Manifest, tuple[str, ...]]:
    """Returns what is sent of a declaration, and the changes that are not sent.

    A change that the provider refuses is not sent once something exists in Google Cloud. A change that rolls nodes is
    sent only while nothing is placed on them.
    """
    exists = read_report(observed).exists
    sent: Manifest = {}
    held: list[str] = []
    for path, change in fields.items():
        value = get(declared, path)
        is_held = (change is Change.REFUSED and exists) or (change is Change.ROLLS and in_use)
        if is_held and observed and not (value is None and path in _CHOSEN_BY_GKE):
            is_known, existing = _find_existing(observed, path, change)
            if is_known and not any(_is_same(value, other) for other in (existing, _read_reported(observed, path))):
                held.append(_describe_held(path, value, existing))
                value = existing
        if value is not None:
            _put(sent, path, value)
    return sent, tuple(held)


def _find_existing(observed: Manifest, path: str, change: Change) -> tuple[bool, JSON]:
    """Returns whether it is known what exists, and its value.

    The value is what was sent, or what is reported while the resource has only observed, or while the provider refuses
    what was sent. Where a change rolls nodes, the reported value always counts: another person may have changed it in
    Google Cloud.
    """
    reported = _read_reported(observed, path)
    is_unset = path in _REPORTED_IF_SET and bool(mapping(observed, "status.atProvider.nodeConfig"))
    is_known = reported is not None or is_unset
    if only_observes(observed):
        return is_known, reported
    if change is Change.REFUSED and is_known and is_refusal(_find_fault(observed)):
        return True, reported
    applied = get(observed, f"spec.forProvider.{path}")
    is_changed_there = change is Change.ROLLS and reported is not None and not isinstance(applied, (dict, type(None)))
    return True, reported if is_changed_there else applied


def is_refusal(fault: str) -> bool:
    """Tells whether the provider refuses a change because it would have to replace what exists."""
    return _REPLACEMENT in fault


def _read_reported(observed: Manifest, path: str) -> JSON:
    """Returns the value of a field in Google Cloud; None if it is not reported, or is empty."""
    reported = get(observed, f"status.atProvider.{path}")
    if path == "nodeConfig.guestAccelerator":
        gpus = listing(observed, f"status.atProvider.{path}")
        reported = [{key: row[key] for key in _ACCELERATOR_FIELDS if row.get(key)} for row in gpus]
    if path == "ipAllocationPolicy":
        ranges = mapping(observed, f"status.atProvider.{path}")
        reported = {key: ranges[key] for key in _RANGE_FIELDS if ranges.get(key)}
    if path == "nodeConfig.reservationAffinity" and not get(reported, "values"):
        return None
    return reported or None


def _is_same(value: JSON, other: JSON) -> bool:
    """Compares a declared value with another; the order of a list has no meaning in any of the fields."""
    if isinstance(value, list) and isinstance(other, list):
        return sorted(map(_to_key, value)) == sorted(map(_to_key, other))
    if isinstance(value, str) and isinstance(other, str):
        return _is_same_name(value, other)
    if value == {}:  # secondary ranges, of which GKE chooses what is left out
        return True
    return value == other


def _is_same_name(value: str, other: str) -> bool:
    """Compares names, paths and URLs: Google reports the path of a network, also if a name was sent."""
    if "/" in value and "/" in other:
        return value.rpartition("projects/")[2] == other.rpartition("projects/")[2]
    return value.rpartition("/")[2] == other.rpartition("/")[2]


def _to_key(value: JSON) -> str:
    return json.dumps(value, sort_keys=True)


def _describe_held(path: str, value: JSON, existing: JSON) -> str:
    field = _DECLARED_NAMES.get(path, path.rpartition(".")[2])
    if field == "reservation":
        value, existing = (get(affinity, "values") for affinity in (value, existing))
    return f"{field} is {_format(value)} as declared and {_format(existing)} in Google Cloud"


def _format(value: JSON) -> str:
    if isinstance(value, list):
        return ",".join(_format(item) for item in value)
    if isinstance(value, dict):
        return " ".join(_format(item) for item in value.values())
    return "unset" if value is None else str(value)


def _put(manifest: Manifest, path: str, value: JSON) -> None:
    block, _, field = path.rpartition(".")
    target = manifest
    if block:
        target = manifest.setdefault(block, {})  # type: ignore[assignment]  # only this function fills it
    target[field] = value


def _build_managed(plan: ClusterPlan, suffix: str, external: str, spec: Manifest, observed: Manifest) -> Manifest:
    """Returns a managed resource. One that exists keeps its namespace, whatever the platform settings say now."""
    return {
        "apiVersion": GKE_VERSION,
        "kind": CLUSTER_KIND if suffix == _CLUSTER else NODE_POOL_KIND,
        "metadata": {
            "name": _name_managed(plan, suffix),
            "namespace": text(observed, "metadata.namespace") or plan.namespace,
            "labels": {**MANAGED_BY, "modelplane.ai/environment": label_value(plan.environment)},
            "annotations": {EXTERNAL_NAME: external},
        },
        "spec": {"providerConfigRef": {"kind": plan.config_kind, "name": plan.config_name}, **spec},
    }


def _name_managed(plan: ClusterPlan, suffix: str) -> str:
    return build_name(f"{plan.environment}-{suffix}", plan.environment, suffix, limit=_OBJECT_NAME_LIMIT)


def find_unknown_field(definition: Manifest, manifest: Manifest) -> str:
    """Returns the path of the first field of a managed resource that a CRD does not have; empty if it has all.

    The command line assumes a CRD without a schema, of which nothing is known.
    """
    name = GKE_VERSION.rpartition("/")[2]
    schemas = [
        mapping(row, "schema.openAPIV3Schema")
        for row in listing(definition, "spec.versions")
        if row.get("name") == name
    ]
    return next((_find_unknown(schema, {"spec": manifest["spec"]}, "") for schema in schemas if schema), "")


def _find_unknown(schema: Manifest, value: JSON, path: str) -> str:
    if isinstance(value, list):
        items = mapping(schema, "items")
        return next((found for item in value if (found := _find_unknown(items, item, path))), "")
    if not isinstance(value, dict) or schema.get("additionalProperties") is not None:
        return ""
    for key, below in value.items():
        child = mapping(schema, "properties").get(key)
        where = f"{path}.{key}".lstrip(".")
        if not isinstance(child, dict):
            return where
        if found := _find_unknown(child, below, where):
            return found
    return ""
