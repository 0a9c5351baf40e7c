"""The container that runs as root before a download and gives it the directory of its model, where that must be so.

Its pods are refused by namespaces that enforce Pod Security `restricted`, and then a Job has no pod and no word of why.
So a Job whose pods need more than that level allows is given ten minutes until a pod was seen, and the download's own
time from then on: the deadline is the one part of a Job that may change.
"""

from function.domain.settings import Download
from function.kube import manifests
from function.kube.manifests import JSON, Manifest
from function.weights import scripts
from function.weights.prepare_script import FULL, REFUSED

CONTAINER = "prepare"
CODES = (FULL, REFUSED)
SECONDS_WITHOUT_POD = 600
_SHARED_SECURITY: Manifest = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
_COUNTS = ("active", "failed", "succeeded", "terminating")


def security(download: Download) -> Manifest:
    """Return the rights of the download's pod: a user without any, unless the platform says another."""
    return {
        **_SHARED_SECURITY,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **download.security,
        **({"runAsNonRoot": False} if download.security.get("runAsUser") == 0 else {}),
    }


def container(download: Download, mount: JSON, directory: str) -> Manifest:
    """Return the container; `directory` is the model's, below the claim's `mount`."""
    rights = security(download)
    capabilities: Manifest = {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    return {
        "name": CONTAINER,
        "image": download.image,
        "command": scripts.command(scripts.PREPARE),
        "args": [mount, directory, str(rights["runAsUser"]), str(rights["runAsGroup"])],
        "resources": download.resources,
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
        },
        "volumeMounts": [{"name": "weights", "mountPath": mount}, scripts.mount()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def is_prepared(job: Manifest) -> bool:
    """Tell whether a Job has this container."""
    found = manifests.listing(job, "spec.template.spec.initContainers")
    return any(each.get("name") == CONTAINER for each in found)


def may_be_refused(job: Manifest) -> bool:
    """Tell whether a namespace may refuse the pods of a Job that we wrote."""
    rights = manifests.mapping(job, "spec.template.spec.securityContext")
    return is_prepared(job) or rights.get("runAsNonRoot") is False


def has_had_pods(job: Manifest) -> bool:
    """Tell whether an observed Job has had a pod."""
    waiting = manifests.mapping(job, "status.uncountedTerminatedPods")
    return any(manifests.integer(job, f"status.{count}") for count in _COUNTS) or any(waiting.values())


def never_had_pods(job: Manifest) -> bool:
    """Tell whether an observed Job ended because nobody made it a pod."""
    short = manifests.integer(job, "spec.activeDeadlineSeconds") <= SECONDS_WITHOUT_POD
    return short and may_be_refused(job) and not has_had_pods(job)


def impatient(job: Manifest, written: Manifest, observed: Manifest) -> Manifest:
    """Return a Job with its deadline: that for a pod until there was one; `written` is what it was last written as."""
    full = manifests.integer(job, "spec.activeDeadlineSeconds")
    patient = not may_be_refused(job) or full == manifests.integer(written, "spec.activeDeadlineSeconds")
    if patient or has_had_pods(observed):
        return job
    deadline = min(full, SECONDS_WITHOUT_POD)
    return {**job, "spec": {**manifests.mapping(job, "spec"), "activeDeadlineSeconds": deadline}}
