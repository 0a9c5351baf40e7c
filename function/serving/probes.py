"""When an engine counts as started, ready and stuck.

Loading takes as long as the weights are big: ten minutes for the engine itself, eight seconds for each Gi of
weights (128 MiB/s, a slow network file system) or, where the storage's speed is known, four times what reading them
takes at it, and half an hour for the other pods of a group to be scheduled and join. One hour where the size is not
known. Only an engine that hangs without exiting costs that time. Four times, because a checkpoint that is read page
by page came from network file systems at a quarter of what they gave to one that was read ahead, or slower
(docs/storage.md).

KServe's presets have probes, of which only the startup budget is changed. A command of our own is asked in plain HTTP,
unless the environment says that KServe's TLS is on.

SGLang answers to `/health` in all ranks alike, in old releases also with a dead one among them; `/health_generate`
makes a token, for which it takes up to twenty seconds of its own.
"""

from collections.abc import Mapping

from function.domain.model import EngineName
from function.kube.manifests import Manifest
from function.kube.quantity import GIB
from function.serving.request import ServingRequest
from function.serving.tls import scheme
from function.storage.loading import seconds

PERIOD = 10
_ENGINE, _GROUP, _UNKNOWN = 600, 1800, 3600
_SECONDS_PER_GIB = 8
_PAGE_BY_PAGE = 4
_ASKED: Mapping[EngineName, tuple[str, int]] = {
    EngineName.VLLM: ("/health", 5),
    EngineName.SGLANG: ("/health_generate", 25),
}


def startup(request: ServingRequest) -> Manifest:
    """Return how often the engine may fail to answer while it starts, every ten seconds."""
    return {"failureThreshold": budget(request) // PERIOD}


def budget(request: ServingRequest) -> int:
    """Return how many seconds the engine may take to start, whole tens."""
    starting = _ENGINE + _loading(request.weights, request.bandwidth) if request.weights is not None else _UNKNOWN
    return -(-(starting + (_GROUP if request.shape.nodes > 1 else 0)) // PERIOD) * PERIOD


def _loading(weights: int, bandwidth: int | None) -> int:
    return seconds(weights, bandwidth) * _PAGE_BY_PAGE if bandwidth else -(-weights // GIB) * _SECONDS_PER_GIB


def patience(request: ServingRequest) -> Manifest:
    """Return what a preset's container is given: its own probes, with our startup budget."""
    return {"startupProbe": startup(request)}


def serving(request: ServingRequest, port: int) -> Manifest:
    """Return the port and the probes of a container that we start ourselves."""
    engine = request.profile.engine.name
    path, seconds = _ASKED[engine]
    asked: Manifest = {
        "httpGet": {"path": path, "port": port, "scheme": scheme(request.kserve)},
        "timeoutSeconds": seconds,
    }
    return {
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "startupProbe": {**asked, "periodSeconds": PERIOD, **startup(request)},
        "readinessProbe": {**asked, "periodSeconds": PERIOD, "failureThreshold": 3},
        # A whole group restarts when its leader does, which may cost hours of loading.
        "livenessProbe": {**asked, "periodSeconds": PERIOD, "failureThreshold": 30},
    }
