"""What must never happen with lent replicas: that nobody gives them back to those who are entitled to the GPUs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.histories.room import count_missing
from bench.simulator.objects import Version
from function.kube.manifests import Manifest, condition, get, integer, mapping, strings, text

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor


class LendingAuditor:
    """Finds deployments that wait at rest for guaranteed replicas beside replicas that others have only lent."""

    def __init__(self, auditor: "Auditor", say: Callable[[str], None]) -> None:
        self._auditor, self._say = auditor, say

    def at_rest(self) -> None:
        plane = self._auditor.plane
        placed = {text(v.controller, "uid") for v in plane.all("ModelPlacement")}
        for deployment in plane.all("ModelDeployment"):
            readable = text(condition(deployment.manifest, "ModelResolved"), "status") == "True"
            simple = count_missing(deployment, ()) is None and not get(deployment.manifest, "spec.modelCache.name")
            if deployment.uid in placed or deployment.deleting or not readable or not simple:
                continue
            lent = self._find_lent(deployment)
            for environment in plane.all("InferenceEnvironment") if lent else ():
                selected = strings(deployment.manifest, "spec.environmentSelector.matchLabels")
                least = _guaranteed(mapping(deployment.manifest, "spec.scaling.fixed"))
                if selected.items() <= environment.labels.items() and self._auditor.find_room(
                    environment.ref.name, deployment, beyond=least - 1, most=lent
                ):
                    self._say(f"{deployment.ref} waits, and others have only lent what {environment.ref} has")

    def _find_lent(self, asking: Version) -> dict[str, int]:
        """Returns how many replicas of each placement are guaranteed, of those that lend any to this deployment."""
        priority = min(0, integer(asking.manifest, "spec.priority"))
        return {
            v.uid: integer(v.manifest, "spec.guaranteedReplicas")
            for v in self._auditor.plane.all("ModelPlacement")
            if "guaranteedReplicas" in mapping(v.manifest, "spec")
            and v.controller
            and integer(v.manifest, "spec.priority") <= priority
        }


def _guaranteed(fixed: Manifest) -> int:
    replicas = integer(fixed, "replicas", 1)
    return min(replicas, integer(fixed, "guaranteed", replicas))
