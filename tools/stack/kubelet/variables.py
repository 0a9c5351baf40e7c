"""The variables of a container, and what the kubelet replaces in its command."""

import base64
import re
from collections.abc import Mapping
from typing import Protocol

from function.kube.manifests import Manifest, flag, get, listing, mapping, strings, text

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_KEYED = re.compile(r"(?P<path>[a-z.]+)\['(?P<key>[^']+)'\]")


class Reader(Protocol):
    """Reads objects of the pod's cluster."""

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """Returns the object, or None if there is none."""


class MissingError(LookupError):
    """A pod needs an object that is not there yet."""


def list_variables(container: Manifest, pod: Manifest, reader: Reader, image: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a container; later ones may refer to earlier ones.

    Raises:
        MissingError: A Secret or ConfigMap or its key is missing.
    """
    namespace = text(pod, "metadata.namespace")
    found = {"HOSTNAME": hostname(pod), **image}
    for source in listing(container, "envFrom"):
        for kind, key in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            if reference := mapping(source, key):
                prefix = text(source, "prefix")
                found |= {prefix + name: value for name, value in read_data(reader, kind, reference, namespace).items()}
    for entry in listing(container, "env"):
        value = _read_value(entry, pod, reader)
        if value is not None:
            found[text(entry, "name")] = expand(value, found)
    return found


def hostname(pod: Manifest) -> str:
    """Returns the host name of a pod."""
    return text(pod, "spec.hostname") or text(pod, "metadata.name")[:63].rstrip("-.")


def expand(part: str, variables: Mapping[str, str]) -> str:
    """Returns a part of a command as the kubelet passes it on: `$(NAME)` replaced, `$$` a dollar."""
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else variables.get(m[1], m[0]), part)


def read_data(reader: Reader, kind: str, reference: Manifest, namespace: str) -> dict[str, str]:
    """Returns the data of a Secret or ConfigMap; nothing of an optional one that is missing.

    Raises:
        MissingError: It is missing and not optional.
    """
    name = text(reference, "name") or text(reference, "secretName")
    found = reader.get(kind, name, namespace)
    if found is None:
        if flag(reference, "optional"):
            return {}
        raise MissingError(f'{kind.lower()} "{name}" not found')
    data = strings(found, "data")
    return data if kind == "ConfigMap" else {key: base64.b64decode(value).decode() for key, value in data.items()}


def _read_value(entry: Manifest, pod: Manifest, reader: Reader) -> str | None:
    """Returns the value of a variable; None for an optional one that is missing."""
    source = mapping(entry, "valueFrom")
    if not source:
        return text(entry, "value")
    if path := text(source, "fieldRef.fieldPath"):
        return _read_field(pod, path)
    for kind, key in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if reference := mapping(source, key):
            data = read_data(reader, kind, reference, text(pod, "metadata.namespace"))
            wanted = text(reference, "key")
            if wanted not in data and not flag(reference, "optional"):
                raise MissingError(f"couldn't find key {wanted} in {kind} {text(reference, 'name')}")
            return data.get(wanted)
    # KServe and the function use no other source; an unset variable would change what the engine does.
    raise NotImplementedError(f"the kubelet's stand-in cannot read {source}")


def _read_field(pod: Manifest, path: str) -> str:
    if keyed := _KEYED.fullmatch(path):
        return strings(pod, keyed["path"]).get(keyed["key"], "")
    return str(get(pod, path) or "")
