"""A cluster that is created in a cloud for an environment, with its node pools."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolPlan:
    """A node pool as declared."""

    name: str
    machine_type: str
    zones: tuple[str, ...] = ()  # empty: the cloud chooses them in the region
    disk_gb: int = 100
    accelerator_type: str = ""
    accelerators: int = 0  # of each node
    driver_version: str = "DEFAULT"
    min_nodes: int  # in all zones together; equal to `max_nodes` if the number is fixed
    max_nodes: int
    first_nodes_per_zone: int = 0  # of an autoscaled pool, when it is created
    reservation: str = ""
    spot: bool = False
    is_compact: bool = False
    labels: tuple[tuple[str, str], ...] = ()  # of the nodes, beside those of the cloud itself
    taints: tuple[tuple[str, str, str], ...] = ()  # key, value and effect, beside that of the GPUs

    @property
    def has_fixed_size(self) -> bool:
        return self.min_nodes == self.max_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A cluster as declared. Empty texts: the cloud chooses."""

    environment: str
    namespace: str  # of the managed resources, and of the Secret with the kubeconfig
    kubeconfig: str  # name of this Secret
    project: str
    region: str
    version: str = ""
    config_kind: str = "ClusterProviderConfig"  # of the provider
    config_name: str = "default"
    release_channel: str = "REGULAR"
    network: str = "default"
    subnetwork: str = ""
    pod_range: str = ""
    service_range: str = ""
    has_private_nodes: bool = False
    maintenance_start: str = "03:00"  # UTC
    upgrades_nodes: bool = False
    system_machine_type: str = "e2-standard-8"
    system_max_nodes: int = 3
    deletes: bool = False  # what is removed here is also deleted in the cloud
    pools: tuple[NodePoolPlan, ...] = ()  # the valid ones
    declared_pools: frozenset[str] = frozenset()  # names of all declared pools, also of invalid ones
