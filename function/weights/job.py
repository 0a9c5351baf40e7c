"""The one builder of download Jobs.

One pod, one container of the initializer's image: its python runs our script (download_script.py), which runs the
initializer and proves what it fetched. The script is mounted from a ConfigMap (scripts.py) whose name changes with the
script. URI, directory and patterns are arguments and variables, never part of the script. A Job's pod template is
immutable, so its name carries a hash of everything in it and of `retry`: whatever changes starts a new Job over the
files that are there, and what does not change never does. No TTL: the provider would create it again.
"""

import json
from dataclasses import dataclass, field

from function.domain.model import HuggingFaceSource, UriSource
from function.domain.settings import BACKOFF_LIMIT, JOB_NAME, Download
from function.kube import manifests, names
from function.kube.manifests import JSON, Manifest
from function.weights import cachekey, preparation, scripts
from function.weights.credentials import Credential
from function.weights.download_script import PROGRAM
from function.weights.failures import FINAL

MOUNT = "/mnt/models"
CONTAINER = "download"
NAME_LIMIT = 52  # a pod's name adds a suffix and must stay a label
# KServe's own convention: the ConfigMap holds cabundle.crt, and the initializer reads these two variables.
BUNDLE_NAME, BUNDLE_DIRECTORY = "CA_BUNDLE_CONFIGMAP_NAME", "CA_BUNDLE_VOLUME_MOUNT_POINT"
# A reference is applied as a whole: without its default version, two Objects that describe one Job would take it from
# each other for ever.
_JOB_NAME = "metadata.labels['job-name']"
# Progress is worth a line every half minute, not ten a second, in a log that is kept for a day.
_ENV = {
    "HF_HOME": "/tmp/hf",  # noqa: S108  # an emptyDir
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_XET_NUM_CONCURRENT_RANGE_GETS": "8",
    "TQDM_MININTERVAL": "30",
}

