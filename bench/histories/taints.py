"""What must never follow from taints, unschedulable pools and prices.

That nothing which serves goes before its replacement is Ready is looked at by the simulator's own auditor.
"""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from bench.histories.words import Words
from bench.simulator.objects import Event, Version
from function.cli.store import Ref
from function.kube.manifests import JSON, flag, get, integer, listing, mapping, text

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor

_RECREATED_SECONDS = 30.0  # after which no late call composes what was deleted


def is_tainted(environment: Version, deployment: Version, effect: str = "") -> bool:
    """Tells whether an environment has a taint, of one effect, that a deployment does not tolerate."""
    effects = {text(taint, "effect") for taint in listing(environment.manifest, "spec.taints")}
    return bool(effects & {effect} if effect else effects) and not get(deployment.manifest, "spec.tolerations")


class TaintAuditor:
    """Finds what is placed, grows or moves in spite of a taint, or because of a taint or a price that moves nothing."""

    def __init__(self, auditor: "Auditor", words: Words, say: Callable[[str], None]) -> None:
        self._plane, self._auditor, self._words, self._say = auditor.plane, auditor, words, say
        self._changed: dict[Ref, float] = {}  # when an environment or a deployment last changed what counts here
        self._gone: dict[Ref, float] = {}
        self._created: dict[str, float] = {}

    def watch(self, event: Event) -> None:
        """Looks at a write."""
        now = self._plane.kernel.now
        if event.ref.kind in {"InferenceEnvironment", "ModelDeployment"}:
            if event.now is None or event.before is None or _what_counts(event.before) != _what_counts(event.now):
                self._changed[event.ref] = now
        elif event.ref.kind == "ModelPlacement":
            if event.now is None:
                self._gone[event.ref] = now
            elif event.before is None:
                self._created[event.now.uid] = now
                if now > self._gone.get(event.ref, -inf) + _RECREATED_SECONDS:
                    self._look_at(event.now, "is placed on")
                    self._look_at_move(event.now)
            elif integer(event.now.manifest, "spec.replicas", 1) > integer(event.before.manifest, "spec.replicas", 1):
                self._look_at(event.now, "grows on")

    def _look_at(self, placement: Version, verb: str) -> None:
        deployment, environment = self._find(placement)
        if deployment is None or environment is None or not self._is_old_news(deployment, environment):
            return
        name = text(placement.manifest, "spec.pool")
        pool = next((p for p in listing(environment.manifest, "spec.nodePools") if text(p, "name") == name), {})
        if is_tainted(environment, deployment) or flag(pool, "unschedulable"):
            self._say(f"{placement.ref} {verb} {environment.ref} in spite of a taint")

    def _look_at_move(self, placement: Version) -> None:
        """Finds a new placement beside enough others, of which none has a cause to move but NoSchedule or its price."""
        deployment, _ = self._find(placement)
        if deployment is None or self._plane.kernel.now < self._changed[deployment.ref] + self._margin:
            return
        own = [v for v in self._plane.all("ModelPlacement") if v.controller.get("uid") == deployment.uid]
        others = [v for v in own if v.uid != placement.uid]
        places = [self._find(v)[1] for v in others]
        if len(others) < integer(deployment.manifest, "spec.environments", 1) or any(map(self._may_move, others)):
            return
        if any(place and (is_tainted(place, deployment, "NoSchedule") or _is_priced(place)) for place in places):
            self._say(f"{placement.ref} is placed beside {len(others)} others, none of which has to move")

    def _may_move(self, placement: Version) -> bool:
        deployment, environment = self._find(placement)
        if deployment is None or environment is None or environment.deleting or placement.deleting:
            return True
        spoken = self._words.on_place(placement) >= self._created.get(placement.uid, 0.0) - self._margin
        recent = not self._is_old_news(deployment, environment)
        return (
            spoken
            or recent
            or is_tainted(environment, deployment, "NoExecute")
            or not self._auditor.is_admitted(placement)
        )

    def _find(self, placement: Version) -> tuple[Version | None, Version | None]:
        """Returns the deployment and the environment of a placement."""
        latest, name = self._plane.server.latest, text(placement.manifest, "spec.inferenceEnvironmentRef.name")
        deployment = Ref("ModelDeployment", placement.ref.namespace, text(placement.controller, "name"))
        return latest.get(deployment), latest.get(Ref("InferenceEnvironment", "", name))

    def _is_old_news(self, *versions: Version) -> bool:
        """Tells whether the last call may not have missed anything that counts here."""
        return all(self._plane.kernel.now > self._changed[v.ref] + self._margin for v in versions)

    @property
    def _margin(self) -> float:
        return self._plane.settings.passing_seconds + self._plane.settings.unheard_seconds


def _is_priced(environment: Version) -> bool:
    return any(pool.get("price") for pool in listing(environment.manifest, "spec.nodePools"))


def _what_counts(version: Version) -> tuple[JSON, ...]:
    pools = [flag(pool, "unschedulable") for pool in listing(version.manifest, "spec.nodePools")]
    spec = mapping(version.manifest, "spec")
    return (spec.get("taints"), spec.get("tolerations"), *pools)
