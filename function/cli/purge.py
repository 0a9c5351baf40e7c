"""Removes the bytes of a ModelCache from claims that outlive it: a user's own, a shared or a retained one.

Each directory is removed by a Job of the same image, user and node settings as the download had, described by an
Object that is deleted when it is done. Only a directory that a download of ours filled is ever named: models/<key>.
"""

import re
import time
from dataclasses import dataclass

from function.cli.live import Cluster
from function.cli.options import CliError, Code
from function.cli.store import Ref, Store
from function.kube.manifests import JSON, Manifest, copy_manifest, get, listing, mapping, text
from function.kube.names import MANAGED_BY, build_name
from function.remote.health import READINESS, Level, assess
from function.remote.objects import read

# A directory that is gone already is what was wanted.
SCRIPT = "import os, shutil, sys\nif os.path.lexists(sys.argv[1]):\n    shutil.rmtree(sys.argv[1])\n"
_DIRECTORY = re.compile(r"/mnt/models/models/[0-9a-f]{16}", re.ASCII)
_OWNED: JSON = ["*"]
_PURGE_SECONDS = 2
_BACKOFF = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One directory of one claim, and the Object whose Job removes it."""

    environment: str
    claim: str
    directory: str
    manifest: Manifest

    def __str__(self) -> str:
        return f"{self.directory.removeprefix('/mnt/models/')} of claim {self.claim} on {self.environment}"

    def run(self, cluster: Cluster, cache: Ref, timeout: int) -> None:
        """Remove it once the cache is gone, so that nothing is downloaded meanwhile."""
        deadline = time.monotonic() + timeout
        ref = Ref.of(self.manifest)
        while cluster.get(cache) is not None:
            self._pause(deadline, f"{cache} is still being deleted. Run 'kubectl describe' on it")
        cluster.apply(self.manifest)
        while True:
            remote = read(cluster.get(ref))
            health = assess(remote.manifest)
            if remote.present and health.up:
                break
            if health.level is Level.FAILED:
                raise CliError(f"{self} is not removed: {health.message}. {ref} has the Job", Code.REFUSED)
            why = remote.message or health.message
            self._pause(deadline, f"{self} is not removed yet ({why}). {ref} goes on; delete it once it is Ready")
        cluster.delete(ref)

    def _pause(self, deadline: float, message: str) -> None:
        if time.monotonic() > deadline:
            raise CliError(message, Code.REFUSED)
        time.sleep(_PURGE_SECONDS)


def plan_removals(store: Store, cache: Ref) -> tuple[Removal, ...]:
    """Return what there is to remove beyond what goes with the cache."""
    for entry in listing(store.get(cache), "status.environments"):
        if text(entry, "phase") == "Downloading":
            where = text(entry, "name")
            raise CliError(f"{cache} is downloading on {where}. Wait for it, or clear without --purge", Code.REFUSED)
    # A cache names what it composes after the environment.
    composed = [(key.partition("/")[0], m) for key, m in store.owned(cache).items()]
    going = {
        (environment, text(m, "spec.forProvider.manifest.metadata.name"))
        for environment, m in composed
        if _get_remote_kind(m) == "PersistentVolumeClaim" and get(m, "spec.managementPolicies") in (None, _OWNED)
    }
    removals = [_plan_removal(environment, m) for environment, m in composed if _get_remote_kind(m) == "Job"]
    return tuple(r for r in removals if (r.environment, r.claim) not in going)


def _get_remote_kind(manifest: Manifest) -> str:
    return text(manifest, "spec.forProvider.manifest.kind")


def _plan_removal(environment: str, download: Manifest) -> Removal:
    """Return the removal of what a download's Object fetched."""
    job = copy_manifest(mapping(download, "spec.forProvider.manifest"))
    pod = mapping(job, "spec.template.spec")
    container = listing(pod, "containers")[0]
    arguments = container.get("args")
    directory = str(arguments[1]) if isinstance(arguments, list) and len(arguments) > 1 else ""
    if not _DIRECTORY.fullmatch(directory):
        raise CliError(
            f"{Ref.of(download)} fills {directory or 'nothing'}, which is no directory of ours", Code.REFUSED
        )
    volume = next(v for v in listing(pod, "volumes") if "persistentVolumeClaim" in v)
    mounts: list[JSON] = [m for m in listing(container, "volumeMounts") if m.get("name") == volume.get("name")]
    # Of the download's variables none is needed, and its token may be gone.
    kept = {key: value for key, value in container.items() if key in ("image", "securityContext")}
    command: list[JSON] = ["python3", "-c", SCRIPT, directory]
    pod["containers"] = [{**kept, "name": "purge", "command": command, "volumeMounts": mounts}]
    pod["volumes"] = [volume]
    pod.pop("initContainers", None)  # its script is gone once the download is complete
    name = build_name(f"purge-{text(job, 'metadata.name')}", text(job, "metadata.name"), directory)
    namespace = text(job, "metadata.namespace")
    wanted: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {**MANAGED_BY}},
        "spec": {"backoffLimit": _BACKOFF, "template": {**mapping(job, "spec.template"), "spec": pod}},
    }
    return Removal(
        environment=environment,
        claim=text(volume, "persistentVolumeClaim.claimName"),
        directory=directory,
        manifest=_wrap_in_object(download, wanted),
    )


def _wrap_in_object(download: Manifest, job: Manifest) -> Manifest:
    return {
        "apiVersion": download["apiVersion"],
        "kind": "Object",
        "metadata": {
            "name": build_name(f"purge-{text(download, 'metadata.name')}", text(download, "metadata.name"), "purge"),
            "namespace": text(download, "metadata.namespace"),
            "labels": {**MANAGED_BY},
        },
        "spec": {
            "providerConfigRef": mapping(download, "spec.providerConfigRef"),
            "forProvider": {"manifest": job},
            "readiness": {"policy": "DeriveFromCelQuery", "celQuery": READINESS["batch/Job"]},
        },
    }
