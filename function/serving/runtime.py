"""How the engine's container runs: when it counts as started and ready, how it ends, and which variables it gets.

**Start.** Ten minutes for the engine, eight seconds for each Gi of weights (128 MiB/s, a slow network file system) or,
where the speed of the storage is known, four times what reading them takes (read page by page they came at a quarter of
it, docs/storage.md), and half an hour for the other pods of a group to join. One hour where the size is unknown.

**End.** KServe's gateway needs some seconds to learn that an engine ends, so the container pauses first. A leader then
finishes its requests, where its version can, within the grace period. A stopped worker breaks whatever its leader still
computes, so workers pause until the leader is done. Pods that a preset starts have the preset's pause and grace period.

**Variables.** Those of the author count, others are added where they are missing. Several API servers wait for their
engines no longer than `VLLM_ENGINE_READY_TIMEOUT_S`, 600 seconds unless it is set. An engine that reads its weights
from a claim asks Hugging Face for nothing, unless something names another repository.
"""

import hashlib
from collections.abc import Mapping

from function.domain.engine_args import parse_flags
from function.domain.engine_spec import PORT
from function.domain.pods import add_variables
from function.kube.manifests import JSON, Manifest, text
from function.kube.quantity import GIB
from function.serving.digest import ServingRequest
from function.serving.engine import CERTIFICATES, JOIN_SECONDS, Launch, Mode, Run, drain_seconds, mode_of
from function.weights.claim import load_seconds

_PERIOD = 10  # seconds between two probes, as in KServe's presets
_ENGINE_SECONDS, _UNKNOWN_SECONDS = 600, 3600
_SECONDS_PER_GIB = 8
_PAGE_BY_PAGE = 4
_PAUSE_SECONDS, _GRACE_SECONDS, _MARGIN_SECONDS = 15, 60, 5  # the first two as in KServe's presets

_READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
_CACHE, _CACHE_PATH = "engine-cache", "/var/cache/engine"
_CACHE_VARIABLES: Mapping[str, str] = {
    "VLLM_CACHE_ROOT": f"{_CACHE_PATH}/vllm",
    "TRITON_CACHE_DIR": f"{_CACHE_PATH}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{_CACHE_PATH}/inductor",
}
# Flags that may name another repository than the model's, of any engine, and prefixes of variables about a hub.
_REPOSITORY_FLAGS = (
    *("--tokenizer", "--hf-config-path", "--speculative-config", "--lora-modules", "--trust-remote-code"),
    *("--tokenizer-path", "--speculative-draft-model-path", "--lora-paths"),
)
_HUB_VARIABLES = ("HF_", "HUGGING_FACE_")

_TLS_VOLUME, _TLS_SUFFIX = "tls-certs", "-kserve-self-signed-certs"  # the volume as KServe's presets name it
_LONGEST_NAME, _HASH = 63, 32


