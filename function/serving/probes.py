"""When an engine counts as started, ready and stuck.

Loading takes as long as the weights are big: ten minutes for the engine itself, eight seconds for each Gi of
weights (128 MiB/s, a slow network file system), and half an hour for the other pods of a group to be
scheduled and join. One hour where the size is not known. Only an engine that hangs without exiting costs
that time.

KServe's presets have probes, of which only the startup budget is changed. A command of our own serves plain
HTTP and says so, also over a preset whose probes would ask for TLS.

SGLang answers to `/health` in all ranks alike, in old releases also with a dead one among them; `/health_generate`
makes a token, for which it takes up to twenty seconds of its own.
"""

from collections.abc import Mapping

from function.domain.model import EngineName
from function.kube.manifests import Manifest
from function.kube.quantity import GIB

PERIOD = 10
_ENGINE, _GROUP, _UNKNOWN = 600, 1800, 3600
_SECONDS_PER_GIB = 8
_ASKED: Mapping[EngineName, tuple[str, int]] = {
    EngineName.VLLM: ("/health", 5),
    EngineName.SGLANG: ("/health_generate", 25),
}


def startup(weights: int | None, nodes: int) -> Manifest:
    """Return how often the engine may fail to answer while it starts, every ten seconds."""
    return {"failureThreshold": budget(weights, nodes) // PERIOD}


def budget(weights: int | None, nodes: int) -> int:
    """Return how many seconds the engine may take to start, whole tens."""
    loading = _UNKNOWN if weights is None else _ENGINE + -(-weights // GIB) * _SECONDS_PER_GIB
    return -(-(loading + (_GROUP if nodes > 1 else 0)) // PERIOD) * PERIOD


def patience(weights: int | None, nodes: int) -> Manifest:
    """Return what a preset's container is given: its own probes, with our startup budget."""
    return {"startupProbe": startup(weights, nodes)}


def serving(engine: EngineName, port: int, weights: int | None, nodes: int) -> Manifest:
    """Return the port and the probes of a container that we start ourselves."""
    path, seconds = _ASKED[engine]
    asked: Manifest = {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}, "timeoutSeconds": seconds}
    return {
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "startupProbe": {**asked, "periodSeconds": PERIOD, **startup(weights, nodes)},
        "readinessProbe": {**asked, "periodSeconds": PERIOD, "failureThreshold": 3},
        # A whole group restarts when its leader does, which may cost hours of loading.
        "livenessProbe": {**asked, "periodSeconds": PERIOD, "failureThreshold": 30},
    }
