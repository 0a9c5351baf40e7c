"""Moves: placements of others that fit on another environment and would leave room for a deployment."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from function.domain.environment import Environment
from function.domain.placement import Placement
from function.scheduling.filters import filter_environment
from function.scheduling.ledger import Ledger
from function.scheduling.verdicts import Assignment
from function.scheduling.what_if import World

_MAX_MOVABLE = 6  # placements on a pool of which one or two may move, the smallest first
_MAX_TRIED = 500  # environments on which a placement is tried, for all placements together


@dataclass(frozen=True, slots=True)
class Move:
    """A placement of another deployment, and where it would fit."""

    placement: Placement
    to: Assignment

    def __str__(self) -> str:
        name = f"{self.placement.namespace}/{self.placement.deployment}"
        return f"{name} from {self.placement.environment} to {self.to.environment} (pool {self.to.pool})"


def find_moves(world: World, environment: Environment, pool: str, targets: "MoveTargets") -> tuple[Move, ...]:
    """Finds one placement, else two, that fit elsewhere and leave enough room: the smallest first."""
    running = (p for p in world.others_on(environment.name, pool) if p.shape and p.replicas)
    staying = sorted((p for p in running if not (p.deleting or p.draining)), key=size_order)
    movable = [*islice(filter(world.find_request, staying), _MAX_MOVABLE)]
    for moving in (*combinations(movable, 1), *combinations(movable, 2)):
        if world.without(environment, moving).fits(environment.name) and (moves := targets.find(moving)):
            return moves
    return ()


def size_order(placement: Placement) -> tuple[int, str, str]:
    """The order of placements by their GPUs, then by name."""
    requested = placement.requested
    return requested.gpus if requested else 0, placement.namespace, placement.name


class MoveTargets:
    """Where placements of others fit, within a number of environments that are tried."""

    def __init__(self, world: World, assigned: Collection[str]) -> None:
        self._world = world
        self._assigned = assigned  # environments on which the deployment itself takes room now
        self._placements = (*world.own, *(p for placements in world.others.values() for p in placements))
        self._ledger = Ledger(self._placements)
        self._left = _MAX_TRIED

    def find(self, moving: Sequence[Placement]) -> tuple[Move, ...]:
        """Finds another environment for each placement; nothing where one has none, or the quota has no room."""
        moves: list[Move] = []
        for placement in moving:
            request = self._world.find_request(placement)
            assert request is not None  # only those that can be moved are asked for
            if request.quota_usage and any(m.placement.namespace == placement.namespace for m in moves):
                return ()  # the quota was computed without the other one
            environments = self._list_unused(placement, {m.to.environment for m in moves})
            verdicts = (filter_environment(request, each, self._ledger) for each in environments)
            to = next((verdict for verdict in verdicts if isinstance(verdict, Assignment)), None)
            if to is None:
                return ()
            moves.append(Move(placement, to))
        return tuple(moves)

    def _list_unused(self, placement: Placement, taken: Collection[str]) -> Iterator[Environment]:
        """Yields environments that neither deployment nor another move uses, as many as may still be tried."""
        own = (placement.namespace, placement.deployment)
        used = {p.environment for p in self._placements if (p.namespace, p.deployment) == own}
        for name, environment in self._world.environments.items():
            if self._left and not environment.deleting and name not in {*self._assigned, *used, *taken}:
                self._left -= 1
                yield environment
