"""A ModelService on a control plane with two gateways, step by step: composed resources are observed later."""

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from function.composers import compose, model_service
from function.contract import Answer, Call, Outcome, RequiredResource, Requirement
from function.domain.model_service import Gateway
from function.domain.placement import Placement
from function.domain.records.service import ServiceRecord
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, format_time, listing, mapping, strings, text
from function.kube.names import COMPOSITION_KEY
from function.kube.urls import parse_origin
from tests.support.builders import placement

SETTLE = 5
NAMESPACE = "team"
UID = "uid-of-chat"
SETTINGS: Manifest = {"gateway": {"name": "models", "url": "https://models.example.com", "settle": f"{SETTLE}s"}}


def gateway(url: str = "http://10.0.0.1", *, environment: str = "e1", tls: str = "", ca: str = "") -> Gateway:
    """Returns the gateway of a cluster."""
    origin = parse_origin(url)
    assert origin
    return Gateway(
        origin=origin,
        name="kserve-ingress-gateway",
        namespace="kserve",
        provider_config=f"config-{environment}",
        tls_hostname=tls,
        ca_config_map=ca,
    )


def serving(deployment: str, environment: str, replicas: int = 1, **fields: Any) -> Placement:
    """Returns a placement that can serve; each environment `eN` has a gateway at 10.0.0.N.

    `fields` are of its ServiceRecord.
    """
    base = placement(environment, deployment=deployment, namespace=NAMESPACE)
    service: dict[str, Any] = {
        "ready_replicas": replicas,
        "backend_service_name": f"{deployment}-{environment}-workload",
        "namespace": NAMESPACE,
        "gateway": gateway(f"http://10.0.0.{environment[1:]}", environment=environment),
    }
    return replace(base, ready=replicas > 0, has_served=True, service=ServiceRecord(**(service | fields)))


def manifest_of(p: Placement) -> Manifest:
    """Returns a placement as the API server has it."""
    access = p.service.gateway
    block: Manifest = (
        {}
        if access is None
        else {
            "scheme": access.origin.scheme,
            "host": access.origin.host,
            "port": access.origin.port,
            "ref": {"name": access.name, "namespace": access.namespace},
            "providerConfigRef": {"name": access.provider_config},
            "tls": {"hostname": access.tls_hostname, "caConfigMapName": access.ca_config_map},
        }
    )
    since = format_time(p.unready_since) if p.unready_since is not None else None
    state = ("False", "Starting") if since else ("Unknown", "Unreachable")
    status: Manifest = {"type": "ServiceReady", "status": state[0], "reason": state[1], "lastTransitionTime": since}
    deleted: Manifest = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if p.deleting else {}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {"name": p.name, "namespace": p.namespace, **deleted},
        "spec": {
            "modelRef": {"name": "kimi"},
            "deploymentRef": {"name": p.deployment},
            "inferenceEnvironmentRef": {"name": p.environment},
            "profile": "default",
            "pool": "pool",
            "topology": {"gpusPerNode": 8},
            "draining": p.draining,
        },
        "status": {
            "readyReplicas": p.service.ready_replicas,
            "gateway": block,
            "service": {
                "namespace": p.service.namespace,
                "workload": p.service.backend_service_name,
                "inferencePool": p.service.inference_pool,
                "poolUnusedSince": None
                if p.service.pool_unused_since is None
                else format_time(p.service.pool_unused_since),
                "traits": dict(p.service.traits),
            },
            "conditions": [status] if p.unreachable or since else [],
        },
    }


