"""What the parts of an InferenceEnvironment read: the environment with the facts of its nodes, and placements."""

from collections.abc import Collection
from dataclasses import dataclass

from function.api.inference_environment import ClusterAccess
from function.contract import Call
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.domain.provision import ClusterPlan
from function.kube.manifests import Manifest
from function.remote.node_collection import NodeObservation
from function.remote.object_writer import ObjectWriter

CONFIG = "provider-config"  # composition-resource-name of the ClusterProviderConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentContext:
    call: Call
    environment: Environment
    access: ClusterAccess
    plan: ClusterPlan | None  # of the cluster to create; None: it exists already
    placements: Collection[Placement] | None  # on the environment; None: not answered
    nodes: NodeObservation
    node_selector: Manifest | None  # of the collection of nodes; None: there should be none
    writer: ObjectWriter
