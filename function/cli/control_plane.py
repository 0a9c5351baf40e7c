"""A control plane in small: every composite reconciled until nothing changes any more.

For the command line, the demo, the tests and the conformance run. Each brings who renders (the composers in this
process, a server, or the real Crossplane), what remote clusters report (remote_stages.py), and who is rendered from the
same view: all at once, as on a busy control plane, or one after the other.

What a round renders is applied: statuses and defaults are written back, so that the others see them; composed
resources are observed from then on, as the clusters report them; composed composites are rendered themselves; what is
no longer composed is deleted with all that it composed. What this leaves out (admission, defaults of schemas,
server-side apply) is what `make conformance` and `make e2e` have the real programs for.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from function.cli.composition import first_call
from function.cli.remote_stages import LATER, AtOnce, Clusters, StepByStep
from function.cli.store import Ref, Store, is_known, is_ours, owned_by
from function.composers import COMPOSERS, compose
from function.exchange import Call, Outcome
from function.kube.manifests import JSON, Manifest, listing, mapping, text

_CALLS, _ROUNDS = 6, 40
# Caches first, since deployments ask where they are; placements come from deployments.
_ORDER = ("ClusterModel", "Model", "InferenceEnvironment", "ModelCache", "ModelDeployment", "ModelPlacement")

Turns: TypeAlias = Callable[[Store], Iterable[Sequence[Ref]]]


class UnsettledError(Exception):
    """The composites keep changing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What one reconcile makes of a composite. `said` has all of it, byte for byte, where a program said it."""

    composite: Manifest
    composed: Mapping[str, Manifest]
    results: tuple[Manifest, ...] = ()
    said: str = ""

    @property
    def remote(self) -> dict[str, Manifest]:
        """The remote manifests of the Objects that were composed, by the name of the composed resource."""
        return {
            key: mapping(resource, "spec.forProvider.manifest")
            for key, resource in self.composed.items()
            if text(resource, "kind") == "Object"
        }


class Renderer(Protocol):
    """Reconciles composites."""

    def render(self, store: Store, refs: Sequence[Ref]) -> Sequence[Rendered]:
        """Return what a reconcile makes of each of some composites, all from the same view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What every composite saw of its composed resources, and what was made of it."""

    observed: Mapping[Ref, Mapping[str, Manifest]]
    rendered: Mapping[Ref, Rendered]

    @property
    def said(self) -> Mapping[Ref, str]:
        """Every text."""
        return {ref: rendered.said for ref, rendered in self.rendered.items()}


def together(store: Store) -> list[list[Ref]]:
    """Let all composites be rendered from the same view."""
    return [store.refs(*COMPOSERS)]


def in_turn(given: Iterable[Ref], *kinds: str) -> Turns:
    """Let these composites, and all of some kinds, be rendered one after the other, as they would have come."""
    named = frozenset(given)

    def turns(store: Store) -> list[list[Ref]]:
        def turn(ref: Ref) -> tuple[int, str, Ref]:
            return _ORDER.index(ref.kind), text(store.get(ref), "metadata.creationTimestamp") or LATER, ref

        return [[ref] for ref in sorted(named.union(store.refs(*kinds)), key=turn)]

    return turns


@dataclass(slots=True)
class ControlPlane:
    """The objects of one control plane, and every round so far."""

    renderer: Renderer
    world: Clusters = StepByStep()
    store: Store = field(default_factory=Store)
    turns: Turns = together
    rounds: list[Round] = field(default_factory=list)
    # Of what was composed: in which round first, and what was last.
    _applied: dict[Ref, tuple[int, Manifest]] = field(default_factory=dict)

    @property
    def composites(self) -> MutableMapping[Ref, Manifest]:
        """All objects, to be looked at, edited and taken away alone."""
        return self.store

    def all(self, kind: str) -> list[Ref]:
        """Return the objects of a kind, in order."""
        return self.store.refs(kind)

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Create or change what has a part in decisions; other kinds have none."""
        for manifest in filter(is_known, manifests):
            there = Ref.of(manifest) in self.store
            self.store.lay_over(manifest if there else self.world.advance(manifest, 0))

    def delete(self, ref: Ref) -> None:
        """Delete a composite and, as the garbage collector would, all that it composed."""
        self.store.drop(ref)

    def settle(self) -> Mapping[Ref, Rendered]:
        """Render until a round changes nothing and says what the one before it said, and return that round.

        Raises:
            UnsettledError: It does not come to rest.
        """
        for _ in range(_ROUNDS):
            before, said = dict(self.store), self.rounds[-1].said if self.rounds else None
            latest = self.advance()
            if said in (None, latest.said) and before == dict(self.store):
                return latest.rendered
        changing = [str(ref) for ref, manifest in self.store.items() if before.get(ref) != manifest]
        raise UnsettledError(f"still changing after {_ROUNDS} rounds: {', '.join(changing)}")

    def advance(self) -> Round:
        """Render every composite once and apply what comes out."""
        observed: dict[Ref, Mapping[str, Manifest]] = {}
        rendered: dict[Ref, Rendered] = {}
        for turn in self.turns(self.store):
            refs = [ref for ref in turn if ref in self.store]
            observed |= {ref: self.store.owned(ref) for ref in refs}
            made = dict(zip(refs, self.renderer.render(self.store, refs), strict=True))
            self._write(made)
            rendered |= made
        self.rounds.append(Round(observed=observed, rendered=rendered))
        return self.rounds[-1]

    def _write(self, rendered: Mapping[Ref, Rendered]) -> None:
        for ref, made in rendered.items():
            written: Manifest = {key: made.composite[key] for key in ("spec", "status") if key in made.composite}
            self.store[ref] = {**self.store[ref], **written}
        for ref, made in rendered.items():
            if ref in self.store:
                self._compose(ref, made.composed)

    def _compose(self, owner: Ref, composed: Mapping[str, Manifest]) -> None:
        wanted = [owned_by(self.store[owner], key, manifest) for key, manifest in sorted(composed.items())]
        for gone in {Ref.of(there) for there in self.store.owned(owner).values()} - set(map(Ref.of, wanted)):
            self.store.drop(gone)
        for manifest in wanted:
            ref, now = Ref.of(manifest), len(self.rounds)
            born, before = self._applied.get(ref, (now, None)) if ref in self.store else (now, None)
            self._applied[ref] = born, manifest
            if not is_ours(manifest):
                self.store[ref] = self.world.advance(manifest, now - born)
            elif manifest != before:  # what a schema's defaults have added since stays
                self.apply([manifest])


