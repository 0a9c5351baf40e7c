"""Status of weights: what was found on one environment and what to do about it, and the status of a ModelCache.

ModelPlacement reports the message about its environment as StorageReady, ModelCache in one row for each environment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from function.contract import RESPONSE_BYTES, Condition
from function.domain.cache import CacheEntry, Consumer
from function.domain.model import DownloadedSource, Model, Problem
from function.domain.records.weights import DownloadProgress, build_download
from function.kube.manifests import JSON, Manifest, prune
from function.kube.messages import join_with_more, truncate_middle
from function.kube.quantity import gib, mib
from function.reasons import ConditionType, Hydrated, Phase, PlacementStorage, Status
from function.weights.claim import LoadEstimate, Size, SizeFrom
from function.weights.reconcile import ReconciledWeights
from function.weights.request import StorageType, WeightsRequest, cache_key, source_uri
from function.weights.state import WeightsFinding, WeightsState

_HOUR, _MINUTE = 3600, 60
_RETRY = {True: "retry of the ModelCache", False: "modelCache.retry"}  # by whether a ModelCache requests the weights
_NOT_DOWNLOADED = (WeightsFinding.PRESTAGED, WeightsFinding.NOT_PRELOADED)
# What makes room on a claim whose size neither a deployment nor a ModelCache sets.
_SIZE_ADVICE: Mapping[StorageType | None, str] = {
    StorageType.SHARED: "raise spec.storage.sharedClaim.size of InferenceEnvironment {environment}",
    StorageType.USER_CLAIM: "expand the claim, or make room on it",
}


def describe_storage(state: WeightsState) -> str:
    """Formats the message of a finding with its problems, and with remarks about the choice of storage."""
    problems = "; ".join(map(str, state.problems))
    size = "storage.size of the ModelCache" if state.for_cache else "modelCache.size"
    own_advice = f"raise {size}, or where that is not set the model's spec.resources.disk"
    size_advice = _SIZE_ADVICE.get(state.storage_type, own_advice).format(environment=state.environment)
    message = state.finding.message.format(
        environment=state.environment,
        # A ModelCache names each environment.
        place="" if state.for_cache else f"Environment {state.environment}: ",
        subject=f"{state.name} in namespace {state.namespace} of environment {state.environment}",
        name=state.name,
        namespace=state.namespace,
        message=state.message,
        redownload=format_redownload_note(state.bytes_per_pod),
        failure=state.failure.label if state.failure else "",
        advice=state.failure.value.format(size_advice=size_advice) if state.failure else "",
        retry=f"retry of adapter {state.adapter}" if state.adapter else _RETRY[state.for_cache],
        problems=problems,
        obstacle=state.remote.problem,
    )
    if state.finding is WeightsFinding.CLAIM_NOT_SEEN:
        message = state.remote.problem or message
    if problems and state.finding is WeightsFinding.HYDRATED:
        message = f"{message}; {problems}"
    if state.progress and state.finding is WeightsFinding.JOB_RUNNING:
        message = f"{message}; {describe_progress(state.progress)}"
    return ". Note: ".join([message, *map(str, state.remarks)])


def describe_progress(progress: DownloadProgress) -> str:
    """Formats how far a download is; the text changes only with the number of complete parts."""
    message = f"{progress.parts_done} of {progress.parts} parts are complete"
    if progress.bytes_total:
        message = f"{message} (about {gib(progress.bytes_done)} of {gib(progress.bytes_total)})"
    if progress.bytes_per_second:
        message = f"{message}, at {mib(progress.bytes_per_second)} per second"
    return f"{message}, all of them are expected by {progress.expected_at}" if progress.expected_at else message


def format_redownload_note(weights_bytes: int | None, replicas: int = 1) -> str:
    """Formats what an EmptyDir costs; `weights_bytes` is None if unknown."""
    start = "every pod start" if replicas <= 1 else f"every pod start of each of {replicas} replicas"
    return f"{start} downloads {gib(weights_bytes) if weights_bytes else 'the weights'} again"


def note_costs(request: WeightsRequest) -> Iterator[Problem]:
    """Yields a remark for each storage choice that costs more than it seems to, with the field that makes it."""
    model = request.model
    case = request.storage_type
    memory = request.gpu_memory or 0
    size = request.claim_size
    if case is StorageType.EMPTY_DIR and request.replicas > 1:
        note = format_redownload_note(model.disk, request.replicas)
        yield Problem("spec.modelCache", f"is EmptyDir: {note}; set type: PVC for a claim that all replicas read")
    if size is None:
        return
    advice = f"set spec.resources.disk of {model.kind} {model.name}"
    if size.source is SizeFrom.GPU_MEMORY:
        yield Problem("spec.modelCache", f"the claim asks for {gib(size.amount)}, the GPUs' memory; {advice}")
    bound = model.vram or memory
    if case is StorageType.SHARED and not model.disk and bound > size.amount:
        claim = f"claim {request.environment.storage.shared_claim} of InferenceEnvironment {request.environment.name}"
        note = f"{claim} has {gib(size.amount)}, and the weights may need up to {gib(bound)}; {advice}"
        yield Problem("spec.modelCache", note)


def build_load_status(estimate: LoadEstimate | None) -> Manifest:
    return {"loadTime": _format_duration(estimate.seconds)} if estimate else {}


def describe_load(estimate: LoadEstimate) -> str:
    speed = f"{estimate.read_bandwidth / 10**9:g} GB/s"
    return f"weights of at most {gib(estimate.weights_bytes)} load in {_format_duration(estimate.seconds)} at {speed}"


def _format_duration(seconds: int) -> str:
    """Formats a time as `1h5m`, `17m20s` or `45s`."""
    if seconds >= _HOUR:
        minutes = -(-seconds // _MINUTE)
        return f"{minutes // _MINUTE}h{minutes % _MINUTE}m"
    return f"{seconds // _MINUTE}m{seconds % _MINUTE}s" if seconds >= _MINUTE else f"{seconds}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(CacheEntry):
    """The status of one environment, and the inputs of the condition."""

    state: WeightsState | None = None  # of the weights; None: the environment does not exist or is invalid
    too_large: bool = False  # nothing is added, because Crossplane would not read the response

    @property
    def is_ready(self) -> bool:
        """Tells whether the environment is known to have the weights now."""
        return self.phase is Phase.READY and not self.unreachable


def build_row(environment: str, weights: ReconciledWeights, recorded: CacheEntry | None) -> Row:
    """Builds the row of a selected environment, which may have the weights even if its cluster is unreachable."""
    state = weights.state
    phase = state.phase
    if state.unreachable:
        last_phase = recorded.phase if recorded else Phase.PENDING
        phase = Phase.READY if weights.service_may_read else last_phase
    return Row(
        environment=environment,
        phase=phase,
        message=truncate_middle(describe_storage(state)),
        unreachable=state.unreachable,
        download=weights.download,
        access_mode=weights.access_mode,
        state=state,
    )


def build_missing_row(environment: str, recorded: CacheEntry | None) -> Row:
    """Builds the row of an environment that does not exist or is invalid; its recorded status stays."""
    entry = recorded or CacheEntry(environment=environment)
    return Row(
        environment=environment,
        phase=entry.phase,
        message=f"InferenceEnvironment {environment} does not exist or is invalid; existing objects are kept",
        download=entry.download,
        access_mode=entry.access_mode,
    )


def describe_waiting(row: Row, size: int) -> Row:
    """Returns the row of an environment to which nothing is added: the response would have `size` bytes."""
    if row.phase is Phase.READY:
        return row
    message = f"waiting for other environments: the response would have {size:,} bytes, the limit is {RESPONSE_BYTES:,}"
    return replace(row, phase=Phase.PENDING, message=message, too_large=True)


def summarize_hydration(rows: Sequence[Row]) -> Condition:
    incomplete = [row for row in rows if row.state is None or not row.is_ready]
    status, reason = _judge_hydration(rows, incomplete)
    have = "are known to have" if any(row.unreachable for row in rows) else "have"
    ready = sum(row.is_ready for row in rows)
    message = f"{ready} of {len(rows)} environments {have} the weights"
    if not rows:
        message = "No environment is named or selected"
    elif all(row.state and row.state.finding in _NOT_DOWNLOADED for row in rows):
        message = "preload is false: nothing is downloaded, and pods read what is on the claims"
    # Failures come first, then clusters that do not answer, then the environments that are furthest from Ready.
    incomplete.sort(
        key=lambda r: (r.phase is not Phase.FAILED, not r.unreachable, tuple(Phase).index(r.phase), r.environment)
    )
    details = join_with_more([f"{row.environment}: {row.message}" for row in incomplete], separator="; ")
    return Condition(ConditionType.HYDRATED, status, reason, f"{message}. {details}" if details else message)


def _judge_hydration(rows: Sequence[Row], incomplete: Sequence[Row]) -> tuple[Status, Hydrated]:
    """Judges all environments: a failure decides, then a cluster that does not answer."""
    states = [row.state for row in rows if row.state]
    unreachable = [state for state in states if state.unreachable]
    findings = {state.finding for state in states}
    if not rows:
        return Status.FALSE, Hydrated.NO_ENVIRONMENT_MATCHES
    if any(row.phase is Phase.FAILED for row in rows):
        return Status.FALSE, Hydrated.DOWNLOAD_FAILED
    if unreachable:
        all_failed = all(state.reason is PlacementStorage.SYNC_FAILED for state in unreachable)
        return Status.UNKNOWN, Hydrated.SYNC_FAILED if all_failed else Hydrated.UNREACHABLE
    if WeightsFinding.CLAIM_NOT_FOUND in findings:
        return Status.FALSE, Hydrated.CLAIM_NOT_FOUND
    if WeightsFinding.UNPLANNABLE in findings:
        return Status.FALSE, Hydrated.INVALID_CACHE
    if any(row.state is None and not row.is_ready for row in rows):
        return Status.FALSE, Hydrated.ENVIRONMENT_NOT_FOUND
    if incomplete and all(row.too_large for row in incomplete):
        return Status.FALSE, Hydrated.RESPONSE_TOO_LARGE
    if all(row.is_ready for row in rows):
        return Status.TRUE, Hydrated.HYDRATED
    return Status.FALSE, Hydrated.PARTIALLY_HYDRATED if any(row.is_ready for row in rows) else Hydrated.DOWNLOADING


def build_cache_status(
    model: Model, size: Size | None, rows: Sequence[Row], used_by: Sequence[str], consumers: Sequence[Consumer]
) -> Manifest:
    """Builds the status.

    `size`: the size of the claims that are created; None if all claims are the users'. The function requires recorded
    consumers by name before it deletes weights.
    """
    recorded: list[JSON] = [
        prune({"name": c.name, "environment": c.environment, "uri": c.uri or None}) for c in consumers
    ]
    source = model.source if isinstance(model.source, DownloadedSource) else None
    environments: list[JSON] = [
        prune(
            {
                "name": row.environment,
                "phase": row.phase,
                "unreachable": row.unreachable or None,
                "accessMode": row.access_mode or None,
                "message": row.message,
                **build_download(row.download),
            }
        )
        for row in rows
    ]
    return prune(
        {
            "cacheKey": cache_key(source) if source else None,
            "uri": source_uri(source) if source else None,
            "size": gib(size.amount) if size else None,
            "environments": environments,
            "ready": sum(row.is_ready for row in rows),
            "desired": len(rows),
            "usedBy": list[JSON](used_by),
            "readers": recorded,
        }
    )
