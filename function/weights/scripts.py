"""The ConfigMap that carries the scripts of a download into the pods of its Job.

A script is 20 kB, and a Job's command would repeat it in the Job, in the Object that describes the Job, and in what the
provider reports. The ConfigMap is needed while pods of the Job may start, and no longer. Its name holds a hash of its
content, so other scripts are another ConfigMap and change no Job that exists.
"""

from importlib import resources

from function.kube import names
from function.kube.manifests import JSON, Manifest

DOWNLOAD, PREPARE = "download.py", "prepare.py"
VOLUME, MOUNT = "scripts", "/opt/modelplane"
_FILES = {DOWNLOAD: "download_script.py", PREPARE: "prepare_script.py"}
SCRIPTS = {name: resources.files("function.weights").joinpath(file).read_text() for name, file in _FILES.items()}


def build(namespace: str, stem: str, key: str, *owner: str) -> Manifest:
    """Return the ConfigMap for downloads of one cache key; `stem` begins its name, as it begins the Job's."""
    content = [f"{name}\n{script}" for name, script in sorted(SCRIPTS.items())]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.build_name(stem, namespace, *owner, stem, "scripts", key, *content),
            "namespace": namespace,
            "labels": {**names.MANAGED_BY, names.LABEL_CACHE_KEY: key},
        },
        "immutable": True,
        "data": {**SCRIPTS},
    }


def command(script: str) -> list[JSON]:
    """Return the command of a container that runs a script."""
    return ["python3", f"{MOUNT}/{script}"]


def volume(config_map: str) -> Manifest:
    """Return the volume of the pod."""
    return {"name": VOLUME, "configMap": {"name": config_map}}


def mount() -> Manifest:
    """Return the mount of a container."""
    return {"name": VOLUME, "mountPath": MOUNT, "readOnly": True}
