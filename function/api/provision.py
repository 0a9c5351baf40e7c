"""Parses what is created in Google Cloud for an environment: `cluster.gke.provision` and the blocks `gke` of pools.

The rules that compare with earlier values are in the XRD, and what they cannot see is decided in parts/provision.py.
"""

import re
from collections.abc import Iterable, Sequence

from function import schemas
from function.api.problems import Problems
from function.domain.gke_machines import MACHINES
from function.domain.provision import ClusterPlan, NodePoolPlan

SYSTEM_POOL = "system"
_POOL_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_POOL_NAME_FORM = (
    f"at most 40 lower-case letters, digits and -, beginning with a letter, and not {SYSTEM_POOL}, as GKE creates the "
    "pool"
)
# Kubernetes and Google Cloud set the labels under these domains, so they cannot be given to a node pool.
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")
# A zone is named after its region: us-central1-a.
_ZONE = re.compile(r"-[a-z]\Z")
NODE_POOL_LABEL = "cloud.google.com/gke-nodepool"


def parse_cluster_plan(
    cluster: schemas.Cluster, environment: str, namespace: str, pools: Sequence[NodePoolPlan], declared: Iterable[str]
) -> ClusterPlan | None:
    """Returns the cluster to create; None if it exists already.

    `namespace` is that of the platform's Secrets, and `declared` has the names of all pools, also of invalid ones.
    """
    gke = cluster.gke
    if gke is None or gke.provision is None:
        return None
    block = gke.provision
    config = block.provider_config_ref or schemas.ProviderConfigRef(name="default")
    network = block.network or schemas.Network(name="default")
    maintenance = block.maintenance or schemas.Maintenance()
    system = block.system_pool or schemas.SystemPool()
    return ClusterPlan(
        environment=environment,
        namespace=namespace,
        kubeconfig=(gke.secret_ref and gke.secret_ref.name) or f"{environment}-kubeconfig",
        project=gke.project,
        region=gke.region,
        version=gke.kubernetes_version or "",
        config_kind=config.kind,
        config_name=config.name,
        release_channel=block.release_channel,
        network=network.name,
        subnetwork=network.subnetwork or "",
        pod_range=network.pod_range or "",
        service_range=network.service_range or "",
        has_private_nodes=block.private_nodes,
        maintenance_start=maintenance.daily_start,
        upgrades_nodes=maintenance.node_upgrades == "InWindow",
        system_machine_type=system.machine_type,
        system_max_nodes=system.max_nodes,
        deletes=block.on_removal == "Delete",
        pools=tuple(pools),
        declared_pools=frozenset(declared),
    )


def check_provision(cluster: schemas.Cluster, problems: Problems) -> None:
    """Adds the problems of the cluster to create: without an identity and its Secret, nothing can log in to it."""
    gke = cluster.gke
    if gke is None or gke.provision is None:
        return
    if gke.identity_secret_ref is None and not problems["identitySecretRef"].refused:
        problems["identitySecretRef"].add_required("as the kubeconfig of a created cluster has no credentials")
    secret = gke.secret_ref
    if secret is not None:
        for field, value, allowed in (("namespace", secret.namespace, None), ("key", secret.key, "kubeconfig")):
            if value != allowed:
                problems["secretRef"][field].add_invalid(value, "left out, as provider-gcp-container writes the Secret")
    network = gke.provision.network
    if network is not None and (network.pod_range is None) != (network.service_range is None):
        problems["provision.network"].add("has only one of podRange and serviceRange; set both or neither")


