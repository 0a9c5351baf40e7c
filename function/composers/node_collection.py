"""How an InferenceEnvironment learns about its nodes.

The collection is composed once the control plane is observed to serve its kind: otherwise Crossplane could apply
nothing of the environment. From then on the members of the collection are required instead.
"""

from dataclasses import dataclass, replace

from function.api.parse_cache import ParseCache
from function.composers import requirements
from function.contract import Call, Requirement
from function.domain.environment import Environment
from function.kube.manifests import Manifest, condition, mapping, text
from function.reasons import HardwareAsDeclared
from function.remote.nodes import (
    NODES,
    Member,
    NodeObservation,
    NodeSelection,
    Unobserved,
    observe_nodes,
    parse_member,
    select_nodes,
    summarize_pools,
)

MEMBERS: ParseCache[Member] = ParseCache(parse_member)
_INDEPENDENT_OF_LABELS = (Unobserved.NEVER, Unobserved.IN_FILE, Unobserved.TOO_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEnvironment:
    """An environment with the facts of its pools."""

    environment: Environment
    observation: NodeObservation
    selector: Manifest | None = None  # of the collection to compose; None: there should be none


def required_resources(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Returns the members of the collection, or the CRD before there is one; nothing where nodes are not observed."""
    if _select_nodes(call, environment).unobserved is not None:
        return {}
    collection = call.observed.get(NODES)
    if collection is None:
        return {requirements.NODES_DEFINITION: requirements.COLLECTIONS_CRD}
    name, namespace = text(collection, "metadata.name"), text(collection, "metadata.namespace")
    return {requirements.NODES: requirements.nodes(name, namespace)}


def observe_environment(call: Call, environment: Environment) -> ObservedEnvironment:
    """Returns an environment with the facts of its nodes: current, as last known, or none if they are not observed."""
    selection = _select_nodes(call, environment)
    if selection.unobserved is not None:
        return _skip_observation(environment, selection.unobserved)
    if NODES not in call.observed:
        definition = call.answers.get(requirements.NODES_DEFINITION)
        pending = NodeObservation(reason=HardwareAsDeclared.OBSERVING)
        if definition is None:
            return ObservedEnvironment(environment=environment, observation=pending)
        if not any(condition(item.load(), "Established").get("status") == "True" for item in definition):
            return _skip_observation(environment, Unobserved.NO_KIND)
        return ObservedEnvironment(environment=environment, observation=pending, selector=selection.selector)
    answer = call.answers.get(requirements.NODES)
    members = None if answer is None else MEMBERS.parse(answer)
    observation = observe_nodes(call.observed[NODES], members)
    if observation.reason is None:
        facts = summarize_pools(environment, observation.nodes)
        pools = tuple(replace(pool, facts=facts[pool.name]) for pool in environment.pools)
        environment = replace(environment, pools=pools)
    return ObservedEnvironment(environment=environment, observation=observation, selector=selection.selector)


def _select_nodes(call: Call, environment: Environment) -> NodeSelection:
    """Keeps a selector that follows from labels while a pool is invalid, whose labels are unknown."""
    selection, collection = select_nodes(environment), call.observed.get(NODES)
    follows_from_labels = environment.hardware.selector is None and selection.unobserved not in _INDEPENDENT_OF_LABELS
    if environment.broken_pools and collection is not None and follows_from_labels:
        return NodeSelection(selector=mapping(collection, "spec.observeObjects.selector"))
    return selection


def _skip_observation(environment: Environment, unobserved: Unobserved) -> ObservedEnvironment:
    """Returns the environment without facts, except in a file, whose status has what is known."""
    if unobserved is not Unobserved.IN_FILE:
        environment = replace(environment, pools=tuple(replace(pool, facts=None) for pool in environment.pools))
    observation = NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=unobserved)
    return ObservedEnvironment(environment=environment, observation=observation)
