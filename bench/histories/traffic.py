"""What must never happen to requests, and where they must go at rest.

Requests go where the gateways have applied a route, which is later than the gateways report it.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import inf
from typing import TypeAlias

from bench.histories.gateways import SETTLE_SECONDS, cluster_of, read_weights
from bench.histories.plane import Plane
from bench.histories.words import Words
from bench.simulator.objects import Event, Version
from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, flag, get, integer, listing, mapping, text
from function.kube.names import LABEL_DEPLOYMENT

_PARTS = "Service", "EndpointSlice"
# How long requests may find nothing although a placement can serve: a route to it takes two reports and settling.
STARVED_SECONDS = 120.0
Shares: TypeAlias = dict[tuple[str, str], Fraction]  # of the requests, by cluster and workload


class TrafficAuditor:
    """Finds requests that nothing answers although something could, and placements that go while they get requests."""

    def __init__(self, plane: Plane, words: Words, say: Callable[[str], None]) -> None:
        self._plane, self._words, self._say = plane, words, say
        self._gateways = plane.provider.gateways
        self._gateways.changed = self._look_at_path
        self._since: dict[Ref, float] = {}  # when a Service or a slice was created
        self._able: dict[str, float] = {}  # since when a placement can serve, by name
        self._staying: dict[str, float] = {}  # since when a placement is reachable and not draining, by name
        self._specs: dict[Ref, float] = {}  # when the spec of a ModelService last changed
        self._listed: dict[Ref, dict[str, float]] = {}  # since when a ModelService lists placements
        self._starved: dict[Ref, float] = {}  # since when the requests of a ModelService find nothing that could answer

    def watch(self, event: Event) -> None:
        """Looks at a write."""
        kind, before, now = event.ref.kind, event.before, event.now
        if kind in _PARTS:
            self._look_at_part(event)
        elif kind == "HTTPRoute" and now and (before is None or before.manifest["spec"] != now.manifest["spec"]):
            self._look_at_route(before.manifest if before else {}, now)
        elif kind == "ModelService" and now:
            self._note_service(before, now)
            self._note_starved(now)
        elif kind == "ModelPlacement":
            if before and not before.deleting and (now is None or now.deleting):
                self._look_at_dropped(before)
            self._note_since(self._able, event.ref.name, holds=now is not None and _can_serve(now))
            stays = now is not None and not flag(now.manifest, "spec.draining") and not _is_unreachable(now)
            self._note_since(self._staying, event.ref.name, holds=stays)
            for service in self._plane.all("ModelService"):
                self._note_starved(service)

    def _note_since(self, times: dict[str, float], name: str, *, holds: bool) -> None:
        if holds:
            times.setdefault(name, self._plane.kernel.now)
        else:
            times.pop(name, None)

    def _note_service(self, before: Version | None, now: Version) -> None:
        moment = self._plane.kernel.now
        if before is None or _wanted(before) != _wanted(now):
            self._specs[now.ref] = moment
        rows = [row for entry in listing(now.manifest, "status.endpoints") for row in listing(entry, "backends")]
        since = self._listed.get(now.ref, {})
        self._listed[now.ref] = {name: since.get(name, moment) for name in (text(r, "placement") for r in rows)}

    # -- what a route names
    def _look_at_part(self, event: Event) -> None:
        if event.before is None:
            self._since[event.ref] = self._plane.kernel.now
        if event.now is None or event.now.deleting:
            for version in self._plane.all("ModelService"):
                self._look_at_requests(_path(version))

    def _look_at_route(self, before: Manifest, route: Version) -> None:
        names, last = read_weights(route.manifest), read_weights(before)
        for name in names.keys() - last.keys():
            for kind in _PARTS:
                ref = Ref(kind, route.ref.namespace, name)
                part = self._plane.server.latest.get(ref)
                since = self._since.get(ref, inf)
                if ref in self._words.deleted and (part is None or self._is_news(since)):
                    continue  # a user deleted it, and it is composed again: a call may not have heard of that
                seconds = self._plane.kernel.now - since if part else 0.0
                if part is None or seconds < SETTLE_SECONDS:
                    self._say(f"{route.ref} names {kind} {name}, which has been there for {seconds:.1f} s")
        owner = self._plane.server.latest.get(_owner(route))
        if owner and not owner.deleting and last:
            self._look_at_taken(owner, route, last.keys(), names.keys())

    def _look_at_taken(self, service: Version, route: Version, last: Iterable[str], names: Iterable[str]) -> None:
        """Finds deployments that a route leaves without a placement, although it named one that can serve."""
        named = {cluster for name in names if (cluster := self._find_cluster(route, name))}
        # A slice that a user deleted is composed again: until a call may have heard of that, it has led nowhere.
        known = (name for name in last if not self._is_news(self._since.get(_slice(route, name), inf)))
        was_named = {cluster for name in known if (cluster := self._find_cluster(route, name))}
        if self._is_news(self._specs.get(service.ref, inf)):
            return
        able = [p for p in self._backends(service) if not self._is_news(self._able.get(p.ref.name, inf))]
        able = [p for p in able if self._is_routed(p, service, was_named)]
        if able and not names:
            self._say(f"{route.ref} names nothing, and {able[0].ref} can serve")
        for placement in able:
            others = [p for p in self._backends(service) if _deployment(p) == _deployment(placement) and _can_serve(p)]
            others = [p for p in others if _cluster(p) in named]
            if not others and not self._is_news(self._staying.get(placement.ref.name, inf)):
                self._say(f"{route.ref} names no placement of {_deployment(placement)}, and {placement.ref} can serve")

    def _find_cluster(self, route: Version, name: str) -> str:
        there = self._plane.server.latest.get(_slice(route, name))
        return cluster_of(there) if there else ""

    def _is_routed(self, placement: Version, service: Version, clusters: Iterable[str]) -> bool:
        """Tells whether the gateway of one of some clusters sends requests to a placement."""
        cluster = _cluster(placement)
        applied = self._gateways.applied.get((cluster, _path(service)), {})
        return cluster in clusters and text(placement.manifest, "status.service.workload") in applied

    def _is_news(self, since: float) -> bool:
        """Tells whether a call may not have heard of something."""
        settings = self._plane.settings
        return self._plane.kernel.now <= since + settings.unheard_seconds + settings.passing_seconds

    # -- what requests meet
    def _look_at_path(self, path: str) -> None:
        self._look_at_requests(path)
        for service in self._plane.all("ModelService"):
            if _path(service) == path:
                self._note_starved(service)

    def _note_starved(self, service: Version) -> None:
        """Takes note of requests that reach no Ready placement although there is one, and looks again later."""
        able = [p for p in self._backends(service) if _can_serve(p) and _is_ready(p)]
        reached = self._read_shares(service).keys() & {*map(_find_site, able)}
        is_decided = self._words.invalid_since(service.ref) == inf and not service.deleting
        if not able or reached or not is_decided:
            self._starved.pop(service.ref, None)
        elif service.ref not in self._starved:
            begun = self._starved[service.ref] = self._plane.kernel.now
            self._plane.kernel.at(STARVED_SECONDS, lambda: self._look_at_starved(service.ref, begun), lazy=True)

    def _look_at_starved(self, service: Ref, begun: float) -> None:
        if self._starved.get(service) == begun and service in self._plane.server.latest:
            self._say(f"requests to {service} have met nothing for {STARVED_SECONDS:.0f} s, and a placement is Ready")

    def _look_at_requests(self, path: str) -> None:
        applied = self._gateways.applied.get(("", path), {})
        *_, namespace, name = path.split("/") if path else ("", "")
        service = self._plane.server.latest.get(Ref("ModelService", namespace, name))
        if service is None or service.deleting:
            return
        for backend in applied:
            parts = [self._plane.server.latest.get(Ref(kind, namespace, backend)) for kind in _PARTS]
            if any(Ref(kind, namespace, backend) in self._words.deleted for kind in _PARTS):
                continue
            if any(part is None or part.deleting for part in parts):
                self._say(f"requests to {path} go to {backend}, which is gone")
            elif parts[1] and not self._gateways.applied.get((cluster_of(parts[1]), path)):
                self._say(f"requests to {path} meet no route on {cluster_of(parts[1])}")

    def _look_at_dropped(self, placement: Version) -> None:
        """Finds a placement that its deployment deletes while a ModelService lists it, or requests reach it."""
        deployment = Ref("ModelDeployment", placement.ref.namespace, text(placement.controller, "name"))
        there = self._plane.server.latest.get(deployment)
        served = flag(placement.manifest, "status.served")
        if there is None or there.deleting or there.uid != text(placement.controller, "uid") or not served:
            return
        if not self._words.deleted.isdisjoint({placement.ref, deployment}):
            return
        for service in self._plane.all("ModelService"):
            since = self._listed.get(service.ref, {}).get(placement.ref.name, inf)
            if service.ref.namespace != placement.ref.namespace or service.deleting:
                continue
            if not self._is_news(since):
                self._say(f"{placement.ref} is deleted, and {service.ref} lists it")
            named = self._gateways.applied.get(("", _path(service)), {})
            slices = [self._plane.server.latest.get(Ref("EndpointSlice", service.ref.namespace, n)) for n in named]
            if self._is_routed(placement, service, {cluster_of(s) for s in slices if s}) and _can_serve(placement):
                self._say(f"{placement.ref} is deleted, and gets requests of {service.ref}")

    # -- at rest
    def at_rest(self) -> None:
        """Finds requests that do not go where the specification has them go."""
        for service in self._plane.all("ModelService"):
            if service.ref in self._starved:
                self._say(f"requests to {service.ref} meet nothing, and a placement is Ready")
            able = [p for p in self._backends(service) if _can_serve(p)]
            draining = {_deployment(p) for p in able if flag(p.manifest, "spec.draining")}
            if service.deleting or draining or any(map(_is_unreachable, able)):
                continue
            expected, actual = _divide(service, able), self._read_shares(service)
            if expected != actual:
                self._say(f"requests to {service.ref} are divided {_show(actual)}, not {_show(expected)}")

    def _read_shares(self, service: Version) -> Shares:
        """Returns how the gateways divide the requests."""
        path, shares = _path(service), Shares()
        weights = self._gateways.applied.get(("", path), {})
        for name, weight in weights.items():
            part = self._plane.server.latest.get(Ref("EndpointSlice", service.ref.namespace, name))
            cluster = cluster_of(part) if part else "?"
            inside = self._gateways.applied.get((cluster, path), {})
            for workload, number in inside.items():
                if share := Fraction(weight * number, sum(weights.values()) * sum(inside.values()) or 1):
                    shares[cluster, workload] = share
        return shares

    def _backends(self, service: Version) -> list[Version]:
        """Returns the placements of the deployments of a ModelService with a weight, by label or as it lists them."""
        names = {text(b, "deployment") for b in listing(service.manifest, "spec.backends") if integer(b, "weight", 1)}
        return [
            v
            for v in self._plane.all("ModelPlacement")
            if v.ref.namespace == service.ref.namespace
            and _deployment(v) in names
            and (v.labels.get(LABEL_DEPLOYMENT) == _deployment(v) or v.ref.name in self._listed.get(service.ref, {}))
        ]


def _divide(service: Version, able: list[Version]) -> Shares:
    """Divides the requests as issue 29 has it: by deployment, then by the distribution."""
    weights = {text(b, "deployment"): integer(b, "weight", 1) for b in listing(service.manifest, "spec.backends")}
    of = {name: [p for p in able if _deployment(p) == name] for name in weights}
    total, shares = sum(weights[name] for name in of if of[name]), Shares()
    for name, placements in of.items():
        parts = _parts(service, placements)
        for placement, part in zip(placements, parts, strict=True):
            if part:
                shares[_find_site(placement)] = Fraction(weights[name] * part, total * sum(parts))
    return shares


def _parts(service: Version, placements: list[Version]) -> list[int]:
    distribution = text(service.manifest, "spec.distribution")
    if distribution == "Even":
        return [1] * len(placements)
    if distribution != "Failover":
        return [integer(p.manifest, "status.readyReplicas") for p in placements]
    order = [*map(str, get(service.manifest, "spec.environments") or [])]  # type: ignore[arg-type]  # a list
    ranks = [(order.index(e) if e in order else math.inf, e) for e in map(_environment, placements)]
    return [int(rank == min(ranks)) for rank in ranks]


def _show(shares: Shares) -> str:
    return ", ".join(f"{share} {workload} on {cluster}" for (cluster, workload), share in sorted(shares.items())) or "-"


def _find_site(placement: Version) -> tuple[str, str]:
    """Returns the cluster and the Kubernetes Service of a placement."""
    return _cluster(placement), text(placement.manifest, "status.service.workload")


def _is_ready(placement: Version) -> bool:
    return text(condition(placement.manifest, "ServiceReady"), "status") == "True"


def _can_serve(placement: Version) -> bool:
    status = mapping(placement.manifest, "status")
    known = text(status, "service.workload") and text(status, "gateway.host")
    return bool(known) and integer(status, "readyReplicas") > 0 and not placement.deleting


def _is_unreachable(placement: Version) -> bool:
    return text(condition(placement.manifest, "ServiceReady"), "status") == "Unknown"


def _cluster(placement: Version) -> str:
    return text(placement.manifest, "status.gateway.providerConfigRef.name")


def _deployment(placement: Version) -> str:
    return text(placement.manifest, "spec.deploymentRef.name")


def _environment(placement: Version) -> str:
    return text(placement.manifest, "spec.inferenceEnvironmentRef.name")


def _slice(route: Version, name: str) -> Ref:
    return Ref("EndpointSlice", route.ref.namespace, name)


def _owner(version: Version) -> Ref:
    return Ref(text(version.controller, "kind"), version.ref.namespace, text(version.controller, "name"))


def _path(service: Version) -> str:
    return f"/services/{service.ref.namespace}/{service.ref.name}"


def _wanted(service: Version) -> Manifest:
    """Returns what a user wants of a ModelService."""
    return {key: value for key, value in mapping(service.manifest, "spec").items() if key != "crossplane"}
