"""Which of several pools that satisfy everything is taken where a deployment prefers the smallest that suffices.

For the first profile in declared order that anything satisfies, among all pools of all environments: the least GPU
memory of a replica beyond what is asked for (the model's vram, else what the profile requires of its GPUs, else
nothing), then the fewest GPUs left on the fullest node that would be used, then environment and pool by name.

After a yield those who lost spread by a hash of their own over what is equally small, as they do where the order is
the declared one: who packs tightest would be the same for all of them.
"""

from collections.abc import Iterable, Iterator

from function.domain.model import Spread
from function.domain.placement import Preference
from function.scheduling.checks import Candidate
from function.scheduling.ledger import Ledger
from function.scheduling.pool_capacity import Demand
from function.scheduling.verdicts import Feasible, Infeasible, Rank, Verdict


def rank(candidate: Candidate, ledger: Ledger) -> Rank | None:
    """Return how a candidate that satisfies everything compares with others; None where that does not count."""
    request, shape = candidate.request, candidate.shape
    if request.deployment.prefer is Preference.DECLARED or shape is None:
        return None
    profile, has = candidate.profile, candidate.pool.memory_per_gpu
    asked = request.model.vram or (profile.requires.memory_per_gpu or 0) * shape.gpus
    apart = profile.replicas_across_nodes is Spread.REQUIRED
    room = ledger.room(candidate.environment, candidate.pool)
    return Rank(
        profile=request.model.profiles.index(profile),
        spare=None if has is None else has * shape.gpus - asked,
        left=room.packed(Demand(shape, request.deployment.replicas, apart)),
    )


def sort_key_in_environment(fit: Feasible) -> tuple[tuple[int, int, int], int, str]:
    """Sorts fits of one environment."""
    assert fit.rank is not None  # likewise
    return fit.rank.size, fit.rank.left, fit.pool


def smallest_first(verdicts: Iterable[Verdict], *, by_name: bool) -> Iterator[Verdict]:
    """Return the misses, then the fits of several environments, the smallest first.

    Not `by_name`: what is equally small stays in the order in which it comes.
    """
    found = [*verdicts]
    yield from (verdict for verdict in found if isinstance(verdict, Infeasible))
    fits = [verdict for verdict in found if isinstance(verdict, Feasible)]
    yield from sorted(fits, key=_sort_key_by_name if by_name else _size)


def _size(fit: Feasible) -> tuple[int, int, int]:
    assert fit.rank is not None  # what is preferred as the smallest has one
    return fit.rank.size


def _sort_key_by_name(fit: Feasible) -> tuple[tuple[int, int, int], int, str]:
    assert fit.rank is not None  # likewise
    return fit.rank.size, fit.rank.left, fit.environment
