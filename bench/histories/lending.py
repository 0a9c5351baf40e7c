"""What must never happen with lent replicas: that guaranteed ones go with them, or that nobody gives them back."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.histories.room import count_missing
from bench.simulator.objects import Event, Version
from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, flag, get, integer, listing, mapping, strings, text

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor

_ALL = 1_000_000  # replicas


class LendingAuditor:
    """Looks at what is guaranteed and what is lent."""

    def __init__(self, auditor: "Auditor", say: Callable[[str], None]) -> None:
        self._auditor, self._say = auditor, say

    def watch(self, event: Event) -> None:
        """Finds a served placement that is left fewer replicas than it is guaranteed, though nobody asks for fewer."""
        before, now = event.before, event.now
        if event.ref.kind == "InferenceEnvironment" and now:
            self._look_at_preemption(now)
        if event.ref.kind != "ModelPlacement" or before is None or now is None or not now.controller:
            return
        if any(flag(version.manifest, "spec.preemptible") for version in (before, now)):
            return
        guaranteed = integer(now.manifest, "spec.guaranteedReplicas", _ALL)
        had, has = (integer(version.manifest, "spec.replicas", 1) for version in (before, now))
        deployment = Ref("ModelDeployment", now.ref.namespace, text(now.controller, "name"))
        latest = self._auditor.plane.server.latest.get(deployment)
        if guaranteed == _ALL or has >= min(had, guaranteed) or latest is None or self._auditor.limits.has_limits:
            return
        read = self._auditor.list_read(latest)
        asked = min(integer(version.manifest, "spec.scaling.fixed.replicas", 1) for version in read)
        divided = any(count_missing(version, ()) is not None for version in read)
        if has < min(asked, had, guaranteed) and not divided and self._has_all(before):
            self._say(f"{now.ref} is left {has} of {guaranteed} guaranteed replicas")

    def _look_at_preemption(self, environment: Version) -> None:
        """Takes note of a request for all replicas as of a word to the placement: it may shrink, and move."""
        told = {text(row, "uid"): integer(row, "yields.priority") for row in _list_yields(environment)}
        for placement in self._auditor.plane.all("ModelPlacement") if told else ():
            priority = told.get(placement.uid)
            is_lower = priority is not None and integer(placement.manifest, "spec.priority") < priority
            is_preempted = is_lower and flag(placement.manifest, "spec.preemptible")
            has_no_guarantee = priority is not None and get(placement.manifest, "spec.guaranteedReplicas") == 0
            if is_preempted or has_no_guarantee:
                self._auditor.words.pods(placement.ref, self._auditor.plane.kernel.now)

    def _has_all(self, placement: Version) -> bool:
        """Tells whether a placement was granted its replicas, now and as its deployment sees it."""
        plane = self._auditor.plane
        environment = Ref("InferenceEnvironment", "", text(placement.manifest, "spec.inferenceEnvironmentRef.name"))
        replicas = integer(placement.manifest, "spec.replicas", 1)
        versions = (plane.server.latest.get(environment), plane.core.cache.get(environment))
        return all(
            any(
                row["uid"] == placement.uid and integer(row, "replicas") >= replicas
                for row in listing(version.manifest if version else {}, "status.admitted")
            )
            for version in versions
        )

    def at_rest(self) -> None:
        """Finds what is wrong once nothing changes any more."""
        for namespace in sorted({v.ref.namespace for v in self._auditor.plane.all("ModelPlacement")}):
            if self._count_left(namespace) < 0:
                self._say(f"namespace {namespace} has more guaranteed replicas than its guarantee is for")
        self._find_who_waits()

    def _count_left(self, namespace: str, *, by_users: bool = False) -> int:
        """Returns how many GPUs can still be guaranteed to a namespace.

        `by_users`: counts also what users write or forge themselves. It uses up the guarantee, but nothing cuts it.
        """
        limits = self._auditor.limits
        if limits.guaranteed_gpus is None or limits.invalid:
            return _ALL
        left = limits.guaranteed_gpus
        plane = self._auditor.plane
        owners = {v.uid: v for v in plane.all("ModelDeployment") if v.ref.namespace == namespace}
        for placement in plane.all("ModelPlacement"):
            if placement.ref.namespace != namespace or _is_leaving(placement):
                continue
            owner = owners.get(text(placement.controller, "uid"))
            if not _is_kept(placement, owner) if owner else by_users:
                nodes, gpus, replicas = self._auditor.shape(placement)
                left -= nodes * gpus * min(integer(placement.manifest, "spec.guaranteedReplicas", _ALL), replicas)
        return left

    def _find_who_waits(self) -> None:
        """Finds who waits for guaranteed replicas although enough lent ones could be taken back."""
        plane = self._auditor.plane
        placed = {text(v.controller, "uid") for v in plane.all("ModelPlacement")}
        for deployment in plane.all("ModelDeployment"):
            readable = text(condition(deployment.manifest, "ModelResolved"), "status") == "True"
            simple = count_missing(deployment, ()) is None and not get(deployment.manifest, "spec.modelCache.name")
            if deployment.uid in placed or deployment.deleting or not readable or not simple:
                continue
            nodes, gpus, _ = self._auditor.shape(deployment)
            least = _guaranteed(mapping(deployment.manifest, "spec.scaling.fixed"))
            if nodes * gpus * least > self._count_left(deployment.ref.namespace, by_users=True):
                continue
            lent = self._find_lent(deployment)
            for environment in plane.all("InferenceEnvironment") if lent else ():
                selected = strings(deployment.manifest, "spec.environmentSelector.matchLabels")
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


def _list_yields(environment: Version) -> list[Manifest]:
    return [row for row in listing(environment.manifest, "status.admitted") if "yields" in row]


def _is_leaving(placement: Version) -> bool:
    return placement.deleting or flag(placement.manifest, "spec.draining")


def _is_kept(placement: Version, deployment: Version) -> bool:
    """Tells whether a placement only stays until its replacement is Ready; it keeps its number (decision 46)."""
    environment = text(placement.manifest, "spec.inferenceEnvironmentRef.name")
    return f"ept on {environment}" in text(condition(deployment.manifest, "Scheduled"), "message")


def _guaranteed(fixed: Manifest) -> int:
    replicas = integer(fixed, "replicas", 1)
    return min(replicas, integer(fixed, "guaranteed", replicas))
