"""A small control plane that reconciles every composite until nothing changes any more.

The demo, the tests and the conformance run share it. Each brings its renderer (a gRPC server, the function in this
process, or the real Crossplane) and what remote clusters report (remote_stages.py). All composites of a round are
rendered from the same view, as on a busy control plane.

What a round renders is applied: statuses and defaults are written back, so that the others see them; composed
resources are observed from then on, as the clusters report them; composed composites are rendered themselves; what is
no longer composed is deleted with all that it composed. What this leaves out (admission, defaults of schemas,
server-side apply) is what `make conformance` and `make e2e` have the real programs for.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from function.cli.composing import build_status, reconcile
from function.cli.store import Ref, Store, is_known, is_ours, set_owner
from function.composers import COMPOSERS
from function.contract import Call, Outcome
from function.kube.manifests import Manifest, mapping, text
from tools.remote_stages import Clusters, StepByStep

_ROUNDS = 40


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


@dataclass(slots=True)
class ControlPlane:
    """The objects of one control plane, and every round so far."""

    renderer: Renderer
    world: Clusters = StepByStep()
    store: Store = field(default_factory=Store)
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

    def advance(self, refs: Sequence[Ref] = ()) -> Round:
        """Render some composites once, or every one, and apply what comes out."""
        refs = refs or self.store.refs(*COMPOSERS)
        observed = {ref: self.store.owned(ref) for ref in refs}
        rendered = dict(zip(refs, self.renderer.render(self.store, refs), strict=True))
        self._write(rendered)
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
        wanted = [set_owner(self.store[owner], key, manifest) for key, manifest in sorted(composed.items())]
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


def render_in_process(store: Store, ref: Ref, ask: Callable[[Call], Outcome]) -> Rendered:
    """Reconcile one composite with a function that answers calls."""
    xr = store[ref]
    _, outcome = reconcile(store, xr, ask)
    return Rendered(
        composite={**xr, "status": build_status(xr, outcome)},
        composed={key: item.manifest for key, item in outcome.composed.items()},
    )
