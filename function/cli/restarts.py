"""Which services restart between two states of the world: those of the same name whose pods must see something else.

What that is, the function itself says (`serving/wish.py`): an edit of a pool's labels, taints, `pod` or `interNode`
moves nothing, so that no decision tells of it.
"""

from collections.abc import Mapping
from typing import TypeAlias

from function.cli.composing import reconcile
from function.cli.store import Store
from function.composers import placement
from function.exchange import Outcome
from function.kube.manifests import text
from function.parse.settings import read_settings

# What each service asks for, by its name and environment.
Services: TypeAlias = Mapping[tuple[str, str], str]


def services(store: Store, outcome: Outcome) -> Services:
    """Return the services of the placements that a deployment composes."""
    found: dict[tuple[str, str], str] = {}
    for item in outcome.composed.values():
        call, _ = reconcile(store, item.manifest)
        asked = placement.service(call, read_settings(call.input, call.context).value)
        if asked:
            name, wish = asked
            found[name, text(item.manifest, "spec.inferenceEnvironmentRef.name")] = wish
    return found


def restarts(before: Services, after: Services) -> list[str]:
    """Return the services that are in both and ask for something else, as `NAME on ENVIRONMENT`."""
    both = sorted(before.keys() & after.keys())
    return [f"{name} on {where}" for name, where in both if before[name, where] != after[name, where]]
