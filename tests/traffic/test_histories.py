"""Invariants of the routes of a ModelService under any sequence of events."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from function.domain.placement import Placement
from function.kube.manifests import Manifest, listing, mapping, text
from tests.support.builders import with_service
from tests.support.traffic_scene import SETTLE, TrafficPlane, serving, weights

NAMES = tuple((deployment, environment) for deployment in ("a", "b") for environment in ("e1", "e2", "e3"))
EVENTS = st.one_of(
    st.tuples(st.just("replicas"), st.sampled_from(NAMES), st.integers(0, 2)),
    st.tuples(st.just("draining"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("exists"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("silent"), st.sampled_from(("e1", "e2", "e3")), st.booleans()),
    st.tuples(st.just("weight"), st.sampled_from(("a", "b")), st.integers(0, 2)),
    st.tuples(st.just("spec"), st.just("distribution"), st.sampled_from(("ByReplicas", "Even", "Failover"))),
    st.tuples(st.just("spec"), st.just("onUnreachable"), st.sampled_from(("Withdraw", "Keep"))),
    st.tuples(st.just("lose"), st.integers(0, 20), st.just(0)),
    st.tuples(st.just("pass"), st.just("time"), st.integers(1, 8)),
)


@dataclass
class History:
    """A ModelService with the events that have happened to it."""

    weights: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 1})
    spec: Manifest = field(default_factory=dict)
    placements: dict[tuple[str, str], Placement] = field(default_factory=dict)
    reachable: list[tuple[float, set[str]]] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    plane: TrafficPlane = field(default_factory=lambda: TrafficPlane(spec={}, placements=[]))

    def happen(self, event: tuple[str, object, object]) -> None:  # noqa: C901  # a table of events
        """Applies an event."""
        match event:
            case "replicas", (str(d), str(e)), int(value) if (d, e) in self.placements:
                self.placements[d, e] = with_service(self.placements[d, e], ready_replicas=value)
            case "draining", (str(d), str(e)), bool(value) if (d, e) in self.placements:
                self.placements[d, e] = replace(self.placements[d, e], draining=value)
            case "exists", (str(d), str(e)), True:
                self.placements[d, e] = serving(d, e, 1)
            case "exists", (str(d), str(e)), False:
                self.placements.pop((d, e), None)
            case "silent", str(e), bool(value):
                self.plane.silent = (self.plane.silent | {e}) if value else (self.plane.silent - {e})
            case "weight", str(d), int(value) if value or any(w for n, w in self.weights.items() if n != d):
                self.weights[d] = value
            case "spec", str(name), str(value):
                self.spec[name] = value
            case "lose", int(number), _ if self.plane.observed:
                del self.plane.observed[sorted(self.plane.observed)[number % len(self.plane.observed)]]
            case "pass", _, int(value):
                for _ in range(value):
                    self.step()

    def step(self) -> None:
        """Composes once, and checks the invariants."""
        plane = self.plane
        plane.spec = {"backends": [{"deployment": d, "weight": w} for d, w in self.weights.items()], **self.spec}
        plane.placements = [replace(p, unreachable=p.environment in plane.silent) for p in self.placements.values()]
        seen, before = dict(plane.observed), plane.now
        plane.step()
        route = weights(plane.outcome.composed["route"].manifest)
        in_place = {text(m, "metadata.name") for key, m in seen.items() if key.endswith("/service")}
        in_place &= {text(m, "metadata.name") for key, m in seen.items() if key.endswith("/slice")}
        assert route.keys() <= in_place, "the route names only Services whose objects are observed"
        if seen.get("route"):
            named = weights(seen["route"]).keys() & in_place
            serving_now = [p for p in plane.placements if _is_routed(p, seen, named) and self.weights[p.deployment]]
            assert route or not serving_now, "the route is never empty while one of its backends can serve"
        rows = listing(plane.outcome.status, "endpoints")
        idle = [row for row in rows if not row["weight"] and not row.get("reason")]
        assert idle == [], "every endpoint with weight 0 has a reason"
        inside = [b for row in rows for b in listing(row, "backends") if not (row["weight"] and b["weight"])]
        assert [b for b in inside if not b.get("reason")] == [], "every placement with weight 0 has a reason"
        self._check_listing(rows, before)

    def _check_listing(self, rows: list[Manifest], now: float) -> None:
        listed = {text(b, "placement") for row in rows for b in listing(row, "backends")}
        existing = {p.name for p in self.placements.values()}
        recent = set[str]().union(*(names for at, names in self.reachable if at > now - SETTLE))
        assert not (self.listed - listed) & existing & recent, (
            "a placement that is no longer listed has received no requests for some time"
        )
        route = weights(self.plane.outcome.composed["route"].manifest)
        reachable = {p.name for p in self.plane.placements if _is_routed(p, self.plane.observed, route.keys())}
        assert reachable <= listed, "every placement that gets requests is listed"
        self.reachable.append((now, reachable))
        self.listed = listed


def _is_routed(placement: Placement, observed: dict[str, Manifest], named: object) -> bool:
    """Tells whether a placement that can serve gets requests by the routes as they are."""
    assert placement.service.gateway
    key = placement.service.gateway.key
    service = text(observed.get(f"{key}/service"), "metadata.name")
    remote = mapping(observed.get(f"{key}/route"), "status.atProvider.manifest")
    is_named = service in named and placement.service.backend_service_name in (weights(remote) if remote else {})  # type: ignore[operator]  # names
    return bool(is_named and placement.service.ready_replicas)


@settings(max_examples=15, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_order_holds_whatever_happens(events: list[tuple[str, object, object]]) -> None:
    history = History()
    for event in (("exists", ("a", "e1"), True), ("pass", "time", 9), *events, ("pass", "time", 1)):
        history.happen(event)
        history.step()
    history.plane.silent = set()
    history.step()
    history.plane.settle(steps=80)