@dataclass(kw_only=True)
class TrafficPlane:
    """A control plane with one ModelService."""

    spec: Manifest
    placements: list[Placement]
    settings: Manifest = field(default_factory=lambda: SETTINGS)
    now: float = 1_800_000_000
    status: Manifest = field(default_factory=dict)
    observed: dict[str, Manifest] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # environments whose cluster does not answer
    unlabelled: set[str] = field(default_factory=set)  # placements that have lost their labels
    unlisted: set[str] = field(default_factory=set)  # composed resources that Crossplane's list lacks
    knows_pools: bool = True  # the gateways of clusters know InferencePools
    tls_versions: tuple[str, ...] = ("v1",)  # of BackendTLSPolicy that the control plane serves
    outcome: Outcome = field(default_factory=Outcome)

    def call(self) -> Call:
        """Returns the call for the service, with everything that it requires."""
        listed = {key: manifest for key, manifest in self.observed.items() if key not in self.unlisted}
        refs: JSON = [
            {"apiVersion": m["apiVersion"], "kind": m["kind"], "name": text(m, "metadata.name")}
            for m in listed.values()
        ]
        xr: Manifest = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelService",
            "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": UID},
            "spec": {**self.spec, "crossplane": {"resourceRefs": refs}},
            "status": self.status,
        }
        call = Call(xr=xr, observed=listed, input=self.settings, now=self.now)
        for _ in range(
            3
        ):  # The next call requires placements that the label does not find, and the call after it requires a CRD.
            required = model_service.require(call, model_service.read(call, BUILT_IN), BUILT_IN)
            call = replace(call, answers={name: self._find(r) for name, r in required.items()})
        return call

    def _find(self, requirement: Requirement) -> Answer:
        if requirement.kind == "ModelPlacement":
            labelled = [p for p in self.placements if p.name not in self.unlabelled]
            named = [p for p in self.placements if p.name == requirement.name]
            deployment = requirement.labels.get("modelplane.ai/deployment")
            manifests = [manifest_of(p) for p in named or labelled if named or p.deployment == deployment]
        elif requirement.kind == "CustomResourceDefinition":
            assert requirement.name == "backendtlspolicies.gateway.networking.k8s.io"
            versions: list[JSON] = [{"name": version, "served": True} for version in self.tls_versions]
            established: JSON = [{"type": "Established", "status": "True"}]
            manifests = [{"spec": {"versions": versions}, "status": {"conditions": established}}] if versions else []
        else:
            manifests = [
                manifest
                for manifest in self.observed.values()
                if (manifest["apiVersion"], manifest["kind"]) == (requirement.api_version, requirement.kind)
                and requirement.name in (None, text(manifest, "metadata.name"))
                and requirement.labels.items() <= strings(manifest, "metadata.labels").items()
            ]
        return tuple(RequiredResource(json.dumps(m).encode(), partial(dict, m)) for m in manifests)

    def step(self, seconds: float = 1) -> Outcome:
        """Composes once, applies the result, and advances the time; gateways observe a change in the next step."""
        self.outcome = compose(self.call())
        seen = self.observed
        self.status = {**self.outcome.status}
        self.observed = {
            key: _own(key, self._observe(item.manifest, seen.get(key, {})))
            for key, item in self.outcome.composed.items()
        }
        self.now += seconds
        return self.outcome

    def settle(self, seconds: float = 1, steps: int = 60) -> Outcome:
        """Steps until nothing changes."""
        for _ in range(steps):
            before = self.status, self.observed
            outcome = self.step(seconds)
            if before == (self.status, self.observed) and outcome.ttl_seconds >= 30:
                return outcome
        raise AssertionError("the plane does not settle")

    def route(self) -> dict[str, int]:
        """Returns the weights of the composed route by address."""
        manifest = self.outcome.composed["route"].manifest
        addresses = {
            text(item.manifest, "metadata.name"): str(listing(item.manifest, "endpoints")[0]["addresses"][0])  # type: ignore[index]  # as it was built
            for key, item in self.outcome.composed.items()
            if key.endswith("/slice")
        }
        return {addresses[name]: weight for name, weight in weights(manifest).items()}

    def remote(self, host: str) -> dict[str, int]:
        """Returns the weights of the composed route on the cluster at an address."""
        key = gateway(f"http://{host}").key
        return weights(mapping(self.outcome.composed[f"{key}/route"].manifest, "spec.forProvider.manifest"))

    def remote_backends(self, host: str) -> dict[str, list[tuple[str, str]]]:
        """Returns the kinds and names of the backends of each path of the composed route on a cluster."""
        return {
            text(listing(rule, "matches")[0], "path.value"): [
                (text(ref, "kind"), text(ref, "name")) for ref in listing(rule, "backendRefs")
            ]
            for rule in self.remote_rules(host)
        }

    def remote_rules(self, host: str) -> list[Manifest]:
        """Returns the rules of the composed route on a cluster."""
        key = gateway(f"http://{host}").key
        route = mapping(self.outcome.composed[f"{key}/route"].manifest, "spec.forProvider.manifest")
        return listing(route, "spec.rules")

    def rows(self) -> dict[str, Manifest]:
        """Returns the endpoints of the status by environment."""
        return {text(row, "environment"): row for row in listing(self.outcome.status, "endpoints")}

    def replace(self, *placements: Placement) -> None:
        """Replaces placements by name."""
        names = {p.name for p in placements}
        self.placements = [p for p in self.placements if p.name not in names] + list(placements)

    def _observe(self, manifest: Manifest, before: Manifest) -> Manifest:
        if text(manifest, "kind") == "Object":
            environment = text(manifest, "spec.providerConfigRef.name").removeprefix("config-")
            failed: JSON = {"type": "Synced", "status": "False", "message": "dial tcp: i/o timeout"}
            remote = mapping(before, "status.atProvider.manifest")
            if environment in self.silent:
                provided: Manifest = {"atProvider": {"manifest": remote}, "conditions": [failed]}
            else:
                desired = mapping(manifest, "spec.forProvider.manifest")
                found = _programmed(desired, remote, knows_pools=self.knows_pools) if before else {}
                provided = {"atProvider": {"manifest": found}}
            return {**manifest, "status": provided}
        if text(manifest, "kind") == "HTTPRoute":
            return _programmed(manifest, before)
        created = text(before, "metadata.creationTimestamp") or format_time(int(self.now))
        return {**manifest, "metadata": {**mapping(manifest, "metadata"), "creationTimestamp": created}}


