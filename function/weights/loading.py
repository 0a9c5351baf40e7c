"""How long engines take to read weights from a claim, where the speed of its storage is known, and what would help.

The time is that of one pod that reads all of them at the speed that was measured: a replica of several nodes reads at
the same time, each node for itself.
"""

from dataclasses import dataclass

from function.domain.engine_args import get_last_value
from function.domain.engine_spec import Ability, has_ability
from function.domain.model import Model, Profile, find_single_file
from function.weights.plan import StoragePlan

LONG = 300  # seconds, above which a start is worth to be made shorter
STREAM, PREFETCH = ("--load-format", "runai_streamer"), ("--safetensors-load-strategy", "prefetch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Bytes, the bytes per second at which a pod reads them, and flags of the engine that would make it faster."""

    weights: int
    bandwidth: int
    flags: tuple[str, ...] = ()

    @property
    def seconds(self) -> int:
        """How long that takes, rounded up."""
        return seconds(self.weights, self.bandwidth)


def seconds(weights: int, bandwidth: int) -> int:
    """Return how many seconds so many bytes take at so many bytes per second, rounded up."""
    return -(-weights // bandwidth)


def loading(plan: StoragePlan, bandwidth: int | None, model: Model, profile: Profile) -> Loading | None:
    """Return how weights are loaded; None where they do not come from a claim, or nobody knows size or speed."""
    if not (plan.on_claim and plan.bound and bandwidth):
        return None
    found = Loading(weights=plan.bound, bandwidth=bandwidth)
    return Loading(weights=plan.bound, bandwidth=bandwidth, flags=_flags(model, profile, found.seconds))


def _flags(model: Model, profile: Profile, taken: int) -> tuple[str, ...]:
    """Return what this engine could be told, unless its author chose a way, or there are no safetensors."""
    engine = profile.engine
    chosen = any(get_last_value(engine.args, name) is not None for name, _ in (STREAM, PREFETCH))
    if taken <= LONG or chosen or find_single_file(model.source):
        return ()
    offered = ((Ability.STREAM, STREAM), (Ability.PREFETCH, PREFETCH))
    return tuple("=".join(flag) for ability, flag in offered if has_ability(engine, ability))
