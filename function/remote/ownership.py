"""Which of the observed resources this function composed.

Crossplane observes what all steps of a pipeline composed for a composite. What an earlier step desires in this call is
that step's. Of the rest, ours are of the few kinds that we compose, in whatever version, with our label: every release
has set it. One from which somebody took the label is known by its composition-resource-name, and one on which somebody
changed it by its own name, which is a hash that nobody else makes: neither is lost. What another step composed and
does not desire any more is left for Crossplane to delete.
"""

import re
from dataclasses import replace

from function.contract import Call
from function.kube.manifests import Manifest, strings, text
from function.kube.names import GROUP, MANAGED_BY
from function.remote.node_collection import KIND as COLLECTION
from function.remote.node_collection import collection_name
from function.remote.object_writer import object_name

_KINDS = frozenset(
    {
        ("kubernetes.m.crossplane.io", "Object"),
        ("kubernetes.m.crossplane.io", "ClusterProviderConfig"),
        ("kubernetes.m.crossplane.io", COLLECTION),
        ("protection.crossplane.io", "Usage"),
        (GROUP, "ModelPlacement"),
    }
)
((_LABEL, _US),) = MANAGED_BY.items()
# Those of a ModelCache stand behind the name of their environment.
_NAME = re.compile(
    r"provider-config|storage-class|pipeline-preset|nodes|placement-.+"
    r"|(?:[^/]+/)?(?:namespace|cache-usage|(?:claim|job|scripts|token|service)-.+)"
)


def own(call: Call) -> Call:
    """Return the call with nothing observed but what this function composed."""
    observed = {
        name: manifest
        for name, manifest in call.observed.items()
        if name not in call.foreign and is_ours(text(call.xr, "metadata.name"), name, manifest)
    }
    return replace(call, observed=observed)


def is_ours(composite: str, name: str, manifest: Manifest) -> bool:
    """Tell whether a resource of a composite that no earlier step desires was composed by this function."""
    if (text(manifest, "apiVersion").partition("/")[0], text(manifest, "kind")) not in _KINDS:
        return False
    manager = strings(manifest, "metadata.labels").get(_LABEL)
    if not manager:
        return _NAME.fullmatch(name) is not None
    scope, _, key = name.rpartition("/")
    named = {object_name(composite, key, scope), collection_name(composite)}
    return manager == _US or text(manifest, "metadata.name") in named
