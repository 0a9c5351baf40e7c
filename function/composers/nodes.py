"""What an InferenceEnvironment asks about its nodes, and what is known of them.

The collection is composed once the control plane is seen to serve its kind: where it does not, Crossplane could apply
nothing of the environment any more. From then on its members are asked for instead.
"""

from dataclasses import dataclass, replace

from function.api.parse_cache import ParseCache
from function.composers import requirements
from function.contract import Answer, Call, Composed, Requirement
from function.domain.environment import Environment
from function.kube.manifests import Manifest, mapping, text
from function.reasons import HardwareAsDeclared
from function.remote.collection import Member, Sight, Unobserved, read_member, selection, sight
from function.remote.node_collection import NODES, collection, is_served
from function.remote.object_writer import ObjectWriter
from function.remote.pools import look

MEMBERS: ParseCache[Member] = ParseCache(read_member)
# Reasons not to look at nodes that hold whatever the labels of the pools are.
_WITHOUT_LABELS = (Unobserved.NEVER, Unobserved.IN_FILE, Unobserved.TOO_MANY)
_UNASKED = Sight(reason=HardwareAsDeclared.OBSERVING)


def required_resources(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Return what is asked for: nothing where nodes are not looked at."""
    if isinstance(_selection(call, environment), Unobserved):
        return {}
    there = call.observed.get(NODES)
    if there is None:
        return {requirements.NODES_DEFINITION: requirements.nodes_definition()}
    name, namespace = text(there, "metadata.name"), text(there, "metadata.namespace")
    return {requirements.NODES: requirements.nodes(name, namespace)}


def _selection(call: Call, environment: Environment) -> Manifest | Unobserved:
    """Return the LabelSelector of the nodes to look at, or why there is none.

    While a pool is invalid its labels are not known, and the collection keeps its selector if that is made of labels.
    """
    selected, there = selection(environment), call.observed.get(NODES)
    made_of_labels = environment.hardware.selector is None and selected not in _WITHOUT_LABELS
    if environment.broken_pools and there is not None and made_of_labels:
        return mapping(there, "spec.observeObjects.selector")
    return selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The environment with the facts of its pools, how its nodes are seen, and by what selector they are to be."""

    environment: Environment
    sight: Sight
    selector: Manifest | None = None


def seen(call: Call, environment: Environment) -> Seen:
    """Return an environment with what is known of its nodes: as they are, or as they were last; none where nobody is
    to look.
    """
    selected = _selection(call, environment)
    if isinstance(selected, Unobserved):
        known = environment if selected is Unobserved.IN_FILE else _without(environment)
        return Seen(environment=known, sight=_not(selected))
    if NODES not in call.observed:
        defined = call.answer(requirements.NODES_DEFINITION)
        pending = isinstance(defined, Answer)
        served = not isinstance(defined, Answer) and any(is_served(item.load()) for item in defined)
        if not served and not pending:
            return Seen(environment=_without(environment), sight=_not(Unobserved.NO_KIND))
        return Seen(environment=environment, sight=_UNASKED, selector=selected if served else None)
    answer = call.answer(requirements.NODES)
    found = sight(call.observed[NODES], None if isinstance(answer, Answer) else MEMBERS.parse(answer))
    if found.reason is None:
        facts = look(environment, found.nodes)
        pools = tuple(replace(pool, facts=facts[pool.name]) for pool in environment.pools)
        environment = replace(environment, pools=pools)
    return Seen(environment=environment, sight=found, selector=selected)


def _not(why: Unobserved) -> Sight:
    return Sight(reason=HardwareAsDeclared.NOT_OBSERVED, why=why)


def _without(environment: Environment) -> Environment:
    return replace(environment, pools=tuple(replace(pool, facts=None) for pool in environment.pools))


def composed(found: Seen, writer: ObjectWriter) -> dict[str, Composed]:
    """Return the collection, where there is to be one."""
    return {} if found.selector is None else {NODES: collection(writer, found.selector)}
