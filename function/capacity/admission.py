"""Admission: a placement finds out from the ledger of its environment whether it was admitted.

Nothing starts without admission, so that two services never use the same GPUs. An admission is for a number of replicas
of one shape in one pool. It covers no more than this, even if the placement was Ready before.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from function.capacity.ledger import MAX_ADMITTED, MAX_REJECTED, count_usable
from function.capacity.pools import count_in_empty_pool
from function.capacity.reclaim import find_last_move
from function.domain.allocation import Free, Grant, QuotaUsage, Release
from function.domain.cache import CreatedStorage, ModelCache, ModelCacheChoice, StorageChoice
from function.domain.environment import Environment
from function.domain.placement import Placement, Stage
from function.kube.messages import format_count
from function.kube.names import LABEL_CACHE, LABEL_ENVIRONMENT, label_value
from function.reasons import Admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Tells whether a placement may start, and why not."""

    reason: Admitted
    replicas: int = 0  # number of admitted replicas
    # The environment has evaluated the request. It publishes no rejection of a placement that a user wrote, so such a
    # placement always counts as evaluated.
    evaluated: bool = False
    free: Free | None = None  # what its environment publishes of its pool; None: nothing yet
    exclusive_node: bool = False  # each pod needs a node to itself
    has_room_for_pod: bool = True  # the pool has room for one more pod of the placement
    exceeds_pool: bool = False  # it would not fit if the pool were empty
    missing_labels: Mapping[str, str]  # labels that it must have but does not have
    quota_usage: QuotaUsage | None = None  # why its namespace may not have what it requests
    taken_back: tuple[str, ...] = ()  # lent replicas that others give back for it: `2 replicas of team-a/chat`
    taken_back_until: int | None = None  # when these have ended if their deployment obeys; seconds since 1970
    status_limit: int | None = None  # the most placements that its environment lists, if it waits because of this limit

    @property
    def stops_service(self) -> bool:
        """Tells whether the service gives back its GPUs unless it is Ready."""
        return self.reason is Admitted.RESTART_LIMIT_REACHED

    @property
    def admits_service(self) -> bool:
        """Tells whether the service is admitted, possibly with fewer replicas than requested."""
        return self.reason is Admitted.ADMITTED or (self.replicas > 0 and self.reason is not Admitted.LABEL_MISSING)


def build_labels(environment: str, cache: StorageChoice) -> dict[str, str]:
    """Returns the labels by which a placement's environment and the ModelCache that it names find the placement."""
    cache_label = {LABEL_CACHE: label_value(cache.name)} if isinstance(cache, ModelCacheChoice) else {}
    return {LABEL_ENVIRONMENT: label_value(environment)} | cache_label


def build_required_labels(placement: Placement, cache: ModelCache | None) -> dict[str, str]:
    """Returns the labels that a placement must have to be found.

    A ModelCache requires its known consumers by name, so a placement that lost the cache's label later does not need
    this label. A placement that has nothing composed needs the label: whether the cache knows the placement depends on
    which of them was created first.
    """
    consumers = cache.consumers if cache else ()
    is_known = placement.stage > Stage.NEW and any(consumer.name == placement.name for consumer in consumers)
    return build_labels(placement.environment, CreatedStorage() if is_known else placement.storage_choice)


