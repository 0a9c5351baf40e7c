"""Runs the function's composers over a store, as Crossplane would over a control plane.

`reconcile` answers what a composer requires and nothing else: the caller decides what of the outcome it keeps.
"""

from collections.abc import Callable, Iterable, Mapping

from function.cli.composition import first_call
from function.cli.store import Ref, Store, is_ours, owned_by
from function.composers import compose
from function.exchange import Call, Composed, Outcome
from function.kube.manifests import JSON, Manifest, copied, get, listing, mapping, text
from function.parse.environments import read_environment
from function.parse.placements import read_placement
from function.parse.settings import read_settings
from function.report.environments import ledger
from function.scheduling.admission import admit

_CALLS, _ROUNDS = 6, 6
# Sorts after everything that exists: placements are charged in the order of their creation.
_LAST = "9999-12-31T23:59:59Z"


def reconcile(store: Store, xr: Manifest, ask: Callable[[Call], Outcome] = compose) -> tuple[Call, Outcome]:
    """Return the last of the calls that Crossplane would make for a composite, and its outcome."""
    call = first_call(store, xr)
    outcome = ask(call)
    for _ in range(_CALLS):
        if set(outcome.requirements) == set(call.answers):
            break
        answers = {name: store.find(wanted) for name, wanted in outcome.requirements.items()}
        call = Call(xr=xr, observed=call.observed, answers=answers, input=call.input, context=call.context)
        outcome = ask(call)
    return call, outcome


def apply_placements(store: Store, ref: Ref, composed: Mapping[str, Composed]) -> None:
    """Write the placements of a deployment to the store, and charge the new ones to their environments' ledgers."""
    before = {name: mapping(manifest, "spec") for name, manifest in store.owned(ref).items()}
    _replace_owned(store, ref, (owned_by(store[ref], key, _identified(c.manifest)) for key, c in composed.items()))
    after = store.owned(ref)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != mapping(after.get(key), "spec")}
    for name in {text(after[key], "spec.inferenceEnvironmentRef.name") for key in changed & after.keys()}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))


def publish_ledger(store: Store, ref: Ref) -> None:
    """Publish again what an environment has published: its spec or its placements have changed.

    An environment that has published nothing stays as it is, and so does one from a file, which has no uid.
    """
    manifest = store.get(ref) or {}
    published = any("free" in pool for pool in listing(manifest, "status.pools"))
    if not published or not text(manifest, "metadata.uid"):
        return
    call = first_call(store, manifest)
    environment = read_environment(manifest, read_settings(call.input, call.context).value).value
    placements = [p for p in (read_placement(m).value for m in store.all("ModelPlacement")) if p]
    found = ledger(environment, admit(environment, placements))
    store.put({**manifest, "status": {**mapping(manifest, "status"), **found}})


def compose_up(store: Store, ref: Ref) -> Outcome:
    """Compose a composite with everything that it composes reported as up, and keep both in the store.

    The status of an environment stays as it was read: whether its cluster answers is not known.
    """
    for _ in range(_ROUNDS):
        xr, before = store[ref], store.owned(ref)
        _, outcome = reconcile(store, xr)
        _replace_owned(store, ref, (report_up(owned_by(xr, k, c.manifest)) for k, c in outcome.composed.items()))
        if ref.kind != "InferenceEnvironment":
            store.put({**xr, "status": composite_status(xr, outcome)})
        if store[ref] == xr and store.owned(ref) == before:
            break
    return outcome


def _replace_owned(store: Store, owner: Ref, wanted: Iterable[Manifest]) -> None:
    """Make these the objects that a composite owns. What is there keeps its identity and its status."""
    manifests = list(wanted)
    for gone in {Ref.of(m) for m in store.owned(owner).values()} - {Ref.of(m) for m in manifests}:
        store.drop(gone)
    for manifest in manifests:
        store.lay_over(manifest)


def _identified(placement: Manifest) -> Manifest:
    """Return a placement with what the API server adds; what exists keeps its own."""
    identity: Manifest = {"uid": f"planned-{Ref.of(placement)}", "creationTimestamp": _LAST}
    return {**placement, "metadata": {**mapping(placement, "metadata"), **identity}}


def composite_status(xr: Manifest, outcome: Outcome) -> Manifest:
    """Return the status that Crossplane writes from an outcome, with its own conditions Synced and Ready."""
    unready = [name for name, item in sorted(outcome.composed.items()) if not item.ready]
    ready = not unready and outcome.ready is not False
    conditions: list[JSON] = [
        {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
        for c in outcome.conditions
    ]
    own = {str(c.type) for c in outcome.conditions} | {"Ready", "Synced"}
    others = [c for c in listing(xr, "status.conditions") if c.get("type") not in own]
    core: list[JSON] = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {
            "type": "Ready",
            "status": str(ready),
            "reason": "Available" if ready else "Creating",
            "message": f"Unready resources: {', '.join(unready)}" if unready else "",
        },
    ]
    return {**outcome.status, "conditions": [*others, *conditions, *core]}


def report_up(resource: Manifest) -> Manifest:
    """Return a composed resource with the status that it has once it is up; a composite has its own status."""
    if is_ours(resource):
        return resource
    conditions = _true("Synced", "Ready")
    if text(resource, "kind") != "Object":
        return {**resource, "status": {"conditions": conditions}}
    manifest = copied(mapping(resource, "spec.forProvider.manifest"))
    manifest["metadata"] = {**mapping(manifest, "metadata"), "uid": f"planned-{Ref.of(manifest)}", "generation": 1}
    manifest |= _REPORTS.get(text(manifest, "kind"), _report_nothing)(manifest)
    return {**resource, "status": {"atProvider": {"manifest": manifest}, "conditions": conditions}}


def _report_claim(manifest: Manifest) -> Manifest:
    size = text(manifest, "spec.resources.requests.storage") or "4Ti"
    modes = get(manifest, "spec.accessModes") or ["ReadWriteMany"]
    spec: Manifest = {"accessModes": modes, "volumeName": "planned", **mapping(manifest, "spec")}
    return {"spec": spec, "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}}


def _report_job(_: Manifest) -> Manifest:
    return {"status": {"succeeded": 1, "completionTime": _LAST, "conditions": _true("Complete")}}


def _report_class(_: Manifest) -> Manifest:
    return {"provisioner": "planned", "volumeBindingMode": "WaitForFirstConsumer"}


def _report_service(manifest: Manifest) -> Manifest:
    workload = "WorkerWorkloadReady" if "worker" in mapping(manifest, "spec") else "MainWorkloadReady"
    conditions = _true("PresetsCombined", workload, "WorkloadsReady", "RouterReady", "Ready")
    return {"status": {"observedGeneration": 1, "conditions": conditions}}


def _report_nothing(_: Manifest) -> Manifest:
    return {}


_REPORTS: Mapping[str, Callable[[Manifest], Manifest]] = {
    "PersistentVolumeClaim": _report_claim,
    "Job": _report_job,
    "StorageClass": _report_class,
    "LLMInferenceService": _report_service,
}


def _true(*types: str) -> list[JSON]:
    return [{"type": type_, "status": "True", "reason": "Planned"} for type_ in types]