# A Secret that arrives whole must decide neither what the script runs nor where a token goes. A variable that stands
# here by name is stronger than one of a Secret (docs/facts.md, Kubernetes).
_GUARDED = {"MODELPLANE_INITIALIZER": PROGRAM, "HF_ENDPOINT": "https://huggingface.co"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadSpec:
    """A download: these bytes into their directory of this claim. `stem` begins the Job's name.

    `scripts` names the ConfigMap with the scripts. `pull_secrets` are those of the environment, besides the download's
    own. `prepared`: root makes the directory first.
    `node_selector` and `tolerations`: of the nodes on which the weights are read, where they can be read nowhere else.
    """

    namespace: str
    stem: str
    claim: str
    scripts: str
    source: HuggingFaceSource | UriSource
    download: Download
    credential: Credential | None = None
    retry: str = ""
    pull_secrets: tuple[str, ...] = ()
    prepared: bool = False
    node_selector: Manifest = field(default_factory=dict)
    tolerations: tuple[JSON, ...] = ()


def build(task: DownloadSpec) -> Manifest:
    """Return the Job."""
    labels: Manifest = {**names.MANAGED_BY, names.LABEL_CACHE_KEY: cachekey.key(task.source)}
    spec: Manifest = manifests.prune(
        {
            "activeDeadlineSeconds": task.download.deadline_seconds,
            "backoffLimit": task.download.backoff_limit,
            "podFailurePolicy": {"rules": _rules(prepared=task.prepared)},
            "template": {
                # A mesh's sidecar would outlive the download, and the Job would never complete.
                "metadata": {"labels": {**labels, "sidecar.istio.io/inject": "false"}},
                "spec": _pod(task),
            },
        }
    )
    hashed = json.dumps(spec, sort_keys=True)
    name = names.build_name(task.stem, task.namespace, task.stem, hashed, task.retry, limit=NAME_LIMIT)
    metadata: Manifest = {
        "name": name,
        "namespace": task.namespace,
        "labels": labels,
        # A Job deleted by a client that says nothing about its pods leaves them, and they hold the claim for good.
        "finalizers": ["foregroundDeletion"],
    }
    if task.retry:
        metadata["annotations"] = {names.ANNOTATION_RETRY: task.retry}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def variables(
    source: HuggingFaceSource | UriSource, download: Download, credential: Credential | None
) -> list[Manifest]:
    """Return the variables of a container that runs the initializer: ours, the platform's, the source's."""
    env: dict[JSON, Manifest] = {name: {"name": name, "value": value} for name, value in _ENV.items()}
    env |= {entry.get("name"): entry for entry in download.env}
    if isinstance(source, HuggingFaceSource):
        patterns = {"STORAGE_ALLOW_PATTERNS": source.allow, "STORAGE_IGNORE_PATTERNS": source.ignore}
        env |= {name: {"name": name, "value": literal(json.dumps(sorted(p)))} for name, p in patterns.items() if p}
    if credential:
        env |= {entry["name"]: entry for entry in credential.env}
    return [*env.values()]


def built_in(entry: Manifest) -> bool:
    """Tell whether a variable is ours and nobody gave it another value."""
    name = manifests.text(entry, "name")
    return name in _ENV and entry == {"name": name, "value": _ENV[name]}


def certificates(env: list[Manifest]) -> tuple[str, str] | None:
    """Return the ConfigMap with the certificates that variables name, and where they expect it; None for none."""
    values = {manifests.text(entry, "name"): manifests.text(entry, "value") for entry in env}
    name = values.get(BUNDLE_NAME)
    return (name, values.get(BUNDLE_DIRECTORY) or "/etc/ssl/custom-certs") if name else None


def literal(value: str) -> str:
    """Return a value that Kubernetes passes on unchanged: it expands $(NAME) in args and env."""
    return value.replace("$", "$$")


def _rules(*, prepared: bool) -> list[JSON]:
    final: dict[str, list[JSON]] = {CONTAINER: [*FINAL]}
    if prepared:
        final[preparation.CONTAINER] = [*preparation.CODES]
    ends: list[JSON] = [
        {"action": "FailJob", "onExitCodes": {"containerName": name, "operator": "In", "values": codes}}
        for name, codes in final.items()
    ]
    return [
        *ends,
        # A drained node is nobody's failure and must not burn the backoff.
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]


def _pod(task: DownloadSpec) -> Manifest:
    download = task.download
    env = variables(task.source, download, task.credential)
    volumes, mounts = _volumes(task, env)
    names_ = dict.fromkeys((*download.pull_secrets, *task.pull_secrets))
    pull_secrets: list[JSON] = [{"name": name} for name in names_]
    return manifests.prune(
        {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "serviceAccountName": download.service_account,
            "imagePullSecrets": pull_secrets or None,
            # Whoever names nodes for downloads knows where their volumes are.
            "nodeSelector": download.node_selector or task.node_selector or None,
            "tolerations": [*download.tolerations, *task.tolerations] or None,
            "securityContext": preparation.security(download),
            "initContainers": [_prepare(task)] if task.prepared else None,
            "containers": [{**_container(task, env), "volumeMounts": mounts}],
            "volumes": volumes,
        }
    )


def _prepare(task: DownloadSpec) -> Manifest:
    return preparation.container(task.download, MOUNT, cachekey.directory(task.source))


def _container(task: DownloadSpec, env: list[Manifest]) -> Manifest:
    download = task.download
    own: list[JSON] = [
        {"name": BACKOFF_LIMIT, "value": str(download.backoff_limit)},
        {"name": JOB_NAME, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": _JOB_NAME}}},
    ]
    env_from: list[JSON] = [*task.credential.env_from] if task.credential else []
    if env_from:
        said = {manifests.text(entry, "name") for entry in env}
        own += [{"name": name, "value": value} for name, value in _GUARDED.items() if name not in said]
    return manifests.prune(
        {
            "name": CONTAINER,
            "image": download.image,
            "command": scripts.command(scripts.DOWNLOAD),
            "args": [literal(cachekey.uri(task.source)), f"{MOUNT}/{cachekey.directory(task.source)}"],
            "env": [*env, *own],
            "envFrom": env_from or None,
            "resources": download.resources,
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    )


def _volumes(task: DownloadSpec, env: list[Manifest]) -> tuple[list[JSON], list[JSON]]:
    volumes: list[JSON] = [
        {"name": "weights", "persistentVolumeClaim": {"claimName": task.claim}},
        {"name": "scratch", "emptyDir": {}},
        scripts.volume(task.scripts),
    ]
    mounts: list[JSON] = [
        {"name": "weights", "mountPath": MOUNT},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108  # an emptyDir
        scripts.mount(),
    ]
    bundle = certificates(env)
    if bundle:
        volumes.append({"name": "certificates", "configMap": {"name": bundle[0]}})
        mounts.append({"name": "certificates", "mountPath": bundle[1], "readOnly": True})
    if task.credential:
        volumes.extend(task.credential.volumes)
        mounts.extend(task.credential.mounts)
    return volumes, mounts