def check_admission(placement: Placement, environment: Environment, labels: Mapping[str, str]) -> Admission:
    """Returns the admission that an environment has published; an environment from a file admits everything.

    `labels`: the labels by which the environment and a ModelCache find the placement.
    """
    request = placement.requested
    actual_labels = dict(placement.labels)
    if not environment.uid or request is None:
        return Admission(reason=Admitted.ADMITTED, replicas=max(0, placement.replicas), missing_labels={})
    grants = [grant for grant in environment.find_grants(placement.uid) if grant.share.has_same_pool_and_size(request)]
    admitted = max((count_usable(grant, placement) for grant in grants), default=None)
    replicas = admitted or 0
    # An environment finds its admitted placements by name, also without the label.
    not_needed = set[str]() if admitted is None else {LABEL_ENVIRONMENT}
    missing = {key: value for key, value in labels.items() if key not in not_needed and actual_labels.get(key) != value}
    evaluated = not placement.owner or (placement.uid, placement.pool) in environment.rejected
    if missing:
        reason = Admitted.LABEL_MISSING
    elif replicas >= request.replicas:
        reason = Admitted.ADMITTED
    else:
        # No deployment reschedules a placement that a user wrote. Such a placement is admitted once there is room.
        reason = Admitted.REJECTED if evaluated and placement.owner else Admitted.WAITING
    taken_back = [] if reason is Admitted.ADMITTED else [*_list_taken_back(placement, environment)]
    pool = environment.pool(placement.pool)
    free = environment.free.get(placement.pool)
    exclusive = pool is not None and pool.needs_exclusive_node(request.nodes, request.gpus_per_node)
    pod_gpus = pool.gpus_per_node if pool and exclusive else request.gpus_per_node
    limit = MAX_ADMITTED if evaluated else MAX_REJECTED
    listed = environment.admitted if evaluated else environment.rejected
    waits_for_status = reason is not Admitted.ADMITTED and admitted is None and len(listed) >= limit
    return Admission(
        reason=reason,
        replicas=replicas,
        evaluated=evaluated,
        free=free,
        exclusive_node=exclusive,
        has_room_for_pod=free is None or any(gpus >= pod_gpus for gpus, _ in free.nodes),
        exceeds_pool=pool is not None and count_in_empty_pool(pool, request) < request.replicas,
        missing_labels=missing,
        taken_back=tuple(f"{format_count(count, 'replica')} of {who}" for who, count, _ in taken_back),
        taken_back_until=max((until for _, _, until in taken_back if until is not None), default=None),
        status_limit=limit if waits_for_status else None,
    )


def _list_taken_back(placement: Placement, environment: Environment) -> Iterator[tuple[str, int, int | None]]:
    """Yields who gives back lent replicas for a placement, how many, and until when they may move first."""
    for grant in environment.admitted:
        if grant.yields and placement.uid and grant.yields.uid == placement.uid:
            count = grant.share.replicas - grant.yields.keep
            if count > 0:
                yield f"{grant.namespace}/{grant.name}", count, find_last_move(grant.yields)


def find_release(placement: Placement, grants: Iterable[Grant] = ()) -> Release | None:
    """Returns the last spec with which a placement released GPUs, of its grants or of what its service has.

    This is the current spec if it requests less than what still counts of these GPUs. The environment may grant the
    rest to others once the status says that the current spec was observed, so the same status must contain the release.
    """
    request = placement.requested
    released = placement.admission.released
    if request is None or not placement.generation:
        return released
    current = Release(generation=placement.generation, request=request)
    held = [(grant.share, grant.generation) for grant in grants]
    if placement.service.allocated:
        held.append((placement.service.allocated, 0))
    for share, generation in held:
        counted = released.limit(share, generation) if released else share.replicas
        if counted > current.limit(share, 0):
            return current
    return released


def apply_quota(admission: Admission, placement: Placement, excess: QuotaUsage | None) -> Admission:
    """Returns an admission within the quota of the namespace: a placement that exceeds the quota keeps what it has."""
    request = placement.requested
    allocated = placement.service.allocated
    has = allocated.replicas if allocated and request and allocated.has_same_pool_and_size(request) else 0
    if admission.reason is Admitted.LABEL_MISSING or excess is None:
        return admission
    replicas = min(admission.replicas, has)
    return replace(admission, reason=Admitted.QUOTA_EXCEEDED, replicas=replicas, quota_usage=excess)


def apply_restart_limit(admission: Admission, placement: Placement) -> Admission:
    """Returns an admission of nothing for a placement that has restarted too often."""
    if not placement.restarts.stopped or admission.reason is Admitted.LABEL_MISSING:
        return admission
    return replace(admission, reason=Admitted.RESTART_LIMIT_REACHED, replicas=0)