def _own(key: str, manifest: Manifest) -> Manifest:
    """Returns a composed resource with what Crossplane adds to it."""
    owner: Manifest = {"kind": "ModelService", "name": "chat", "uid": UID, "controller": True}
    metadata: Manifest = {"annotations": {COMPOSITION_KEY: key}, "ownerReferences": [owner]}
    return {**manifest, "metadata": {**mapping(manifest, "metadata"), **metadata}}


def weights(route: Manifest) -> dict[str, int]:
    """Returns the weights of the backends of a route by name."""
    refs = listing(listing(route, "spec.rules")[0], "backendRefs")
    return {text(ref, "name"): int(str(ref["weight"])) for ref in refs}


def _programmed(manifest: Manifest, before: Manifest, *, knows_pools: bool = True) -> Manifest:
    """Returns an observed route, of which the gateway has observed the generation before the last change."""
    refs = [ref for rule in listing(before, "spec.rules") for ref in listing(rule, "backendRefs")]
    refused = not knows_pools and any(text(ref, "kind") == "InferencePool" for ref in refs)
    changed = mapping(manifest, "spec") != mapping(before, "spec")
    last = int(str(mapping(before, "metadata").get("generation", 0)))
    generation = last + 1 if changed else last
    conditions: JSON = [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": last or generation},
        {
            "type": "ResolvedRefs",
            "status": "False" if refused else "True",
            "reason": "InvalidKind" if refused else "ResolvedRefs",
            "observedGeneration": last or generation,
        },
    ]
    return {
        **manifest,
        "metadata": {**mapping(manifest, "metadata"), "generation": generation},
        "status": {"parents": [{"parentRef": {"name": "models"}, "conditions": conditions}] if last else []},
    }


def backends(**of: int) -> Manifest:
    """Returns a spec with the weights of deployments."""
    return {"backends": [{"deployment": name, "weight": weight} for name, weight in of.items()]}


def at_rest(spec: Manifest, *placements: Placement) -> TrafficPlane:
    """Returns a plane on which everything has settled."""
    plane = TrafficPlane(spec=spec, placements=list(placements))
    plane.settle()
    return plane


def listed(plane: TrafficPlane) -> set[str]:
    """Returns the placements that the status lists."""
    rows = listing(plane.outcome.status, "endpoints")
    return {text(backend, "placement") for row in rows for backend in listing(row, "backends")}
