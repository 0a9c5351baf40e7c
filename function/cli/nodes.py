"""Nodes of remote clusters as a control plane shows them, where an environment looks at its nodes."""

from collections.abc import Iterable

import yaml

from function.cli.store import Store
from function.cli.suggest import suggest
from function.domain.environment import Environment
from function.domain.problem import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, strings, text
from function.lifecycle.node_collection import MEMBERSHIP, collection_name
from function.observe.collection import read_member
from function.observe.nodes import Node
from function.observe.pools import look
from function.parse.environments import read_environment
from function.report.hardware import drifted, unusable


def shown(store: Store, environment: Environment) -> list[Node]:
    """Return the nodes that are shown for an environment; none where it does not look at any."""
    name = collection_name(environment.name)
    members = (m for m in store.all("Object") if strings(m, "metadata.labels").get(MEMBERSHIP) == name)
    return [member.node for member in map(read_member, members) if member.node is not None]


def contradictions(store: Store, manifest: Manifest) -> list[Problem]:
    """Return where nodes contradict an environment as it is written, and which cannot be used; nothing of others."""
    if text(manifest, "kind") != "InferenceEnvironment":
        return []
    environment = read_environment(manifest, BUILT_IN).value
    nodes = shown(store, environment)
    found: list[Problem] = []
    for name, facts in look(environment, nodes).items() if nodes else ():
        said = [drifted(name, row) for row in facts.drift]
        said += [f"pool {name}: {unusable(facts.unusable)}"] if facts.unusable else []
        found += [Problem(f"spec.nodePools[{name}]", words) for words in said]
    return found


def suggestion(store: Store, environments: Iterable[Environment]) -> str:
    """Return the pools that the nodes of each environment would be declared as, ready to paste."""
    said = []
    for environment in environments:
        nodes = shown(store, environment)
        if nodes:
            head = f"# spec of InferenceEnvironment {environment.name}, of {len(nodes)} nodes"
            said.append(f"{head}\n{yaml.safe_dump({'nodePools': suggest(nodes)}, sort_keys=False)}")
        else:
            said.append(f"# InferenceEnvironment {environment.name} shows no nodes: see its HardwareAsDeclared\n")
    return "".join(said)
