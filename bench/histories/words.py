"""What users have requested, and when, for every object.

A word excuses what follows from it once: a service may change its pods after its model was edited, and not again before
the next word. What is no word for pods (sizes, other objects) excuses nothing that pods see.
"""

from collections import defaultdict
from math import inf

from bench.simulator.objects import Version
from function.cli.store import Ref
from function.kube.manifests import JSON, get, listing, text

LIST = "spec.crossplane.resourceRefs"
_DIGITS = 19  # of the largest number of 64 bits
_SEEN_BY_PODS = ("spec.modelRef", "spec.modelCache", "spec.adapters", "spec.profile")


class Words:
    """What users have said of each object: when last, in simulated seconds."""

    def __init__(self) -> None:
        self._pods: dict[Ref, float] = defaultdict(lambda: -1.0)
        self._shape: dict[Ref, float] = defaultdict(lambda: -1.0)
        self._place: dict[Ref, float] = defaultdict(lambda: -1.0)
        self._passed_on: dict[str, float] = {}  # by uid of the placement
        self._invalid: dict[str, float] = {}  # by object, or kind
        self.deleted: set[Ref] = set()
        self.wiped: set[Ref] = set()  # composites whose list of composed resources a user has wiped
        self.hidden: set[str] = set()  # uids of what was in no list when a user stripped its labels

    def pods(self, ref: Ref, now: float) -> None:
        """Take note that a user asked for something that pods see."""
        self._pods[ref] = self._place[ref] = now

    def shape(self, ref: Ref, now: float) -> None:
        """Take note that a user asked for another shape, which pods get in a write of its own."""
        self.pods(ref, now)
        self._shape[ref] = now

    def place(self, ref: Ref, now: float) -> None:
        """Take note that a user asked for another place, or number."""
        self._place[ref] = now

    def delete(self, ref: Ref) -> None:
        """Take note that a user deleted an object."""
        self.deleted.add(ref)

    def set_valid(self, what: str, now: float, *, valid: bool) -> None:
        """Take note that a spec, or a setting on which all of a kind depend, has become invalid or valid again."""
        if valid:
            self._invalid.pop(what, None)
        else:
            self._invalid.setdefault(what, now)

    def invalid_since(self, ref: Ref) -> float:
        """Return since when an object keeps all that it has composed, as an input of it is invalid."""
        return min(self._invalid.get(str(ref), inf), self._invalid.get(ref.kind, inf))

    def pass_on(self, before: Version, now: Version, moment: float) -> None:
        """Take note that a deployment has passed on to its placement what pods see and a user has asked for since."""
        asked = max(self._pods[ref] for ref in behind(now))
        is_changed = any(get(before.manifest, path) != get(now.manifest, path) for path in _SEEN_BY_PODS)
        if is_changed and asked > self._passed_on.get(now.uid, -1.0):
            self._passed_on[now.uid] = moment

    def on_pods(self, placement: Version, passing: float) -> float:
        """Return when a placement may last have heard of something that its pods see.

        A deployment takes up to `passing` seconds to see and to pass on requests; longer if the processor is busy or
        there is no room yet. The placement says when it did.
        """
        heard = (self._pods[ref] + (passing if ref.kind == "ModelDeployment" else 0.0) for ref in behind(placement))
        return max(*heard, self._passed_on.get(placement.uid, -1.0))

    def on_shape(self, placement: Version) -> float:
        """Return when a user last changed what the shape of a placement's replicas depends on."""
        return max(self._shape[ref] for ref in behind(placement))

    def on_place(self, placement: Version) -> float:
        """Return when a user last changed what the environment of a placement depends on."""
        return max(self._place[ref] for ref in behind(placement))


def behind(placement: Version) -> list[Ref]:
    """Return all that users write and a placement follows from."""
    manifest, namespace = placement.manifest, placement.ref.namespace
    deployment = text(placement.controller, "name")
    return [
        placement.ref,
        Ref("ModelDeployment", namespace, deployment),
        Ref("ClusterModel", "", text(manifest, "spec.modelRef.name")),
        Ref("InferenceEnvironment", "", text(manifest, "spec.inferenceEnvironmentRef.name")),
        Ref("ModelCache", namespace, text(manifest, "spec.modelCache.name")),
    ]


def lists(composite: Version, ref: Ref) -> bool:
    """Tell whether Crossplane's list of what a composite has composed names an object."""
    rows = listing(composite.manifest, LIST)
    return any((text(row, "kind"), text(row, "name")) == (ref.kind, ref.name) for row in rows)


def is_endless(value: JSON) -> bool:
    """Tell whether there is a number in it beyond 64 bits, or a quantity of more digits than those have."""
    if isinstance(value, dict):
        return any(map(is_endless, value.values()))
    if isinstance(value, list):
        return any(map(is_endless, value))
    if isinstance(value, str):
        return len(value) > _DIGITS and value.rstrip("KMGTPEi").isdigit()
    return isinstance(value, int | float) and abs(value) >= 1 << 63
