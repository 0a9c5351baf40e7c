"""What KServe's initializer is given where it downloads into an engine's pod: the Job's settings, as far as they go.

KServe merges a container of that name in the service's template into its own, and the pod is the engine's: image,
resources and variables are merged, images are pulled with the pod's Secrets. KServe mounts certificates for `s3://`
alone, and does so for the variables that it reads itself; for the hub we do. A service account never gets here: it
would be the engine's.
"""

from function.domain.model import HuggingFaceSource, UriSource
from function.domain.settings import BUILT_IN, Download, Initializer
from function.kube import manifests
from function.kube.manifests import JSON, Manifest
from function.weights import job
from function.weights.credentials import Credential

# What KServe's controller looks for in the container's variables, and its name for the file in the ConfigMap.
_KSERVE_NAME, _KSERVE_FILE, _FILE = "AWS_CA_BUNDLE_CONFIGMAP", "AWS_CA_BUNDLE", "cabundle.crt"


def initializer(download: Download, source: HuggingFaceSource | UriSource, secret: Credential | None) -> Initializer:
    """Return what downloads in the pods, and what of it somebody asked for."""
    built_in, env = BUILT_IN.download, job.variables(source, download, secret)
    env_from = secret.env_from if secret else ()
    asked: list[JSON] = [entry for entry in env if not job.built_in(entry)]
    named: Manifest = {
        "image": download.image if download.image != built_in.image else None,
        "resources": download.resources if download.resources != built_in.resources else None,
        "env": asked or None,
        "envFrom": [*env_from] or None,
        "imagePullSecrets": [*sorted(download.pull_secrets)] or None,
    }
    bundle = job.certificates(env)
    if bundle and isinstance(source, UriSource):
        env, bundle = [*env, *_for_kserve(env, *bundle)], None
    return Initializer(
        image=download.image,
        resources=download.resources,
        env=tuple(env),
        env_from=env_from,
        bundle=bundle,
        pull_secrets=download.pull_secrets,
        named=manifests.prune(named),
    )


def pinned_alike(ours: str, theirs: str) -> bool:
    """Tell whether two images are one, or ours is built in and theirs the same as another release pins it.

    What a platform names itself, now or earlier, is no pin (decision 11).
    """
    built_in = BUILT_IN.download.image
    return ours == theirs or (ours == built_in and theirs.partition(":")[0] == built_in.partition(":")[0])


def _for_kserve(env: list[Manifest], name: str, directory: str) -> list[Manifest]:
    said = {manifests.text(entry, "name") for entry in env}
    ours = {_KSERVE_NAME: name, _KSERVE_FILE: f"{directory}/{_FILE}"}
    return [{"name": key, "value": value} for key, value in ours.items() if key not in said]
