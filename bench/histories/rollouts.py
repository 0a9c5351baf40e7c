"""What must never follow from a rollout.

A further environment changes while one that has changed is not Ready, or a service that is stopped for its new pods
does not start again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.simulator.objects import Event, Version
from function.api.model_deployment import parse_placement
from function.cli.store import Ref
from function.domain.placement import Placement
from function.kube.manifests import flag, get, integer, mapping, text

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor


class RolloutAuditor:
    """Finds a placement that may change although another one has not arrived."""

    def __init__(self, auditor: "Auditor", say: Callable[[str], None]) -> None:
        self._plane, self._say = auditor.plane, say
        self._unfinished: dict[str, float] = {}  # placement by uid: since when its change has not arrived
        self._may_serve: dict[str, float] = {}  # placement by uid: since when it may serve what is requested
        self._stopped: dict[str, float] = {}  # placement by uid: since when its service has no replicas unasked
        self._asked: dict[str, float] = {}  # deployment or placement by uid: when a user last asked for no replicas

    def watch(self, event: Event) -> None:
        """Looks at a write."""
        if event.ref.kind == "Object" and event.now:
            self._note_stopped(event.before, event.now)
        elif event.ref.kind == "ModelDeployment" and event.now and not _count_requested(event.now):
            self._asked[event.now.uid] = self._plane.kernel.now
            for placement in self._plane.all("ModelPlacement"):
                if text(placement.controller, "uid") == event.now.uid:
                    self._stopped.pop(placement.uid, None)
        if event.ref.kind != "ModelPlacement" or event.now is None:
            return
        if not event.now.controller and not _count_requested(event.now):
            self._asked[event.now.uid] = self._plane.kernel.now
            self._stopped.pop(event.now.uid, None)
        before, now = (parse_placement(v.manifest).value if v else None for v in (event.before, event.now))
        if before and now and now.allowed_digest and now.allowed_digest != before.allowed_digest:
            self._look_at_others(event.now, before)
        for times, holds in ((self._unfinished, _is_unfinished), (self._may_serve, _may_serve_requested)):
            if now and holds(now):
                times.setdefault(event.now.uid, self._plane.kernel.now)
            else:
                times.pop(event.now.uid, None)

    def _note_stopped(self, before: Version | None, now: Version) -> None:
        """Takes note of a service that loses all its replicas although a user requests some.

        The word that asked for none may still be on its way, through a placement.
        """
        uid = text(now.controller, "uid")
        if _has_replicas(now):
            self._stopped.pop(uid, None)
            return
        stops = before and _has_replicas(before) and not self._may_give_back_all(now)
        requesting = self._find_requesting(now) if stops else None
        time = self._plane.kernel.now
        heard = 2 * self._plane.settings.passing_seconds
        if requesting and _count_requested(requesting) and time - self._asked.get(requesting.uid, -heard) >= heard:
            self._stopped[uid] = time

    def _may_give_back_all(self, service: Version) -> bool:
        """Tells whether others may take all replicas: no one is guaranteed, or a higher priority may (0 at most)."""
        placement = self._plane.server.latest.get(
            Ref("ModelPlacement", service.ref.namespace, text(service.controller, "name"))
        )
        manifest = placement.manifest if placement else {}
        is_preemptible = flag(manifest, "spec.preemptible") and integer(manifest, "spec.priority") < 0
        return is_preemptible or get(manifest, "spec.guaranteedReplicas") == 0

    def _find_requesting(self, service: Version) -> Version | None:
        """Returns what a user wrote for a service: a deployment, or a placement."""
        latest, namespace = self._plane.server.latest, service.ref.namespace
        placement = latest.get(Ref("ModelPlacement", namespace, text(service.controller, "name")))
        if placement is None or not placement.controller:
            return placement
        return latest.get(Ref("ModelDeployment", namespace, text(placement.controller, "name")))

    def at_rest(self) -> None:
        """Finds services that were stopped and have not started again, whatever was limited meanwhile."""
        for placement in self._plane.all("ModelPlacement"):
            if placement.uid in self._stopped and not placement.deleting:
                since = self._stopped[placement.uid]
                self._say(f"{placement.ref} was stopped after {since:.0f} s and has no replicas since")

    def _look_at_others(self, changed: Version, before: Placement) -> None:
        """Finds what has not arrived, for long enough that the call that allowed the change knew of it."""
        deployment = Ref("ModelDeployment", changed.ref.namespace, text(changed.controller, "name"))
        since = self._plane.kernel.now - self._plane.settings.passing_seconds - self._plane.settings.unheard_seconds
        for other in self._plane.all("ModelPlacement"):
            is_of_deployment = text(other.controller, "name") == deployment.name and other.ref != changed.ref
            if not is_of_deployment or other.ref.namespace != deployment.namespace or other.deleting:
                continue
            unfinished = min(self._unfinished.get(other.uid, since), self._behind_since(other, since))
            if unfinished < since and before.rollout.served_digest:
                self._say(f"{changed.ref} may change, and {other.ref} has not arrived")

    def _behind_since(self, other: Version, since: float) -> float:
        """Returns since when a placement that may change has had pods of an earlier spec, whatever it reports."""
        behind = self._plane.provider.deployments.behind
        times = [behind.get(v.uid, since) for v in self._plane.all("Object") if text(v.controller, "uid") == other.uid]
        return max(min(times, default=since), self._may_serve.get(other.uid, since))


def _count_requested(version: Version) -> int:
    """Returns the replicas that a deployment or a placement requests."""
    path = "spec.replicas" if version.ref.kind == "ModelPlacement" else "spec.scaling.fixed.replicas"
    return integer(version.manifest, path, 1)


def _has_replicas(version: Version) -> bool:
    service = mapping(version.manifest, "spec.forProvider.manifest")
    return text(service, "kind") == "LLMInferenceService" and integer(service, "spec.replicas") > 0


def _is_unfinished(placement: Placement) -> bool:
    """Tells whether a placement serves or may serve what is requested, and is not Ready with it."""
    has_arrived = placement.ready and placement.rollout.served_digest == placement.rollout.requested_digest
    return _may_serve_requested(placement) and not has_arrived


def _may_serve_requested(placement: Placement) -> bool:
    requested = placement.rollout.requested_digest
    takes_part = requested and placement.rollout.served_digest and placement.allowed_digest is not None
    return bool(takes_part) and requested in {placement.rollout.served_digest, placement.allowed_digest}
