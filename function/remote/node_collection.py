"""The ObservedObjectCollection by which provider-kubernetes mirrors the nodes of an environment, and what it shows.

The collection keeps one Object for each node that its selector matches. The provider lists the nodes at each poll. A
failed list changes nothing: the Objects of the collection are then stale, like any Object that is Synced=False.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from function.contract import Composed
from function.domain.environment import Environment, Observe, Pool
from function.kube.manifests import JSON, Manifest, is_deleting, listing, mapping, text
from function.kube.names import MANAGED_BY, build_name
from function.reasons import HardwareAsDeclared
from function.remote.composed_kinds import COLLECTION_KIND, OBJECT_VERSION
from function.remote.nodes import Node, parse_node
from function.remote.object_writer import ObjectWriter
from function.remote.observed_object import ObservedObject, State, read_object, read_written

# The CRD of the collection. Without it, Crossplane can apply no resource of an environment with a collection.
DEFINITION = "observedobjectcollections.kubernetes.m.crossplane.io"
MEMBERSHIP = "kubernetes.crossplane.io/owned-by-collection"  # the label that the provider sets on the Objects
NODES = "nodes"  # composition-resource-name
_NAME_LIMIT = 55  # the provider appends eight characters for its Objects' names, which may have 63

# Each node adds about 20 kB to every call, and wakes its environment at every poll (docs/nodes.md).
MAX_AUTO_NODES = 64
_ANSWERED = frozenset({State.PRESENT, State.UNSEEN})


class Unobserved(Enum):
    """Why nodes are not observed; the value is the message."""

    NEVER = "spec.hardware.observe is Never: pools are taken as declared"
    IN_FILE = "Nodes are not observed for files: pools are taken as declared"
    NO_POOLS = (
        "There is no pool whose nodes could be observed; with spec.hardware.observe Always, "
        "`kubectl modelplane capacity --suggest` prints pools for the nodes that exist"
    )
    INVALID_POOLS = "No pool is valid, see PoolsValid; what is known of the nodes is kept until then"
    NO_LABELS = (
        "The pools have no label in common to find their nodes by: set spec.hardware.selector, or spec.hardware.observe"
    )
    TOO_MANY = (
        f"The pools have more than {MAX_AUTO_NODES} nodes, which Auto does not observe: see docs/nodes.md for what "
        "that costs, and set spec.hardware.observe to Always or Never"
    )
    NO_KIND = (
        "The control plane does not serve ObservedObjectCollection: apply install/activation.yaml, or set "
        "spec.hardware.observe to Never"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One Object of a collection."""

    name: str
    owners: frozenset[str]  # uids
    deleting: bool
    expected_name: str  # of the node
    remote: ObservedObject  # without its manifest
    node: Node | None  # as last seen; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """The nodes of an environment, or why they are not known now. In that case, earlier facts are kept."""

    reason: HardwareAsDeclared | None = None  # None: `nodes` are the current nodes of the cluster
    unobserved: Unobserved | None = None  # set with reason NOT_OBSERVED
    message: str = ""  # of the provider
    nodes: tuple[Node, ...] = ()


def parse_member(manifest: Manifest) -> Member:
    remote = read_object(manifest)
    return Member(
        name=text(manifest, "metadata.name"),
        owners=frozenset(text(owner, "uid") for owner in listing(manifest, "metadata.ownerReferences")),
        deleting=is_deleting(manifest),
        expected_name=text(read_written(manifest), "metadata.name"),
        remote=replace(remote, manifest={}),
        node=parse_node(remote.manifest) if remote.seen else None,
    )


def name_collection(environment: str) -> str:
    return build_name(f"{environment}-{NODES}", environment, "", NODES, limit=_NAME_LIMIT)


def build_collection(writer: ObjectWriter, selector: Manifest) -> Composed:
    """Returns the collection of the nodes that a LabelSelector matches. Nothing waits for it to become ready."""
    manifest: Manifest = {
        "apiVersion": OBJECT_VERSION,
        "kind": COLLECTION_KIND,
        "metadata": {"name": name_collection(writer.owner), "namespace": writer.namespace, "labels": {**MANAGED_BY}},
        "spec": {
            "observeObjects": {"apiVersion": "v1", "kind": "Node", "selector": selector},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": writer.provider_config},
        },
    }
    return Composed(manifest=manifest, ready=True)


def select_nodes(environment: Environment, collection: Manifest | None) -> Manifest | Unobserved:
    """Returns a LabelSelector of the nodes to observe, which is empty for all nodes, or why no node is observed.

    While a pool cannot be read, its labels are unknown: a selector that follows from labels stays as in the collection.
    It also stays while no pool is valid.
    """
    if environment.observe is Observe.NEVER:
        return Unobserved.NEVER
    if not environment.uid:
        return Unobserved.IN_FILE
    always = environment.observe is Observe.ALWAYS
    if not always and sum(pool.max_nodes for pool in environment.pools) > MAX_AUTO_NODES:
        return Unobserved.TOO_MANY
    unreadable = set(environment.broken_pools) - set(environment.refused_pools)
    stays = bool(unreadable) or (bool(environment.broken_pools) and not environment.pools)
    if environment.node_selector is None and stays and collection is not None:
        return mapping(collection, "spec.observeObjects.selector")
    selector = environment.node_selector or _derive_selector(environment.pools)
    if selector is None and not always:
        return Unobserved.NO_LABELS if environment.pools else Unobserved.NO_POOLS
    return selector or {}


def _derive_selector(pools: Iterable[Pool]) -> Manifest | None:
    """Returns the labels that all pools share, otherwise the first label key that all pools have, with its values."""
    labels_of_pools = [dict(pool.labels) for pool in pools] or [{}]
    shared = set.intersection(*(set(labels.items()) for labels in labels_of_pools))
    if shared:
        return {"matchLabels": dict[str, JSON](sorted(shared))}
    keys = sorted(set.intersection(*(set(labels) for labels in labels_of_pools)))
    if not keys:
        return None
    values: list[JSON] = [*sorted({labels[keys[0]] for labels in labels_of_pools})]
    return {"matchExpressions": [{"key": keys[0], "operator": "In", "values": values}]}


def observe_nodes(collection: Manifest, members: Iterable[Member] | None) -> NodeObservation:
    """Returns the nodes of a collection; `members` is None while they are not answered."""
    listed = read_object(collection)
    if listed.state not in _ANSWERED:
        return _build_failure([listed])
    if members is None or not mapping(collection, "status.membershipLabel"):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING)
    uid = text(collection, "metadata.uid")
    # The Object of a deleted node stays until the next poll.
    current = [m for m in members if uid in m.owners and not m.deleting and m.remote.state is not State.ABSENT]
    current.sort(key=lambda member: member.name)
    failed = [m.remote for m in current if m.remote.state not in _ANSWERED]
    if failed:
        return _build_failure(failed)
    nodes = [m.node for m in current if m.node and m.node.name == m.expected_name and m.remote.present]
    if len(nodes) < len(current):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING)
    return NodeObservation(nodes=tuple(nodes))


def _build_failure(failed: Sequence[ObservedObject]) -> NodeObservation:
    """Returns why nodes cannot be read; a failure that a user can correct comes first."""
    forbidden = [one for one in failed if one.state is State.REJECTED and "forbidden" in one.message.lower()]
    reason = HardwareAsDeclared.FORBIDDEN if forbidden else HardwareAsDeclared.UNREACHABLE
    return NodeObservation(reason=reason, message=(forbidden or failed)[0].message)