def parse_node_pool_plan(block: schemas.NodePool, problems: Problems, *, location: str | None) -> NodePoolPlan | None:
    """Returns the node pool to create; None if the nodes exist already.

    `location` is the region or zone of the cluster to create; None if the cluster exists already.
    """
    gke = block.gke
    if gke is None:
        return None
    _check_node_pool(block, gke, problems, location)
    max_nodes = block.node_count if block.max_node_count is None else block.max_node_count
    is_autoscaled = max_nodes > block.node_count if block.autoscaled is None else block.autoscaled
    min_nodes = min(block.node_count, max_nodes) if is_autoscaled else max_nodes
    zones = len(gke.zones or ())
    if min_nodes == max_nodes and (not zones or max_nodes % zones):
        _check_fixed_size(gke, max_nodes, problems)
    return NodePoolPlan(
        name=block.name,
        machine_type=gke.machine_type,
        zones=tuple(sorted(gke.zones or ())),
        disk_gb=gke.disk_size_gb,
        accelerator_type=block.accelerator_type or "",
        accelerators=block.accelerator_count,
        driver_version=gke.driver_version,
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        first_nodes_per_zone=min_nodes // zones if zones else 0,
        reservation=gke.reservation or "",
        spot=gke.spot,
        is_compact=gke.compact_placement,
        labels=tuple(sorted((key, value) for key, value in (block.labels or {}).items() if not _is_reserved(key))),
        taints=tuple((taint.key, taint.value or "", taint.effect) for taint in block.taints or ()),
    )


def _check_node_pool(block: schemas.NodePool, gke: schemas.Gke, problems: Problems, location: str | None) -> None:
    if location is None:
        problems["gke"].add("needs spec.cluster.gke.provision, or the nodes must exist already and gke be left out")
    if block.name == SYSTEM_POOL or not _POOL_NAME.fullmatch(block.name):
        problems["name"].add_invalid(block.name, _POOL_NAME_FORM)
    if block.accelerator_count and not block.accelerator_type:
        problems["acceleratorType"].add_required("as GKE creates the pool; for example nvidia-h200-141gb")
    _check_machine(block, gke, problems)
    at = problems["gke"]
    region = _ZONE.sub("", location or "")
    for index, zone in enumerate(gke.zones or ()):
        if location is not None and _ZONE.sub("", zone) != region:
            at["zones"][index].add_invalid(zone, f"a zone of the region {region}, in which the cluster is")
    if gke.reservation and gke.spot:
        at["spot"].add_invalid(gke.spot, "false, as the pool has a reservation")
    if gke.reservation and not gke.zones and not at["zones"].refused:
        at["zones"].add_required("as a reservation is in certain zones")
    if gke.compact_placement and len(gke.zones or ()) != 1:
        at["compactPlacement"].add_invalid(gke.compact_placement, "false, or zones must have exactly one zone")


def _check_fixed_size(gke: schemas.Gke, nodes: int, problems: Problems) -> None:
    """Adds the problem of a pool of fixed size: GKE has the same number of nodes in each zone, and adds no others."""
    at = problems["gke"]["zones"]
    if gke.zones:
        at.add(f"has {len(gke.zones)} zones, which do not divide the {nodes} nodes of a pool of fixed size")
    elif not at.refused:
        at.add_required("as the pool has a fixed size; or set maxNodeCount above nodeCount, so that it is autoscaled")


def _check_machine(block: schemas.NodePool, gke: schemas.Gke, problems: Problems) -> None:
    """Adds what contradicts the machine type. Nothing is known of machine types that are not in the table."""
    machine = MACHINES.get(gke.machine_type)
    if machine is None:
        return
    of_machine = f"as a node of {gke.machine_type} has"
    if block.accelerator_count != machine.gpus:
        problems["acceleratorCount"].add_invalid(block.accelerator_count, f"{machine.gpus}, {of_machine}")
    if block.accelerator_type and block.accelerator_type != machine.accelerator_type:
        problems["acceleratorType"].add_invalid(block.accelerator_type, f"{machine.accelerator_type}, {of_machine}")
    if machine.needs_sidecar and block.capabilities is not None and block.capabilities.multi_node_capable:
        why = f"{machine.between_nodes} between nodes needs networks and a sidecar, which are not created"
        problems["capabilities"]["multiNodeCapable"].add_invalid(
            value=True, allowed=f"false for {gke.machine_type}: {why}"
        )


def _is_reserved(key: str) -> bool:
    domain, separator, _ = key.rpartition("/")
    return bool(separator) and any(domain == name or domain.endswith(f".{name}") for name in _RESERVED_DOMAINS)
