"""Messages about weights on one environment, with what to do about a failure, and about how long they load.

ModelPlacement reports them as StorageReady, ModelCache in one row for each environment; both use the same messages.
"""

from collections.abc import Iterator, Mapping

from function.domain.model import Problem
from function.kube.manifests import Manifest, prune
from function.kube.quantity import gib
from function.weights.claim import LoadEstimate, SizeFrom
from function.weights.request import CREATED_CLAIM, Case, StorageRequest
from function.weights.state import Finding, StorageState

_HOUR, _MINUTE = 3600, 60
# What makes room on a claim whose size neither a deployment nor a ModelCache sets.
_SIZE_ADVICE: Mapping[Case | None, str] = {
    Case.SHARED: "raise spec.storage.sharedClaim.size of InferenceEnvironment {environment}",
    Case.USER_CLAIM: "expand the claim, or make room on it",
}


def describe_storage(state: StorageState) -> str:
    problems = "; ".join(map(str, state.problems))
    size = "storage.size of the ModelCache" if state.for_cache else "modelCache.size"
    own_advice = f"raise {size}, or where that is not set the model's spec.resources.disk"
    size_advice = _SIZE_ADVICE.get(state.case, own_advice).format(environment=state.environment)
    message = state.finding.message.format(
        environment=state.environment,
        # A ModelCache names each environment.
        place="" if state.for_cache else f"Environment {state.environment}: ",
        claim=f"{state.name} in namespace {state.namespace} of environment {state.environment}",
        name=state.name,
        namespace=state.namespace,
        message=state.message,
        redownload=format_redownload_note(state.bytes_per_pod),
        failure=state.failure.label if state.failure else "",
        advice=state.failure.value.format(size_advice=size_advice) if state.failure else "",
        retry="retry of the ModelCache" if state.for_cache else "modelCache.retry",
        problems=problems,
        obstacle=state.remote.problem,
    )
    if state.finding is Finding.CLAIM_NOT_SEEN:
        message = state.remote.problem or message
    if problems and state.finding is Finding.HYDRATED:
        message = f"{message}; {problems}"
    return ". Note: ".join([message, *map(str, state.remarks)])


def format_redownload_note(weights: int | None, replicas: int = 1) -> str:
    """Formats what an EmptyDir costs; `weights` in bytes, None where unknown."""
    start = "every pod start" if replicas <= 1 else f"every pod start of each of {replicas} replicas"
    return f"{start} downloads {gib(weights) if weights else 'the weights'} again"


def note_costs(request: StorageRequest) -> Iterator[Problem]:
    """Yields a remark for each storage choice that costs more than it seems to, with the field that makes it."""
    model, case, memory = request.model, request.case, request.gpu_memory or 0
    size = request.claim_size
    if case is Case.EMPTY_DIR and request.replicas > 1:
        note = format_redownload_note(model.disk, request.replicas)
        yield Problem("spec.modelCache", f"is EmptyDir: {note}; set type: PVC for a claim that all replicas read")
    if case not in CREATED_CLAIM or size is None:
        return
    advice = f"set spec.resources.disk of {model.kind} {model.name}"
    if size.source is SizeFrom.GPU_MEMORY:
        yield Problem("spec.modelCache", f"the claim asks for {gib(size.amount)}, the GPUs' memory; {advice}")
    bound = model.vram or memory
    if case is Case.SHARED and not model.disk and bound > size.amount:
        claim = f"claim {request.environment.storage.shared_claim} of InferenceEnvironment {request.environment.name}"
        note = f"{claim} has {gib(size.amount)}, and the weights may need up to {gib(bound)}; {advice}"
        yield Problem("spec.modelCache", note)


def build_load_status(estimate: LoadEstimate | None) -> Manifest:
    if estimate is None:
        return {}
    return prune({"loadTime": _format_duration(estimate.seconds), "loadAdvice": _format_load_advice(estimate) or None})


def describe_load(estimate: LoadEstimate) -> str:
    speed = f"{estimate.bandwidth / 10**9:g} GB/s"
    message = f"weights of at most {gib(estimate.weights)} load in {_format_duration(estimate.seconds)} at {speed}"
    return "; ".join(part for part in (message, _format_load_advice(estimate)) if part)


def _format_load_advice(estimate: LoadEstimate) -> str:
    if not estimate.flags:
        return ""
    return f"engine.args {' or '.join(estimate.flags)} may read several times as fast (docs/storage.md)"


def _format_duration(seconds: int) -> str:
    """Formats a time as `1h5m`, `17m20s` or `45s`."""
    if seconds >= _HOUR:
        minutes = -(-seconds // _MINUTE)
        return f"{minutes // _MINUTE}h{minutes % _MINUTE}m"
    return f"{seconds // _MINUTE}m{seconds % _MINUTE}s" if seconds >= _MINUTE else f"{seconds}s"
