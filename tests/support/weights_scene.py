"""Requests for weights and their observed objects, for the tests of `reconcile_weights`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from function.contract import Composed
from function.domain.cache import CreatedStorage, StorageChoice, UserClaim
from function.domain.model import HuggingFaceSource
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import JSON, Manifest, get, mapping
from function.remote.object_writer import ManagementPolicy, ObjectWriter, keep_undropped
from function.weights.reconcile import ReconciledWeights, reconcile_weights
from function.weights.request import WeightsRequest
from tests.support.remote_scene import set_field
from tests.support.weights_requests import MULTI, SECRET, model

DESCRIBED = "spec.forProvider.manifest"
FINALIZER = "finalizer.managedresource.crossplane.io"  # provider-kubernetes holds what it may have to delete
NOTHING, WHEN = DownloadRecord(), "2026-01-01T00:00:00Z"
TOKEN_MODEL = model(HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", secret=SECRET))
RETAINED, USERS = CreatedStorage(retain=True), UserClaim(claim="mine")
OWNED, KEPT, FINISHED, OBSERVED = (
    ManagementPolicy.FULL,
    ManagementPolicy.RETAIN,
    ManagementPolicy.OBSERVE_DELETE,
    ManagementPolicy.OBSERVE_ONLY,
)

COMPLETE: Manifest = {"completionTime": WHEN, "conditions": [{"type": "Complete", "status": "True"}]}
FAILED: Manifest = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
EXIT_44 = "Container download for pod team/x failed with exit code 44 matching FailJob rule at index 0"
NOT_WRITABLE: Manifest = {
    "conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": EXIT_44}]
}
RUNS: Manifest = {"active": 1}
ABSENT, SILENT, REFUSED = "external resource does not exist", "dial tcp: i/o timeout", "the PVC is invalid"

Observed = dict[str, Manifest]
Edit = Callable[[Observed], None]


def request_weights(choice: StorageChoice = RETAINED, **more: object) -> WeightsRequest:
    """Builds a request for two nodes with a token."""
    return replace(MULTI, **{"model": TOKEN_MODEL, "choice": choice, **more})  # type: ignore[arg-type]  # as named


@dataclass(frozen=True, kw_only=True)
class Reconciled(ReconciledWeights):
    """Weights with the desired state of all of their objects."""

    composed: Mapping[str, Composed]  # while no service reads other weights
    kept: Mapping[str, Composed]  # what else is desired while a service reads other weights


def reconcile_observed(
    request: WeightsRequest,
    observed: Observed,
    earlier: DownloadRecord = NOTHING,
    *,
    serving_uri: str = "",
    now: float = 0,
) -> Reconciled:
    """Reconciles weights where these Objects are observed."""
    writer = ObjectWriter(owner="kimi", namespace="team", provider_config="east", watch=False, observed=observed)
    weights = reconcile_weights(request, writer, earlier, serving_uri=serving_uri, now=now)
    without, with_previous = (weights.current | weights.desire_previous(are_read=read) for read in (False, True))
    ours = {key: m for key, m in observed.items() if key.partition("-")[0] in {"claim", "job", "scripts", "token"}}
    composed = keep_undropped(ours, without.composed, without.drops)
    all_kept = keep_undropped(ours, with_previous.composed, with_previous.drops)
    kept = {key: item for key, item in all_kept.items() if key not in composed}
    return Reconciled(composed=composed, kept=kept, **{f.name: getattr(weights, f.name) for f in fields(weights)})


def observe_composed(composed: Mapping[str, Composed]) -> Observed:
    """Builds observed Objects from composed ones: claims are bound, nothing else has started, and
    the provider holds them.
    """
    found: Observed = {}
    for key, item in composed.items():
        described = mapping(item.manifest, DESCRIBED)
        remote: Manifest = {**described, "metadata": {**mapping(described, "metadata"), "uid": "1"}}
        if key.startswith("claim-"):
            remote["spec"] = {"accessModes": ["ReadWriteMany"], **mapping(described, "spec")}
            remote["status"] = {"phase": "Bound"}
        metadata: Manifest = {**mapping(item.manifest, "metadata"), "finalizers": [FINALIZER]}
        found[key] = {**item.manifest, "metadata": metadata, "status": {"atProvider": {"manifest": remote}}}
    return found


def observe_started(request: WeightsRequest, *edits: Edit) -> Observed:
    """Builds what is observed once everything is composed, after edits."""
    found = observe_composed(reconcile_observed(request, {}).composed)
    found |= observe_composed(reconcile_observed(request, found).composed)
    for edit in edits:
        edit(found)
    return found


def with_job_status(status: Manifest) -> Edit:
    """Sets the status of the Job."""
    return with_value("job-", "status.atProvider.manifest.status", status)


def with_value(prefix: str, path: str, value: JSON) -> Edit:
    """Sets a field of the Objects with a prefix."""

    def edit(found: Observed) -> None:
        for key in [key for key in found if key.startswith(prefix)]:
            set_field(found[key], path, value)

    return edit


def with_sync_error(prefix: str, message: str) -> Edit:
    """Lets the provider fail with a message."""
    return with_value(prefix, "status.conditions", [{"type": "Synced", "status": "False", "message": message}])


def without(prefix: str) -> Edit:
    """Removes the Objects with a prefix."""

    def edit(found: Observed) -> None:
        for key in [key for key in found if key.startswith(prefix)]:
            del found[key]

    return edit


def list_policies(composed: Mapping[str, Composed]) -> dict[str, ManagementPolicy]:
    """Lists the management policies by the kind of object."""
    found = {}
    for key, item in sorted(composed.items()):
        policies = get(item.manifest, "spec.managementPolicies")
        assert isinstance(policies, list)
        found[key.partition("-")[0]] = ManagementPolicy(tuple(policies))
    return found


GONE: tuple[Edit, ...] = (without("job-"), without("scripts-"), without("token-"))
ALL_KEPT = dict.fromkeys(("claim", "job", "scripts", "token"), KEPT)
ALL_OWNED = dict.fromkeys(ALL_KEPT, OWNED)
