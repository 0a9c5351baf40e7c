"""What must never follow from a roll-out: a further environment changes while one that has changed is not Ready."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.simulator.objects import Event, Version
from function.api.model_deployment import parse_placement
from function.cli.store import Ref
from function.domain.placement import Placement
from function.kube.manifests import text

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor


class RolloutAuditor:
    """Finds a placement that may change although another one has not arrived."""

    def __init__(self, auditor: "Auditor", say: Callable[[str], None]) -> None:
        self._plane, self._say = auditor.plane, say
        self._unfinished: dict[str, float] = {}  # placement by uid: since when its change has not arrived
        self._may_serve: dict[str, float] = {}  # placement by uid: since when it may serve what is requested

    def watch(self, event: Event) -> None:
        """Looks at a write."""
        if event.ref.kind != "ModelPlacement" or event.now is None:
            return
        before, now = (parse_placement(v.manifest).value if v else None for v in (event.before, event.now))
        if before and now and now.allowed_digest and now.allowed_digest != before.allowed_digest:
            self._look_at_others(event.now, before)
        for times, holds in ((self._unfinished, _is_unfinished), (self._may_serve, _may_serve_requested)):
            if now and holds(now):
                times.setdefault(event.now.uid, self._plane.kernel.now)
            else:
                times.pop(event.now.uid, None)

    def _look_at_others(self, changed: Version, before: Placement) -> None:
        """Finds what has not arrived, for long enough that the call that allowed the change knew of it."""
        deployment = Ref("ModelDeployment", changed.ref.namespace, text(changed.controller, "name"))
        since = self._plane.kernel.now - self._plane.settings.passing_seconds - self._plane.settings.unheard_seconds
        for other in self._plane.all("ModelPlacement"):
            is_of_deployment = text(other.controller, "name") == deployment.name and other.ref != changed.ref
            if not is_of_deployment or other.ref.namespace != deployment.namespace or other.deleting:
                continue
            unfinished = min(self._unfinished.get(other.uid, since), self._behind_since(other, since))
            if unfinished < since and before.served_digest:
                self._say(f"{changed.ref} may change, and {other.ref} has not arrived")

    def _behind_since(self, other: Version, since: float) -> float:
        """Returns since when a placement that may change has had pods of an earlier spec, whatever it reports."""
        behind = self._plane.provider.deployments.behind
        times = [behind.get(v.uid, since) for v in self._plane.all("Object") if text(v.controller, "uid") == other.uid]
        return max(min(times, default=since), self._may_serve.get(other.uid, since))


def _is_unfinished(placement: Placement) -> bool:
    """Tells whether a placement serves or may serve what is requested, and is not Ready with it."""
    has_arrived = placement.ready and placement.served_digest == placement.requested_digest
    return _may_serve_requested(placement) and not has_arrived


def _may_serve_requested(placement: Placement) -> bool:
    requested = placement.requested_digest
    takes_part = requested and placement.served_digest and placement.allowed_digest is not None
    return bool(takes_part) and requested in {placement.served_digest, placement.allowed_digest}
