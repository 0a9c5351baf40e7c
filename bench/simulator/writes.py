"""What core writes: a composed resource laid over what is there, references, status and conditions.

Plain functions from manifests to manifests. Server-side apply is simulated as far as it is visible: what the function
wrote earlier and leaves out goes, what others wrote stays.
"""

from collections.abc import Iterable, Mapping

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from bench.simulator.objects import Version, with_metadata
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, listing, mapping, strings, text
from function.kube.names import COMPOSITION_KEY

COMPOSITE_LABEL = "crossplane.io/composite"
_STATUS = {
    fnv1.STATUS_CONDITION_TRUE: "True",
    fnv1.STATUS_CONDITION_FALSE: "False",
    fnv1.STATUS_CONDITION_UNKNOWN: "Unknown",
}


def child(xr: Ref, manifest: Manifest) -> Ref:
    """Return which object a composed resource is: in the composite's namespace, unless that has none."""
    found = Ref.of(manifest)
    return Ref(found.kind, xr.namespace or found.namespace, found.name)


def composed(xr: Version, key: str, ref: Ref, wanted: Manifest) -> Manifest:
    """Return what core applies: the function's manifest with name, owner and the marks of a composed resource."""
    owner: Manifest = {
        "apiVersion": text(xr.manifest, "apiVersion"),
        "kind": xr.ref.kind,
        "name": xr.ref.name,
        "uid": xr.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    marked: Manifest = {
        "name": ref.name,
        "namespace": ref.namespace,
        "labels": {**mapping(wanted, "metadata.labels"), COMPOSITE_LABEL: xr.ref.name},
        "annotations": {**mapping(wanted, "metadata.annotations"), COMPOSITION_KEY: key},
        "ownerReferences": [owner],
    }
    return with_metadata({k: v for k, v in wanted.items() if k != "status"}, marked)


def is_anothers(there: Version, xr: Version) -> bool:
    """Tell whether another object controls it: no API server accepts two controllers."""
    return text(there.controller, "uid") not in {"", xr.uid}


def applied(there: Manifest, wanted: Manifest, before: Manifest) -> Manifest:
    """Return an object with `wanted` applied over it, where `before` was applied last."""
    laid = {**there, **{key: value for key, value in wanted.items() if key != "metadata"}}
    core = mapping(there, "spec.crossplane")  # an XR's, written by core itself
    if core:
        laid["spec"] = {**mapping(wanted, "spec"), "crossplane": core}
    maps: Manifest = {
        field: {
            **{k: v for k, v in strings(there, path).items() if k not in strings(before, path)},
            **strings(wanted, path),
        }
        for field in ("labels", "annotations")
        for path in (f"metadata.{field}",)
    }
    return with_metadata(laid, {**maps, "ownerReferences": [*listing(wanted, "metadata.ownerReferences")]})


def unlabelled(manifest: Manifest) -> Manifest:
    """Return a composed resource without core's label, as core leaves it before it deletes it."""
    labels = {key: value for key, value in strings(manifest, "metadata.labels").items() if key != COMPOSITE_LABEL}
    return with_metadata(manifest, {"labels": dict[str, JSON](labels)})


def with_references(manifest: Manifest, composed: Iterable[Manifest]) -> Manifest:
    """Return an XR whose references are these composed resources."""
    namespaced = bool(text(manifest, "metadata.namespace"))
    references: list[JSON] = []
    for found in sorted(composed, key=lambda m: (text(m, "apiVersion"), str(Ref.of(m)))):
        reference = {key: text(found, key) for key in ("apiVersion", "kind")} | {"name": text(found, "metadata.name")}
        namespace = text(found, "metadata.namespace")
        references.append({**reference, **({"namespace": namespace} if namespace and not namespaced else {})})
    spec = mapping(manifest, "spec")
    return {**manifest, "spec": {**spec, "crossplane": {**mapping(spec, "crossplane"), "resourceRefs": references}}}


def with_core(manifest: Manifest, field: str, value: str) -> Manifest:
    """Return an XR with what core chose for it."""
    spec = mapping(manifest, "spec")
    return {**manifest, "spec": {**spec, "crossplane": {**mapping(spec, "crossplane"), field: {"name": value}}}}


def with_status(manifest: Manifest, desired: Manifest) -> Manifest:
    """Return an XR with the function's status; conditions come with the next write.

    Core also sends along the conditions that it saw. Where the cache is late by about the time between its two writes
    of a status that sets them back for a moment, on every write; nothing here depends on that, and it would be most of
    what is simulated.
    """
    written = mapping(manifest, "status").get("conditions")
    status = {key: value for key, value in desired.items() if key != "conditions"}
    return {**manifest, "status": {**status, **({"conditions": written} if written else {})}}


def with_conditions(manifest: Manifest, written: Iterable[Manifest], time: str) -> Manifest:
    """Return an XR with conditions set; one that says what it said keeps its time."""
    conditions = {text(c, "type"): c for c in listing(manifest, "status.conditions")}
    for said in written:
        type_ = text(said, "type")
        there = {k: v for k, v in conditions.get(type_, {}).items() if k != "lastTransitionTime"}
        if there != said:
            conditions[type_] = {**said, "lastTransitionTime": time}
    return {**manifest, "status": {**mapping(manifest, "status"), "conditions": [*conditions.values()]}}


def conditions(response: fnv1.RunFunctionResponse, generation: JSON, unsynced: Iterable[str]) -> list[Manifest]:
    """Return the function's conditions and core's own about what it composed."""
    own = [_condition(c.type, _STATUS.get(c.status, "Unknown"), c.reason, c.message) for c in response.conditions]
    unready = sorted(name for name, item in response.desired.resources.items() if item.ready != fnv1.READY_TRUE)
    forced = response.desired.composite.ready
    ready = forced == fnv1.READY_TRUE or (not unready and forced != fnv1.READY_FALSE)
    failing = ", ".join(sorted(unsynced))
    waiting = f"Unready resources: {', '.join(unready)}" if unready and not forced else ""
    core = (
        _condition("Responsive", "True", "WatchCircuitClosed"),
        _condition("Synced", "False", "ReconcileError", f"Unsynced resources: {failing}")
        if failing
        else _condition("Synced", "True", "ReconcileSuccess"),
        _condition("Ready", str(ready), "Available" if ready else "Creating", waiting),
    )
    return [*own, *({**condition, "observedGeneration": generation} for condition in core)]


def _condition(type_: str, status: str, reason: str, message: str = "") -> Manifest:
    said: Manifest = {"type": type_, "status": status, "reason": reason}
    return {**said, "message": message} if message else said


def changed(before: Mapping[str, JSON], now: Mapping[str, JSON]) -> bool:
    """Tell whether a status is another."""
    return before.get("status") != now.get("status")
