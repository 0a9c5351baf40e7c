"""What every pod of a service is given besides its start: how it ends, and what its engine must know of its place.

**Ending.** An engine that is told to stop refuses new requests, and KServe's gateway needs some seconds to hear of it:
hence a pause before. A leader then finishes what it has, where its version can, within the grace. Its workers end at
once when they are told to, which breaks whatever the leader still computes: they pause until it is done. Pods that a
preset starts have its pause and grace, groups that we start have ours.

**Variables.** Those of the author count, ours are added where they are missing. Several API servers wait for their
engines no longer than `VLLM_ENGINE_READY_TIMEOUT_S`, 600 seconds unless it is set. Without service links no Service
called `vllm` puts an address into a variable that vLLM reads as a port.

**Weights on a claim** are all that an engine needs, unless something names another repository: it asks no hub for news
of them. What engines compile at their first start goes to a volume that any user may write to.

**Certificates** of KServe's TLS are mounted where no preset does.
"""

from collections.abc import Mapping

from function.domain.flags import read
from function.kube.manifests import JSON, Manifest, listing, text
from function.serving import probes, tls
from function.serving.engines import Mode, Run, drain, mode_of, several_api_servers
from function.serving.request import ServingRequest

READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
CACHE = "engine-cache"
_CACHE_PATH = "/var/cache/engine"
_OFFLINE: Mapping[str, str] = {"HF_HUB_OFFLINE": "1"}
_CACHES: Mapping[str, str] = {
    "VLLM_CACHE_ROOT": f"{_CACHE_PATH}/vllm",
    "TRITON_CACHE_DIR": f"{_CACHE_PATH}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{_CACHE_PATH}/inductor",
}
VARIABLES = frozenset({READY_TIMEOUT, *_OFFLINE, *_CACHES})
# What may name another repository than the model's, and variables that speak of a hub.
_OTHER_REPOSITORIES = (
    *("--tokenizer", "--hf-config-path", "--speculative-config", "--lora-modules", "--trust-remote-code"),
    *("--tokenizer-path", "--speculative-draft-model-path", "--lora-paths"),
)
_HUB = ("HF_", "HUGGING_FACE_")
_PAUSE, _GRACE, _MARGIN = 15, 60, 5  # seconds; the first two as in KServe's presets


def completed(pod: Manifest, request: ServingRequest, run: Run, *, leads: bool) -> Manifest:
    """Return a pod of the service with all of that."""
    found = listing(pod, "containers")
    containers: list[JSON] = [_container(container, request, run, leads=leads) for container in found]
    done: Manifest = {**pod, "containers": containers, "enableServiceLinks": False}
    if any(_ends_our_way(container, run) for container in found):
        done["terminationGracePeriodSeconds"] = max(_GRACE, _PAUSE + drain(run.engine) + _MARGIN)
    added: list[JSON] = [{"name": CACHE, "emptyDir": {}}] if _on_a_claim(request) else []
    added += [tls.volume(request.name)] if _brings_certificates(request) else []
    if added:
        done["volumes"] = [*listing(pod, "volumes"), *added]
    return done


def _container(container: Manifest, request: ServingRequest, run: Run, *, leads: bool) -> Manifest:
    given = listing(container, "env")
    names = {text(entry, "name") for entry in given}
    ours = _variables(request, run, leads=leads)
    added: list[JSON] = [{"name": name, "value": ours[name]} for name in sorted(ours) if name not in names]
    done: Manifest = {**container, **({"env": [*given, *added]} if given or added else {})}
    if _ends_our_way(container, run):
        pause = _PAUSE if leads else _PAUSE + drain(run.engine)
        done["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sleep", str(pause)]}}}
    mounts: list[JSON] = [{"name": CACHE, "mountPath": _CACHE_PATH}] if _on_a_claim(request) else []
    mounts += [tls.mount()] if _brings_certificates(request) else []
    if mounts:
        done["volumeMounts"] = [*listing(container, "volumeMounts"), *mounts]
    return done


def _ends_our_way(container: Manifest, run: Run) -> bool:
    return run.shape.nodes > 1 and "command" in container


def _brings_certificates(request: ServingRequest) -> bool:
    """Tell whether no preset mounts the certificate that the engine serves with."""
    return request.kserve.tls and mode_of(request.shape) is Mode.PIPELINE


def _on_a_claim(request: ServingRequest) -> bool:
    return request.uri.startswith("pvc://")


def _variables(request: ServingRequest, run: Run, *, leads: bool) -> Mapping[str, str]:
    ready = str(probes.budget(request))
    return {
        **({READY_TIMEOUT: ready} if leads and several_api_servers(run) else {}),
        **(_CACHES if _on_a_claim(request) else {}),
        **(_OFFLINE if _on_a_claim(request) and not _speaks_of_a_hub(run) else {}),
    }


def _speaks_of_a_hub(run: Run) -> bool:
    variables = (text(entry, "name") for entry in run.engine.env)
    flags = {flag.name for flag in read(run.engine.args)}
    return not flags.isdisjoint(_OTHER_REPOSITORIES) or any(name.startswith(_HUB) for name in variables)
