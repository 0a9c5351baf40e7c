"""What a need was told by an environment is told again while neither has changed, nor what others take there.

A deployment that nothing can take asks every environment, at every call, and nearly all answer as before. What is kept
is an answer with all that it was made from, so that it counts only where judging again would give the same: the need
(what is asked for, whoever asks), the environment, and what is counted on it, if anything is: who is there himself
counts, and leaves out his own, where others believe what is published. The needs that were asked about last are kept,
within two bounds. A memo hands out the same object for the same content, so that looking at objects is enough
to see that nothing changed.
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

# As many different needs as may be pending in a fleet. They are compared one by one.
MAX_REQUESTS = 64
# A verdict takes 0.6 kB (docs/performance.md), so that all of them take 40 MB.
MAX_VERDICTS = 64_000


@dataclass(frozen=True, slots=True)
class _Known:
    environment: Environment
    counted: tuple[tuple[Placement, ...], frozenset[str]] | None
    verdict: Verdict


class VerdictCache:
    """Judges, and remembers."""

    def __init__(self) -> None:
        self._needs: list[tuple[SchedulingRequest, dict[str, _Known]]] = []
        self.stats = CacheStats()

    def cached_filter(
        self, request: SchedulingRequest, environments: Sequence[Environment], pause: Callable[[], None] = noop
    ) -> FilterFunc:
        """Return what judges these environments for a request as `judge` does; `pause` is called before each that is
        not known.
        """
        need = _cache_key(request)
        before: dict[str, _Known] = next((known for asked, known in self._needs if asked == need), {})
        known = {e.name: before[e.name] for e in environments if e.name in before}
        others = [each for each in self._needs if each[0] != need][: MAX_REQUESTS - 1]
        taken = accumulate((len(verdicts) for _, verdicts in others), initial=len(environments))
        kept = sum(total <= MAX_VERDICTS for total in taken) - 1
        self._needs = [(need, known), *others[: max(0, kept)]]

        def remembered(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> Verdict:
            counted = ledger.counted_placements(environment)
            found = known.get(environment.name)
            if found is None or found.environment is not environment or found.counted != counted:
                pause()
                found = _Known(environment, counted, filter_environment(request, environment, ledger))
                known[environment.name] = found
                self.stats.misses += 1
            else:
                self.stats.hits += 1
            return found.verdict

        return remembered


def _cache_key(request: SchedulingRequest) -> SchedulingRequest:
    """Return what verdicts depend on: neither on who asks nor on how many environments are wanted."""
    return replace(request, deployment=replace(request.deployment, namespace="", name="", environments=1))
