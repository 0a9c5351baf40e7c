"""Consumers of weights: placements whose service reads them. Weights that have a consumer are not deleted.

A service reads its serving URI until it is Ready on another URI, whatever the plan is meanwhile. Once another URI is in
its applied spec, the service may read either. A placement reports both URIs in its status, and a ModelCache records its
consumers by name. Weights are deleted once an answer about each known consumer shows that the consumer is gone or reads
other weights. They are never deleted because a list does not show a consumer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from function.contract import Composed, Desired, Drop
from function.domain.cache import Consumer, ModelCache, ModelCacheChoice
from function.domain.placement import Placement, Stage
from function.kube.manifests import Manifest, text
from function.kube.names import MANAGED_BY, VERSION, build_name
from function.remote.composed_kinds import USAGE_KIND, USAGE_VERSION
from function.remote.object_writer import reapply_observed
from function.remote.observed_object import ObservedObject, is_up, read_object, read_written
from function.weights.reconcile import ReconciledWeights
from function.weights.request import parse_claim_uri

USAGE_KEY = "cache-usage"
_URI = "spec.model.uri"
_CLAIM = "PersistentVolumeClaim"
_USED_CACHE = "spec.of.resourceRef.name"


def find_serving_uri(service: ObservedObject, services: Iterable[Manifest], recorded: str) -> str:
    """Finds the URI that the ready service of a placement uses, or used when it was last ready.

    `services` are the Objects of all services, for a service that was never ready; `recorded` is the URI in status.
    """
    if is_up(service):
        return text(service.manifest, _URI)
    uris = (text(read_object(observed).manifest, _URI) for observed in services)
    return recorded or text(service.manifest, _URI) or next(filter(None, uris), "")


def find_applied_uri(services: Iterable[Manifest], serving_uri: str) -> str:
    """Finds the URI in the spec of a service that differs from the serving URI; empty if there is none.

    The service may switch to this URI at any moment, and the switch may be observed much later.
    """
    uris = (text(read_written(service), _URI) for service in services)
    return next((uri for uri in uris if uri and uri != serving_uri), "")


def find_consumers(
    cache: ModelCache, placements: Iterable[Placement], owned_claims: Mapping[str, Collection[str]]
) -> list[Consumer]:
    """Finds the placements that name a cache, and those whose service still uses one of the cache's own claims.

    `owned_claims` lists, for each environment, the claims that are deleted together with their Objects.
    """
    choice = ModelCacheChoice(name=cache.name)
    consumers = []
    for placement in placements:
        uris = (placement.service.serving_uri, placement.service.applied_uri)
        claims = owned_claims.get(placement.environment, ())
        is_consumer = placement.storage_choice == choice or any(parse_claim(uri) in claims for uri in uris)
        if is_consumer and placement.namespace == cache.namespace:
            uri = _find_uri(placement)
            consumers.append(Consumer(name=placement.name, environment=placement.environment, uri=uri))
    return sorted(consumers, key=lambda consumer: consumer.name)


def _find_uri(placement: Placement) -> str:
    """Finds the URI that a placement reads, or will read once it has a service; empty if unknown.

    The URI is unknown while the service switches from one URI to another.
    """
    if placement.service.applied_uri:
        return ""
    return placement.service.serving_uri or ("" if placement.stage is Stage.SERVED else placement.weights.planned_uri)


def may_delete_weights(
    claims: Collection[str],
    consumers: Iterable[Consumer],
    named_by: Collection[Placement],
    current: ReconciledWeights | None,
) -> bool:
    """Tells whether a ModelCache may drop the claims and Jobs of weights that it does not need any more.

    `claims` are the claims of the cache on one environment, `consumers` the placements that may read from them, and
    `named_by` the placements there that name the cache, whether or not they read from it yet. The cache drops the
    claims when it downloads to another claim there (`current`), or no longer selects the environment (None), and only
    if they have no consumer. Whether the claims are then deleted on their cluster follows from `planner.CASES`.
    """
    if current is None:
        if named_by:
            # They may be about to read from the cache: a service reports its URI only once it is ready on this URI.
            return False
        current_uri = ""
    elif current.plan is None or not current.service_may_read:
        return False
    else:
        current_uri = current.plan.uri
    return not any(_may_read(consumer, claims, current_uri) for consumer in consumers)


def _may_read(consumer: Consumer, claims: Collection[str], current_uri: str) -> bool:
    """Tells whether a consumer may read weights other than the current ones from one of the claims."""
    return not consumer.uri or (consumer.uri != current_uri and parse_claim(consumer.uri) in claims)


def parse_claim(uri: str) -> str:
    """Returns the claim that a URI reads from; empty where it reads from none."""
    on_claim = parse_claim_uri(uri)
    return on_claim[0] if on_claim else ""


def list_claims(objects: Iterable[Manifest]) -> frozenset[str]:
    """Lists the names of the claims that Objects describe."""
    remotes = (read_written(observed) for observed in objects)
    return frozenset(text(remote, "metadata.name") for remote in remotes if text(remote, "kind") == _CLAIM)


def build_usage(placement: Placement, cache: str) -> dict[str, Composed]:
    """Builds the Usage that protects a ModelCache from deletion while a placement reads from it, under its key."""
    spec: Manifest = {
        "of": {"apiVersion": VERSION, "kind": "ModelCache", "resourceRef": {"name": cache}},
        "by": {"apiVersion": VERSION, "kind": "ModelPlacement", "resourceRef": {"name": placement.name}},
        "reason": f"ModelPlacement {placement.name} serves from it",
    }
    name = build_name(placement.name, placement.name, cache)
    metadata: Manifest = {"name": name, "namespace": placement.namespace, "labels": {**MANAGED_BY}}
    manifest: Manifest = {"apiVersion": USAGE_VERSION, "kind": USAGE_KIND, "metadata": metadata, "spec": spec}
    # Where Usages are not enforced, their controller never makes them Ready. A model that serves must not wait for it.
    return {USAGE_KEY: Composed(manifest=manifest, ready=True)}


def decide_usage(
    placement: Placement, cache: str, observed: Mapping[str, Manifest], *, may_read_previous: bool
) -> Desired:
    """Returns the Usage of the ModelCache of a placement; empty: the placement names no ModelCache.

    The Usage of another ModelCache stays while the service may still read from that ModelCache.
    """
    usage = observed.get(USAGE_KEY)
    if usage is not None and may_read_previous and text(usage, _USED_CACHE) != cache:
        return Desired({USAGE_KEY: replace(reapply_observed(usage), ready=True)})
    if not cache:
        return Desired(drops=(Drop(USAGE_KEY, "the service does not read from a ModelCache"),))
    return Desired(build_usage(placement, cache))
