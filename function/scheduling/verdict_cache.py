"""Caches verdicts by request, environment and allocations.

A deployment that fits nowhere is compared with every environment in every call, and nearly every verdict is as before.
A verdict counts as long as everything that it was made from is the same: the request (not the deployment that makes
it), the environment, and the placements that are counted on it, if any are (`Ledger.counted_placements`). Parsed
objects are cached too, so that identity is enough to see that nothing changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from function.api.parse_cache import CacheStats
from function.contract import noop
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.scheduling.filters import FilterFunc, filter_environment
from function.scheduling.ledger import Ledger
from function.scheduling.verdicts import SchedulingRequest, Verdict

# As many different requests as may be pending in a fleet. They are compared one by one.
MAX_REQUESTS = 64
# A verdict takes 0.6 kB (docs/performance.md), so that all of them take 40 MB.
MAX_VERDICTS = 64_000


@dataclass(frozen=True, slots=True)
class _Entry:
    environment: Environment
    counted: tuple[tuple[Placement, ...], frozenset[str]] | None
    verdict: Verdict


class VerdictCache:
    """The verdicts of the latest requests, within two bounds."""

    def __init__(self) -> None:
        self._requests: list[tuple[SchedulingRequest, dict[str, _Entry]]] = []
        self.stats = CacheStats()

    def cached_filter(
        self, request: SchedulingRequest, environments: Sequence[Environment], pause: Callable[[], None] = noop
    ) -> FilterFunc:
        """Returns `filter_environment` with a cache; `pause` is called before each verdict that is not cached."""
        # Without what no verdict depends on.
        key = replace(request, deployment=replace(request.deployment, namespace="", name="", environments=1))
        known: dict[str, _Entry] = next((entries for other, entries in self._requests if other == key), {})
        entries = {e.name: known[e.name] for e in environments if e.name in known}
        others = [each for each in self._requests if each[0] != key][: MAX_REQUESTS - 1]
        totals = accumulate((len(verdicts) for _, verdicts in others), initial=len(environments))
        within_bound = sum(total <= MAX_VERDICTS for total in totals) - 1
        self._requests = [(key, entries), *others[: max(0, within_bound)]]

        def filter_cached(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> Verdict:
            counted = ledger.counted_placements(environment)
            entry = entries.get(environment.name)
            if entry is None or entry.environment is not environment or entry.counted != counted:
                pause()
                entry = _Entry(environment, counted, filter_environment(request, environment, ledger))
                entries[environment.name] = entry
                self.stats.misses += 1
            else:
                self.stats.hits += 1
            return entry.verdict

        return filter_cached
