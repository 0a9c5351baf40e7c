"""Finds storage settings that cost more than they seem to, or have no effect, on any environment that may be chosen."""

from collections.abc import Iterable, Iterator, Sequence

from function.domain.environment import Environment
from function.domain.model import DownloadedSource, Problem
from function.domain.placement import Deployment
from function.kube.manifests import Manifest, mapping, text
from function.kube.quantity import gib
from function.reasons import Refused
from function.scheduling.filters import REQUIREMENT_REASONS, filter_candidates
from function.scheduling.ledger import Ledger
from function.scheduling.scheduler import NO_POOL
from function.scheduling.verdicts import SchedulingRequest
from function.status.weights import format_redownload_note, note_costs
from function.weights.claim import READ_WRITE_MANY
from function.weights.faults import find_faults, find_remarks
from function.weights.request import Case, StorageRequest, cache_key

_NOWHERE = Environment(name="")


def find_costs(
    deployment: Deployment, weights: StorageRequest, environments: Sequence[Environment]
) -> Iterator[Problem]:
    """Yields remarks on storage settings of a deployment that are costly or have no effect on these environments."""
    requests = [*_list_requests(deployment, weights, environments or (_NOWHERE,))]
    for request in requests:
        yield from find_remarks(request)
        if request.case is Case.EMPTY_DIR:
            note = format_redownload_note(weights.model.disk, deployment.replicas)
            yield Problem("spec.modelCache", f"is EmptyDir: {note}")
        else:
            yield from note_costs(request)
    unshared = [
        f"{fault.message.rstrip('.')}. {fault.remedy(request.environment.name)}"
        for request in requests
        for fault in find_faults(request)[:1]
        if fault.reason is Refused.SHARED_STORAGE_MISSING and request.environment is not _NOWHERE
    ]
    if unshared and len(unshared) == len(requests):
        yield Problem("spec.modelRef", unshared[0])


def _list_requests(
    deployment: Deployment, weights: StorageRequest, environments: Iterable[Environment]
) -> Iterator[StorageRequest]:
    """Returns the request for each pool that satisfies a profile; without pools those of profiles with a shape."""
    request = SchedulingRequest(deployment=deployment, model=weights.model, weights=weights)
    for environment in environments:
        if not environment.pools:
            shapes = (profile.shape for profile in weights.model.profiles)
            yield from (weights.with_pool(environment, NO_POOL, s, deployment.replicas) for s in shapes if s)
        for candidate, refusals in filter_candidates(request, environment, Ledger(())):
            is_refused = any(refusal.reason in REQUIREMENT_REASONS for refusal in refusals)
            if candidate and candidate.shape and not is_refused:
                yield weights.with_pool(environment, candidate.pool, candidate.shape, deployment.replicas)


def find_full_claims(
    deployment: Deployment,
    weights: StorageRequest,
    others: Iterable[tuple[Deployment, StorageRequest]],
    environments: Iterable[Environment],
) -> Iterator[Problem]:
    """Returns the Shared claims that cannot hold this model and those of other deployments that may use them."""
    sharing = [(deployment, weights), *others]
    for environment in environments:
        storage, disks = environment.storage, [_find_shared(*each, environment) for each in sharing]
        known = dict(filter(None, disks))
        needed = sum(disk for _, disk in known.values())
        if disks[0] and len(known) > 1 and needed > storage.shared_size and storage.size_enforced:
            models = ", ".join(f"{name} {gib(disk)}" for name, disk in sorted(known.values()))
            claim = f"claim {storage.shared_claim} of InferenceEnvironment {environment.name}"
            room = f"{claim} has {gib(storage.shared_size)}, and the models that share it need {gib(needed)}"
            yield Problem("spec.modelRef", f"{room}: {models}")


def _find_shared(
    deployment: Deployment, weights: StorageRequest, environment: Environment
) -> tuple[str, tuple[str, int]] | None:
    """Returns cache key, name and disk of a model that is kept on the Shared claim of an environment."""
    model, requests = weights.model, _list_requests(deployment, weights, (environment,))
    if not model.disk or not isinstance(model.source, DownloadedSource):
        return None
    is_shared = any(request.case is Case.SHARED for request in requests)
    return (cache_key(model.source), (model.name, model.disk)) if is_shared else None


def find_default_class(manifest: Manifest) -> Iterator[Problem]:
    """Yields a remark if a ReadWriteMany claim is left to the default class of the cluster."""
    path = "spec.modelCache" if text(manifest, "kind") == "ModelDeployment" else "spec.storage"
    storage = mapping(manifest, path)
    if storage.get("storageClassName") == "" and storage.get("accessMode") in (None, READ_WRITE_MANY):
        message = "leaves claims to the cluster's default class, and many of those cannot do ReadWriteMany; name one"
        yield Problem(f"{path}.storageClassName", f'"" {message}')
