"""The objects of a control plane, found as Crossplane finds what a function requires."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

from function.api.inference_environment import parse_environment
from function.api.model_deployment import parse_placement
from function.api.problems import find_nearest
from function.cli.options import CliError, Code
from function.composers import COMPOSERS
from function.contract import Answer, RequiredResource, Requirement
from function.domain.environment import Environment
from function.domain.model import BrokenEntry
from function.domain.placement import Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import JSON, Manifest, flag, get, listing, mapping, strings, text
from function.kube.names import COMPOSITION_KEY, GROUP, VERSION
from function.kube.selectors import Selector
from function.reasons import OWNED
from function.remote.composed_kinds import CONTROL_PLANE_KINDS, OBJECT_GROUP, Role
from function.traffic.routes import TLS_DEFINITION

CLUSTER_SCOPED = frozenset(
    {"ClusterModel", "InferenceEnvironment", *(row.kind for row in CONTROL_PLANE_KINDS if not row.namespaced)}
)
_GROUPS = (GROUP, OBJECT_GROUP, "apiextensions.crossplane.io", "protection.crossplane.io")
_SERIAL = itertools.count()
_ASSUMED = {TLS_DEFINITION, *(f"{row.resource}.{row.group}" for row in CONTROL_PLANE_KINDS if row.role is Role.GKE)}
_SERVED: Manifest = {
    "spec": {"versions": [{"name": "v1", "served": True}, {"name": "v1beta1", "served": True}]},
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> "Ref":
        return cls(text(manifest, "kind"), text(manifest, "metadata.namespace"), text(manifest, "metadata.name"))

    @classmethod
    def resolve(cls, kind: str, namespace: str, name: str) -> "Ref":
        """Returns the reference that an object of a namespace makes; kinds without namespaces get no namespace."""
        return cls(kind, "" if kind in CLUSTER_SCOPED else namespace, name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Store(MutableMapping[Ref, Manifest]):
    """Objects by kind, namespace and name; none is changed in place."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        self._kinds: dict[str, dict[Ref, RequiredResource]] = defaultdict(dict)
        self._owned: dict[Ref, dict[str, Ref]] = defaultdict(dict)
        for manifest in manifests:
            self.put(manifest)

    def __getitem__(self, ref: Ref) -> Manifest:
        return self._kinds[ref.kind][ref].load()

    def __setitem__(self, ref: Ref, manifest: Manifest) -> None:
        if self.get(ref) == manifest:
            return
        # A number unique to this content: caches outlive a store, and compare only this number.
        self._kinds[ref.kind][ref] = RequiredResource(str(next(_SERIAL)).encode(), lambda: manifest)
        owner = _find_owner(manifest)
        key = strings(manifest, "metadata.annotations").get(COMPOSITION_KEY)
        if owner and key:
            self._owned[owner][key] = ref

    def __delitem__(self, ref: Ref) -> None:
        del self._kinds[ref.kind][ref]

    def __iter__(self) -> Iterator[Ref]:
        return iter([ref for kind in self._kinds.values() for ref in kind])

    def __len__(self) -> int:
        return sum(map(len, self._kinds.values()))

    def put(self, manifest: Manifest) -> None:
        self[Ref.of(manifest)] = manifest

    def lay_over(self, manifest: Manifest) -> None:
        """Applies a manifest as kubectl would: an object keeps its identity, and its status unless one is given."""
        existing = self.get(Ref.of(manifest))
        if existing is not None:
            before = mapping(existing, "metadata")
            identity: Manifest = {key: before[key] for key in ("uid", "creationTimestamp") if key in before}
            metadata = {**before, **mapping(manifest, "metadata"), **identity}
            status = manifest.get("status", existing.get("status"))
            manifest = _keep_replicas_by_load(existing, manifest)
            manifest = {**manifest, "metadata": metadata} | ({"status": status} if status else {})
        self.put(manifest)

    def drop(self, ref: Ref) -> None:
        """Deletes an object and, as the garbage collector does, all that it composed."""
        self.pop(ref, None)
        for child in list(self._owned.pop(ref, {}).values()):
            self.drop(child)

    def require(self, ref: Ref, advice: str = "", context: str = "") -> Manifest:
        """Returns an object; without advice the error for one that does not exist lists those that do."""
        if ref not in self:
            known = [other.name for other in self.refs(ref.kind)]
            raise refuse_unknown(f"{context}there is no {ref}", ref.name, known, advice)
        return self[ref]

    def all(self, kind: str) -> list[Manifest]:
        return [self[ref] for ref in self.refs(kind)]

    def refs(self, *kinds: str) -> list[Ref]:
        return sorted(ref for kind in kinds for ref in self._kinds[kind])

    def is_selected(self, ref: Ref, selector: Selector | None) -> bool:
        return selector is None or not selector.find_unmet(strings(self[ref], "metadata.labels"))

    def by_creation(self, kind: str) -> list[Ref]:
        """Returns the references of a kind, oldest first; those that were never created come last, as given."""
        created = {ref: text(self[ref], "metadata.creationTimestamp") for ref in self._kinds[kind]}
        return sorted(created, key=lambda ref: (not created[ref], created[ref]))

    def owned(self, owner: Ref) -> dict[str, Manifest]:
        """Returns what an object composed, by composition-resource-name."""
        return {key: self[ref] for key, ref in sorted(self._owned[owner].items()) if ref in self}

    def find(self, requirement: Requirement) -> Answer:
        """Returns the resources that Crossplane would return."""
        kind = self._kinds[requirement.kind]
        if requirement.name is None:
            return tuple(
                item
                for ref, item in kind.items()
                if requirement.namespace in (None, ref.namespace)
                and requirement.labels.items() <= strings(item.load(), "metadata.labels").items()
            )
        named = kind.get(Ref(requirement.kind, requirement.namespace or "", requirement.name))
        if named is None and requirement.name in _ASSUMED:
            # Files do not say what the control plane serves; `check control-plane` does.
            return (RequiredResource(b"", lambda: _SERVED),)
        return (named,) if named else ()