@dataclass(frozen=True, slots=True)
class InProcess:
    """Reconciles with a function that answers calls. `as_read`: kinds whose status is never made up.

    `outcomes` holds the last outcome of each composite.
    """

    ask: Callable[[Call], Outcome] = compose
    as_read: frozenset[str] = frozenset()
    outcomes: dict[Ref, Outcome] = field(default_factory=dict)

    def render(self, store: Store, refs: Sequence[Ref]) -> list[Rendered]:
        """Return what a reconcile makes of each of some composites."""
        return [self._render(store, ref) for ref in refs]

    def _render(self, store: Store, ref: Ref) -> Rendered:
        xr = store[ref]
        _, outcome = answered(store, xr, self.ask)
        self.outcomes[ref] = outcome
        return Rendered(
            composite=xr if ref.kind in self.as_read else {**xr, "status": _status(xr, outcome)},
            composed={key: item.manifest for key, item in outcome.composed.items()},
        )


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


def simulate(store: Store, turns: Turns) -> dict[Ref, Outcome]:
    """Bring what is in a store to rest, and return the outcome of each composite; see gathered.py for readiness."""
    renderer = InProcess(as_read=frozenset({"InferenceEnvironment"}))
    ControlPlane(renderer, AtOnce(), as_files(store), turns).settle()
    return {ref: outcome for ref, outcome in renderer.outcomes.items() if ref in store}


def as_files(store: Store) -> Store:
    """Let environments count as read from files, in place: nobody publishes what is free while things are tried, so
    all placements are looked at.
    """
    for ref in store.refs("InferenceEnvironment"):
        metadata = {key: value for key, value in mapping(store[ref], "metadata").items() if key != "uid"}
        store[ref] = {**store[ref], "metadata": metadata}
    return store


def _status(xr: Manifest, outcome: Outcome) -> Manifest:
    """Return what core writes of an outcome: the status, its conditions, and its own two."""
    unready = [name for name, item in sorted(outcome.composed.items()) if not item.ready]
    ready = not unready and outcome.ready is not False
    ours: list[JSON] = [
        {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
        for c in outcome.conditions
    ]
    own = {str(c.type) for c in outcome.conditions} | {"Ready", "Synced"}
    kept = [c for c in listing(xr, "status.conditions") if c.get("type") not in own]
    core: list[JSON] = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {
            "type": "Ready",
            "status": str(ready),
            "reason": "Available" if ready else "Creating",
            "message": f"Unready resources: {', '.join(unready)}" if unready else "",
        },
    ]
    return {**outcome.status, "conditions": [*kept, *ours, *core]}
