"""What each XR of a kind depends on, and who depends on an object that changed: core's dependency tracker.

By name it is a look-up, by label a test of each selector of the kind. A name without a namespace is a cluster-scoped
object's, labels without a namespace are those of every one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bench.simulator.objects import Selector, Version
from function.cli.store import Ref


class Tracker:
    """The dependencies of one kind of XR, as they were when each was last composed."""

    def __init__(self) -> None:
        self._names: dict[Ref, dict[Ref, None]] = defaultdict(dict)
        self._lists: dict[tuple[str, str], dict[Ref, list[Selector]]] = defaultdict(dict)
        self._composed: dict[Ref, tuple[Ref, ...]] = {}
        self._required: dict[Ref, Mapping[str, Selector]] = {}

    def required(self, xr: Ref) -> Mapping[str, Selector]:
        """Return what was asked for when the XR was last composed, by the function's names."""
        return self._required.get(xr, {})

    def track(self, xr: Ref, composed: Iterable[Ref], required: Mapping[str, Selector]) -> None:
        """Replace what an XR depends on."""
        self.forget(xr)
        self._composed[xr], self._required[xr] = tuple(composed), dict(required)
        for ref in self._composed[xr]:
            self._names[ref][xr] = None
        for selector in required.values():
            if selector.name is not None:
                self._names[selector.ref][xr] = None
            else:
                self._lists[selector.kind, selector.namespace].setdefault(xr, []).append(selector)

    def forget(self, xr: Ref) -> None:
        """Drop what an XR depends on."""
        for ref in self._composed.pop(xr, ()):
            self._names[ref].pop(xr, None)
        for selector in self._required.pop(xr, {}).values():
            if selector.name is not None:
                self._names[selector.ref].pop(xr, None)
            else:
                self._lists[selector.kind, selector.namespace].pop(xr, None)

    def dependants(self, version: Version, *, quiet: bool = False) -> list[Ref]:
        """Return who depends on an object; `quiet`: without those who ask for every one of its kind."""
        ref = version.ref
        found = dict(self._names.get(ref, {}))
        for scope in {(ref.kind, ref.namespace), (ref.kind, "")}:
            for xr, selectors in self._lists.get(scope, {}).items():
                if xr not in found and any(s.carried(version.labels) and (s.labels or not quiet) for s in selectors):
                    found[xr] = None
        return sorted(found)
