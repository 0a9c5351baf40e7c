"""On which nodes the pods of a service may run, and how far apart: those of one group on distinct nodes, unless the
author says otherwise, as each is charged a node.

A service's pods are told by one label, a group's by the index that LeaderWorkerSet puts on its pods. Pods of
one group: `matchLabelKeys` on that index. Replicas on several nodes: other groups, `mismatchLabelKeys` on
it. Replicas on one node: other pods of the same revision, so that an update, which starts the new before it
stops the old, is not blocked by the old.
"""

from function.domain.model import Profile, Spread
from function.kube.manifests import JSON, Manifest
from function.kube.names import LABEL_SERVICE

_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_REVISION = "pod-template-hash"


def affinity(profile: Profile, service: str, nodes: int) -> Manifest | None:
    """Return the pods' anti-affinity, or None where the profile asks for none."""
    apart = [(profile.replicas_across_nodes, "matchLabelKeys", _REVISION)]
    if nodes > 1:
        apart = [
            (profile.pods_across_nodes or Spread.REQUIRED, "matchLabelKeys", _GROUP),
            (profile.replicas_across_nodes, "mismatchLabelKeys", _GROUP),
        ]
    required: list[JSON] = []
    preferred: list[JSON] = []
    for spread, keys, label in apart:
        term: Manifest = {
            "labelSelector": {"matchLabels": {LABEL_SERVICE: service}},
            keys: [label],
            "topologyKey": "kubernetes.io/hostname",
        }
        if spread is Spread.REQUIRED:
            required.append(term)
        elif spread is Spread.PREFERRED:
            preferred.append({"weight": 100, "podAffinityTerm": term})
    terms: Manifest = {}
    if required:
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if preferred:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"podAntiAffinity": terms} if terms else None
