"""The volumes of a pod as directories, and which of them a container sees where."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import Manifest, flag, integer, listing, mapping, text
from tools.stack.kubelet.variables import MissingError, Reader, expand, read_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount of a container. Without a source it is memory."""

    source: Path | None
    target: str
    read_only: bool = False


def make_volumes(pod: Manifest, folder: Path, claims: Path, reader: Reader) -> dict[str, Path | None]:
    """Returns the directory of each volume of a pod; None for memory. What a claim holds outlives the pod.

    Raises:
        MissingError: A claim is not bound yet, or a Secret or ConfigMap is missing.
    """
    namespace, group = text(pod, "metadata.namespace"), integer(pod, "spec.securityContext.fsGroup", -1)
    made: dict[str, Path | None] = {}
    for volume in listing(pod, "spec.volumes"):
        name = text(volume, "name")
        directory = folder / name
        if claim := text(volume, "persistentVolumeClaim.claimName"):
            directory = claims / _find_volume(reader, claim, namespace)
            _make(directory, group, 0o755)
        elif "emptyDir" in volume and text(volume, "emptyDir.medium") == "Memory":
            made[name] = None
            continue
        elif "emptyDir" in volume:
            _make(directory, group, 0o777)
        elif "configMap" in volume:
            _write(directory, read_data(reader, "ConfigMap", mapping(volume, "configMap"), namespace))
        elif "secret" in volume:
            _write(directory, read_data(reader, "Secret", mapping(volume, "secret"), namespace))
        else:
            # KServe and the function use no other kind; a missing mount would look like missing weights.
            raise NotImplementedError(f"the kubelet's stand-in has no volumes like {volume}")
        made[name] = directory
    return made


def list_mounts(container: Manifest, volumes: dict[str, Path | None], variables: dict[str, str]) -> Iterator[Mount]:
    """Yields the mounts of a container, the outer ones first."""
    for mount in sorted(listing(container, "volumeMounts"), key=lambda m: text(m, "mountPath")):
        source = volumes[text(mount, "name")]
        part = text(mount, "subPath") or expand(text(mount, "subPathExpr"), variables)
        if source is not None and part:
            source /= part
            if not source.exists():
                source.mkdir(parents=True, mode=0o755)  # as the kubelet does
        yield Mount(source=source, target=text(mount, "mountPath"), read_only=flag(mount, "readOnly"))


def _find_volume(reader: Reader, claim: str, namespace: str) -> str:
    found = reader.get("PersistentVolumeClaim", claim, namespace)
    if text(found, "status.phase") != "Bound":
        raise MissingError(f'persistentvolumeclaim "{claim}" is not bound')
    return text(found, "spec.volumeName")


def _make(directory: Path, group: int, mode: int) -> None:
    """Makes a directory that the pod's group may write to."""
    if not directory.exists():
        directory.mkdir(parents=True)
        directory.chmod(mode)
    if group >= 0:
        os.chown(directory, -1, group)
        directory.chmod(mode | 0o2775)


def _write(directory: Path, files: dict[str, str]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_text(content)
        (directory / name).chmod(0o644)
