"""What is said of weights on one environment: one sentence for each state, with what to do about a failure.

ModelPlacement says it as StorageReady, ModelCache in one row for each environment; the same states, the same words.
"""

from collections.abc import Mapping

from function.kube.quantity import gib
from function.weights.failures import Failure
from function.weights.state import Finding, Room, StorageState

ADVICE: Mapping[Failure, str] = {
    Failure.UNAUTHORISED: "the source refused access: check the token, and that its owner may read the repository",
    Failure.NOT_FOUND: "the source does not know the repository, revision or file: correct the model's source",
    Failure.DISK_FULL: "the claim is full: {room}",
    Failure.NOT_WRITABLE: (
        "the download's user (1000 unless storage.download.securityContext says another) may not write to the claim, "
        "nor may root change that where storage.download.prepare lets it try (root_squash, read-only): correct its "
        "permissions"
    ),
    Failure.INCOMPLETE: "files are missing or truncated after the download: check the repository and the patterns",
    Failure.RATE_LIMITED: "the source keeps limiting the rate: use a token or a mirror, or wait",
    Failure.UNREACHABLE: "the source cannot be reached from the cluster: check proxies, mirrors and its network",
    Failure.KILLED: "the download was killed, most often for memory: raise storage.download.resources",
    Failure.UNKNOWN: "the pod's log says why",
    Failure.DEADLINE_EXCEEDED: "storage.download.activeDeadlineSeconds passed: raise it, or check the network's speed",
    Failure.NO_POD: (
        "no pod could be made in ten minutes: the namespace may enforce Pod Security restricted, which refuses what "
        "storage.download.prepare or securityContext ask for. Let it enforce baseline, or set prepare: Never and "
        "correct the claim's permissions"
    ),
    Failure.EXHAUSTED: "every attempt was ended from outside (eviction, node loss): look at the pod's events",
}
_ROOM: Mapping[Room, str] = {
    Room.OWN: "raise {size}, or where that is not set the model's spec.resources.disk",
    Room.SHARED: "raise spec.storage.sharedClaim.size of InferenceEnvironment {environment}",
    Room.USER: "expand the claim, or make room on it",
}


def again(weights: int | None) -> str:
    """Say what an EmptyDir costs: so many bytes, where that is known."""
    return f"every pod start downloads {gib(weights) if weights else 'the weights'} again"


_SENTENCES: Mapping[Finding, str] = {
    Finding.NOT_NEEDED: "Each pod fetches its weights itself; no claim is needed",
    Finding.EMPTY_DIR: "Each pod fetches its weights itself: {again}",
    Finding.PRESTAGED: "The weights are used where they are; nothing is downloaded",
    Finding.UNPLANNABLE: "{problems}",
    Finding.TOKEN_MISSING: "Create Secret {name}: it does not exist",
    Finding.TOKEN_KEY_MISSING: "Add the key to Secret {name}: {said}",
    Finding.TOKEN_REFUSED: "The cluster refused the copy of Secret {name}: {said}",
    Finding.TOKEN_SILENT: "The copy of Secret {name}: {obstacle}",
    Finding.CLAIM_REFUSED: "The cluster refused claim {where}: {said}",
    Finding.CLAIM_NOT_FOUND: "Claim {where} does not exist; create it. Nothing else is used in its place",
    Finding.CLAIM_NOT_SEEN: "Waits for the cluster's answer about claim {where}",
    Finding.CLAIM_NOT_SHARED: "Claim {where} is {said}, and several nodes or replicas need ReadWriteMany",
    Finding.CLAIM_TOO_SMALL: "{problems}",
    Finding.CLAIM_NOT_BOUND: "{place}The claim is not bound yet",
    Finding.SILENT: "{place}{obstacle}",
    Finding.SCRIPTS_REFUSED: (
        "The cluster refused the ConfigMap with the download's scripts. Allow configmaps as install/remote-rbac.yaml "
        "does: {said}"
    ),
    Finding.JOB_REFUSED: "The cluster refused the Job: {said}",
    Finding.JOB_FAILED: (
        "Job {name} failed ({cause}): {advice}. Then set another {retry}; what is downloaded already is kept"
    ),
    Finding.JOB_NOT_STARTED: "The download has not started yet",
    Finding.JOB_RUNNING: "Job {name}: {said}",
    Finding.HYDRATED: "The weights are downloaded and verified",
    Finding.CACHE_NOT_SHARED: "{problems}",
    Finding.CACHE_EMPTY: "The ModelCache has nothing on environment {environment} yet",
    Finding.CACHE_PENDING: "The ModelCache says: {said}",
    Finding.CACHE_DOWNLOADING: "The ModelCache is downloading",
    Finding.CACHE_FAILED: "The ModelCache says: {said}",
    Finding.CACHE_UNREACHABLE: "The ModelCache says: {said}",
    Finding.CACHE_HYDRATED: "The ModelCache's weights are downloaded and verified",
}


def sentence(state: StorageState) -> str:
    """Return what is said of a state."""
    problems = "; ".join(map(str, state.problems))
    text = _SENTENCES[state.finding].format(
        environment=state.environment,
        # A ModelCache says of each environment which it is.
        place="" if state.of_cache else f"Environment {state.environment}: ",
        where=f"{state.name} in namespace {state.namespace} of environment {state.environment}",
        name=state.name,
        said=state.said,
        again=again(state.each_pod),
        cause=state.cause,
        advice=ADVICE[Failure(state.cause)].format(room=_room(state)) if state.cause else "",
        retry="retry of the ModelCache" if state.of_cache else "modelCache.retry",
        problems=problems,
        obstacle=state.remote.problem,
    )
    if state.finding is Finding.CLAIM_NOT_SEEN:
        text = state.remote.problem or text
    text = f"{text}; {problems}" if problems and state.finding is Finding.HYDRATED else text
    return ". Note: ".join([text, *map(str, state.remarks)])


def _room(state: StorageState) -> str:
    size = "storage.size of the ModelCache" if state.of_cache else "modelCache.size"
    return _ROOM[state.room].format(size=size, environment=state.environment)
