"""Which nodes of a cluster are looked at, and what provider-kubernetes says of them.

An ObservedObjectCollection keeps one Object for each node that its selector finds. It lists at each poll; a list that
fails changes nothing, so that what it has then tells the past, as an Object does that is Synced=False. One that was
never reconciled has found nothing yet, which is not the same as having found that there is nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from function.domain.environment import Environment, Observe, Pool
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.reasons import HardwareAsDeclared
from function.remote.nodes import Node, read_node
from function.remote.objects import ObservedObject, State, read

# Each node is some 20 kB of every call, and wakes its environment at every poll (docs/nodes.md).
MOST_NODES = 64
_ANSWERED = frozenset({State.PRESENT, State.UNSEEN})
_FORBIDDEN = "forbidden"


class Unobserved(Enum):
    """Why nobody looks at the nodes."""

    NEVER = "the environment says so"
    IN_FILE = "it stands in a file"
    NO_POOLS = "there is no pool whose nodes could be looked at"
    INVALID_POOLS = "no pool can be read"
    NO_LABELS = "no label tells the nodes of all pools"
    TOO_MANY = "more nodes are declared than Auto looks at"
    NO_KIND = "the control plane does not serve the kind that lists them"


def selection(environment: Environment) -> Manifest | Unobserved:
    """Return the LabelSelector of the nodes to look at, or why there is none."""
    wanted = environment.hardware
    if wanted.observe is Observe.NEVER:
        return Unobserved.NEVER
    if not environment.uid:
        return Unobserved.IN_FILE
    always = wanted.observe is Observe.ALWAYS
    if not always and sum(pool.max_nodes for pool in environment.pools) > MOST_NODES:
        return Unobserved.TOO_MANY
    derived = wanted.selector or _derived(environment.pools)
    if derived is None and not always:
        return Unobserved.NO_LABELS if environment.pools else Unobserved.NO_POOLS
    return derived or {}


def _derived(pools: Iterable[Pool]) -> Manifest | None:
    """Return the labels that all pools share, else one label that all have, whatever its value."""
    every = [dict(pool.labels) for pool in pools]
    if not every:
        return None
    shared = set.intersection(*(set(labels.items()) for labels in every))
    if shared:
        return {"matchLabels": dict[str, JSON](sorted(shared))}
    keys = sorted(set.intersection(*(set(labels) for labels in every)))
    if not keys:
        return None
    values: list[JSON] = [*sorted({labels[keys[0]] for labels in every})]
    return {"matchExpressions": [{"key": keys[0], "operator": "In", "values": values}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One Object of a collection: whose it is, what is known of its node, and the node as last seen."""

    name: str
    owners: frozenset[str]
    leaving: bool
    meant: str
    remote: State
    said: str = ""
    node: Node | None


def read_member(manifest: Manifest) -> Member:
    """Return what counts of an Object."""
    remote = read(manifest)
    return Member(
        name=text(manifest, "metadata.name"),
        owners=frozenset(text(owner, "uid") for owner in listing(manifest, "metadata.ownerReferences")),
        leaving=get(manifest, "metadata.deletionTimestamp") is not None,
        meant=text(manifest, "spec.forProvider.manifest.metadata.name"),
        remote=remote.state,
        said=remote.message,
        node=read_node(remote.manifest) if remote.seen else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known of the nodes now. `reason` None: they are as in `nodes`; otherwise what was known before counts,
    and `why` or the provider's words in `said` tell more.
    """

    reason: HardwareAsDeclared | None = None
    why: Unobserved | None = None
    said: str = ""
    nodes: tuple[Node, ...] = ()


def sight(collection: Manifest | None, members: Iterable[Member] | None) -> Sight:
    """Return what a collection and its members say; None where they are not there, or not answered, yet."""
    if collection is None:
        return Sight(reason=HardwareAsDeclared.OBSERVING)
    listed = read(collection)
    if listed.state not in _ANSWERED:
        return _blind(listed)
    if members is None or not mapping(collection, "status.membershipLabel"):
        return Sight(reason=HardwareAsDeclared.OBSERVING)
    uid = text(collection, "metadata.uid")
    # A node that is gone stays a member until the next poll.
    mine = [m for m in members if uid in m.owners and not m.leaving and m.remote is not State.ABSENT]
    mine.sort(key=lambda member: member.name)
    failed = [ObservedObject(m.remote, {}, m.said) for m in mine if m.remote not in _ANSWERED]
    for remote in sorted(failed, key=lambda remote: not _forbidden(remote))[:1]:
        return _blind(remote)
    seen = [m.node for m in mine if m.node is not None and m.node.name == m.meant and m.remote is State.PRESENT]
    if len(seen) < len(mine):
        return Sight(reason=HardwareAsDeclared.OBSERVING)
    return Sight(nodes=tuple(seen))


def _blind(remote: ObservedObject) -> Sight:
    reason = HardwareAsDeclared.FORBIDDEN if _forbidden(remote) else HardwareAsDeclared.UNREACHABLE
    return Sight(reason=reason, said=remote.message)


def _forbidden(remote: ObservedObject) -> bool:
    return remote.state is State.REJECTED and _FORBIDDEN in remote.message.lower()
