"""Labels of pods that a service keeps for as long as it exists.

KServe v0.20 uses the labels of a service on one node also as the selector of its Deployment, which Kubernetes never
changes: with other labels, KServe could change nothing of the Deployment any more, and would report the service not
Ready. Kueue refuses another queue for a LeaderWorkerSet that serves (docs/facts.md).
"""

from collections.abc import Mapping
from dataclasses import replace

from function.domain.pods import QUEUE_LABEL, PodAdditions
from function.kube.manifests import Manifest, strings
from function.kube.names import LABEL_SERVICE
from function.serving.digest import ServingRequest

_LABELS = "spec.labels"


def collect_labels(request: ServingRequest) -> dict[str, str]:
    """Returns the labels of the pods of a requested service."""
    additions = request.pool.pod_overrides(request.shape.nodes)
    return {**dict(additions.labels), **_own_labels(request)}


def keep_labels(request: ServingRequest, written: Manifest) -> ServingRequest:
    """Returns the request with those labels of the existing service that cannot change.

    `written`: the service as last written; empty if there is none.
    """
    existing = strings(written, _LABELS)
    if not written or existing == collect_labels(request):
        return request
    return _with_labels(request, {key: existing[key] for key in existing.keys() - _own_labels(request).keys()})


def find_kept_labels(request: ServingRequest, kept: ServingRequest) -> tuple[str, ...]:
    """Returns the keys of the labels that `keep_labels` kept although others are requested."""
    return tuple(sorted({key for key, _ in collect_labels(request).items() ^ collect_labels(kept).items()}))


def drop_kept_labels(request: ServingRequest) -> ServingRequest:
    """Returns the request without the labels that a service keeps, and that therefore never restart its pods."""
    return _with_labels(request, {})


def find_queue(service: Manifest) -> str:
    """Returns the LocalQueue by which Kueue admits the pods of a service as written; empty if there is none."""
    return strings(service, _LABELS).get(QUEUE_LABEL, "")


def _own_labels(request: ServingRequest) -> dict[str, str]:
    return {**request.labels, LABEL_SERVICE: request.name}


def _with_labels(request: ServingRequest, existing: Mapping[str, str]) -> ServingRequest:
    pool = request.pool
    if request.shape.nodes == 1:
        return replace(request, pool=replace(pool, pod=replace(pool.pod, labels=tuple(sorted(existing.items())))))
    queue = {key: value for key, value in existing.items() if key == QUEUE_LABEL}
    between = pool.inter_node and replace(pool.inter_node, merged=_with_queue(pool.inter_node.merged, queue))
    return replace(request, pool=replace(pool, pod=_with_queue(pool.pod, queue), inter_node=between))


def _with_queue(additions: PodAdditions, queue: Mapping[str, str]) -> PodAdditions:
    others = {key: value for key, value in additions.labels if key != QUEUE_LABEL}
    return replace(additions, labels=tuple(sorted({**others, **queue}.items())))
