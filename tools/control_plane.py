"""A control plane in small: every composite reconciled until nothing changes any more.

The one who reconciles is the real Crossplane (tests/conformance/crossplane.py) or what stands for it (tools/engine.py).

One round renders all composites from the same view, as a busy control plane would. Then what came out is
applied: statuses and defaults are written back, so that the others see them; composed resources are observed
in the next round, as the world reports them; composed composites are rendered themselves; what is no longer
composed is deleted with all that it composed.
"""

import copy
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from function.cli.store import Ref
from function.kube.manifests import Manifest, mapping, text
from function.kube.names import VERSION
from function.report.conditions import OWNED
from tools.world import NOW, World, uid

ROUNDS = 40
WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """What one reconcile starts from. `composition` None is the package's own."""

    composite: Manifest
    observed: tuple[Manifest, ...]
    required: tuple[Manifest, ...]
    composition: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What one reconcile makes of a composite. `text` has all of it, byte for byte."""

    text: str
    composite: Manifest
    composed: Mapping[str, Manifest]
    results: tuple[Manifest, ...]


class Renderer(Protocol):
    """Reconciles one composite."""

    def render(self, given: Reconcile) -> Rendered:
        """Return what a reconcile makes of a composite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What every composite saw of its composed resources, and what was made of it."""

    observed: Mapping[Ref, Mapping[str, Manifest]]
    rendered: Mapping[Ref, Rendered]


class NoFixedPointError(Exception):
    """The composites keep changing."""


@dataclass(slots=True)
class ControlPlane:
    """The composites of one control plane, what they composed, and every round so far."""

    renderer: Renderer
    world: World = World()
    composites: dict[Ref, Manifest] = field(default_factory=dict)
    compositions: dict[str, Manifest] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    _composed: dict[Ref, dict[str, Manifest]] = field(default_factory=dict)
    _born: dict[tuple[Ref, str], int] = field(default_factory=dict)

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Create or change composites and Compositions; other kinds have no part here."""
        for manifest in manifests:
            if text(manifest, "kind") == "Composition":
                self.compositions[text(manifest, "spec.compositeTypeRef.kind")] = manifest
            if text(manifest, "apiVersion") == VERSION and text(manifest, "kind") in OWNED:
                self._apply(manifest)

    def _apply(self, manifest: Manifest) -> None:
        ref = Ref.of(manifest)
        identity: Manifest = {"uid": uid(str(ref)), "creationTimestamp": NOW, "generation": 1}
        applied = copy.deepcopy(manifest)
        applied["metadata"] = {**mapping(manifest, "metadata"), **identity}
        status = mapping(self.composites.get(ref), "status")
        self.composites[ref] = {**applied, "status": status} if status else applied

    def delete(self, ref: Ref) -> None:
        """Delete a composite and, as the garbage collector would, all that it composed."""
        del self.composites[ref]
        for key in list(self._composed.pop(ref, {})):
            self._forget(ref, key)
        for other in [r for r, m in self.composites.items() if _owner(m) == uid(str(ref))]:
            self.delete(other)

    def all(self, kind: str) -> list[Ref]:
        """Return the composites of a kind, in order."""
        return sorted(ref for ref in self.composites if ref.kind == kind)

    def settle(self) -> Mapping[Ref, Rendered]:
        """Render until two rounds are alike, byte for byte, and return the last.

        Raises:
            NoFixedPointError: It does not come to rest.
        """
        for _ in range(ROUNDS):
            before = self._state()
            latest = self.advance()
            alike = len(self.rounds) > 1 and _texts(self.rounds[-2]) == _texts(latest)
            if alike and self._state() == before:
                return latest.rendered
        changing = [r for r, t in _texts(self.rounds[-1]).items() if _texts(self.rounds[-2]).get(r) != t]
        raise NoFixedPointError(f"still changing after {ROUNDS} rounds: {changing}")

    def advance(self) -> Round:
        """Render every composite once from the same view, then apply what came out."""
        observed = {ref: self.observed(ref) for ref in self.composites}
        required = tuple(self.composites.values())
        given = {
            ref: Reconcile(
                composite=composite,
                observed=tuple(observed[ref].values()),
                required=required,
                composition=self.compositions.get(ref.kind),
            )
            for ref, composite in sorted(self.composites.items())
        }
        with ThreadPoolExecutor(WORKERS) as pool:
            rendered = dict(zip(given, pool.map(self.renderer.render, given.values()), strict=True))
        latest = Round(observed=observed, rendered=rendered)
        self.rounds.append(latest)
        for ref, outcome in rendered.items():
            written = {key: mapping(outcome.composite, key) for key in ("spec", "status")}
            self.composites[ref] = {**self.composites[ref], **written}
        for ref, outcome in rendered.items():
            if ref in self.composites:
                self._compose(ref, outcome.composed)
        return latest

    def objects(self) -> list[Manifest]:
        """Return everything that an API server would list."""
        composed = [manifest for ref in self.composites for manifest in self.observed(ref).values()]
        return [*self.composites.values(), *(m for m in composed if Ref.of(m) not in self.composites)]

    def observed(self, ref: Ref) -> dict[str, Manifest]:
        """Return what a composite composed, as it is now."""
        seen = {}
        for key, manifest in self._composed.get(ref, {}).items():
            child = Ref.of(manifest)
            if child in self.composites:
                seen[key] = self.composites[child]
            else:
                seen[key] = self.world.advance(manifest, len(self.rounds) - self._born[ref, key])
        return seen

    def _compose(self, ref: Ref, composed: Mapping[str, Manifest]) -> None:
        before = self._composed.get(ref, {})
        for key in sorted(before.keys() - composed.keys()):
            self._remove(ref, key, before[key])
        after = {}
        for key, manifest in composed.items():
            # Render leaves out what the API server adds.
            identity: Manifest = {"creationTimestamp": NOW, "uid": uid(str(Ref.of(manifest)))}
            after[key] = {**manifest, "metadata": {**mapping(manifest, "metadata"), **identity}}
            self._born.setdefault((ref, key), len(self.rounds))
            if text(manifest, "kind") in OWNED and after[key] != before.get(key):
                self.apply([manifest])
        self._composed[ref] = after

    def _remove(self, ref: Ref, key: str, manifest: Manifest) -> None:
        self._forget(ref, key)
        if Ref.of(manifest) in self.composites:
            self.delete(Ref.of(manifest))

    def _forget(self, ref: Ref, key: str) -> None:
        self._born.pop((ref, key), None)

    def _state(self) -> tuple[dict[Ref, Manifest], dict[Ref, dict[str, Manifest]]]:
        return dict(self.composites), {ref: self.observed(ref) for ref in self.composites}


def _owner(manifest: Manifest) -> str:
    owners = mapping(manifest, "metadata").get("ownerReferences")
    return text(owners[0], "uid") if isinstance(owners, list) and owners else ""


def _texts(round_: Round) -> dict[Ref, str]:
    return {ref: rendered.text for ref, rendered in round_.rendered.items()}


def remote(rendered: Rendered) -> dict[str, Manifest]:
    """Return the remote manifests of the Objects that were composed, by the name of the composed resource."""
    return {
        key: mapping(resource, "spec.forProvider.manifest")
        for key, resource in rendered.composed.items()
        if text(resource, "kind") == "Object"
    }
