"""Gateways of the control plane and of the clusters, and what KServe reports for them.

A gateway reports that it has seen a route, and applies the route a while later. Between the two, requests still follow
the route as it was: `applied` has what requests meet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Version
from bench.simulator.server import ApiServer
from function.kube.manifests import JSON, Manifest, condition, integer, listing, mapping, text
from tools.remote_stages import condition as made_condition

SETTLE_SECONDS = 5
SETTINGS: Manifest = {
    "gateway": {"name": "models", "url": "https://models.example.com", "settle": f"{SETTLE_SECONDS}s"}
}
# Half of this to one and a half of it: together less than SETTLE_SECONDS.
_REPORT_SECONDS, _APPLY_SECONDS = 0.5, 2.0
_DOMAIN = ".example.org"
_REMOTE = "spec.forProvider.manifest"
Weights: TypeAlias = Mapping[str, int]


@dataclass(slots=True)
class _Route:
    """A route on a cluster: what was written, and the last generation that its gateway has reported."""

    spec: Manifest
    generation: int = 1
    reported: int = 0


class Gateways:
    """All gateways. `applied`: weights by cluster, empty for the control plane, and path; `changed` hears of each path
    whose requests go another way.
    """

    def __init__(self, kernel: Kernel, random: Random, server: ApiServer) -> None:
        self._kernel, self._random, self._server = kernel, random, server
        self.playing = False
        self.applied: dict[tuple[str, str], Weights] = {}
        self.changed: Callable[[str], None] = lambda _: None
        self.look: Callable[[Version], None] = lambda _: None  # has an Object observed again
        self._reported: dict[tuple[str, str], Weights] = {}
        self._routes: dict[str, _Route] = {}
        server.watchers.append(self._watch)

    def _watch(self, event: Event) -> None:
        before, now = event.before, event.now
        if event.ref.kind == "HTTPRoute":
            if now is None:
                self._forget("", before.manifest if before else {})
            elif before is None or before.manifest["spec"] != now.manifest["spec"]:
                self._later(_REPORT_SECONDS, lambda: self._see(now))
        elif before and not before.deleting and (now is None or now.deleting):
            remote = mapping(before.manifest, _REMOTE)
            if text(remote, "kind") == "HTTPRoute":
                self._forget(_cluster(before), remote)

    def _see(self, written: Version) -> None:
        """Lets the control plane's gateway report the latest version of a route."""
        now = self._server.latest.get(written.ref)
        if now is not None and now.uid == written.uid:
            self._server.put(now.ref, {**now.manifest, "status": _seen(integer(now.manifest, "metadata.generation"))})
            self._apply_later("", now.manifest)

    def observe(self, seen: Version, observed: Manifest) -> Manifest:
        """Returns an Object as the provider reports it, with what KServe or a gateway adds to the remote object."""
        remote = mapping(observed, "status.atProvider.manifest")
        kind = text(remote, "kind") if self.playing else ""
        if kind == "LLMInferenceService" and remote.get("status"):
            return _with_remote(observed, {**remote, "status": _served(remote, _cluster(seen))})
        if kind == "HTTPRoute":
            route = self._write(seen, mapping(remote, "spec"))
            metadata: Manifest = {**mapping(remote, "metadata"), "generation": route.generation}
            status = _seen(route.reported) if route.reported else {}
            ready = made_condition("Ready", ok=route.reported == route.generation, reason="Seen")
            conditions: list[JSON] = [condition(observed, "Synced"), ready]
            reported = _with_remote(observed, {**remote, "metadata": metadata, "status": status})
            return {**reported, "status": {**mapping(reported, "status"), "conditions": conditions}}
        return observed

    def _write(self, seen: Version, spec: Manifest) -> _Route:
        route = self._routes.get(seen.uid)
        if route is None or route.spec != spec:
            last = (route.generation, route.reported) if route else (0, 0)
            route = self._routes[seen.uid] = _Route(spec, last[0] + 1, last[1])
            self._later(_REPORT_SECONDS, lambda: self._program(seen))
        return route

    def _program(self, seen: Version) -> None:
        """Lets a cluster's gateway report the latest version of a route."""
        now, route = self._server.latest.get(seen.ref), self._routes[seen.uid]
        if now is not None and now.uid == seen.uid and not now.deleting:
            route.reported = route.generation
            self._apply_later(_cluster(seen), {"spec": route.spec})
            self.look(now)

    def _apply_later(self, cluster: str, route: Manifest) -> None:
        key = cluster, path_of(route)
        self._reported[key] = read_weights(route)
        self._later(_APPLY_SECONDS, lambda: self._apply(key))

    def _apply(self, key: tuple[str, str]) -> None:
        if key in self._reported:
            self.applied[key] = self._reported[key]
            self.changed(key[1])

    def _forget(self, cluster: str, route: Manifest) -> None:
        key = cluster, path_of(route)
        self._reported.pop(key, None)
        self.applied.pop(key, None)
        self.changed(key[1])

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._kernel.at(seconds * self._random.uniform(0.5, 1.5), action)


def host_of(cluster: str) -> str:
    """Returns the host of the gateway of a cluster."""
    return f"{cluster}{_DOMAIN}"


def cluster_of(slice_: Version) -> str:
    """Returns the cluster whose gateway an EndpointSlice names."""
    (endpoint,) = listing(slice_.manifest, "endpoints")
    (address,) = (str(each) for each in (endpoint.get("addresses") or []))  # type: ignore[union-attr]  # a list
    return address.removesuffix(_DOMAIN)


def path_of(route: Manifest) -> str:
    """Returns the path that a route matches."""
    return next((text(m, "path.value") for rule in _rules(route) for m in listing(rule, "matches")), "")


def read_weights(route: Manifest) -> dict[str, int]:
    """Returns the weights of the Services that a route names."""
    refs = (ref for rule in _rules(route) for ref in listing(rule, "backendRefs"))
    return {text(ref, "name"): integer(ref, "weight") for ref in refs}


def _rules(route: Manifest) -> list[Manifest]:
    return [*listing(route, "spec.rules")]


def _cluster(version: Version) -> str:
    return text(version.manifest, "spec.providerConfigRef.name")


def _with_remote(observed: Manifest, remote: Manifest) -> Manifest:
    status = mapping(observed, "status")
    return {**observed, "status": {**status, "atProvider": {**mapping(status, "atProvider"), "manifest": remote}}}


def _seen(generation: int) -> Manifest:
    types = "Accepted", "ResolvedRefs"
    conditions: list[JSON] = [
        {"type": t, "status": "True", "reason": t, "observedGeneration": generation} for t in types
    ]
    return {"parents": [{"parentRef": {"name": "gateway"}, "conditions": conditions}]}


def _served(service: Manifest, cluster: str) -> Manifest:
    """Returns the status of a service with its address, its Kubernetes Service and its ready replicas."""
    name = text(service, "metadata.name")
    is_ready = condition(service, "Ready").get("status") == "True"
    url = f"http://{host_of(cluster)}/{text(service, 'metadata.namespace')}/{name}"
    return {
        **mapping(service, "status"),
        "url": url,
        "addresses": [{"url": url}],
        "router": {"gateways": [{"name": "kserve-ingress-gateway", "namespace": "kserve"}]},
        "workloads": {
            "primary": {
                **mapping(service, "status.workloads.primary"),
                "readyReplicas": integer(service, "spec.replicas", 1) if is_ready else 0,
            },
            "service": {"name": f"{name}-workload"},
        },
    }