def refuse_unknown(message: str, name: str, known: Sequence[str], advice: str = "") -> CliError:
    """Returns the error for a name that does not exist; without advice it lists those that do."""
    close = find_nearest(name, known)
    advice = f"Did you mean {close}?" if close else advice or f"There are {', '.join(known) or 'none'}"
    return CliError(f"{message}. {advice}", Code.NOT_FOUND)


def is_known(manifest: Manifest) -> bool:
    """Tells whether an object has a part in decisions, or would have one if its group were not misspelt."""
    return text(manifest, "apiVersion").partition("/")[0] in _GROUPS or has_misspelt_group(manifest)


def has_misspelt_group(manifest: Manifest) -> bool:
    """Tells whether the group of an object, or the lack of one, must be meant for this project's."""
    group, slash, _ = text(manifest, "apiVersion").partition("/")
    return bool(find_nearest(group, (GROUP,))) or (not slash and text(manifest, "kind") in COMPOSERS)


def is_ours(manifest: Manifest) -> bool:
    return text(manifest, "apiVersion") == VERSION and text(manifest, "kind") in COMPOSERS


def normalize_json(value: JSON) -> JSON:
    """Returns a value with whole floats as integers and text for keys, as JSON has them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): normalize_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize_json(item) for item in value]
    return value


def read_environments(store: Store, settings: Settings = BUILT_IN) -> list[Environment]:
    """Returns every environment, invalid ones included, with the settings where it declares nothing."""
    return [parse_environment(manifest, settings).value for manifest in store.all("InferenceEnvironment")]


def find_invalid_pools(store: Store, environment: Environment) -> tuple[BrokenEntry, ...]:
    """Returns the invalid pools of an environment, in its order."""
    if not environment.broken_pools:
        return ()
    return parse_environment(store[Ref("InferenceEnvironment", "", environment.name)], BUILT_IN).pools.invalid


def read_placements(store: Store) -> list[Placement]:
    """Returns every placement that can be read."""
    parsed = (parse_placement(manifest).value for manifest in store.all("ModelPlacement"))
    return [placement for placement in parsed if placement]


def read_conditions(manifest: Manifest) -> tuple[Manifest, ...]:
    """Returns the conditions that the function reports for its kind, each with type, status, reason and message."""
    owned = OWNED[text(manifest, "kind")]
    conditions = (c for c in listing(manifest, "status.conditions") if text(c, "type") in owned)
    return tuple({key: text(c, key) for key in ("type", "status", "reason", "message")} for c in conditions)


def set_owner(owner: Manifest, key: str, manifest: Manifest) -> Manifest:
    """Returns a composed resource as Crossplane writes it to the control plane."""
    reference: Manifest = {k: owner[k] for k in ("apiVersion", "kind")} | {"name": text(owner, "metadata.name")}
    metadata = mapping(manifest, "metadata")
    namespace = text(owner, "metadata.namespace") or text(metadata, "namespace")
    return {
        **manifest,
        "metadata": {
            **metadata,
            **({"namespace": namespace} if namespace else {}),
            "annotations": {**mapping(metadata, "annotations"), COMPOSITION_KEY: key},
            "ownerReferences": [{**reference, "uid": text(owner, "metadata.uid"), "controller": True}],
        },
    }


def adopt_placements(store: Store, refs: Iterable[Ref]) -> None:
    """Makes the deployments that placements from files name their owners.

    A deployment with a uid is one of a control plane, where Crossplane has written the owners.
    """
    for ref in sorted(refs):
        placement = store.get(ref) if ref.kind == "ModelPlacement" else None
        deployment = store.get(Ref("ModelDeployment", ref.namespace, text(placement, "spec.deploymentRef.name")))
        if placement is None or deployment is None or text(deployment, "metadata.uid"):
            continue
        owned = store.owned(Ref.of(deployment))
        if placement in owned.values() or _find_owner(placement) not in (None, Ref.of(deployment)):
            continue
        key = f"placement-{text(placement, 'spec.inferenceEnvironmentRef.name')}"
        store.put(set_owner(deployment, key if key not in owned else f"placement-{ref.name}", placement))


def _find_owner(manifest: Manifest) -> Ref | None:
    owner = next((o for o in listing(manifest, "metadata.ownerReferences") if flag(o, "controller")), None)
    namespace = text(manifest, "metadata.namespace")
    return Ref.resolve(text(owner, "kind"), namespace, text(owner, "name")) if owner else None


def set_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """Returns a manifest with a namespace where its kind has one and it names none, and without one where it has none.

    The API server drops the namespace of a cluster-scoped object silently, too.
    """
    if is_ours(manifest) and text(manifest, "kind") in CLUSTER_SCOPED and get(manifest, "metadata.namespace"):
        metadata = {key: value for key, value in mapping(manifest, "metadata").items() if key != "namespace"}
        return {**manifest, "metadata": metadata}
    if text(manifest, "kind") in CLUSTER_SCOPED or not is_ours(manifest) or get(manifest, "metadata.namespace"):
        return manifest
    return {**manifest, "metadata": {**mapping(manifest, "metadata"), "namespace": namespace}}


def _keep_replicas_by_load(existing: Manifest, manifest: Manifest) -> Manifest:
    """Returns a manifest with the replicas that an autoscaler wrote, which stay if the manifest has none."""
    scaling = mapping(manifest, "spec.scaling")
    fixed = mapping(existing, "spec.scaling.fixed")
    if not fixed or not scaling or "fixed" in scaling or text(existing, "spec.scaling.signal") != "Load":
        return manifest
    return {**manifest, "spec": {**mapping(manifest, "spec"), "scaling": {**scaling, "fixed": fixed}}}