def startup_seconds(request: ServingRequest) -> int:
    """Returns how many seconds the engine may take to start, a multiple of the probes' period."""
    seconds = _UNKNOWN_SECONDS
    if request.weights is not None and request.bandwidth:
        seconds = _ENGINE_SECONDS + load_seconds(request.weights, request.bandwidth) * _PAGE_BY_PAGE
    elif request.weights is not None:
        seconds = _ENGINE_SECONDS + -(-request.weights // GIB) * _SECONDS_PER_GIB
    if request.shape.nodes > 1:
        seconds += JOIN_SECONDS
    return -(-seconds // _PERIOD) * _PERIOD


def build_ports_and_probes(request: ServingRequest, run: Run, launch: Launch) -> Manifest:
    """Returns the port and the probes of a leader; a preset's container only gets the startup budget."""
    budget: Manifest = {"failureThreshold": startup_seconds(request) // _PERIOD}
    if not launch.command:
        return {"startupProbe": budget}
    scheme = "HTTPS" if request.kserve.tls else "HTTP"
    check: Manifest = {
        "httpGet": {"path": run.spec.health_path, "port": PORT, "scheme": scheme},
        "timeoutSeconds": run.spec.health_timeout,
        "periodSeconds": _PERIOD,
    }
    return {
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {**check, **budget},
        "readinessProbe": {**check, "failureThreshold": 3},
        # A whole group restarts when its leader does, which may cost hours of loading.
        "livenessProbe": {**check, "failureThreshold": 30},
    }


def build_pre_stop(run: Run, launch: Launch, *, is_leader: bool) -> Manifest | None:
    """Returns the pause before a container of a group ends; None where a preset has it."""
    if not _starts_group(run, launch):
        return None
    pause = _PAUSE_SECONDS if is_leader else _PAUSE_SECONDS + drain_seconds(run.engine)
    return {"preStop": {"exec": {"command": ["/bin/sleep", str(pause)]}}}


def grace_seconds(run: Run, launch: Launch) -> int | None:
    """Returns the grace period of a pod of a group in seconds; None where a preset has it."""
    if not _starts_group(run, launch):
        return None
    return max(_GRACE_SECONDS, _PAUSE_SECONDS + drain_seconds(run.engine) + _MARGIN_SECONDS)


def list_variables(request: ServingRequest, run: Run, given: list[Manifest], *, is_leader: bool) -> list[JSON]:
    """Returns the variables of the engine: the given ones, and those that are added where they are missing."""
    on_claim = _reads_claim(request)
    # As where vLLM's ranks hold copies of a model.
    has_several_api_servers = run.spec.has_api_servers and (run.shape.parallelism.data or 1) > 1
    added: Mapping[str, str] = {
        **({_READY_TIMEOUT: str(startup_seconds(request))} if is_leader and has_several_api_servers else {}),
        **(_CACHE_VARIABLES if on_claim else {}),
        **({"HF_HUB_OFFLINE": "1"} if on_claim and not _may_need_hub(run) else {}),
    }
    return [*add_variables(given, dict(sorted(added.items())))]


def list_volumes(request: ServingRequest) -> list[tuple[Manifest, Manifest]]:
    """Returns the volumes of an engine's pod, each with its mount; a certificate only where no preset mounts it."""
    volumes: list[tuple[Manifest, Manifest]] = []
    if _reads_claim(request):
        volumes.append(({"name": _CACHE, "emptyDir": {}}, {"name": _CACHE, "mountPath": _CACHE_PATH}))
    if request.kserve.tls and mode_of(request.shape) is Mode.PIPELINE:
        secret: Manifest = {"secretName": name_tls_secret(request.name)}
        mount: Manifest = {"name": _TLS_VOLUME, "mountPath": CERTIFICATES, "readOnly": True}
        volumes.append(({"name": _TLS_VOLUME, "secret": secret}, mount))
    return volumes


def name_tls_secret(service: str) -> str:
    """Returns the name of KServe's Secret, which is cut and hashed where it is too long: knative's kmeta.ChildName."""
    if len(service) + len(_TLS_SUFFIX) <= _LONGEST_NAME:
        return service + _TLS_SUFFIX
    hashed = hashlib.md5(service.encode(), usedforsecurity=False).hexdigest()
    return service[: _LONGEST_NAME - _HASH - len(_TLS_SUFFIX)] + hashed + _TLS_SUFFIX


def _starts_group(run: Run, launch: Launch) -> bool:
    """Tells whether an own command starts a pod of a group, so that no preset says how it ends."""
    return run.shape.nodes > 1 and bool(launch.command)


def _reads_claim(request: ServingRequest) -> bool:
    return request.uri.startswith("pvc://")


def _may_need_hub(run: Run) -> bool:
    variables = (text(entry, "name") for entry in run.engine.env)
    flags = {flag.name for flag in parse_flags(run.engine.args)}
    return not flags.isdisjoint(_REPOSITORY_FLAGS) or any(name.startswith(_HUB_VARIABLES) for name in variables)
