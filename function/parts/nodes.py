"""The nodes of an environment: a collection that observes them, and what they show of each pool.

The collection is composed only once the control plane is observed to serve its kind: otherwise, Crossplane could apply
none of the environment's resources. Once the collection exists, its members are required instead of its CRD.
"""

from dataclasses import replace

from function.api.parse_cache import ParseCache
from function.contract import Call, Desired, Drop, Requirement
from function.domain.environment import Environment
from function.kube.manifests import Manifest, condition, text
from function.parts import requirements
from function.parts.environment import EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.reasons import HardwareAsDeclared
from function.remote.composed_kinds import COLLECTION_KIND, OBJECT_VERSION
from function.remote.node_collection import (
    DEFINITION,
    MEMBERSHIP,
    NODES,
    Member,
    NodeObservation,
    Unobserved,
    build_collection,
    observe_nodes,
    parse_member,
    select_nodes,
)
from function.remote.nodes import summarize_pools
from function.status import inference_environment as report

MEMBERS: ParseCache[Member] = ParseCache(parse_member)


def _observe_nodes(context: EnvironmentContext, _: Decisions) -> PartOutcome[None]:
    desired = Desired()
    if context.node_selector is not None:
        desired = Desired({NODES: build_collection(context.writer, context.node_selector)})
    elif context.nodes.unobserved:
        desired = Desired(drops=(Drop(NODES, context.nodes.unobserved.value),))
    as_declared = report.build_hardware_as_declared(context.environment, context.nodes)
    return PartOutcome(decision=None, desired=desired, conditions=(as_declared,))


NODES_PART = Part(run=_observe_nodes, names={(OBJECT_VERSION, COLLECTION_KIND): NODES})


def require_nodes(call: Call, environment: Environment) -> dict[str, Requirement]:
    """Requires the members of the collection, or its CRD before it exists; nothing if nodes are not observed."""
    collection = call.observed.get(NODES)
    if isinstance(select_nodes(environment, collection), Unobserved):
        return {}
    if collection is None:
        return {requirements.NODES_DEFINITION: requirements.require_definition(DEFINITION)}
    labels = {MEMBERSHIP: text(collection, "metadata.name")}
    namespace = text(collection, "metadata.namespace")
    members = Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels=labels)
    return {requirements.NODES: members}


def find_nodes(call: Call, environment: Environment) -> tuple[NodeObservation, Manifest | None]:
    """Returns the observation of the nodes, and the selector of the collection; None: there should be no collection."""
    collection = call.observed.get(NODES)
    selector = select_nodes(environment, collection)
    if isinstance(selector, Unobserved):
        return NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=selector), None
    if collection is not None:
        answer = call.answers.get(requirements.NODES)
        members = None if answer is None else MEMBERS.parse(answer)
        return observe_nodes(collection, members), selector
    definition = call.answers.get(requirements.NODES_DEFINITION)
    if definition is None:
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING), None
    if any(condition(item.load(), "Established").get("status") == "True" for item in definition):
        return NodeObservation(reason=HardwareAsDeclared.OBSERVING), selector
    return NodeObservation(reason=HardwareAsDeclared.NOT_OBSERVED, unobserved=Unobserved.NO_KIND), None


def with_facts(environment: Environment, observation: NodeObservation) -> Environment:
    """Returns the environment with the facts of its nodes: current, as in its status, or none."""
    if observation.reason is None:
        facts = summarize_pools(environment, observation.nodes)
    elif observation.unobserved in {None, Unobserved.IN_FILE}:
        return environment
    else:
        facts = {}
    pools = tuple(replace(pool, facts=facts.get(pool.name)) for pool in environment.pools)
    return replace(environment, pools=pools)
