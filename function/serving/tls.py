"""KServe's own TLS within a cluster, where an environment says that it is on (docs/facts.md, KServe).

KServe makes a certificate for every service, its presets mount it and serve HTTPS with it, and what it puts in front
speaks HTTPS. A command of ours does the same with the same files; where no preset mounts them, we do.
"""

import hashlib

from function.domain.model import EngineName
from function.domain.settings import Kserve
from function.kube.manifests import Manifest

_DIRECTORY, _VOLUME = "/var/run/kserve/tls", "tls-certs"
_SUFFIX = "-kserve-self-signed-certs"
_LONGEST, _HASH = 63, 32


def flags(engine: EngineName) -> tuple[str, ...]:
    """Return what makes an engine serve HTTPS; vLLM reads a certificate again that was renewed."""
    files = (f"--ssl-certfile={_DIRECTORY}/tls.crt", f"--ssl-keyfile={_DIRECTORY}/tls.key")
    return (*files, "--enable-ssl-refresh") if engine is EngineName.VLLM else files


def scheme(kserve: Kserve) -> str:
    """Return how an engine is asked."""
    return "HTTPS" if kserve.tls else "HTTP"


def volume(service: str) -> Manifest:
    """Return the certificate of a service as a volume, named as the presets name it."""
    return {"name": _VOLUME, "secret": {"secretName": secret_name(service)}}


def mount() -> Manifest:
    """Return where a pod has it."""
    return {"name": _VOLUME, "mountPath": _DIRECTORY, "readOnly": True}


def secret_name(service: str) -> str:
    """Return the name of KServe's Secret, which is cut and hashed where it is too long: knative's kmeta.ChildName."""
    if len(service) + len(_SUFFIX) <= _LONGEST:
        return service + _SUFFIX
    hashed = hashlib.md5(service.encode(), usedforsecurity=False).hexdigest()
    return service[: _LONGEST - _HASH - len(_SUFFIX)] + hashed + _SUFFIX
