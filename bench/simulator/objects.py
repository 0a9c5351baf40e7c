"""Objects as an API server keeps them: versions, what selects them, and what was changed."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crossplane.function.proto.v1.run_function_pb2 import ResourceSelector

from bench import wire
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, flag, get, listing, mapping, strings, text
from function.kube.names import COMPOSITION_KEY


class Version:
    """One version of an object; its bytes are made once."""

    __slots__ = ("_wire", "labels", "manifest", "number", "ref", "uid")

    def __init__(self, ref: Ref, manifest: Manifest, number: int) -> None:
        self.ref, self.manifest, self.number = ref, manifest, number
        self.labels: Mapping[str, str] = strings(manifest, "metadata.labels")
        self.uid = text(manifest, "metadata.uid")
        self._wire: bytes | None = None

    @property
    def wire(self) -> bytes:
        """The bytes of a Resource."""
        if self._wire is None:
            self._wire = wire.resource(self.manifest)
        return self._wire

    @property
    def deleting(self) -> bool:
        """Whether it waits for its finalizers."""
        return bool(text(self.manifest, "metadata.deletionTimestamp"))

    @property
    def controller(self) -> Manifest:
        """The reference to who controls it, or an empty map."""
        owners = listing(self.manifest, "metadata.ownerReferences")
        return next((owner for owner in owners if flag(owner, "controller")), {})

    @property
    def key(self) -> str:
        """Its composition-resource-name, empty where it is not composed."""
        return strings(self.manifest, "metadata.annotations").get(COMPOSITION_KEY, "")


class Event(NamedTuple):
    """A write: created where nothing was before, removed where nothing is now."""

    ref: Ref
    before: Version | None
    now: Version | None


class Selector(NamedTuple):
    """Which objects: one by name, else those with all of the labels; without a namespace, those of every one."""

    kind: str
    namespace: str = ""
    name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, wanted: ResourceSelector) -> "Selector":
        """Return what a function asks for, as core reads it."""
        name = wanted.match_name if wanted.HasField("match_name") else None
        labels = tuple(sorted(wanted.match_labels.labels.items())) if wanted.HasField("match_labels") else ()
        return cls(wanted.kind, wanted.namespace, name, labels)

    @property
    def ref(self) -> Ref:
        """The one object; a name without a namespace is a cluster-scoped object's."""
        return Ref(self.kind, self.namespace, self.name or "")

    def carried(self, labels: Mapping[str, str]) -> bool:
        """Tell whether these labels are selected."""
        return all(labels.get(key) == value for key, value in self.labels)


def with_metadata(manifest: Manifest, fields: Mapping[str, JSON]) -> Manifest:
    """Return a manifest with some fields of its metadata replaced; empty ones are left out."""
    metadata = {**mapping(manifest, "metadata"), **fields}
    return {**manifest, "metadata": {key: value for key, value in metadata.items() if value not in (None, [], {})}}


def with_annotations(manifest: Manifest, annotations: Mapping[str, JSON]) -> Manifest:
    """Return a manifest with more annotations."""
    return with_metadata(manifest, {"annotations": {**mapping(manifest, "metadata.annotations"), **annotations}})


def finalizers(manifest: Manifest) -> list[JSON]:
    """Return a copy of an object's finalizers."""
    found = get(manifest, "metadata.finalizers")
    return [*found] if isinstance(found, list) else []


def with_finalizers(manifest: Manifest, names: Iterable[JSON]) -> Manifest:
    """Return a manifest with these finalizers."""
    return with_metadata(manifest, {"finalizers": [*names]})
