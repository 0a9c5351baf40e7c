"""A control plane in small: what Crossplane does around the composers, until nothing changes any more.

Composites see each other in one store. What they compose is put back as observed: placements as composites of their
own, Objects with the state that a healthy cluster would report. Readiness of an environment is never made up here,
see sources.py. Composites of one kind take turns in the order of their creation, as they would have come.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from function.cli.composition import first_call
from function.cli.store import Ref, Store, owned_by
from function.composers import compose
from function.exchange import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, text

_CALLS, _ROUNDS = 6, 40
# What is composed now comes after all that is there, in the order in which everybody charges.
_LATER = "9999-12-31T23:59:59Z"
# Caches first, since deployments ask where they are; placements come from deployments.
_ORDER = ("ClusterModel", "Model", "InferenceEnvironment", "ModelCache", "ModelDeployment", "ModelPlacement")


class UnsettledError(Exception):
    """The composites keep changing."""


def answered(store: Store, xr: Manifest, ask: Callable[[Call], Outcome] = compose) -> tuple[Call, Outcome]:
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


@dataclass(slots=True)
class ControlPlane:
    """Brings composites to a fixed point. `outcomes` holds the last outcome of each."""

    store: Store
    outcomes: dict[Ref, Outcome] = field(default_factory=dict)

    def settle(self, given: Iterable[Ref], *, placements: bool) -> None:
        """Compose these composites, and where wanted the placements that exist then, until nothing changes.

        Raises:
            UnsettledError: They keep changing.
        """
        wanted = frozenset(given)
        for _ in range(_ROUNDS):
            refs = wanted.union(self.store.refs("ModelPlacement")) if placements else wanted
            changed = [self._reconcile(ref) for ref in sorted(refs, key=self._turn)]
            if not any(changed):
                return
        raise UnsettledError(f"still changing after {_ROUNDS} rounds")

    def _turn(self, ref: Ref) -> tuple[int, str, Ref]:
        created = text(self.store.get(ref), "metadata.creationTimestamp")
        return _ORDER.index(ref.kind), created or _LATER, ref

    def _reconcile(self, ref: Ref) -> bool:
        xr = self.store.get(ref)
        if xr is None:
            self.outcomes.pop(ref, None)
            return False
        call, outcome = answered(self.store, xr)
        self.outcomes[ref] = outcome
        gone = call.observed.keys() - outcome.composed.keys()
        for key in gone:
            self.store.drop(Ref.of(call.observed[key]))
        written = [self._write(xr, key, item.manifest) for key, item in sorted(outcome.composed.items())]
        return self._report(xr, outcome) or any(written) or bool(gone)

    def _write(self, xr: Manifest, key: str, manifest: Manifest) -> bool:
        """Put a composed resource where its composite will observe it."""
        wanted = owned_by(xr, key, manifest)
        there = self.store.get(Ref.of(wanted))
        if text(wanted, "kind") == "ModelPlacement":
            metadata = {"creationTimestamp": _LATER, **mapping(there, "metadata"), **mapping(wanted, "metadata")}
            status = mapping(there, "status")
            wanted = {**wanted, "metadata": metadata, **({"status": status} if status else {})}
        elif text(wanted, "kind") == "Object":
            wanted = observed(wanted)
        if wanted == there:
            return False
        self.store.put(wanted)
        return True

    def _report(self, xr: Manifest, outcome: Outcome) -> bool:
        """Write the composite's status, save an environment's."""
        if xr["kind"] == "InferenceEnvironment":
            return False
        ready = outcome.ready is not False and all(item.ready for item in outcome.composed.values())
        conditions: list[JSON] = [
            {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
            for c in outcome.conditions
        ]
        conditions.append({"type": "Ready", "status": str(ready), "reason": "Available" if ready else "Creating"})
        reported = {**xr, "status": {**outcome.status, "conditions": conditions}}
        if reported == xr:
            return False
        self.store.put(reported)
        return True


def observed(composed: Manifest) -> Manifest:
    """Return an Object as provider-kubernetes would report it once all is well on its cluster."""
    manifest = mapping(composed, "spec.forProvider.manifest")
    remote = {**manifest, **HEALTHY.get(text(manifest, "kind"), _as_it_is)(manifest)}
    conditions: list[JSON] = [{"type": type_, "status": "True", "reason": "Assumed"} for type_ in ("Synced", "Ready")]
    return {**composed, "status": {"atProvider": {"manifest": remote}, "conditions": conditions}}


def _claim(manifest: Manifest) -> Manifest:
    modes = get(manifest, "spec.accessModes") or ["ReadWriteMany"]
    capacity = mapping(manifest, "spec.resources.requests")
    return {
        "spec": {"accessModes": modes, **mapping(manifest, "spec")},
        "status": {"phase": "Bound", "accessModes": modes, "capacity": capacity},
    }


def _job(_: Manifest) -> Manifest:
    return {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def _service(_: Manifest) -> Manifest:
    conditions: list[JSON] = [{"type": type_, "status": "True"} for type_ in ("PresetsCombined", "Ready")]
    return {"status": {"conditions": conditions}}


def _namespace(_: Manifest) -> Manifest:
    return {"status": {"phase": "Active"}}


def _as_it_is(_: Manifest) -> Manifest:
    return {}


HEALTHY: dict[str, Callable[[Manifest], Manifest]] = {
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "Job": _job,
    "LLMInferenceService": _service,
}
